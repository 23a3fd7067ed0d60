"""Nodes and clusters: their processes by the docker SDK, their state of mind by asking them past the proxies."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Literal

from docker.errors import APIError, NotFound

from infra import probes, star
from infra.client import TIMEOUT
from infra.links import Links
from infra.machine import Failed
from infra.probes import Health, Probe

if TYPE_CHECKING:
    from docker import DockerClient

State = Literal["running", "paused", "stopped"]

READY_WITHIN: Final = 60.0
"""Seconds a cluster may take until all members serve; the slowest measures 4 on an idle machine."""

POLL: Final = 0.05
"""Seconds between two looks at something that is not ready."""


class Node:
    """One member of a backend: a container. Every verb is idempotent and raises Failed when the engine cannot."""

    def __init__(
        self, client: DockerClient, links: Links, container: str, name: str, address: tuple[str, int], probe: Probe
    ) -> None:
        self.name: Final = name
        self.backend: Final = star.backend_of(name)
        self.index: Final = star.MEMBERS[self.backend].index(name)
        self.address: Final = address
        self._client = client
        self._links = links
        self._dead = False
        self._container = container
        self._probe = probe

    def __repr__(self) -> str:
        return f"Node({self.name})"

    def state(self) -> State:
        """What its container does. Raises Failed when it is gone."""
        status = self._ask(self._client.api.inspect_container)["State"]["Status"]
        return "paused" if status == "paused" else "running" if status == "running" else "stopped"

    def kill(self) -> None:
        """SIGKILL, and wait until it is dead. Its data stays; connections to it are refused."""
        state = self.state()
        self._dead = True
        # First, since Toxiproxy cannot be told anything about a link while it dials an address that is gone.
        self._links.bury(self.name)
        if state == "paused":
            self.resume()  # the engine does not kill what is paused
        if state != "stopped":
            self._ask(self._client.api.kill, "SIGKILL")
            self._ask(self._client.api.wait, timeout=TIMEOUT)

    def start(self) -> None:
        """Start it again, on the data that it had. It is not ready yet: see `Cluster.await_ready`."""
        self._ask(self._client.api.start)
        self._dead = False
        self._links.revive(self.name)

    def pause(self) -> None:
        """Freeze its processes: it goes silent, its connections stay open."""
        if self.state() == "running":
            self._ask(self._client.api.pause)

    def resume(self) -> None:
        """Let its processes go on where they were."""
        if self.state() == "paused":
            self._ask(self._client.api.unpause)

    def health(self) -> Health | None:
        """What it says of itself, asked past the proxies; None when it does not serve."""
        return None if self._dead else self._probe(*self.address)

    def ready(self) -> bool:
        """Whether it serves."""
        return self.health() is not None

    def version(self) -> str:
        """The version as the node tells it. Raises Failed when it does not serve."""
        health = self.health()
        if not health:
            raise Failed(f"{self.name} does not answer ({self.state()})")
        return health.version

    def logs(self) -> bytes:
        """Everything that it wrote to its outputs, with times."""
        said: bytes = self._ask(self._client.api.logs, timestamps=True)
        return said

    def _ask(self, verb: Callable[..., Any], *args: object, **options: object) -> Any:
        try:
            return verb(self._container, *args, **options)
        except NotFound as error:
            raise Failed(f"{self.name}: its container {self._container} is gone") from error
        except APIError as error:
            raise Failed(f"{self.name}: {error.explanation}") from error


class Cluster:
    """The nodes of one backend."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes: Final = tuple(nodes)
        self.backend: Final = self.nodes[0].backend
        self._pool = ThreadPoolExecutor(max_workers=len(self.nodes), thread_name_prefix=self.backend)

    def __repr__(self) -> str:
        return f"Cluster({self.backend})"

    def healths(self) -> list[Health | None]:
        """What each node says, in order, asked at the same time."""
        return list(self._pool.map(Node.health, self.nodes))

    def leader(self) -> Node | None:
        """Who leads, asked past the proxies; None when nobody does, and for Redis and PostgreSQL, which have no roles.

        After the leader was cut off it is still the answer until the others have elected another.
        """
        index = probes.leader(self.backend, self.healths())
        return None if index is None else self.nodes[index]

    def ready(self) -> bool:
        """Whether every member serves and follows the same leader."""
        return probes.whole(self.backend, self.healths())

    def await_ready(self, timeout: float = READY_WITHIN) -> None:
        """Wait until `ready`. Raises Failed, naming who is not, after `timeout` seconds or when a node has ended."""
        deadline = time.monotonic() + timeout
        while not probes.whole(self.backend, healths := self.healths()):
            missing = [node for node, health in zip(self.nodes, healths, strict=True) if not health]
            ended = [node.name for node in missing if node.state() == "stopped"]
            if ended or time.monotonic() > deadline:
                why = f"{', '.join(ended)} ended" if ended else f"not within {timeout:.0f} s"
                names = ", ".join(node.name for node in missing) or "no common leader"
                raise Failed(f"{self.backend} is not ready: {why} (missing: {names}); python -m infra logs says more")
            time.sleep(POLL)

    def versions(self) -> dict[str, str]:
        """Node -> version. Raises Failed when one does not serve."""
        return dict(zip((node.name for node in self.nodes), self._pool.map(Node.version, self.nodes), strict=True))

    def close(self) -> None:
        """End our threads; the nodes stay."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def states(client: DockerClient, environment: str) -> Mapping[str, State]:
    """Service -> state of every container of an environment, in one question."""
    told = client.api.containers(all=True, filters={"label": f"com.docker.compose.project={environment}"})
    return {
        container["Labels"]["com.docker.compose.service"]: (
            container["State"] if container["State"] in ("running", "paused") else "stopped"
        )
        for container in told
    }
