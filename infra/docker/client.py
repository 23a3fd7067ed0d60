"""Our connection to Docker Engine, by its Python SDK."""

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import docker
from docker import DockerClient
from docker.errors import APIError, DockerException, NotFound

from infra.docker import engine
from infra.errors import Failed, NotPossible
from infra.suggestions import command
from infra.waiting import POLL, Clock

TIMEOUT = 60  # seconds for one request to the engine


def connect() -> DockerClient:
    """Connect to the engine that the docker command line uses. Raises NotPossible when there is none."""
    try:
        address = os.environ.get("DOCKER_HOST")
        if not address:  # the SDK does not know the contexts of the command line
            address = engine.docker("context", "inspect", "--format", "{{.Endpoints.docker.Host}}").strip()
        client = docker.DockerClient(base_url=address, timeout=TIMEOUT)
        client.ping()
    except (DockerException, Failed) as error:
        raise NotPossible(f"{engine.NO_ENGINE} ({command('doctor')} says more)") from error
    return client


@contextlib.contextmanager
def failing(what: str, gone: str = "") -> Iterator[None]:
    """Turn an error of the engine in the block into Failed. gone: all of its text if there is no such container."""
    try:
        yield
    except APIError as error:
        text = gone if gone and isinstance(error, NotFound) else f"{what}: {error.explanation}"
        raise Failed(text) from error


def execute(client: DockerClient, container: str, command: Sequence[str], user: str = "") -> tuple[int, str]:
    """Run a command in a container. Returns its exit status and its output. Raises Failed, or an engine's error."""
    run = client.api.exec_create(container, command, user=user)["Id"]
    output: bytes = client.api.exec_start(run)

    def ended() -> dict[str, Any] | None:
        state: dict[str, Any] = client.api.exec_inspect(run)
        return None if state["Running"] else state

    # The output may end before the engine knows that the process has: https://github.com/moby/moby/issues/19607
    if not (state := Clock().wait(TIMEOUT, ended, POLL)):
        raise Failed(f"{container}: {' '.join(command)} ended its output, but runs on after {TIMEOUT} s")
    return state["ExitCode"], output.decode(errors="replace")


def own_container(client: DockerClient) -> dict[str, Any]:
    """What this engine says of the container that we are in; empty if we are in none, or in one of another engine."""
    with contextlib.suppress(OSError, NotFound):
        # The engine mounts files of a folder that has the container's id for a name, with any network and host name.
        mounts = Path("/proc/self/mountinfo").read_text()
        if ours := re.search(r" \S*/([0-9a-f]{64})/\S+ /etc/(?:hostname|hosts|resolv\.conf) ", mounts):
            inspected: dict[str, Any] = client.api.inspect_container(ours[1])
            return inspected
    return {}


def runs(client: DockerClient, container: str) -> bool:
    """Whether there is such a container and it has not ended."""
    with contextlib.suppress(NotFound):
        return bool(client.api.inspect_container(container)["State"]["Running"])
    return False


def needs_published(client: DockerClient) -> bool:
    """Whether we cannot reach the bridges of this engine. True in any case with FENCEPOST_PUBLISH=1.

    Raises NotPossible in a container with a network of its own, from which neither bridges nor ports are reached.
    """
    container = own_container(client)
    if container and container["HostConfig"]["NetworkMode"] != "host":
        raise NotPossible("a container reaches our servers only in the engine's own network: docker run --network host")
    if os.environ.get("FENCEPOST_PUBLISH") == "1" or sys.platform != "linux":
        return True
    if container:
        return False
    if not client.api.base_url.startswith("http+docker://"):  # not a socket of this machine
        return True
    info = client.info()
    return "Docker Desktop" in info["OperatingSystem"] or "name=rootless" in (info.get("SecurityOptions") or ())
