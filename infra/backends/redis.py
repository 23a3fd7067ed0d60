"""Redis, or Valkey in its place: five independent servers for Redlock. The first has a replica and single-node locks.

The servers agree on nothing: replication is asynchronous, and leases end by each server's wall clock.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from infra.access import Access, variable
from infra.backends.answers import Health, Held, ServerRefused
from infra.backends.backend import Auxiliary, Backend, Package, Replication, Server, Trait
from infra.backends.conversation import converse, digest, unexpected, with_clock
from infra.errors import Failed
from infra.waiting import comes_true

if TYPE_CHECKING:
    from redis import Redis as Client

PRIMARY: Final = "redis1"
REPLICA: Final = "redis1-replica"
"""Follows the primary. Clients have no link to it; after a failover their link to the primary leads to it."""
PATIENCE: Final = 3.0
"""Seconds for an answer about replication (measured: 1 ms)."""
MAINTAINED_WITHIN: Final = 20.0
"""Seconds for a file to be written (measured: milliseconds)."""
MORE_REPLICAS: Final = 100
"""More replicas than there are. A server that is told to require so many takes no writes."""
_WANTS_REPLICAS: Final = "min_slaves_good_slaves"
"""The field of `INFO` that is there only if the server takes no writes without replicas."""
_MARK: Final = "fencepost:failover"
"""Key whose write the primary acknowledges and the replica lacks."""

_KEY: Final = b"fencepost-disk"
_LOOK_EVERY: Final = 0.01
_READ: Final[Mapping[str, Callable[[str], tuple[str, ...]]]] = {
    "string": lambda name: ("GET", name),
    "hash": lambda name: ("HGETALL", name),
    "list": lambda name: ("LRANGE", name, "0", "-1"),
    "set": lambda name: ("SMEMBERS", name),
    "zset": lambda name: ("ZRANGE", name, "0", "-1", "WITHSCORES"),
}
"""Type of a key → the command that reads all of it."""
_ASK: Final = b"PING\r\nINFO server\r\nINFO replication\r\nINFO persistence\r\nQUIT\r\n"


class RedisReplication(Replication):
    def promoted(self, health: Health) -> bool:
        return health.me == "master"

    def follows(self, replica: Health | None, primary: Health | None) -> bool:
        if not (replica and primary):
            return False
        return (primary.me, replica.me) == ("master", "slave") and replica.leader == primary.leader != ""

    def leads(self, server: Server) -> bool:
        return str(_ask(server, "INFO", "replication")["role"]) == "master"

    def offset(self, server: Server) -> int:
        return int(_ask(server, "INFO", "replication")["master_repl_offset"])

    def lead(self, server: Server) -> None:
        _ask(server, "REPLICAOF", "NO", "ONE")
        if not self.leads(server):
            raise Failed(f"{server.name} was promoted, but does not say so")

    def follow(self, server: Server, primary: str) -> None:
        _ask(server, "REPLICAOF", *primary.split(":"))

    def remember(self, server: Server) -> None:
        _ask(server, "CONFIG", "REWRITE")

    def mark(self, server: Server, text: str) -> None:
        _ask(server, "SET", _MARK, text)

    def marked(self, server: Server) -> str | None:
        mark: str | None = _ask(server, "GET", _MARK)
        return mark

    def look(self, endpoint: str, patience: float) -> tuple[bool, str | None] | None:
        from redis import RedisError

        try:
            with connect(endpoint, patience) as client:
                info: dict[str, Any] = client.execute_command("INFO", "replication")
                return info["role"] == "master", client.execute_command("GET", _MARK)
        except RedisError:
            return None


class Redis(Backend):
    name = "redis"
    prefix = "redis"
    hosts = range(19, 24)
    port = 6379
    auxiliaries = (Auxiliary(REPLICA, 25, 6379, (PRIMARY, "replication", 6380), reached=False),)
    packages = (
        Package("redis", "redis-server", {"trixie": "8.0", "bookworm": "7.0"}, needs=("clock",)),
        Package("valkey", "valkey-server", {"trixie": "8.1"}, needs=("clock",)),
    )
    plants: ClassVar[Mapping[str, str]] = {
        "expired-grant": "every fifth SET with a TTL is answered OK, and its lease is over at once",
        "lost-token": "every fifth INCR does not count, and is answered with the number before",
        "late-expiry": "what should live for a TTL lives for three",
        "early-expiry": "what should live for a TTL lives for a third of it",
        "granted-twice": "every fiftieth SET with NX sets the key though it is there",
        "lost-renewal": "PEXPIRE and EXPIRE are answered as ever, and no TTL changes",
        "lost-release": "every fifth DEL of a key is answered as ever, and takes its TTL away instead of the key",
        "lost-data": "whatever it acknowledged is gone when it starts again",
        "slow": "every request waits for 10 ms before the server sees it",
    }
    traits = frozenset(
        {
            Trait.PARTS, Trait.SPLITS, Trait.REPLICA, Trait.FIRST_NODE, Trait.WALL_CLOCK, Trait.ENDS_WHEN_FULL,
            Trait.REFUSES_WRITES, Trait.MAINTAINED,
        }
    )  # fmt: skip
    lacks: ClassVar[Mapping[Trait, str]] = {
        Trait.LEADER: "five independent servers have no leader",
        Trait.PEERS: "five independent servers have no peers",
        Trait.SESSION_PROCESSES: "only PostgreSQL has a process for each session",
        Trait.WAITING_LEASES: "who waits has no lease yet",
    }
    pace = 0.056
    call = 1.5
    password_alone = True
    fatal = rb".* # (.*)"
    question = b"PING\r\n"
    replication = RedisReplication()

    def probe(self, server: Server) -> Health | None:
        """None also while the server loads its file."""
        sent = time.time()
        reply = converse(server, _login(server.access) + _ASK)
        reply = reply.removeprefix("+OK\r\n" if server.access.password else "")
        answered = time.time()
        info = dict(line.partition(":")[::2] for line in reply.split("\r\n"))
        if not (reply.startswith("+PONG") and "redis_version" in info and "role" in info):
            return None
        follows = info["role"] == "master" or info.get("master_link_status") == "up"
        # A server killed while it rewrites its file after a copy would start with its former data.
        kept = not any(info.get(f"aof_rewrite_{state}", "0") != "0" for state in ("in_progress", "scheduled"))
        leader = info["master_replid"] if follows and kept else ""
        health = Health(_version(info), me=info["role"], leader=leader, refuses=_WANTS_REPLICAS in info)
        now = info.get("server_time_usec")  # since 6.2
        return with_clock(health, int(now) / 1e6, sent, answered) if now else health

    def whole(self, healths: Sequence[Health | None], auxiliaries: Sequence[Health | None] = ()) -> bool:
        """See `Backend`. In addition, the replica must follow the first member."""
        return super().whole(healths, auxiliaries) and all(
            self.replication.follows(replica, healths[0]) for replica in auxiliaries
        )

    def long_question(self, size: int) -> bytes:
        return b"EXISTS " + b"x" * size + b"\r\n"

    def keep(self, server: Server, size: int, patience: float) -> None:
        """Sets a key that expires at once."""
        with server.access.connect(server.endpoint, patience) as connection:
            connection.sendall(_command(b"SET", _KEY, b"x" * size, b"PX", b"1"))
            if (reply := connection.recv(200)) != b"+OK\r\n":
                raise ServerRefused(reply.decode(errors="replace").strip() or "it closed the connection")

    @property
    def copies(self) -> tuple[str, ...]:
        return (PRIMARY, REPLICA)

    def held(self, server: Server, wanted: Callable[[str], bool], since: int = 0) -> Held:
        """Reads keys one after another, and changes have no numbers. So the answer is exact only if nobody writes."""
        from redis import RedisError

        deadline = time.monotonic() + PATIENCE
        try:
            with connect(server.endpoint) as client:
                while (offset := client.execute_command("INFO", "replication")["master_repl_offset"]) < since:
                    if time.monotonic() > deadline:
                        raise ServerRefused(f"it has {offset} bytes of the writes, {since} were acknowledged")
                    time.sleep(_LOOK_EVERY)
                names = [name for name in client.execute_command("KEYS", "*") if wanted(name)]
                kinds = [(name, client.execute_command("TYPE", name)) for name in names]
                values = [(name, client.execute_command(*_READ[kind](name))) for name, kind in kinds if kind in _READ]
        except RedisError as error:
            raise ServerRefused(str(error)) from error
        # A key may expire before it is read: then the answer is None or an empty collection, which is no value.
        there = [(name, value) for name, value in values if value or value == ""]
        return Held(0, offset, [(name, 0, 0, 0, digest(_in_order(value))) for name, value in there])

    def refuse_writes(self, server: Server, *, refuse: bool) -> None:
        _ask(server, "CONFIG", "SET", "min-replicas-to-write", MORE_REPLICAS if refuse else 0)

    def maintain(self, server: Server) -> str:
        """Rewrites the append-only file and saves a snapshot, each in a process of its own."""
        before = int(_ask(server, "INFO", "stats")["total_forks"])
        for command, busy in (("BGREWRITEAOF", "aof_rewrite_in_progress"), ("BGSAVE", "rdb_bgsave_in_progress")):
            _ask(server, command)
            if not comes_true(partial(_has_none, server, busy), MAINTAINED_WITHIN):
                raise Failed(f"{server.name}: {command} does not end")
        if (made := int(_ask(server, "INFO", "stats")["total_forks"]) - before) < 2:
            raise Failed(f"{server.name} was told to write its files anew, and made {made} processes for that")
        return "files written anew"

    def refusal(self, server: Server) -> str:
        question = _login(server.access) + b"PING\r\nINFO server\r\nQUIT\r\n"
        reply = converse(server, question, explain=True)
        error = next((line[1:] for line in reply.splitlines() if line.startswith("-")), "")
        if error.startswith("NOAUTH"):
            return f"it wants a password: {variable(self.name, 'password')}"
        return error or unexpected(reply, server.access)

    def unusable(self, health: Health) -> str:
        return "it is a replica, and clients write to primaries" if health.me == "slave" else ""


def _in_order(value: object) -> object:
    """The value, sorted if its order may differ from server to server."""
    if isinstance(value, dict):
        return sorted(value.items())
    return sorted(value) if isinstance(value, set) else value


def connect(endpoint: str, patience: float = PATIENCE) -> "Client":
    """A client for `host:port` that waits for an answer for so many seconds and never retries; for `with`."""
    from redis import Redis as Client
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    host, _, port = endpoint.rpartition(":")
    once = Retry(NoBackoff(), 0)
    return Client(host, int(port), socket_timeout=patience, retry=once, decode_responses=True)


def _ask(server: Server, *words: object) -> Any:
    from redis import RedisError

    try:
        with connect(server.endpoint) as client:
            return client.execute_command(*words)
    except RedisError as error:
        raise Failed(f"{server.name}: {words[0]}: {error}") from error


def _has_none(server: Server, counted: str) -> bool:
    return not int(_ask(server, "INFO", "persistence")[counted])


def _version(info: Mapping[str, str]) -> str:
    """`8.0.2`, or `valkey 8.1.1`. Such a server also tells a version of Redis, the one that it is equal to."""
    server = info.get("server_name", "redis")
    own = info.get(f"{server}_version")
    return f"{server} {own}" if own and server != "redis" else info["redis_version"]


def _login(access: Access) -> bytes:
    """The command that logs in; empty without a password."""
    if not access.password:
        return b""
    return _command(*(word.encode() for word in ("AUTH", access.user, access.password) if word))


def _command(*words: bytes) -> bytes:
    """A command in Redis' protocol."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
