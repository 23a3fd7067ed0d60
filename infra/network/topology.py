"""The shape of the star: its nodes, where they stand, and the proxy of every ordered pair. Pure data, no I/O.

infra/README.md draws the star. On the bridge of node A, Toxiproxy answers to `via-A` and to the names of A's peers. The
port tells the peer, so (bridge, port) is the ordered pair. Auxiliaries, which are nodes beside a backend's members,
dial proxies at `via-data`, on the bridge `data`.

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
"""The group of the judges: no fault touches its links. For machines that cannot reach a node's own address."""

STORE: Final = "store"

API_PORT: Final = 8474  # the port of Toxiproxy's API

_BESIDE: Final = {auxiliary.name: auxiliary for backend in BACKENDS.values() for auxiliary in backend.auxiliaries}

FIRST_BYTES: Final = "10.77"
"""The first bytes of every address in an environment. The third byte is its subnet (`infra.docker.subnets`)."""
TOXIPROXY_HOST: Final = 2
"""Last byte of Toxiproxy's address on the bridge of the clients."""
DATA_HOST: Final = 18
"""Last byte of Toxiproxy's address on the bridge `data`."""

_MEMBERS: Final = [pair for kind in BACKENDS.values() for pair in zip(kind.known, kind.hosts, strict=True)]

HOSTS: Final[Mapping[str, int]] = {
    **dict(sorted([*_MEMBERS, (STORE, 83)], key=lambda pair: pair[1])),
    # Nodes that clients cannot reach come last, so the ports in infra/published.yml have no gaps.
    **{each.name: each.host for each in sorted(_BESIDE.values(), key=lambda auxiliary: not auxiliary.reached)},
}
"""Node -> last byte of its own address, for the nodes of all shapes."""

NODES: Final = tuple(HOSTS)


@dataclass(frozen=True, slots=True)
class Proxy:
    """One proxy: connections dialled by `source` to `target`. `listen` and `upstream` are `host:port`."""

    name: str
    source: str
    target: str
    listen: str
    upstream: str


def image_variable(name: str) -> str:
    """The variable of docker-compose.yml that names the image of a backend's nodes, or of Toxiproxy."""
    return f"{name.upper().replace('-', '_')}_IMAGE"


def own_image_variable(node: str) -> str:
    """The variable for the image of this node alone. If the node has the name of its backend, the variable adds a 1."""
    return image_variable(f"{node}1" if node in BACKENDS else node)


def dialled(node: str) -> int:
    """Toxiproxy's port on the bridge `data` at which an auxiliary dials its member."""
    return _BESIDE[node].dials[2]


def client(group: int) -> str:
    """Name of a client group as an end of a link."""
    return f"c{group}"


def client_port(node: str) -> int:
    """The port on which a node itself serves clients."""
    return _BESIDE[node].port if node in _BESIDE else kind_of(node).port


@cache
def kind_of(node: str) -> Backend:
    """The backend of a member or an auxiliary, and the one that the store runs on. KeyError for unknown names."""
    known = {name: kind for kind in BACKENDS.values() for name in (*kind.known, *kind.nodes)}
    return {STORE: STORE_KIND, **known}[node]


def primary_of(node: str) -> str | None:
    """The node that a replica follows; None for a node that is no replica."""
    auxiliary = _BESIDE.get(node)
    return auxiliary.dials[0] if auxiliary and kind_of(node).replication else None


def listener(node: str, group: int) -> int:
    """The port on which Toxiproxy takes connections of a client group to a node."""
    return 20000 + 100 * group + NODES.index(node) + 1


def groups_of(node: str) -> tuple[int, ...]:
    """The client groups that have a way of their own to a node."""
    return GROUPS if node not in _BESIDE or _BESIDE[node].reached else ()


def proxies(kinds: Mapping[str, Backend] = BACKENDS) -> Iterator[Proxy]:
    """Every proxy of the star of these backends."""
    there = {STORE, *(name for kind in kinds.values() for name in kind.nodes)}
    for group in (GOD, *GROUPS):
        for node in NODES:
            if node in there and (group == GOD or group in groups_of(node)):
                yield _proxy(client(group), node, "", f"via-ctl:{listener(node, group)}", client_port(node))
    for backend in kinds.values():
        for (_, source), (number, target) in itertools.permutations(enumerate(backend.members, 1), 2):
            for kind, base in backend.peer_ports.items():
                yield _proxy(source, target, f"-{kind}", f"via-{source}:{base + number}", base + number)
    for auxiliary in _BESIDE.values():
        target, kind, port = auxiliary.dials
        yield _proxy(auxiliary.name, target, f"-{kind}", f"via-data:{port}", client_port(target))


def _proxy(source: str, target: str, what: str, listen: str, port: int) -> Proxy:
    """what: the end of the proxy's name. port: the port of the node itself."""
    return Proxy(f"{source}-{target}{what}", source, target, listen, f"{target}-node:{port}")


def address(slot: int, host: int) -> str:
    """The address of a host in the subnet of an environment."""
    return f"{FIRST_BYTES}.{slot}.{host}"


@dataclass(frozen=True, slots=True)
class Reach:
    """How this machine reaches into an environment: by the addresses of the bridges, or by published ports.

    On Linux this machine reaches the bridges. Where the engine runs in a virtual machine (macOS, Docker Desktop,
    rootless) it does not, and uses Toxiproxy's ports published on 127.0.0.1. A helper of the engine serves those. It
    accepts connections that Toxiproxy then refuses, and turns resets into orderly ends, so some faults look different.
    """

    slot: int
    published: Mapping[int, int] | None  # Toxiproxy's port -> ours on 127.0.0.1; None where the bridges are reached

    def through(self, node: str, group: int) -> str:
        """`host:port` of a node, through the link of a client group."""
        return self.listens(listener(node, group))

    def past(self, node: str) -> str:
        """`host:port` of a node, by a way that no fault touches."""
        if self.published is None:
            return f"{address(self.slot, HOSTS[node])}:{client_port(node)}"
        return self.through(node, GOD)

    def listens(self, port: int) -> str:
        """`host:port` by which we reach this port of Toxiproxy; KeyError where the port is not published."""
        if self.published is None:
            return f"{address(self.slot, TOXIPROXY_HOST)}:{port}"
        return f"127.0.0.1:{self.published[port]}"
