"""Failover on real clusters: acknowledged data are lost, others lead, sessions end. The way back loses nothing."""

from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from redis import Redis

from checkers.tests.build import there
from infra.backends.postgres import BOUNCER
from infra.backends.redis import PRIMARY, REPLICA
from infra.cluster.virtual_address import Failover
from infra.errors import Failed
from infra.faults.fault_options import ALL_GROUPS
from infra.faults.plan import Plan, Step
from infra.faults.runner import Runner
from infra.faults.servers import failover
from infra.faults.target import Target
from infra.network.links import Cut
from infra.own_environment import OwnEnvironment
from infra.tests.environments import await_unclean, on
from infra.tests.live import hurting
from infra.tests.live.hurting import PATIENCE, Session, asked, await_, done, live, redis_at, reign, version
from infra.waiting import Clock

LONG = 600_000  # ms; a lease that ends in no test
client = redis_at  # a client of whichever server is there; it never asks twice


def pair_of(target: Target) -> Failover:
    return there(target.environment.failover())


def past(target: Target, node: str) -> Redis:
    return redis_at(target.environment.node(node).endpoint)


@on("redis")
def test_a_replica_follows_and_its_link_can_be_cut(target: Target) -> None:
    primary, replica = client(target.endpoints["c1", PRIMARY]), past(target, REPLICA)
    primary.set("told", "before")
    await_(lambda: replica.get("told") == "before")
    for how in Cut:
        target.links.cut(REPLICA, PRIMARY, how)
        primary.set("told", how.value)
        assert pair_of(target).lag() > 0
        assert replica.get("told") != how.value
        assert f"{REPLICA} <-> {PRIMARY}" in target.links.active()[0]
        target.links.heal_all()
        await_(lambda how=how: replica.get("told") == how.value)  # type: ignore[misc]
        await_(pair_of(target).follows)


@on("redis")
class TestPromoteReplica:
    def test_an_acknowledged_lock_is_lost_and_tokens_go_back(self, target: Target) -> None:
        first, second = target.endpoints["c1", PRIMARY], target.endpoints["c2", PRIMARY]
        holder = client(first)
        holder.delete("lock", "tokens")
        assert [holder.incr("tokens") for _ in range(3)] == [1, 2, 3]
        await_(lambda: past(target, REPLICA).get("tokens") == "3")
        granted: list[int] = []

        class Meanwhile(Clock):
            """Takes the lock while the replica is left behind."""

            def sleep(self, seconds: float) -> None:
                assert holder.set("lock", "A", nx=True, px=LONG)
                granted.append(int(holder.incr("tokens")))
                super().sleep(seconds)

        busy = replace(target, clock=Meanwhile())
        with live(first) as connection, done(busy, "promote-replica", behind_ms=50) as hit:
            assert hit.target.startswith(f"{REPLICA}, ")
            assert granted == [4]
            assert connection.recv(1) == b""  # connections that were open are closed
            for group in ALL_GROUPS:
                assert client(target.endpoints[group, PRIMARY]).get("lock") is None
            assert past(target, PRIMARY).get("lock") == "A"  # the old primary knows it, asked past the links
            assert client(second).set("lock", "B", nx=True, px=LONG)  # and both hold it
            assert client(second).incr("tokens") == 4  # a token that A has, too
            await_unclean(target.environment, f"clients of {PRIMARY} are led to {REPLICA}", f"{REPLICA} was promoted")
        await_(pair_of(target).follows)
        for group in ALL_GROUPS:
            assert client(target.endpoints[group, PRIMARY]).mget("lock", "tokens") == ["B", "4"]
        assert past(target, PRIMARY).mget("lock", "tokens") == ["B", "4"]
        assert 0 < past(target, PRIMARY).pttl("lock") < LONG
        client(first).set("lock", "C")
        await_(lambda: past(target, REPLICA).get("lock") == "C")

    def test_another_process_fails_back_without_a_loss(self, target: Target) -> None:
        way = target.endpoints["c3", PRIMARY]
        pair_of(target).promote("somebody")
        client(way).set("since", "then")
        other = OwnEnvironment.attach(target.environment.name)
        await_(lambda: f"{REPLICA} was promoted" in other.unclean())
        other.heal()
        await_unclean(other)
        assert past(target, PRIMARY).get("since") == client(way).get("since") == "then"

    @pytest.mark.parametrize(("other", "first"), [("kill-server", True), ("pause-server", False)])
    def test_a_failover_overlaps_with_other_faults(self, target: Target, other: str, first: bool) -> None:
        names = ["promote-replica", other] if first else [other, "promote-replica"]
        options: dict[str, dict[str, Any]] = {"promote-replica": {"behind_ms": 20}, other: {"nodes": ["redis1"]}}
        for long in names:  # the fault that ends last
            steps = [
                Step(name, 0.0, 0.5 if name == long else 0.1, options[name], beside=number > 0)
                for number, name in enumerate(names)
            ]
            runner = Runner(Plan("both", "redis", 5, tuple(steps)), target)
            runner.cycle()
            assert {record.name for record in runner.records} == set(names if first else [other])
            await_unclean(target.environment)

    def test_no_replica_that_does_not_follow_is_promoted(self, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(failover, "PROVEN_WITHIN", 1.0)  # the test waits for all of it
        target.links.cut(REPLICA, PRIMARY, Cut.REFUSE, "another")
        await_(lambda: not pair_of(target).follows())
        with pytest.raises(Failed, match="does not follow"):
            Step("promote-replica", 0.0, 0.0, {"behind_ms": 10}).injection("redis").apply(target)
        target.links.lift("another")
        await_(pair_of(target).follows)


@on("etcd", "zookeeper")
def test_a_change_of_leader_has_another_lead(target: Target) -> None:
    before = reign(target)
    with done(target, "change-leader", to=1) as hit:
        assert hit.healed
        after = reign(target)
        assert after.term > before.term
        if after.term == before.term + 1:  # the fault caused the only election
            old = before.leader
            assert old.name in hit.target
            assert after.leader is not old
            if target.backend == "etcd":
                assert after.leader is [node for node in target.cluster.nodes if node is not old][1]
        await_(before.leader.ready)
    await_(target.cluster.ready)


@on("postgres")
def test_terminate_backends_hits_nothing_without_sessions(target: Target) -> None:
    await_(lambda: terminated(target) == 0)  # the server may not have ended the session of our last question yet


@on("postgres")
class TestBouncer:
    """PgBouncer in transaction mode, as clients see it."""

    def test_a_session_lock_is_everybodys_and_outlives_its_client(self, target: Target) -> None:
        with closing(pooled(target, "c1")) as one, closing(pooled(target, "c2")) as other:
            assert asked(one, "SELECT pg_try_advisory_lock(2)") is True
            assert asked(other, "SELECT pg_try_advisory_lock(2)") is True  # both hold it: they share one session
            one.execute("BEGIN")
            assert asked(other, "SELECT pg_try_advisory_lock(2)") is False  # `other` has another session now
            one.execute("COMMIT")
        with closing(session_of(target, "c3")) as late:
            assert asked(late, "SELECT pg_try_advisory_lock(2)") is False  # nobody holds it, and it is not free
            assert asked(late, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 1
        await_(lambda: terminated(target) > 0)

    def test_the_links_and_the_process_of_pgbouncer_can_be_hurt(self, target: Target) -> None:
        environment = target.environment
        bouncer = environment.node(BOUNCER)
        assert version(bouncer).startswith("1.")
        bouncer.kill()
        await_(lambda: f"{BOUNCER} is stopped" in environment.unclean())
        with pytest.raises(psycopg.OperationalError):
            pooled(target, "c1").close()
        bouncer.heal()
        await_(bouncer.ready)
        for a, b in (("c1", BOUNCER), (BOUNCER, "postgres")):
            environment.links.cut(a, b, Cut.REFUSE)
            assert environment.links.active() == [f"{a} <-> {b}: refused"]
            with pytest.raises(psycopg.OperationalError):
                asked(pooled(target, "c1", patience=5.0), "SELECT 1")
            environment.links.heal_all()
        with closing(pooled(target, "c1")) as whole:
            assert asked(whole, "SELECT 1") == 1

    def test_pgbouncer_does_not_log_the_password(self, target: Target) -> None:
        assert target.environment.password.encode() not in target.environment.logs(BOUNCER)


def terminated(target: Target) -> int:
    """The number of hits of `terminate-backends`; -1 if the server did not answer in time."""
    with suppress(Failed):
        return len(Step("terminate-backends", 0.0, 0.0, {}).injection("postgres").apply(target))
    return -1


def session_of(target: Target, group: str, node: str = "postgres", patience: float = PATIENCE) -> Session:
    at = target.environment.endpoints_of(node, int(group[1:]))
    return hurting.session(target.environment, at, patience=patience)


def pooled(target: Target, group: str, patience: float = PATIENCE) -> Session:
    return session_of(target, group, BOUNCER, patience)
