"""Faults on the disks of an environment's nodes, by containers of our own beside a node (sidecars).

A disk is slow while strace, in the node's pid namespace, delays every call that synchronises it (fsync and its kin).
The speed of writing bytes does not change. A disk is full while a process holds ballast in a file without a name. Both
faults end with their container, however that ends. The labels of containers show which faults are on, also those of
another process. A kill of a node also ends its slowness: strace must end first, since what it delays cannot die.

A disk is a volume in memory (docker-compose.yml). Toxiproxy's container has it as well, so the disk stays while the
node is down, and can be looked at and wiped there.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from docker import DockerClient
from docker.errors import APIError, NotFound

from infra.docker import base, compose, reaper
from infra.docker.client import execute, failing
from infra.docker.images import Image
from infra.errors import Failed
from infra.network.links import BY_HAND

FAULT: Final = "fencepost.fault"
"""Label of a container that is a fault: what it does, in words."""
TOOLS: Final = Image("tools", f"fencepost/tools:{base.SUITES[0]}", base.SUITES[0])
"""The image of these containers; it is built when a backend is booted."""
STALL: Final = 3600.0
"""Seconds that a stalled disk takes for a synchronisation: more than any fault lasts. At the heal it ends."""
BEGINS_WITHIN: Final = 20.0
"""Seconds within which a fault must be on (measured: 0.2-0.4)."""

_LOOK_EVERY: Final = 0.01

_Kind = Literal["slow", "full"]


@dataclass(frozen=True, slots=True)
class _Sidecar:
    """A container that should be there: its label in words, its command, and its output when it has begun."""

    words: str
    command: tuple[str, ...]
    begun: bytes
    options: dict[str, Any]


class Disks:
    """An environment's disks. Verbs are idempotent and raise Failed if the engine cannot; not for two threads at once.

    As with nodes and links, a fault is stored under the key that wants it. If two keys slow a disk, the longer delay
    counts. The disk is whole when no key wants the fault any more.
    """

    def __init__(self, client: DockerClient, environment: str, owner: str) -> None:
        """owner: the label of the environment's owner, by which leftovers of these containers are removed too."""
        self._client = client
        self._environment = environment
        self._labels = {reaper.ENV: environment, reaper.OWNER: owner}
        self._wishes: dict[str, dict[tuple[str, _Kind], float]] = {}

    def slow(self, node: str, seconds: float, by: str = BY_HAND) -> None:
        """From now on each sync of the node's disk takes so much longer; `STALL`: none ends. The node must run."""
        self._wishes.setdefault(by, {})[node, "slow"] = seconds
        self._settle(node, "slow")

    def fill(self, node: str, by: str = BY_HAND) -> None:
        """Leave no room on the disk of a node, whether it runs or not."""
        self._wishes.setdefault(by, {})[node, "full"] = 0.0
        self._settle(node, "full")

    def clear(self, by: str = BY_HAND) -> None:
        """Undo what `by` did, unless another still wants it."""
        for node, kind in self._wishes.pop(by, {}):
            self._settle(node, kind)

    def free(self, node: str) -> None:
        """Let go of a node's processes: threads that strace delays do not die while strace lives."""
        self._end(f"{self._environment}-{node}-slow")

    def clear_all(self) -> None:
        """Undo everything, whoever did it."""
        self._wishes.clear()
        for container in self._sidecars():
            self._remove(container["Id"])

    def active(self) -> list[str]:
        """Everything that is done to disks, whoever did it, a line each."""
        return sorted(
            container["Labels"][FAULT] + ("" if container["State"] == "running" else " (no more)")
            for container in self._sidecars()
        )

    def wipe(self, node: str) -> None:
        """Remove everything on the disk of a node. The caller has made sure that the node is down.

        In some backends, a member needs more to start on an empty disk: see Trait.MEMBERSHIP.
        """
        self._look("find", f"/disks/{node}", "-mindepth", "1", "-delete")

    def room(self, node: str) -> int:
        """Bytes that are left on the disk of a node, seen from outside the node."""
        return int(self._look("df", "--block-size=1", "--output=avail", f"/disks/{node}").split()[-1])

    def files(self, node: str) -> list[str]:
        """The paths of all files on the disk of a node, seen from outside the node."""
        return self._look("find", f"/disks/{node}", "-type", "f", "-printf", "%P\\n").split()

    # --- containers beside a node ---

    def _settle(self, node: str, kind: _Kind) -> None:
        """Bring the sidecar of a node to what all keys together want."""
        wishes = [wish[node, kind] for wish in self._wishes.values() if (node, kind) in wish]
        wanted = self._sidecar(node, kind, max(wishes)) if wishes else None
        name = f"{self._environment}-{node}-{kind}"
        there = [(sidecar["Labels"][FAULT], sidecar["State"]) for sidecar in self._named(name)]
        if wanted and (wanted.words, "running") in there:
            return
        self._end(name)
        if wanted:
            self._begin(name, wanted)

    def _sidecar(self, node: str, kind: _Kind, seconds: float) -> _Sidecar:
        container = compose.container(self._environment, node)
        if kind == "full":
            return _Sidecar(f"{node}'s disk is full", ("fill", "/data"), b"full", {"volumes_from": [container]})
        how = "stalled" if seconds >= STALL else f"slow by {seconds * 1000:.0f} ms"
        options = {"pid_mode": f"container:{container}", "cap_add": ["SYS_PTRACE"]}
        return _Sidecar(f"{node}'s disk is {how}", ("slow", str(round(seconds * 1e6))), b"attached", options)

    def _begin(self, name: str, wanted: _Sidecar) -> None:
        """Start a sidecar and wait until it says that it has begun."""
        api = self._client.api
        host = api.create_host_config(network_mode="none", **wanted.options)
        labels = {**self._labels, FAULT: wanted.words}
        with failing(wanted.words):
            api.create_container(TOOLS.name, list(wanted.command), name=name, labels=labels, host_config=host)
            api.start(name)
            deadline = time.monotonic() + BEGINS_WITHIN
            while wanted.begun not in (log := api.logs(name)):
                if api.inspect_container(name)["State"]["Status"] != "running" or time.monotonic() > deadline:
                    raise Failed(f"{wanted.words}: it did not begin: {log.decode(errors='replace').strip()}")
                time.sleep(_LOOK_EVERY)

    def _sidecars(self) -> Sequence[dict[str, Any]]:
        filters = {"label": [f"{reaper.ENV}={self._environment}", FAULT]}
        listed: list[dict[str, Any]] = self._client.api.containers(all=True, filters=filters)
        return listed

    def _named(self, name: str) -> Sequence[dict[str, Any]]:
        return [sidecar for sidecar in self._sidecars() if f"/{name}" in sidecar["Names"]]

    def _end(self, name: str) -> None:
        for sidecar in self._named(name):
            self._remove(sidecar["Id"])

    def _remove(self, container: str) -> None:
        """SIGKILL is enough: the processes that strace held go on, the ballast is gone."""
        deadline = time.monotonic() + reaper.REMOVED_WITHIN
        while True:
            try:
                self._client.api.remove_container(container, force=True)
            except NotFound:
                return
            except APIError as error:  # it is ending by itself, or another process is removing it
                if time.monotonic() > deadline:
                    raise Failed(f"a fault of a disk could not be removed: {error.explanation}") from error
                time.sleep(_LOOK_EVERY)

    # --- from outside ---

    def _look(self, *command: str) -> str:
        """Run a command in Toxiproxy's container, where all disks are. The command may run more than once."""
        container = compose.container(self._environment, "toxiproxy")
        while True:
            with failing(f"disks of {self._environment}"):
                status, output = execute(self._client, container, ["sh", "-c", '"$@" && echo', "", *command])
            if status != 0:
                raise Failed(f"disks of {self._environment}: {' '.join(command)}: {output.strip()}")
            if output.endswith("\n"):
                return output
            # When Engine 20.10 is busy, it loses the output of a short process.
