"""The shape of the star: its nodes, where they stand, and the proxy of every ordered pair. Pure data, no I/O.

Toxiproxy is the centre. It stands on every bridge, and each ZooKeeper and etcd node has a bridge of its own, so the
only way from one node to another, or from a client to a node, is a proxy. On the bridge of node A it answers to
`via-A` and to the names of A's peers; the port tells which peer: (bridge, port) is the ordered pair. Clients come in
groups, each with links of its own, so that one can lose a node that another still reaches.

The addresses are those of docker-compose.yml.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

BACKENDS: Final = ("redis", "zookeeper", "etcd", "postgres")

GROUPS: Final = (1, 2, 3)
"""Client groups: `c1`, `c2`, `c3` as ends of a link."""

GOD: Final = 0
"""The group of those who judge: links that no fault touches, for machines that cannot reach a node's own address."""

STORE: Final = "store"

API_PORT: Final = 8474
"""Of Toxiproxy."""

MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "redis": ("redis1", "redis2", "redis3", "redis4", "redis5"),
    "zookeeper": ("zk1", "zk2", "zk3"),
    "etcd": ("etcd1", "etcd2", "etcd3"),
    "postgres": ("postgres",),
}
"""Backend -> its nodes in order; the names are those of the services in docker-compose.yml."""

CLIENT_PORT: Final[Mapping[str, int]] = {"redis": 6379, "zookeeper": 2181, "etcd": 2379, "postgres": 5432}

PEER_PORTS: Final[Mapping[str, Mapping[str, int]]] = {
    "zookeeper": {"quorum": 2880, "election": 3880},
    "etcd": {"peer": 2380},
}
"""Backend -> what peers talk about -> the port less the number of the node that listens there."""

TOXIPROXY_HOST: Final = 2
"""Last byte of Toxiproxy's address on the bridge of the clients."""

HOSTS: Final[Mapping[str, int]] = {
    **{f"redis{i}": 18 + i for i in range(1, 6)},
    "postgres": 24,
    **{f"etcd{i}": 27 + 8 * i for i in range(1, 4)},
    **{f"zk{i}": 51 + 8 * i for i in range(1, 4)},
    STORE: 83,
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


def backend_of(node: str) -> str:
    """The backend that a node belongs to; KeyError for the store and for unknown names."""
    for backend, members in MEMBERS.items():
        if node in members:
            return backend
    raise KeyError(node)


def client(group: int) -> str:
    """Name of a client group as an end of a link."""
    return f"c{group}"


def client_port(node: str) -> int:
    """The port on which a node itself serves clients."""
    return CLIENT_PORT["postgres" if node == STORE else backend_of(node)]


def listener(node: str, group: int) -> int:
    """The port on which Toxiproxy takes connections of a client group to a node."""
    return 20000 + 100 * group + NODES.index(node) + 1


def proxies() -> Iterator[Proxy]:
    """Every proxy of the star."""
    for group in (GOD, *GROUPS):
        for node in NODES:
            yield Proxy(
                name=f"{client(group)}-{node}",
                source=client(group),
                target=node,
                listen=f"via-ctl:{listener(node, group)}",
                upstream=f"{node}-node:{client_port(node)}",
            )
    for backend, kinds in PEER_PORTS.items():
        members = MEMBERS[backend]
        for source in members:
            for number, target in enumerate(members, 1):
                if target == source:
                    continue
                for kind, base in kinds.items():
                    yield Proxy(
                        name=f"{source}-{target}-{kind}",
                        source=source,
                        target=target,
                        listen=f"via-{source}:{base + number}",
                        upstream=f"{target}-node:{base + number}",
                    )
