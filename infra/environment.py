"""What every environment has: Toxiproxy, the fenced store, and links to the clusters under test.

`OwnEnvironment` boots our own clusters; `infra.target` reaches clusters of others.

infra/README.md says when an environment is removed. Several may exist at once. All verbs are for several threads.
"""

import contextlib
import os
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self

from docker import DockerClient

from infra import lifetime
from infra.access import OPEN, Access
from infra.backends import STORE as STORE_KIND
from infra.backends import shaped
from infra.backends.answers import Health
from infra.backends.backend import Backend, Server
from infra.cluster import container, node_repair
from infra.cluster.nodes import READY_WITHIN, Cluster, Node
from infra.cluster.virtual_address import Failover
from infra.docker import client as engine_client
from infra.docker import compose, images, machine, owner, reaper, subnets
from infra.docker.compose import ComposeSettings
from infra.errors import Failed, UnknownName
from infra.network import topology
from infra.network.links import Links
from infra.network.topology import API_PORT, STORE, Reach
from infra.network.toxiproxy_api import Api
from infra.suggestions import command
from infra.waiting import at_once, comes_true

STORE_VERSION: Final = "17"  # the series of the store's server, whatever versions are under test


class Environment(ABC):
    """Toxiproxy and the store run; `ensure` adds clusters. ours: whether they are ours, so that all can be done."""

    ours: ClassVar[bool]

    def __init__(self, client: DockerClient, settings: ComposeSettings) -> None:
        """Not for callers: this starts nothing. Toxiproxy's container must exist."""
        self.name: Final = settings.name
        self.owner: Final = settings.owner
        self.password: Final = settings.password
        self.kinds: Final = shaped(settings.shapes)  # the backends, in the shapes that they have here
        self._client = client
        self._settings = settings
        self._changing = threading.Lock()
        self._clusters: dict[str, Cluster] = {}
        self._reach = Reach(settings.slot, compose.published_ports(client, settings))
        self._api = Api(self._reach.listens(API_PORT))
        self.links: Final = Links(self._api, self.kinds)

    # --- from nothing to ready, and back ---

    @classmethod
    def start(
        cls, *, name: str | None = None, keep: bool = False, shapes: Mapping[str, str] = MappingProxyType({})
    ) -> Self:
        """Bring up Toxiproxy and the store; `ensure` adds clusters. First removes what dead owners left.

        With `keep` the environment outlives this process. shapes: those that clusters of ours will have, see `shaped`.
        Raises NotPossible without an engine and Failed when something goes wrong; then nothing is left behind.
        """
        client = engine_client.connect()
        reaper.reap(client)
        if name == "":
            raise UnknownName("an environment needs a name")
        name = name or f"fp-{os.getpid()}-{secrets.token_hex(2)}"
        if any(other.name == name for other in reaper.find(client)):
            raise Failed(f"there is an environment {name} already ({command('status')})")
        toxiproxy, store = images.resolve("toxiproxy"), images.resolve(STORE_KIND.name, STORE_VERSION)
        for image in (toxiproxy, store):
            images.ensure(image)
        label = owner.KEPT if keep else owner.this_process(engine_client.own_container(client).get("Id", ""))
        chosen = {"TOXIPROXY_IMAGE": toxiproxy.name, "STORE_IMAGE": store.name}
        published = engine_client.needs_published(client)
        settings = ComposeSettings(name, 0, label, secrets.token_urlsafe(18), chosen, published, shapes)
        began = time.monotonic()
        lifetime.exit_when_asked()
        with contextlib.ExitStack() as undo:
            undo.callback(reaper.remove, client, name)
            self = cls(client, _up_in_free_slot(client, settings))
            _await("toxiproxy", self._api.answers)
            self._api.populate(topology.proxies(self.kinds))
            self._await_paths(STORE)
            undo.pop_all()
        if not keep:
            lifetime.at_exit(lambda: self.close(threads=False))
        machine.say(f"environment {name}: links and store are ready ({time.monotonic() - began:.1f} s)")
        return self

    @abstractmethod
    def ensure(self, backend: str, version: str | None = None) -> Cluster:
        """The cluster of a backend; returns when every member serves. Raises Failed when that does not happen.

        version: for clusters of ours, see `images.resolve`. Raises UnknownName for a version that does not exist.
        """

    def close(self, *, threads: bool = True) -> None:
        """Remove containers, networks and volumes. Idempotent. Raises Failed. threads: see `reaper.remove`."""
        for cluster in self._clusters.values():
            cluster.close()
        self._api.close()
        reaper.remove(self._client, self.name, threads=threads)

    # --- what is there ---

    @property
    def clusters(self) -> Mapping[str, Cluster]:
        """The clusters that were booted, by backend."""
        return MappingProxyType(self._clusters)

    def cluster(self, backend: str) -> Cluster:
        """A cluster that was booted; KeyError otherwise."""
        return self._clusters[backend]

    def node(self, name: str) -> Node:
        """A node of a cluster that was booted; raises UnknownName with the list of nodes otherwise."""
        there = {node.name: node for node in self._nodes()}
        if name not in there:
            raise UnknownName(f"no node {name!r} in {self.name}; there are {', '.join(there)}")
        return there[name]

    def members(self, backend: str) -> tuple[str, ...]:
        """The names of the members of a backend, in order. KeyError unless it was booted, as in the next three."""
        return tuple(node.name for node in self.cluster(backend).nodes)

    def direct(self, backend: str) -> tuple[str, ...]:
        """`host:port` of every member in order, by a way that no fault touches."""
        return tuple(node.endpoint for node in self.cluster(backend).nodes)

    def access(self, backend: str) -> Access:
        """How the endpoints of a backend let clients in."""
        return self.cluster(backend).nodes[0].access

    def endpoints(self, backend: str, group: int) -> tuple[str, ...]:
        """`host:port` of every member in order, through the links of a client group."""
        return tuple(self.endpoints_of(node, group) for node in self.members(backend))

    @abstractmethod
    def endpoints_of(self, node: str, group: int) -> str:
        """`host:port` of a node or auxiliary, through the links of a client group; KeyError if it has no links."""

    def failover(self) -> Failover | None:
        """The failover between a primary and its replica, if a backend that has them was booted; else None."""
        return None

    def store_dsn(self, group: int | None) -> str:
        """The DSN of the store for a client group; for None, by a way that no fault touches."""
        return f"postgresql://{STORE_KIND.user}:{self.password}@{self.store_endpoint(group)}/fencepost"

    def store_endpoint(self, group: int | None) -> str:
        """`host:port` of the store, as in `store_dsn`."""
        return self._reach.past(STORE) if group is None else self._reach.through(STORE, group)

    def store_health(self) -> Health | None:
        """The health of the store. No fault touches the store's server, so its clock is the engine's own."""
        return self._probe(STORE, self.store_endpoint(None))

    def made_from(self) -> dict[str, dict[str, Any]]:
        """As `ServerProcess.made_from`, for Toxiproxy and the store, which every environment has. Raises Failed."""
        services = ("toxiproxy", STORE)
        return {name: container.made_from(self._client, compose.container(self.name, name)) for name in services}

    def cpu_seconds(self) -> dict[str, float]:
        """CPU seconds of each service that runs here (nodes, the store, Toxiproxy): see `container.cpu_seconds`."""
        return container.cpu_seconds(self._client, self.name)

    def logs(self, service: str) -> bytes:
        """What a node, the store or Toxiproxy wrote, with times. Raises UnknownName with the list of what there is."""
        there = container.states(self._client, self.name)
        if service not in there:
            raise UnknownName(f"{service!r} does not run in {self.name}; there are {', '.join(sorted(there))}")
        log: bytes = self._client.api.logs(compose.container(self.name, service), timestamps=True)
        return log

    # --- whole again ---

    def heal(self) -> None:
        """Undo every fault, whoever did it, and wait until all is ready. Raises Failed for what cannot be undone.

        Heals nodes first: Toxiproxy takes no change of a link while it waits for the node at the end of that link.
        """
        at_once(Node.heal, self._nodes())
        self.links.heal_all()
        self._await_ready()

    @abstractmethod
    def unclean(self) -> list[str]:
        """What differs from the start, a line each: links, containers, members. [] proves that nothing does."""

    def still_unclean(self, within: float) -> list[str]:
        """What `unclean` lists after at most so many seconds: elections and slow servers need a moment to be over."""
        lines: list[str] = []

        def clean() -> bool:
            lines[:] = self.unclean()
            return not lines

        comes_true(clean, within)
        return lines

    def _await_ready(self) -> None:
        for cluster in self._clusters.values():
            cluster.await_ready(mend=partial(node_repair.mend, cluster=cluster))

    def _nodes(self) -> list[Node]:
        return [node for cluster in self._clusters.values() for node in cluster.everybody]

    def _await_paths(self, *members: str) -> None:
        """Wait until every node answers past the proxies and through those of every client group."""
        ways = [
            (node, self._reach.through(node, group), f"{node} through {topology.client(group)}")
            for node in members
            for group in topology.groups_of(node)
        ]
        ways += [(node, self._reach.past(node), node) for node in members]

        def answers(way: tuple[str, str, str]) -> None:
            node, endpoint, words = way
            _await(words, lambda: self._probe(node, endpoint) is not None)

        at_once(answers, ways, 8)

    def _probe(self, node: str, endpoint: str) -> Health | None:
        """The health of a node of ours, asked at `host:port`."""
        kind = topology.kind_of(node)
        return kind.probe(Server(node, endpoint, self._login(kind)))

    def _login(self, kind: Backend) -> Access:
        return Access(user=kind.user, password=self.password) if kind.user else OPEN


def _up_in_free_slot(client: DockerClient, settings: ComposeSettings) -> ComposeSettings:
    """Start Toxiproxy and the store in the first slot that is free; returns the settings with that slot."""
    with contextlib.closing(subnets.free(client)) as free:
        for slot in free:
            try:
                compose.up(replace(settings, slot=slot), ["toxiproxy", STORE])
            except subnets.Taken:
                reaper.remove(client, settings.name)
            else:
                return replace(settings, slot=slot)
    raise AssertionError("subnets.free yields or raises")


def _await(what: str, is_so: Callable[[], bool]) -> None:
    if not comes_true(is_so, READY_WITHIN):
        raise Failed(f"{what} does not answer within {READY_WITHIN:.0f} s")
