"""Members become another version on the same data, for a time or for good; and a version that does not start on them.

Nothing brings back what all the data have gone over to: what comes later in this file begins with what was left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra import commands
from infra.backends import BACKENDS
from infra.backends.redis import PRIMARY, REPLICA, connect
from infra.cluster.node_repair import DoesNotStart
from infra.errors import Failed
from infra.faults import fault
from infra.faults.plan import Plan, Step
from infra.faults.runner import Runner
from infra.own_environment import OwnEnvironment
from infra.tests.environments import target_of
from infra.tests.live.hurting import await_, names
from infra.tests.live.keeping import keep, kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infra.faults.fault import FaultInjection
    from infra.faults.runner import Record
    from infra.faults.target import Hit, Target

OLD = {"etcd": "3.4", "zookeeper": "3.8", "redis": "7.0"}


@pytest.fixture(scope="module")
def old() -> Iterator[OwnEnvironment]:
    """An environment of the older versions."""
    environment = OwnEnvironment.start()
    environment.boot(OLD)
    yield environment
    environment.close()


def injection_of(backend: str, node: str, version: str) -> FaultInjection:
    return Step("replace-version", 0.0, 0.0, {"node": node, "version": version}).injection(backend)


def applied(target: Target, injection: FaultInjection) -> Hit:
    (hit,) = injection.apply(target)
    assert hit.kind == "version"
    assert hit.begun < hit.applied
    return hit


def rolled(target: Target, *steps: tuple[str, str, int]) -> list[Record]:
    """What became of them: version, who goes first, how many members."""
    plan = [
        Step("roll-version", 0.0, 0.0, {"version": version, "first": first, "members": count})
        for version, first, count in steps
    ]
    runner = Runner(Plan("p", target.backend, 1, tuple(plan)), target)
    runner.cycle()
    return list(runner.records)


def series(environment: OwnEnvironment, *nodes: str) -> list[str]:
    return [environment.node(node).version().rpartition(".")[0] for node in nodes]


def test_a_replaced_member_of_etcd_is_seen_by_everybody_and_comes_back(
    old: OwnEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    target = target_of(old, "etcd")
    keep(target, "before")
    leader = fault.leader(target)
    injection = injection_of("etcd", "leader", "3.5")
    hit = applied(target, injection)
    assert hit.target.startswith(f"{leader.name} from 3.4.")
    assert " to 3.5." in hit.target
    versions = {node.name: "3.5" if node is leader else "3.4" for node in target.cluster.nodes}
    assert series(old, *versions) == list(versions.values())
    await_(target.cluster.ready)
    assert {kept(target, node) for node in target.cluster.nodes} == {"before"}
    assert old.unclean() == [f"{leader.name} runs fencepost/etcd:trixie, not fencepost/etcd:bookworm"]
    other = OwnEnvironment.attach(old.name)
    assert {name: version[:3] for name, version in other.cluster("etcd").versions().items()} == versions
    assert other.unclean() == old.unclean()
    commands.status(["--env", old.name])
    status = capsys.readouterr().out
    assert (status.count("running, 3.4."), status.count("running, 3.5.")) == (2, 1)
    injection.heal(target)  # as long as one is old the others may go back
    injection.heal(target)
    assert series(old, *versions) == ["3.4"] * 3
    await_(lambda: old.unclean() == [])


def test_a_replaced_leader_of_zookeeper_keeps_its_data_there_and_back(old: OwnEnvironment) -> None:
    target = target_of(old, "zookeeper")
    leader = fault.leader(target)
    keep(target, "before")
    injection = injection_of("zookeeper", "leader", "3.9")
    applied(target, injection)
    for version in ("3.9", "3.8"):
        await_(target.cluster.ready)
        assert leader.version().startswith(version)
        assert kept(target, leader) == "before"
        injection.heal(target)


def test_redis1_and_its_replica_are_replaced_together(old: OwnEnvironment) -> None:
    target, pair = target_of(old, "redis"), old.failover()
    assert pair
    keep(target, "before")
    injection = injection_of("redis", PRIMARY, "8.0")
    assert applied(target, injection).target.endswith(f", and so {REPLICA}")
    for version in ("8.0", "7.0"):
        await_(pair.follows)
        assert series(old, PRIMARY, REPLICA) == [version] * 2
        for name in (PRIMARY, REPLICA):
            await_(lambda name=name: kept(target, old.node(name)) == "before")  # type: ignore[misc]
        injection.heal(target)
    await_(lambda: old.unclean() == [])


def test_redis1_and_its_replica_are_rolled_together_both_ways(old: OwnEnvironment) -> None:
    target = target_of(old, "redis")
    for version in ("8.0", "7.0"):
        (record,) = rolled(target, (version, "leader", 1))
        assert record.target.startswith(f"{PRIMARY} from ")
        assert record.target.endswith(f", and so {REPLICA}")
        assert series(old, PRIMARY, REPLICA, "redis2") == [version, version, "7.0"]
        old.heal()  # brings back nothing that was rolled
        assert old.unclean() == []
        assert series(old, PRIMARY) == [version]
    assert rolled(target, ("7.0", "leader", 5)) == []


def test_a_server_that_is_paused_is_not_replaced(old: OwnEnvironment) -> None:
    target = target_of(old, "redis")
    target.node("redis3").pause("another")
    assert injection_of("redis", "redis3", "8.0").apply(target) == []
    target.node("redis3").let_go("another")


def test_redis_comes_back_until_it_has_rewritten_its_file(old: OwnEnvironment) -> None:
    target, node = target_of(old, "redis"), old.node("redis2")
    injection = injection_of("redis", node.name, "8.0")
    for heal in (lambda: injection.heal(target), lambda: commands.heal(["--env", old.name])):
        applied(target, injection)
        assert node.version().startswith("8.0.")
        keep(target, "while it was new")
        heal()
        assert node.version().startswith("7.0.")
        assert kept(target, node) == "while it was new"
        assert old.unclean() == []

    applied(target, injection)
    with connect(node.address) as redis:
        redis.bgrewriteaof()
        await_(lambda: redis.info("persistence")["aof_rewrites"] > 0)
        await_(lambda: not redis.info("persistence")["aof_rewrite_in_progress"])
    injection.heal(target)
    with pytest.raises(Failed, match=r"Can't handle RDB format .*python -m infra down --env fp-"):
        commands.heal(["--env", old.name])
    assert node.version().startswith("8.0.")
    assert kept(target, node) == "while it was new"
    assert old.unclean() == ["redis2 runs fencepost/redis:trixie, not fencepost/redis:bookworm"]
    old.keep_version(node.name)


def test_etcd_goes_back_from_half_way_and_not_from_the_end(old: OwnEnvironment) -> None:
    target, etcds = target_of(old, "etcd"), names(target_of(old, "etcd"))
    keep(target, "before")
    leader = fault.leader(target)
    (first,) = rolled(target, ("3.5", "leader", 1))
    assert first.target.startswith(f"{leader.name} (leader) from 3.4.")
    assert series(old, leader.name) == ["3.5"]
    old.heal()
    assert old.unclean() == []
    assert series(old, leader.name) == ["3.5"]
    assert [record.kind for record in rolled(target, ("3.4", "follower", 3))] == ["version"]
    assert series(old, *etcds) == ["3.4"] * 3

    follower = next(node for node in target.cluster.nodes if node is not target.cluster.leader())
    replaced = injection_of("etcd", follower.name, "3.5")
    applied(target, replaced)
    await_(target.cluster.ready)
    records = rolled(target, ("3.5", "follower", 3))
    assert [record.kind for record in records] == ["version"] * 2
    assert records[-1].target.split()[1] == "(leader)"
    assert series(old, *etcds) == ["3.5"] * 3
    assert BACKENDS["etcd"].agreed_version(old.node("etcd1").address).startswith("3.5.")
    assert {kept(target, node) for node in target.cluster.nodes} == {"before"}

    (refused,) = rolled(target, ("3.4", "follower", 3))
    assert refused.kind == "restart"
    assert " stays 3.5." in refused.target
    assert "cannot be downgraded" in refused.target
    back = injection_of("etcd", "leader", "3.4")
    with pytest.raises(DoesNotStart, match=r"does not start as fencepost/etcd:bookworm .*cannot be downgraded"):
        back.apply(target)
    for injection in (back, replaced):
        injection.heal(target)
    await_(target.cluster.ready)
    assert series(old, *etcds) == ["3.5"] * 3
    assert old.unclean() == [f"{follower.name} runs fencepost/etcd:trixie, not fencepost/etcd:bookworm"]
    assert {kept(target, node) for node in target.cluster.nodes} == {"before"}
