"""The shape of the star: its nodes, where they stand, and the proxy of every ordered pair. Pure data, no I/O.

Toxiproxy is the centre. It stands on every bridge, and each ZooKeeper and etcd node has a bridge of its own, so the
only way from one node to another, or from a client to a node, is a proxy. On the bridge of node A it answers to
`via-A` and to the names of A's peers; the port tells which peer: (bridge, port) is the ordered pair. Clients come in
groups, each with links of its own, so that one can lose a node that another still reaches.

Two nodes stand beside a backend's members: a Redis that follows redis1, and a PgBouncer before PostgreSQL. What they
dial is a proxy on the bridge `data`, where Toxiproxy answers to `via-data`.

The addresses are those of docker-compose.yml.
"""

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

PRIMARY: Final = "redis1"
REPLICA: Final = "redis1-replica"
"""Follows the primary. Clients have no way of their own to it: after a failover theirs to the primary leads to it."""

BOUNCER: Final = "pgbouncer"
"""Pools connections to PostgreSQL."""

AUXILIARIES: Final[Mapping[str, tuple[str, ...]]] = {
    "redis": (REPLICA,),
    "zookeeper": (),
    "etcd": (),
    "postgres": (BOUNCER,),
}
"""Backend -> nodes that come with it and are none of its members: Redlock's five know nothing of a sixth."""

CLIENT_PORT: Final[Mapping[str, int]] = {"redis": 6379, "zookeeper": 2181, "etcd": 2379, "postgres": 5432}
BOUNCER_PORT: Final = 6432

PEER_PORTS: Final[Mapping[str, Mapping[str, int]]] = {
    "zookeeper": {"quorum": 2880, "election": 3880},
    "etcd": {"peer": 2380},
}
"""Backend -> what peers talk about -> the port less the number of the node that listens there."""

REPLICATION_PORT: Final = 6380
DIALS: Final = ((REPLICA, PRIMARY, "replication", REPLICATION_PORT), (BOUNCER, "postgres", "server", 5433))
"""Who dials whom, what for, and at which port of Toxiproxy's, on the bridge `data`."""

TOXIPROXY_HOST: Final = 2
"""Last byte of Toxiproxy's address on the bridge of the clients."""

DATA_HOST: Final = 18
"""The same on the bridge `data`."""

HOSTS: Final[Mapping[str, int]] = {
    **{f"redis{i}": 18 + i for i in range(1, 6)},
    "postgres": 24,
    **{f"etcd{i}": 27 + 8 * i for i in range(1, 4)},
    **{f"zk{i}": 51 + 8 * i for i in range(1, 4)},
    STORE: 83,
    BOUNCER: 26,
    REPLICA: 25,
}
"""Node -> last byte of its own address."""

NODES: Final = tuple(HOSTS)

_named: Final[dict[str, tuple[str, ...]]] = {}
"""Backend -> the members of a target that stands for ours in this process (infra/external.py)."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """One proxy: connections dialled by `source` to `target`. `listen` and `upstream` are `host:port`."""

    name: str
    source: str
    target: str
    listen: str
    upstream: str


def name_members(backend: str, names: tuple[str, ...]) -> None:
    """In this process a cluster of somebody else's, with these members, stands for ours; () undoes that."""
    _named[backend] = names


def members(backend: str) -> tuple[str, ...]:
    """The members of the cluster under test: ours, or a target's. What faults choose from."""
    return _named.get(backend) or MEMBERS[backend]


def nodes_of(backend: str) -> tuple[str, ...]:
    """Its members and its auxiliaries."""
    return _named.get(backend) or MEMBERS[backend] + AUXILIARIES[backend]


def image_variable(name: str) -> str:
    """The variable of docker-compose.yml that names the image of a backend's nodes, or of Toxiproxy."""
    return f"{name.upper().replace('-', '_')}_IMAGE"


def own_image_variable(node: str) -> str:
    """The one that names the image of this node alone. One that is called as its backend is has a number in it."""
    return image_variable(f"{node}1" if node in BACKENDS else node)


def backend_of(node: str) -> str:
    """The backend that a node belongs to; KeyError for the store and for unknown names."""
    for backend in BACKENDS:
        if node in (*members(backend), *MEMBERS[backend], *AUXILIARIES[backend]):
            return backend
    raise KeyError(node)


def client(group: int) -> str:
    """Name of a client group as an end of a link."""
    return f"c{group}"


def client_port(node: str) -> int:
    """The port on which a node itself serves clients."""
    if node == BOUNCER:
        return BOUNCER_PORT
    return CLIENT_PORT["postgres" if node == STORE else backend_of(node)]


def peer_url(node: str) -> str:
    """By which the other members of etcd know this one."""
    return f"http://{node}:{PEER_PORTS['etcd']['peer'] + MEMBERS['etcd'].index(node) + 1}"


def listener(node: str, group: int) -> int:
    """The port on which Toxiproxy takes connections of a client group to a node."""
    return 20000 + 100 * group + NODES.index(node) + 1


def groups_of(node: str) -> tuple[int, ...]:
    """The client groups that have a way of their own to a node."""
    return () if node == REPLICA else GROUPS


def proxies() -> Iterator[Proxy]:
    """Every proxy of the star."""
    for group in (GOD, *GROUPS):
        for node in NODES:
            if group != GOD and group not in groups_of(node):
                continue
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
    for source, target, kind, port in DIALS:
        yield Proxy(
            name=f"{source}-{target}-{kind}",
            source=source,
            target=target,
            listen=f"via-data:{port}",
            upstream=f"{target}-node:{client_port(target)}",
        )
