"""Remove whole environments by their labels: our own at the end, and those whose owner died before removing them.

Containers, networks and volumes all carry `fencepost.env` and `fencepost.owner` from the moment of their creation, so
a half-started environment is found like a whole one. Several processes may reap at once.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from docker import DockerClient
from docker.errors import APIError, NotFound

from infra.docker import client as engine_client
from infra.docker import machine, owner
from infra.errors import Failed
from infra.waiting import comes_true

ENV: Final = "fencepost.env"
OWNER: Final = "fencepost.owner"

LEAKED: Final = "has active endpoints"
"""The engine's error for a network whose endpoints it has miscounted; only a restart of the engine removes that."""
LEAKED_AFTER: Final = 2.0
"""Seconds for which the engine gives this error for networks without containers, until we leave them."""
LEAKED_LONG: Final = 60.0
"""Seconds: if all that is left of an environment is a network that is older, it is leaked and not being removed."""
REMOVED_WITHIN: Final = 120.0
"""Seconds until we give up (measured: 2, and 22 on a machine with ten times more work than it can do)."""


@dataclass(frozen=True, slots=True)
class FoundEnvironment:
    """An environment, or what is left of one. `owners` are the labels found; all of one environment agree."""

    name: str
    owners: frozenset[str]
    things: int
    dead: bool  # whether every owner that its labels name is certainly gone


def find(client: DockerClient) -> list[FoundEnvironment]:
    """Every environment on this engine, by name."""
    owners: dict[str, list[str]] = defaultdict(list)
    filters = {"label": ENV}
    things: list[dict[str, Any]] = [
        *client.api.containers(all=True, filters=filters),
        *client.api.networks(filters=filters),
        *(client.api.volumes(filters=filters)["Volumes"] or ()),
    ]
    for thing in things:
        owners[thing["Labels"][ENV]].append(thing["Labels"].get(OWNER, ""))
    dead = {label: _is_dead(client, label) for label in {label for owned in owners.values() for label in owned}}
    return [
        FoundEnvironment(name, frozenset(owned), len(owned), all(dead[label] for label in owned))
        for name, owned in sorted(owners.items())
    ]


def _is_dead(client: DockerClient, label: str) -> bool:
    container = owner.container_of(label)
    return owner.is_dead(label) or bool(container and not engine_client.runs(client, container))


def reap(client: DockerClient) -> list[str]:
    """Remove the environments whose owner is dead and return their names. Raises Failed.

    Skips an environment if only networks are left of it that the engine cannot remove.
    """
    dead = [each.name for each in find(client) if each.dead and not _only_leaked(client, each.name)]
    for name in dead:
        machine.say(f"removing environment {name}, whose owner is gone")
        _await_orphan(name)
        remove(client, name)
    return dead


def remove(client: DockerClient, name: str, *, threads: bool = True) -> None:
    """Remove an environment: containers (paused ones too), networks, volumes. Idempotent. Raises Failed.

    A network without containers is left if only a restart of the engine can remove it; it disturbs nobody.

    threads: False while the interpreter exits, since no thread can start then; removal takes three times as long.
    """
    deadline = time.monotonic() + REMOVED_WITHIN
    leaked_since = 0.0
    filters = {"label": f"{ENV}={name}"}
    with ThreadPoolExecutor(8) as pool:  # it starts threads when it is first used
        each: Callable[..., Iterable[str | None]] = pool.map if threads else map
        while True:
            containers = [item["Id"] for item in client.api.containers(all=True, quiet=True, filters=filters)]
            trouble = list(each(partial(_try, client.api.remove_container, v=True, force=True), containers))
            networks = [item["Id"] for item in client.api.networks(filters=filters)]
            trouble += each(partial(_try, client.api.remove_network), networks)
            volumes = [item["Name"] for item in client.api.volumes(filters=filters)["Volumes"] or ()]
            trouble += each(partial(_try, client.api.remove_volume), volumes)
            if not (containers or networks or volumes):
                return
            if containers or volumes or not all(why is None or LEAKED in why for why in trouble):
                leaked_since = 0.0
            elif not leaked_since:
                leaked_since = time.monotonic()
            elif time.monotonic() > leaked_since + LEAKED_AFTER:
                return
            if time.monotonic() > deadline:
                raise Failed(f"environment {name} could not be removed: {next(filter(None, trouble), 'no end')}")
            if any(trouble):
                time.sleep(0.1)  # another process is removing the same, or a container is still letting go


def _only_leaked(client: DockerClient, name: str) -> bool:
    filters = {"label": f"{ENV}={name}"}
    if client.api.containers(all=True, quiet=True, filters=filters) or client.api.volumes(filters=filters)["Volumes"]:
        return False
    networks = client.api.networks(filters=filters)
    made = [datetime.fromisoformat(network["Created"][:19] + "+00:00").timestamp() for network in networks]
    if time.time() < max(made, default=0.0) + LEAKED_LONG:
        return False
    trouble = [_try(client.api.remove_network, network["Id"]) for network in networks]
    return any(trouble) and all(why is None or LEAKED in why for why in trouble)


def _try(removal: Callable[..., None], name_or_id: str, **how: bool) -> str | None:
    """Remove something that another process may be removing too. Returns the error of the engine, or None."""
    try:
        removal(name_or_id, **how)
    except NotFound:
        return None
    except APIError as error:
        return str(error.explanation)
    return None


def _await_orphan(name: str) -> None:
    """Wait for the end of a `docker compose up` whose parent was killed: it would go on creating what we remove."""
    mark = f"\0FENCEPOST_ENV={name}\0".encode()
    comes_true(lambda: not any(_mentions(it, mark) for it in Path("/proc").glob("[0-9]*")), REMOVED_WITHIN, 0.1)


def _mentions(process: Path, mark: bytes) -> bool:
    try:
        return b"docker" in (process / "comm").read_bytes() and mark in b"\0" + (process / "environ").read_bytes()
    except OSError:
        return False
