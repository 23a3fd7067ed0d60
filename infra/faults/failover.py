"""Failover: Redis' replica is promoted while it is behind, the leader passes on its office, sessions are terminated.

Where replication is asynchronous a failover may lose what was acknowledged: two clients hold one lock, and tokens are
given out a second time. Where it goes by consensus nothing may be lost, but whoever was at it must go on elsewhere.
"""

import http.client
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from redis import RedisError

from infra.failover import Failover, connect
from infra.faults import fault
from infra.faults.fault import (
    EFFECT_WITHIN,
    HEALED_WITHIN,
    LOOK_EVERY,
    MASKED_FOR,
    PROVEN_WITHIN,
    Fault,
    Nobody,
    Options,
)
from infra.faults.probe import PATIENCE
from infra.faults.target import Hit, Target
from infra.libpq import DATABASE
from infra.links import Cut
from infra.machine import Failed
from infra.nodes import Node
from infra.star import MEMBERS, PRIMARY, REPLICA

BEHIND: Final = (300, 500)
"""ms for which the replica is not told anything before it is promoted, least and most: shorter than the shortest TTL,
so that what was granted before is still in force, also of a lock that grants nothing meanwhile."""

PROMOTED_FOR: Final = 2.0
"""Seconds; longer than the shortest TTL."""

MARK: Final = "fencepost:failover"
"""Key that the primary acknowledges and the replica lacks."""


@dataclass(frozen=True, slots=True)
class PromoteReplica:
    """Redis: the replica falls behind and takes the primary's place."""

    behind_ms: int

    def describe(self) -> str:
        return f"promote {REPLICA} when it is {self.behind_ms} ms behind {PRIMARY}, and"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by a write that the primary acknowledged and that nobody finds who asks for it by its links."""
        pair = _pair(target)
        if not target.clock.wait(PROVEN_WITHIN if target.alone else 0.0, pair.follows, LOOK_EVERY):
            raise Nobody(f"{REPLICA} does not follow {PRIMARY}")
        begun = target.clock.now()
        target.links.cut(REPLICA, PRIMARY, Cut.DROP, target.by)
        mark = f"{target.by}@{begun}"
        with connect(pair.primary.address) as primary, connect(pair.replica.address) as replica:
            try:
                primary.set(MARK, mark)
                target.clock.wait(self.behind_ms / 1000)
                told = replica.get(MARK)
            except RedisError as error:
                raise Failed(f"{REPLICA} could not be left behind: {error}") from error
        lag = pair.lag()
        if told == mark or lag <= 0:
            raise Failed(f"{REPLICA} was cut off from {PRIMARY}, but is not behind")
        begun = target.clock.now()  # what was granted before this, and is lost, was in force until now
        pair.promote(target.by)
        if not target.clock.wait(PROVEN_WITHIN, lambda: _all_lack(target, mark), LOOK_EVERY):
            raise Failed(f"{REPLICA} was promoted, but clients still come to {PRIMARY}")
        return [Hit("failover", f"{REPLICA}, {lag} bytes behind {PRIMARY}", begun, target.clock.now())]

    def heal(self, target: Target) -> None:
        """See `Injury`. While another fault keeps one of the two from answering it is left to `fault.await_whole`."""
        target.links.lift(target.by)
        pair = _pair(target)
        if target.alone or (pair.primary.ready() and pair.replica.ready()):
            pair.let_go(target.by)


@dataclass(frozen=True, slots=True)
class ChangeLeader(fault.OnNodes):
    """etcd: the leader passes on its office, which it goes on without. ZooKeeper's cannot: it is stopped and started.

    to: which of the others shall lead, in order. ZooKeeper chooses by itself.
    """

    to: int

    def describe(self) -> str:
        return "change the leader"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by what the others say of whom they follow."""
        old = fault.leader(target)
        begun = target.clock.now()
        if target.backend == "zookeeper":
            old.stop(target.by)
            remark = fault.await_successor(target, old)
            healing = target.clock.now()
            old.let_go(target.by)
            target.clock.wait(HEALED_WITHIN if target.alone else MASKED_FOR, old.ready, LOOK_EVERY)
            new = fault.leader(target)
            said = f"{old.name} (leader) stopped and started, {new.name} leads{remark}"
            return [Hit("failover", said, begun, healing, healing, target.clock.now())]
        new = [node for node in target.cluster.nodes if node is not old][self.to]
        if not _transfer(old, new) and not target.alone:
            return []
        patience = EFFECT_WITHIN if target.alone else MASKED_FOR
        if not target.clock.wait(patience, lambda: target.cluster.leader() is new, LOOK_EVERY):
            if not target.alone:
                return []
            raise Failed(f"{old.name} was to pass on the lead to {new.name}, which does not lead")
        now = target.clock.now()
        return [Hit("failover", f"from {old.name} to {new.name}", begun, now, now, now)]


@dataclass(frozen=True, slots=True)
class TerminateBackends:
    """PostgreSQL: every session of the database of locks ends, but for the one that does it."""

    def describe(self) -> str:
        return "terminate every session"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by PostgreSQL's list of them. [] when there is no session."""
        (node,) = target.cluster.nodes
        begun = target.clock.now()
        try:
            with _administer(target, node) as connection:
                ended = connection.execute(
                    "WITH theirs AS MATERIALIZED (SELECT pid, backend_start FROM pg_stat_activity"
                    " WHERE datname = current_database() AND backend_type = 'client backend'"
                    " AND pid <> pg_backend_pid()) SELECT * FROM theirs WHERE pg_terminate_backend(pid)"
                ).fetchall()

                def gone() -> bool:
                    left = connection.execute("SELECT pid, backend_start FROM pg_stat_activity").fetchall()
                    return not set(left) & set(ended)

                if not target.clock.wait(PROVEN_WITHIN, gone, LOOK_EVERY):
                    raise Failed("PostgreSQL was told to terminate sessions, but still has them")
        except psycopg.OperationalError as error:
            raise Nobody(f"{node.name} cannot be told to terminate sessions: {error}") from error
        now = target.clock.now()
        pids = ", ".join(str(pid) for pid, _ in sorted(ended)[:5]) + (", ..." if len(ended) > 5 else "")
        said = f"{len(ended)} sessions of {node.name} (pid {pids})"
        return [Hit("failover", said, begun, now, now, now)] if ended else []

    def heal(self, target: Target) -> None:
        """There is nothing to undo."""


def promote_replica() -> Fault:
    """Redis."""

    def make(_: str, options: Options) -> PromoteReplica:
        fault.only(options, "behind_ms")
        behind = options["behind_ms"]
        if type(behind) is not int or not 0 <= behind <= 60_000:
            raise ValueError(f"behind_ms: must be a number of milliseconds from 0 to 60000, not {behind!r}")
        return PromoteReplica(behind)

    consensus = "its members agree on a write before it is acknowledged: none is behind"
    return Fault(
        "promote-replica",
        "failover",
        "redis1's replica takes its place before it was told the latest writes",
        make,
        choose=lambda rng, _: {"behind_ms": rng.randint(*BEHIND)},
        seconds=PROMOTED_FOR,
        unfit={"zookeeper": consensus, "etcd": consensus, "postgres": "a single server has no replica"},
        needs=frozenset({"failover"}),
        how="replication dropped, REPLICAOF NO ONE, proxies of clients led to the replica; back by a full copy",
        sees="connections closed; then a server that lacks the latest acknowledged writes",
    )


def change_leader() -> Fault:
    """etcd and ZooKeeper."""

    def make(backend: str, options: Options) -> ChangeLeader:
        fault.only(options, "to")
        most = len(MEMBERS[backend]) - 2
        if type(options["to"]) is not int or not 0 <= options["to"] <= most:
            raise ValueError(f"to: must be a number from 0 to {most}, not {options['to']!r}")
        return ChangeLeader(options["to"])

    def choose(rng: random.Random, backend: str) -> Options:
        return {"to": rng.randrange(len(MEMBERS[backend]) - 1)}

    return Fault(
        "change-leader",
        "failover",
        "another member becomes the leader",
        make,
        choose=choose,
        unfit={"redis": "five independent servers have no leader", "postgres": "a single server has no leader"},
        needs=frozenset({"failover"}),
        how="etcd: the leader transfers its office; ZooKeeper, which cannot: it is stopped and started",
        sees="etcd: a pause of milliseconds; ZooKeeper: connections closed, an election",
    )


def terminate_backends() -> Fault:
    """PostgreSQL."""
    other = "only PostgreSQL has a process for each session"
    return Fault(
        "terminate-backends",
        "failover",
        "every session of PostgreSQL's is terminated",
        fault.without_options(TerminateBackends()),
        unfit=dict.fromkeys(("redis", "zookeeper", "etcd"), other),
        needs=frozenset({"failover"}),
        how="pg_terminate_backend",
        sees="connections end with an error of class 57; session locks are free",
    )


def _pair(target: Target) -> Failover:
    pair = target.environment.failover()
    if not pair:
        raise Failed("there is no replica of redis1")
    return pair


def _all_lack(target: Target, mark: str) -> bool:
    """Whether clients of every group come to a primary without the mark, unless another fault keeps them away."""
    patience = PROVEN_WITHIN if target.alone else PATIENCE
    told = [_look(target.endpoints[group, PRIMARY], patience) for group in target.groups]
    if target.alone and None in told:
        return False
    return all(one is None or (one[0] == "master" and one[1] != mark) for one in told) and _pair(target).led_away()


def _look(endpoint: str, patience: float) -> tuple[str, str | None] | None:
    """(role, mark) of the Redis behind an endpoint, None when nobody answers."""
    host, _, port = endpoint.rpartition(":")
    try:
        with connect((host, int(port)), patience) as redis:
            told: dict[str, Any] = redis.execute_command("INFO", "replication")
            mark: str | None = redis.execute_command("GET", MARK)
            return told["role"], mark
    except RedisError:
        return None


def _transfer(old: Node, new: Node) -> bool:
    """Ask etcd's leader to make another member the leader; whether it says that it did."""
    health = new.health()
    if not health:
        return False
    connection = http.client.HTTPConnection(*old.address, timeout=EFFECT_WITHIN)
    try:
        body = json.dumps({"targetID": health.me})
        connection.request("POST", "/v3/maintenance/transfer-leadership", body=body)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _administer(target: Target, node: Node) -> psycopg.Connection[tuple[Any, ...]]:
    host, port = node.address
    return psycopg.connect(
        host=host,
        port=port,
        user="postgres",
        password=target.environment.password,
        dbname=DATABASE,
        connect_timeout=2,
        options="-c statement_timeout=3000",
        autocommit=True,
    )
