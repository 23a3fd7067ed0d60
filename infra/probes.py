"""What a node says of itself when it is asked directly: does it serve, which version is it, whom does it follow.

One question per backend that every version answers, by the plainest means (no client library, no retries): Redis
INFO, ZooKeeper's `srvr`, etcd's status over its JSON gateway, a PostgreSQL login. A node that is not up, or paused,
or not serving gives None.
"""

import http.client
import json
import re
import select
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Final

import psycopg
from psycopg.rows import TupleRow

from infra import star
from infra.access import OPEN, Access

PATIENCE: Final = 1.0
"""Seconds for an answer; a node that serves answers within milliseconds."""

_ASK_REDIS: Final = b"PING\r\nINFO server\r\nINFO replication\r\nINFO persistence\r\nQUIT\r\n"


@dataclass(frozen=True, slots=True)
class Health:
    """A node that serves clients.

    version  as the node tells it ("3.5.16"); another server for a backend with its name ("valkey 8.1.1").
    term     etcd: the raft term. ZooKeeper: the epoch, which the latest transaction shows. Else 0.
    me       its identity among its peers, "" where it has none. Redis: "master" or "slave".
    leader   the identity of whom it follows, maybe its own; "follower" or "leader" for ZooKeeper, which tells its role
             and not whom it follows; for Redis the id of the history of writes that it makes or follows, "" while it is
             cut off from its primary, and until a copy that it took is kept on its disk. "" where there are no roles.
    ahead    seconds by which its clock is ahead of this machine's wall clock, where backends tell the time: Redis and
             PostgreSQL. Else None.
    unsure   seconds that `ahead` may be wrong either way: half of what the answer took.
    """

    version: str
    term: int = 0
    me: str = ""
    leader: str = ""
    ahead: float | None = field(default=None, compare=False)
    unsure: float = field(default=0.0, compare=False)


Probe = Callable[[str, int], Health | None]
"""(host, port) -> what the node says."""


def redis(host: str, port: int, access: Access = OPEN) -> Health | None:
    """Redis; loading its file counts as not serving."""
    asked = time.time()
    question = redis_login(access) + _ASK_REDIS
    told = _converse(host, port, question, access).decode(errors="replace")
    told = told.removeprefix("+OK\r\n" if access.password else "")
    answered = time.time()
    said = dict(line.partition(":")[::2] for line in told.split("\r\n"))
    if not (told.startswith("+PONG") and "redis_version" in said and "role" in said):
        return None
    follows = said["role"] == "master" or said.get("master_link_status") == "up"
    # Killed while it writes the file of a copy anew, it would start with what it had before.
    kept = not any(said.get(f"aof_rewrite_{state}", "0") != "0" for state in ("in_progress", "scheduled"))
    leader = said["master_replid"] if follows and kept else ""
    health = Health(_redis_version(said), me=said["role"], leader=leader)
    now = said.get("server_time_usec")  # since 6.2
    return _with_clock(health, int(now) / 1e6, asked, answered) if now else health


def _redis_version(said: Mapping[str, str]) -> str:
    """`8.0.2`, or `valkey 8.1.1`: another server tells a version of Redis too, whose equal it is."""
    server = said.get("server_name", "redis")
    own = said.get(f"{server}_version")
    return f"{server} {own}" if own and server != "redis" else said["redis_version"]


def redis_login(access: Access) -> bytes:
    """What a connection to Redis begins with."""
    if not access.password:
        return b""
    words = [word.encode() for word in ("AUTH", access.user, access.password) if word]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def zookeeper(host: str, port: int, access: Access = OPEN) -> Health | None:
    """ZooKeeper in a quorum."""
    told = _converse(host, port, b"srvr", access).decode(errors="replace")
    version = re.search(r"Zookeeper version: ([0-9.]+)", told)
    mode = re.search(r"^Mode: (\w+)", told, re.MULTILINE)
    zxid = re.search(r"^Zxid: 0x([0-9a-f]+)", told, re.MULTILINE)
    if not (version and mode and zxid):
        return None
    return Health(version[1].rstrip("."), term=int(zxid[1], 16) >> 32, leader=mode[1])


def etcd(host: str, port: int, access: Access = OPEN) -> Health | None:
    """An etcd member that knows a leader."""
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
    try:
        if access.tls:
            connection.sock = access.connect(f"{host}:{port}", PATIENCE)
        connection.request("POST", "/v3/maintenance/status", body="{}")
        told = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    leader = told.get("leader", "0")
    if leader == "0":
        return None
    return Health(told["version"], term=int(told["raftTerm"]), me=told["header"]["member_id"], leader=leader)


def postgres(password: str, database: str = "fencepost") -> Probe:
    """PostgreSQL: asks by logging in, so it needs the password."""

    def probe(host: str, port: int) -> Health | None:
        try:
            with closing(
                psycopg.connect(
                    host=host, port=port, user="postgres", password=password, dbname=database, connect_timeout=2
                )
            ) as connection:
                version = connection.info.parameter_status("server_version") or ""
                health = Health(version.partition(" ")[0])
                if database == "pgbouncer":
                    return health  # its console knows no SELECT
                asked = time.time()
                now = float(_ask(connection, b"SELECT extract(epoch FROM clock_timestamp())"))
                return _with_clock(health, now, asked, time.time())
        except psycopg.OperationalError:
            return None

    return probe


def pgbouncer(password: str) -> Probe:
    """PgBouncer itself, by its console, whatever becomes of PostgreSQL behind it."""
    console = postgres(password, "pgbouncer")

    def probe(host: str, port: int) -> Health | None:
        health = console(host, port)
        return health and Health(health.version.partition("/")[0])  # it says 1.24.1/bouncer

    return probe


def all_probes(password: str) -> Mapping[str, Probe]:
    """Backend, or auxiliary that is of another kind -> its probe."""
    return {
        "redis": redis,
        "zookeeper": zookeeper,
        "etcd": etcd,
        "postgres": postgres(password),
        star.BOUNCER: pgbouncer(password),
    }


def leader(backend: str, healths: Sequence[Health | None]) -> int | None:
    """Index of the leader among what the nodes say, None when there is none that a majority can have.

    A leader that was cut off goes on calling itself one until it notices, so the later term decides; for etcd, whose
    members say whom they follow, a majority of them as well.
    """
    known = [(index, health) for index, health in enumerate(healths) if health]
    if backend == "zookeeper":
        leads = [(health.term, index) for index, health in known if health.leader in ("leader", "standalone")]
        return max(leads)[1] if leads else None
    if backend == "etcd":
        for index, health in known:
            followers = [other for _, other in known if (other.leader, other.term) == (health.me, health.term)]
            if 2 * len(followers) > len(healths):
                return index
    return None


def whole(backend: str, healths: Sequence[Health | None], auxiliaries: Sequence[Health | None] = ()) -> bool:
    """Whether every node serves and, where there are roles, all follow one leader; Redis' replica follows the first."""
    if not (all(healths) and all(auxiliaries)):
        return False
    if backend == "redis" and auxiliaries:
        return follows(auxiliaries[0], healths[0])
    if backend == "zookeeper":
        roles = sorted(health.leader for health in healths if health)
        return roles in (["standalone"], ["follower"] * (len(healths) - 1) + ["leader"])
    return len({(health.leader, health.term) for health in healths if health}) == 1 if backend == "etcd" else True


def follows(replica: Health | None, primary: Health | None) -> bool:
    """Whether a Redis is connected to another and has the history of its writes, on its disk as well."""
    if not (replica and primary):
        return False
    return (primary.me, replica.me) == ("master", "slave") and replica.leader == primary.leader != ""


def _with_clock(health: Health, now: float, asked: float, answered: float) -> Health:
    """now: what its clock told, some time between the question and the answer (both of ours); all in s since 1970."""
    return replace(health, ahead=now - (asked + answered) / 2, unsure=(answered - asked) / 2)


def _ask(connection: psycopg.Connection[TupleRow], question: bytes) -> bytes:
    """One value. Unlike psycopg's own `execute` it does not wait for ever when the server is frozen meanwhile."""
    pgconn = connection.pgconn
    pgconn.send_query(question)
    while pgconn.is_busy():
        if not select.select([pgconn.socket], [], [], PATIENCE)[0]:
            raise psycopg.OperationalError("no answer")
        pgconn.consume_input()
    result = pgconn.get_result()
    value = result.get_value(0, 0) if result else None
    if value is None:
        raise psycopg.OperationalError(pgconn.get_error_message())
    return value


def _converse(host: str, port: int, question: bytes, access: Access) -> bytes:
    """Send a question and read until the other side closes; what came, be it nothing."""
    told = b""
    try:
        with access.connect(f"{host}:{port}", PATIENCE) as connection:
            connection.sendall(question)
            while chunk := connection.recv(65536):
                told += chunk
    except OSError:
        pass
    return told
