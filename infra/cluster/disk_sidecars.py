"""The disks of an environment's nodes: what is done to them by containers of our own that stand beside a node.

A disk is slow when strace, in the node's pid namespace, delays every call that synchronises it: fsync and its kin; how
fast bytes are written does not change. It is full while a process holds ballast in a file without a name. Either ends
with its container, however that ends, and is seen by that container's label: what is on is what the engine says, also
when another process did it. A node that is killed and started again is slow no more: what strace delays could not die.

A disk is a volume of memory (docker-compose.yml), which Toxiproxy's container has as well: there it stays while the
node is down, can be looked at, and be wiped.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from docker import DockerClient
from docker.errors import APIError, NotFound

from infra.docker import base, compose, reaper
from infra.docker.images import Image
from infra.errors import Failed
from infra.network.links import BY_HAND

FAULT: Final = "fencepost.fault"
"""Label of a container that is a fault: what it does, in words."""

TOOLS: Final = Image("tools", f"fencepost/tools:{base.SUITES[0]}", base.SUITES[0])
"""The image of those containers; who boots a backend makes it."""

STALL: Final = 3600.0
"""Seconds that a stalled disk takes for a synchronisation: more than any fault lasts. When it heals it is done."""

BEGINS_WITHIN: Final = 20.0
"""Seconds within which it must be on; it measures 0.2-0.4."""

_LOOK_EVERY: Final = 0.01

_Kind = Literal["slow", "full"]


@dataclass(frozen=True, slots=True)
class _Sidecar:
    """A container that should be there: its words, what it runs, and what it says when it has begun."""

    words: str
    command: tuple[str, ...]
    begun: bytes
    options: dict[str, Any]


class Disks:
    """Of one environment. Verbs are idempotent and raise Failed when the engine cannot; not for two threads at once.

    As with nodes and links, what is done is remembered under the key of who wants it: of two that slow a disk the
    slower counts, and it is whole when neither wants it any more.
    """

    def __init__(self, client: DockerClient, environment: str, owner: str) -> None:
        """owner: the label of the environment's owner, who removes what is left of these containers too."""
        self._client = client
        self._environment = environment
        self._labels = {reaper.ENV: environment, reaper.OWNER: owner}
        self._wishes: dict[str, dict[tuple[str, _Kind], float]] = {}

    def slow(self, node: str, seconds: float, by: str = BY_HAND) -> None:
        """Every synchronisation of its disk takes so much longer, from now; `STALL`: none ends. The node must run."""
        self._wishes.setdefault(by, {})[node, "slow"] = seconds
        self._settle(node, "slow")

    def fill(self, node: str, by: str = BY_HAND) -> None:
        """Leave no room on its disk, whether it runs or not."""
        self._wishes.setdefault(by, {})[node, "full"] = 0.0
        self._settle(node, "full")

    def clear(self, by: str = BY_HAND) -> None:
        """Undo what `by` did, unless another still wants it."""
        for node, kind in self._wishes.pop(by, {}):
            self._settle(node, kind)

    def free(self, node: str) -> None:
        """Let go of its processes: the threads that strace delays do not die as long as it lives."""
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
        """Remove everything on its disk; who calls it has made sure that the node is down.

        A member of some backends does not start on an empty disk without more: see Trait.MEMBERSHIP.
        """
        self._look("find", f"/disks/{node}", "-mindepth", "1", "-delete")

    def room(self, node: str) -> int:
        """Bytes that are left on its disk, seen from outside of it."""
        return int(self._look("df", "--block-size=1", "--output=avail", f"/disks/{node}").split()[-1])

    def files(self, node: str) -> list[str]:
        """The paths of all files on its disk, seen from outside of it."""
        return self._look("find", f"/disks/{node}", "-type", "f", "-printf", "%P\\n").split()

    # --- containers beside a node ---

    def _settle(self, node: str, kind: _Kind) -> None:
        """Bring the container beside a node to what is wanted by all together."""
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
        """Start it and wait until it says that it has begun."""
        api = self._client.api
        host = api.create_host_config(network_mode="none", **wanted.options)
        labels = {**self._labels, FAULT: wanted.words}
        try:
            api.create_container(TOOLS.name, list(wanted.command), name=name, labels=labels, host_config=host)
            api.start(name)
            deadline = time.monotonic() + BEGINS_WITHIN
            while wanted.begun not in (log := api.logs(name)):
                if api.inspect_container(name)["State"]["Status"] != "running" or time.monotonic() > deadline:
                    raise Failed(f"{wanted.words}: it did not begin: {log.decode(errors='replace').strip()}")
                time.sleep(_LOOK_EVERY)
        except APIError as error:
            raise Failed(f"{wanted.words}: {error.explanation}") from error

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
        """Run a command, which may be repeated, where all disks are: in Toxiproxy's container."""
        api = self._client.api
        container = compose.container(self._environment, "toxiproxy")
        while True:
            try:
                run = api.exec_create(container, ["sh", "-c", '"$@" && echo', "", *command])["Id"]
                output = api.exec_start(run).decode(errors="replace")
                status = api.exec_inspect(run)["ExitCode"]
            except APIError as error:
                raise Failed(f"disks of {self._environment}: {error.explanation}") from error
            if status != 0:
                raise Failed(f"disks of {self._environment}: {' '.join(command)}: {output.strip()}")
            if output.endswith("\n"):
                return str(output)
            # Engine 20.10, when it is busy, loses what a short process says.
