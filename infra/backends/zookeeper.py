"""ZooKeeper: servers in a quorum, with sessions and ephemeral nodes, asked by `srvr`."""

import contextlib
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

from infra.backends.answers import WRITES, Health, Held, ServerRefused, Write
from infra.backends.backend import Backend, Package, Server, Shape, Trait
from infra.backends.conversation import converse, digest, exactly, unexpected
from infra.backends.messages import ZooKeeperMessages

CAUGHT_UP_WITHIN: Final = 5.0  # seconds for a session with one member

_NAME: Final = "fencepost-disk"
_ROOT: Final = "/fencepost"


class ZooKeeper(Backend):
    name = "zookeeper"
    prefix = "zk"
    hosts = (*range(59, 83, 8), 107, 115)
    shapes: ClassVar[Mapping[str, Shape]] = {"three": Shape(3), "five": Shape(5), "observer": Shape(3, observers=1)}
    port = 2181
    messages = ZooKeeperMessages
    peer_ports: ClassVar[Mapping[str, int]] = {"quorum": 2880, "election": 3880}
    packages = (
        Package(
            "zookeeper", "libzookeeper-java", {"trixie": "3.9", "bookworm": "3.8"},
            elsewhere={"maven": "org.apache.zookeeper:zookeeper"}, since="3.5.5",
        ),
    )  # fmt: skip
    plants: ClassVar[Mapping[str, str]] = {"leaked-node": "an ephemeral node stays when its session is over"}
    traits = frozenset({Trait.LEADER, Trait.PEERS, Trait.PARTS, Trait.SPLITS})
    lacks: ClassVar[Mapping[Trait, str]] = {
        Trait.MAINTAINED: "its members write and purge their snapshots by themselves",
        Trait.REFUSES_WRITES: "nothing tells its members to refuse writes and to answer all else",
        Trait.REPLICA: "its members agree on a write before it is acknowledged: none is behind",
        Trait.SESSION_PROCESSES: "only PostgreSQL has a process for each session",
        Trait.WAITING_LEASES: "its client library keeps the session of one that waits alive by itself",
        Trait.WALL_CLOCK: "sessions expire by Java's nanoTime, a monotonic clock, which does not jump",
    }
    pace = 0.052
    call = 4.0
    election = 2.5  # five ticks (zookeeper.sh)
    fatal = rb".*ERROR (.*)"
    question = b"srvr"
    # The leader acknowledges a write once a majority of the voters has kept it, whatever its own disk does.
    disks = ("leader", "follower")

    def probe(self, server: Server) -> Health | None:
        """None also when the member is in no quorum."""
        reply = converse(server, self.question)
        version = re.search(r"Zookeeper version: ([0-9.]+)", reply)
        mode = re.search(r"^Mode: (\w+)", reply, re.MULTILINE)
        zxid = re.search(r"^Zxid: 0x([0-9a-f]+)", reply, re.MULTILINE)
        if not (version and mode and zxid):
            return None
        return Health(version[1].rstrip("."), term=int(zxid[1], 16) >> 32, leader=mode[1])

    def leader(self, healths: Sequence[Health | None]) -> int | None:
        known = [(index, health) for index, health in enumerate(healths) if health]
        leads = [(health.term, index) for index, health in known if health.leader in ("leader", "standalone")]
        return max(leads)[1] if leads else None

    def whole(self, healths: Sequence[Health | None], auxiliaries: Sequence[Health | None] = ()) -> bool:
        roles = sorted(health.leader for health in healths if health and health.leader != "observer")
        one_leads = roles in (["standalone"], ["follower"] * (len(roles) - 1) + ["leader"])
        return super().whole(healths, auxiliaries) and one_leads

    def long_question(self, size: int) -> bytes:
        """A request to resume a session that does not exist."""
        request = struct.pack(">iqiqi", 0, 0, 2000, 1, size) + b"x" * size + b"\0"
        return struct.pack(">i", len(request)) + request

    def keep(self, server: Server, size: int, patience: float) -> None:
        """Opens a session and creates an ephemeral node in it."""
        with server.access.connect(server.endpoint, patience) as connection:
            session = _Session(connection)
            session.create(f"/{_NAME}-{time.time_ns()}", b"x" * size, _EPHEMERAL)
            session.ask(_END)

    @contextlib.contextmanager
    def writing(self, server: Server, patience: float) -> Iterator[Write]:
        """Writes persistent nodes below the root."""
        with server.access.connect(server.endpoint, patience) as connection:
            session = _Session(connection)

            def write(verb: str, name: str) -> bool:
                path = f"/{WRITES}{name}"
                with contextlib.suppress(_NoNode):
                    if verb == "create":
                        session.create(path, b"x")
                    else:
                        session.ask(_DELETE, _string(path.encode()) + struct.pack(">i", -1))
                    return True
                return False

            yield write

    def written(self, server: Server) -> frozenset[str]:
        with server.access.connect(server.endpoint, CAUGHT_UP_WITHIN) as connection:
            session = _Session(connection)
            session.ask(_SYNC, _string(b"/"))
            return frozenset(name.removeprefix(WRITES) for name in session.children("/") if name.startswith(WRITES))

    def held(self, server: Server, wanted: Callable[[str], bool], since: int = 0) -> Held:
        """The nodes below /fencepost, read by a client of this member alone. A node changes when its children do.

        All nodes of one depth are asked for at once: one after another, hundreds of nodes take seconds.
        """
        del since  # a session here that has synced has that change
        from kazoo.client import KazooClient
        from kazoo.exceptions import KazooException, NoNodeError
        from kazoo.handlers.threading import KazooTimeoutError

        entries, paths = [], [_ROOT]
        client = KazooClient(server.endpoint, randomize_hosts=False)
        try:
            client.start(CAUGHT_UP_WITHIN)
            client.sync(_ROOT)
            first = client.last_zxid
            while paths:
                asked = [(path, client.get_async(path), client.get_children_async(path)) for path in paths]
                paths = []
                for path, contents, children in asked:
                    with contextlib.suppress(NoNodeError):
                        value, stat = contents.get()
                        paths += [below for child in children.get() if wanted(below := f"{path}/{child}")]
                        if path != _ROOT:
                            changed, what = max(stat.mzxid, stat.pzxid), digest((value, stat.version, stat.cversion))
                            entries.append((path, stat.czxid, changed, stat.ephemeralOwner, what))
            return Held(first, client.last_zxid, entries)
        except (KazooException, KazooTimeoutError) as error:
            raise ServerRefused(f"{type(error).__name__}: {error}") from error
        finally:
            client.stop()
            client.close()

    def refusal(self, server: Server) -> str:
        reply = converse(server, self.question, explain=True)
        if "not in the whitelist" in reply:
            return "it does not answer `srvr`: 4lw.commands.whitelist must name it"
        return unexpected(reply, server.access)


_CREATE, _DELETE, _CHILDREN, _SYNC, _END = 1, 2, 8, 9, -11
"""Kinds of requests."""
_EPHEMERAL: Final = 1
_ANYBODY: Final = struct.pack(">iii5si6s", 1, 31, 5, b"world", 6, b"anyone")


class _NoNode(ServerRefused):
    """What was asked for is not there: error -101."""


class _Session:
    """A session in the plain protocol: every message follows its length; numbers have their highest byte first."""

    def __init__(self, connection: socket.socket) -> None:
        """Raises OSError or ServerRefused, as all methods do."""
        self._connection = connection
        self._number = 0
        reply = self._converse(struct.pack(">iqiqi16s", 0, 0, 1000, 0, 16, b""))
        if not struct.unpack(">q", reply[8:16])[0]:
            raise ServerRefused("no session")

    def ask(self, kind: int, what: bytes = b"") -> bytes:
        """The body of the answer."""
        self._number += 1
        reply = self._converse(struct.pack(">ii", self._number, kind) + what)
        if (code := struct.unpack(">i", reply[12:16])[0]) != 0:
            raise (_NoNode if code == -101 else ServerRefused)(f"error {code}")
        return reply[16:]

    def create(self, path: str, value: bytes, flags: int = 0) -> None:
        self.ask(_CREATE, _string(path.encode()) + _string(value) + _ANYBODY + struct.pack(">i", flags))

    def children(self, path: str) -> list[str]:
        """The names of the nodes below a node."""
        reply = self.ask(_CHILDREN, _string(path.encode()) + b"\0")
        names, at = [], 4
        for _ in range(*struct.unpack(">i", reply[:4])):
            (size,) = struct.unpack(">i", reply[at : at + 4])
            names.append(reply[at + 4 : at + 4 + size].decode(errors="replace"))
            at += 4 + size
        return names

    def _converse(self, message: bytes) -> bytes:
        self._connection.sendall(struct.pack(">i", len(message)) + message)
        return exactly(self._connection, *struct.unpack(">i", exactly(self._connection, 4)))


def _string(text: bytes) -> bytes:
    return struct.pack(">i", len(text)) + text
