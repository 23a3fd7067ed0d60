"""The shape of the star: its nodes, where they stand, and the proxy of every ordered pair. Pure data, no I/O.

Toxiproxy is the centre. It stands on every bridge, and each node that has peers has a bridge of its own, so the only
way from one node to another, or from a client to a node, is a proxy. On the bridge of node A it answers to `via-A` and
to the names of A's peers; the port tells which peer: (bridge, port) is the ordered pair. Clients come in groups, each
with links of its own, so that one can lose a node that another still reaches.

Some nodes stand beside a backend's members: auxiliaries. What they dial is a proxy on the bridge `data`, `via-data`.

Members and addresses are those of `infra.backends` and of docker-compose.yml.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from infra.backends import BACKENDS
from infra.backends import STORE as STORE_KIND
from infra.backends.backend import Backend

GROUPS: Final = (1, 2, 3)
"""Client groups: `c1`, `c2`, `c3` as ends of a link."""

GOD: Final = 0
"""The group of those who judge: links that no fault touches, for machines that cannot reach a node's own address."""

STORE: Final = "store"

API_PORT: Final = 8474
"""Of Toxiproxy."""

AUXILIARIES: Final[Mapping[str, tuple[str, ...]]] = {
    name: tuple(auxiliary.name for auxiliary in backend.auxiliaries) for name, backend in BACKENDS.items()
}
"""Backend -> nodes that come with it and are none of its members."""

_BESIDE: Final = {auxiliary.name: auxiliary for backend in BACKENDS.values() for auxiliary in backend.auxiliaries}

FIRST_BYTES: Final = "10.77"
"""Of every address in an environment; its subnet (`infra.docker.subnets`) is the third byte."""

TOXIPROXY_HOST: Final = 2
"""Last byte of Toxiproxy's address on the bridge of the clients."""

DATA_HOST: Final = 18
"""The same on the bridge `data`."""

_MEMBERS: Final = [pair for kind in BACKENDS.values() for pair in zip(kind.members, kind.hosts, strict=True)]

HOSTS: Final[Mapping[str, int]] = {
    **dict(sorted(_MEMBERS, key=lambda pair: pair[1])),
    STORE: 83,
    # Those without a way for clients last: the ports that infra/published.yml names have no gaps then.
    **{each.name: each.host for each in sorted(_BESIDE.values(), key=lambda auxiliary: not auxiliary.reached)},
}
"""Node -> last byte of its own address."""

NODES: Final = tuple(HOSTS)


@dataclass(frozen=True, slots=True)
class Proxy:
    """One proxy: connections dialled by `source` to `target`. `listen` and `upstream` are `host:port`."""

    name: str
    source: str
    target: str
    listen: str
    upstream: str


def nodes_of(backend: str) -> tuple[str, ...]:
    """Its members and its auxiliaries."""
    return BACKENDS[backend].members + AUXILIARIES[backend]


def image_variable(name: str) -> str:
    """The variable of docker-compose.yml that names the image of a backend's nodes, or of Toxiproxy."""
    return f"{name.upper().replace('-', '_')}_IMAGE"


def own_image_variable(node: str) -> str:
    """The one that names the image of this node alone. One that is called as its backend is has a number in it."""
    return image_variable(f"{node}1" if node in BACKENDS else node)


@cache
def backend_of(node: str) -> str:
    """The backend that a node belongs to; KeyError for the store and for unknown names."""
    return {name: backend for backend in BACKENDS for name in nodes_of(backend)}[node]


def dialled(node: str) -> int:
    """The port of Toxiproxy's, on the bridge `data`, at which an auxiliary node dials its member."""
    return _BESIDE[node].dials[2]


def client(group: int) -> str:
    """Name of a client group as an end of a link."""
    return f"c{group}"


def client_port(node: str) -> int:
    """The port on which a node itself serves clients."""
    return _BESIDE[node].port if node in _BESIDE else kind_of(node).port


def kind_of(node: str) -> Backend:
    """The kind of server that a node is, or stands beside: the store is one as well. KeyError for unknown names."""
    return STORE_KIND if node == STORE else BACKENDS[backend_of(node)]


def primary_of(node: str) -> str | None:
    """Whom a replica follows; None for what is no replica."""
    auxiliary = _BESIDE.get(node)
    return auxiliary.dials[0] if auxiliary and kind_of(node).replication else None


def listener(node: str, group: int) -> int:
    """The port on which Toxiproxy takes connections of a client group to a node."""
    return 20000 + 100 * group + NODES.index(node) + 1


def groups_of(node: str) -> tuple[int, ...]:
    """The client groups that have a way of their own to a node."""
    return GROUPS if node not in _BESIDE or _BESIDE[node].reached else ()


def proxies() -> Iterator[Proxy]:
    """Every proxy of the star."""
    for group in (GOD, *GROUPS):
        for node in NODES:
            if group == GOD or group in groups_of(node):
                yield _proxy(client(group), node, "", f"via-ctl:{listener(node, group)}", client_port(node))
    for backend in BACKENDS.values():
        for (_, source), (number, target) in itertools.permutations(enumerate(backend.members, 1), 2):
            for kind, base in backend.peer_ports.items():
                yield _proxy(source, target, f"-{kind}", f"via-{source}:{base + number}", base + number)
    for auxiliary in _BESIDE.values():
        target, kind, port = auxiliary.dials
        yield _proxy(auxiliary.name, target, f"-{kind}", f"via-data:{port}", client_port(target))


def _proxy(source: str, target: str, what: str, listen: str, port: int) -> Proxy:
    """what: ends its name. port: of the node itself."""
    return Proxy(f"{source}-{target}{what}", source, target, listen, f"{target}-node:{port}")


def address(slot: int, host: int) -> str:
    """The address of a host in the subnet of an environment."""
    return f"{FIRST_BYTES}.{slot}.{host}"


@dataclass(frozen=True, slots=True)
class Reach:
    """How this machine reaches into an environment: by the addresses of the bridges, or by published ports.

    On Linux the bridges are ours to reach. Where the engine runs in a virtual machine (macOS, Docker Desktop, rootless)
    they are not, and ports of Toxiproxy published on 127.0.0.1 stand in. Those go through a helper of the engine that
    accepts connections which Toxiproxy then refuses and turns resets into orderly ends, so some faults look different.
    """

    slot: int
    published: Mapping[int, int] | None  # Toxiproxy's port -> ours on 127.0.0.1; None where the bridges are reached

    def through(self, node: str, group: int) -> tuple[str, int]:
        """A node, through the link of a client group."""
        return self.listens(listener(node, group))

    def past(self, node: str) -> tuple[str, int]:
        """A node, by a way that no fault touches."""
        if self.published is None:
            return address(self.slot, HOSTS[node]), client_port(node)
        return self.through(node, GOD)

    def listens(self, port: int) -> tuple[str, int]:
        """Where Toxiproxy takes the connections that it knows by this port; KeyError where it is not published."""
        if self.published is None:
            return address(self.slot, TOXIPROXY_HOST), port
        return "127.0.0.1", self.published[port]
