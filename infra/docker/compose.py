"""Bring up docker-compose.yml by testcontainers, and read its settings back from running containers."""

import contextlib
import logging
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any, Final

from docker import DockerClient
from testcontainers.compose import DockerCompose

from infra.backends import BACKENDS, shaped
from infra.docker import subnets
from infra.docker.subnets import Taken
from infra.errors import Failed
from infra.network import topology
from infra.suggestions import command

ROOT: Final = Path(__file__).parents[2]
FILE: Final = "infra/docker-compose.yml"
"""In the checkout a link to the file; in a package the file itself."""
PUBLISHED: Final = "infra/published.yml"
"""Added where the bridges are out of reach; see `client.needs_published`."""
NET: Final = "fencepost.net"
"""Label of Toxiproxy's container: the environment's subnet."""
SHAPE: Final = "fencepost.shape"
"""Label of Toxiproxy's container, with a backend's name behind it: the backend's shape, if it is not the usual one."""
BOOTED: Final = "fencepost.booted"
"""Label of a node's container: the image that its backend was booted with, even if it runs another one now."""

IMAGES: Final = {
    *(topology.image_variable(name) for name in ("toxiproxy", *BACKENDS)),
    *(topology.own_image_variable(node) for node in topology.NODES),
}
"""Variables of docker-compose.yml that name an image; a node's own overrides that of its backend."""

# The exception tells the error; testcontainers would log the whole output in addition.
logging.getLogger("testcontainers.compose.compose").setLevel(logging.CRITICAL)

_environment = threading.Lock()
"""Held while the process environment has compose's variables: DockerCompose takes them only from there."""


@dataclass(frozen=True, slots=True)
class ComposeSettings:
    """The values that docker-compose.yml is filled in with."""

    name: str
    slot: int
    owner: str
    password: str
    images: Mapping[str, str]  # variables like ETCD_IMAGE or ETCD1_IMAGE -> names of images
    publish: bool = False  # whether Toxiproxy's ports are published on 127.0.0.1
    shapes: Mapping[str, str] = field(default_factory=dict)  # see `infra.backends.shaped`
    # The members that, without data, join a cluster that exists already: see Trait.MEMBERSHIP.
    existing: frozenset[str] = frozenset()

    @property
    def files(self) -> list[str]:
        """The files that compose puts together: a shape that is not the usual one has a file of its own."""
        kinds = [kind for kind in shaped(self.shapes).values() if kind.shape != BACKENDS[kind.name].shape]
        shapes = (f"infra/{kind.name}-{kind.shape}.yml" for kind in kinds)
        return [FILE, *shapes, *([PUBLISHED] if self.publish else [])]

    def variables(self) -> dict[str, str]:
        return {
            **self.images,
            **{f"FENCEPOST_{node.upper()}_STATE": "existing" for node in self.existing},
            "FENCEPOST_ENV": self.name,
            "FENCEPOST_NET": subnets.net(self.slot),
            "FENCEPOST_OWNER": self.owner,
            "FENCEPOST_PASSWORD": self.password,
            "COMPOSE_PROJECT_NAME": self.name,
        }


def up(settings: ComposeSettings, services: Sequence[str]) -> None:
    """Create and start services, and what they depend on; returns when they are started, not when they are ready.

    Existing containers stay as they are. Raises Taken if another subnet may work, else Failed with one line.
    """
    _up(settings, ["--no-recreate", *services])


def replace(settings: ComposeSettings, service: str, *, start: bool = True) -> None:
    """Create a container anew by these settings, on its volume. start: whether to start it. Raises Failed."""
    _up(settings, ["--no-deps", "--force-recreate", *([] if start else ["--no-start"]), service])


def _up(settings: ComposeSettings, words: Sequence[str]) -> None:
    """Run `docker compose up` with these words as arguments."""
    compose = DockerCompose(ROOT, compose_file_name=settings.files, wait=False, services=list(words))
    try:
        with _variables(settings.variables()):
            compose.start()
    except CalledProcessError as error:
        raise _explain(error.stderr.decode(errors="replace")) from error


def container(environment: str, service: str) -> str:
    return f"{environment}-{service}-1"


def containers(client: DockerClient, environment: str) -> dict[str, dict[str, Any]]:
    """Service -> what the engine lists of its container, running or not."""
    listed = client.api.containers(all=True, filters={"label": f"com.docker.compose.project={environment}"})
    return {container["Labels"]["com.docker.compose.service"]: container for container in listed}


def read(client: DockerClient, environment: str) -> ComposeSettings:
    """The settings of an environment that runs, from its containers. Raises Failed without Toxiproxy or the store."""
    there = containers(client, environment)
    if not {"toxiproxy", topology.STORE} <= there.keys():
        raise Failed(f"environment {environment} is not whole: {command(f'down --env {environment}')} removes it")
    toxiproxy = there["toxiproxy"]
    store = client.api.inspect_container(there[topology.STORE]["Id"])
    variables = dict(line.partition("=")[::2] for line in store["Config"]["Env"])
    chosen = {topology.own_image_variable(service): container["Image"] for service, container in there.items()}
    for backend in BACKENDS.values():
        if first := there.get(backend.members[0]):
            chosen[topology.image_variable(backend.name)] = first["Labels"].get(BOOTED, first["Image"])
    return ComposeSettings(
        name=environment,
        slot=int(toxiproxy["Labels"][NET].rpartition(".")[2]),
        owner=toxiproxy["Labels"]["fencepost.owner"],
        password=variables["POSTGRES_PASSWORD"],
        images=chosen,
        publish=any(port.get("PublicPort") for port in toxiproxy["Ports"]),
        shapes={name: shape for name in BACKENDS if (shape := toxiproxy["Labels"].get(f"{SHAPE}.{name}"))},
    )


def published_ports(client: DockerClient, settings: ComposeSettings) -> Mapping[int, int] | None:
    """Toxiproxy's port -> ours on 127.0.0.1; None where the bridges are reached instead."""
    if not settings.publish:
        return None
    ports = client.api.inspect_container(container(settings.name, "toxiproxy"))["NetworkSettings"]["Ports"]
    return {int(port.partition("/")[0]): int(ours[0]["HostPort"]) for port, ours in ports.items() if ours}


@contextlib.contextmanager
def _variables(ours: Mapping[str, str]) -> Iterator[None]:
    """Set our variables for the block, without the user's own settings of compose and of images."""
    with _environment:
        before = dict(os.environ)
        for name in before:
            if name.startswith(("COMPOSE_", "FENCEPOST_")) or name in IMAGES:
                del os.environ[name]
        os.environ.update(ours)
        try:
            yield
        finally:
            for name in ours:
                del os.environ[name]
            os.environ.update(before)


def _explain(output: str) -> Failed:
    """The error for compose's output: one line that tells what to do."""
    low = output.lower()
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "it said nothing")
    if "pool overlaps" in low:
        return Taken("docker compose: the subnet was taken by another network")
    if re.search(r"network \S+ not found", low):  # which compose has just made: seen with Docker Engine 20.10
        return Taken("docker compose: Docker Engine lost a network that it had just made")
    if "no space left on device" in low:
        return Failed(f"no space left on the disk of Docker Engine (docker system df says what fills it): {last}")
    if "port is already allocated" in low or "address already in use" in low:
        return Failed(f"a port or address that we need is in use: {last}")
    return Failed(f"docker compose up: {last}")
