"""Disks that are slow, stalled or full, seen from outside: what servers acknowledge, and which server leads."""

import pytest

from infra.backends import BACKENDS
from infra.backends.etcd import Etcd
from infra.cluster import disk_sidecars
from infra.cluster.nodes import Node
from infra.docker import client as engine_client
from infra.errors import Failed
from infra.faults import fault
from infra.faults.target import Target
from infra.own_environment import OwnEnvironment
from infra.tests.environments import await_unclean, on
from infra.tests.live import hurting
from infra.tests.live.hurting import PATIENCE, Redis, await_, await_kept, done, keep, kept, leader_hit, reign, until
from infra.waiting import comes_true

MIB = 1 << 20


def await_write(target: Target, node: Node, size: int = 1) -> float:
    """Write until a write is kept; its seconds. etcd refuses some, in an election or when their lease has ended."""

    def ask() -> float | None:
        written = target.kind.write(node, size, PATIENCE)
        return written.seconds if written.outcome == "kept" else None

    return until(ask)


FIRST = {"redis": {"nodes": ["redis1"]}}  # backend -> options: only the first is hit, others are compared with it


@on(*BACKENDS)
def test_disks_have_room_but_not_without_end(environment: OwnEnvironment, target: Target) -> None:
    for node in target.cluster.nodes:
        assert 64 * MIB < environment.disks.room(node.name) < 512 * MIB


@on("redis", "etcd")
def test_a_slow_disk_delays_what_is_acknowledged(environment: OwnEnvironment, target: Target) -> None:
    with done(target, "slow-disk", delay_ms=150, **FIRST.get(target.backend, {})) as hit:
        victim = target.node(hit.target.split()[0])
        slow = sorted(f"{one.split()[0]}'s disk is slow by 150 ms" for one in hit.target.split(", "))
        assert environment.disks.active() == slow
        await_unclean(environment, *slow)
        assert min(await_write(target, victim) for _ in range(3)) >= 0.15
        if target.backend == "redis":
            await_(lambda: await_write(target, target.node("redis2")) < 0.15)
        await_(target.cluster.ready)
    assert environment.disks.active() == []
    await_(lambda: await_write(target, victim) < 0.15)


@on("redis")
def test_the_longer_of_two_delays_of_a_disk_counts(environment: OwnEnvironment, target: Target) -> None:
    node = target.node("redis3")
    environment.disks.slow("redis3", 0.1, by="one")
    environment.disks.slow("redis3", 0.3, by="other")
    environment.disks.slow("redis3", 0.1, by="one")
    assert min(await_write(target, node) for _ in range(3)) >= 0.3
    environment.disks.clear("other")
    environment.disks.slow("redis4", 0.1)
    assert environment.disks.active() == [f"{name}'s disk is slow by 100 ms" for name in ("redis3", "redis4")]
    environment.disks.clear()
    assert environment.disks.active() == ["redis3's disk is slow by 100 ms"]
    await_(lambda: 0.1 <= await_write(target, node) < 0.3)
    environment.disks.clear("one")
    environment.disks.clear("one")
    assert environment.disks.active() == []


@on("redis")
def test_a_killed_server_comes_back_with_a_fast_disk(environment: OwnEnvironment, target: Target) -> None:
    node = target.cluster.nodes[0]
    environment.disks.slow(node.name, disk_sidecars.STALL)
    # From now on a thread of the server hangs in a synchronisation, wherever the write is kept.
    target.kind.write(node, patience=5.0)
    node.kill()
    assert environment.disks.active() == []
    node.let_go()
    target.cluster.await_ready()
    await_write(target, node)
    node.kill()
    with pytest.raises(Failed, match="slow"):
        environment.disks.slow(node.name, 0.1)
    environment.disks.clear()
    node.let_go()
    target.cluster.await_ready()


@on("etcd")
def test_a_leader_whose_disk_stalls_is_deposed(
    environment: OwnEnvironment, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed_over: list[str] = []
    monkeypatch.setattr(Etcd, "hand_over", lambda _, leader, __: handed_over.append(leader.name))
    before = reign(target)
    with done(target, "stall-disk") as hit:
        old = leader_hit(target, hit, before)
        assert hit.target == f"{old.name} (leader)"
        assert old.state() == "running"
        new = fault.leader(target)
        assert new is not old
        await_write(target, new)
    assert environment.disks.active() == []
    assert handed_over == []  # the heal does not hand the lead back
    await_write(target, old)


@on("zookeeper")
def test_zookeepers_leader_never_notices_that_disks_stall(target: Target) -> None:
    """But if a member stands still for 2.5 s, an election begins that does not end on such disks. Then we try again."""
    assert any(_never_notices(target) for _ in range(5))


def _never_notices(target: Target) -> bool:
    before = reign(target)
    with done(target, "stall-disk") as hit:
        old = leader_hit(target, hit, before, elections=0)
        assert hit.target.startswith(f"{old.name} (leader), ")
        third = next(node for node in target.cluster.nodes if node.name not in hit.target)
        outcomes = [target.kind.write(node).outcome for node in (old, third)]
        follower = next(node for node in target.cluster.nodes if node not in (old, third))
        await_(lambda: not follower.ready())  # the follower is dropped when it has kept nothing for 2.5 s
        goes_on = comes_true(lambda: target.cluster.leader() is old and third.ready(), 10.0)
        outcomes.append(target.kind.write(third).outcome)
        assert "kept" not in outcomes
    await_write(target, old)
    return goes_on and outcomes == ["silent"] * 3


@on("redis")
def test_a_write_to_a_stalled_disk_is_acknowledged_at_the_heal(target: Target) -> None:
    endpoint = target.endpoints["c1", "redis1"]
    waiting, other = Redis(endpoint), Redis(endpoint)
    with done(target, "stall-disk", **FIRST.get(target.backend, {})):
        assert waiting.ask("SET fp-stalled late", patience=0.3) is None
        assert other.ask("PING", patience=0.3) is None  # one thread does everything
    assert waiting.listen() == b"+OK\r\n"
    assert other.listen() == b"+PONG\r\n"


@on("postgres")
def test_postgres_still_reads_when_its_disk_stalls(target: Target) -> None:
    keep(target, "before")
    with done(target, "stall-disk"):
        assert kept(target, target.cluster.nodes[0]) == "before"
        assert target.kind.write(target.cluster.nodes[0], patience=0.5).outcome == "silent"


@on(*BACKENDS)
def test_a_full_disk_refuses_a_write_and_all_is_kept(environment: OwnEnvironment, target: Target) -> None:
    keep(target, "before")
    with done(target, "fill-disk", **FIRST.get(target.backend, {})) as hit:
        victim = target.node(hit.target.split()[0].rstrip(","))
        await_(lambda: environment.disks.room(victim.name) == 0)  # the server may free some, which the ballast takes
        assert f"{victim.name}'s disk is full" in environment.disks.active()
        await_(lambda: f"{victim.name}'s disk is full" in environment.unclean())
        await_(lambda: target.kind.write(victim, 1_000_000).outcome != "kept")
        if target.backend == "zookeeper":  # the server stops serving, and may also end, then or later
            await_(lambda: victim.health() is None)
        else:
            assert ("ended" in hit.target) == (victim.state() == "stopped") == (target.backend != "postgres")
        if target.backend == "redis":
            await_write(target, target.node("redis2"), 1_000_000)
        elif target.backend != "postgres":
            hurting.await_leader_but(target, victim)
            await_write(target, fault.leader(target), 1_000_000)
    assert environment.disks.active() == []
    assert environment.disks.room(victim.name) > 64 * MIB
    await_write(target, victim, 1_000_000)
    await_kept(target, "before")


@on("redis")
def test_a_full_disk_stays_full_when_files_are_removed(environment: OwnEnvironment, target: Target) -> None:
    node = target.node("redis4")
    await_write(target, node, 8 * MIB)  # in a file that can be removed
    environment.disks.fill("redis4")
    node.kill()
    node.wipe()
    await_(lambda: environment.disks.room("redis4") == 0)
    environment.disks.clear()
    node.let_go()
    target.cluster.await_ready()


@on("redis")
def test_the_ballast_of_a_disk_goes_when_its_container_is_killed(environment: OwnEnvironment, target: Target) -> None:
    environment.disks.fill("redis5")
    await_(lambda: environment.disks.room("redis5") == 0)
    engine_client.connect().api.kill(f"{environment.name}-redis5-full", "SIGKILL")
    engine_client.connect().api.wait(f"{environment.name}-redis5-full")
    assert environment.disks.room("redis5") > 64 * MIB
    assert environment.disks.active() == ["redis5's disk is full (no more)"]
    environment.disks.clear()
    await_(target.cluster.ready)


@on("redis")
def test_another_process_heals_full_and_slow_disks(environment: OwnEnvironment, target: Target) -> None:
    environment.disks.fill("redis1")
    environment.disks.slow("redis2", 0.1)
    other = OwnEnvironment.attach(environment.name)
    for each in (other, environment):
        await_unclean(each, "redis1's disk is full", "redis2's disk is slow by 100 ms")
    other.heal()
    await_unclean(environment)
    environment.disks.clear()
    await_write(target, target.node("redis1"))
