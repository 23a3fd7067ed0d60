"""Servers are restarted, wiped and killed. Each server by itself is asked what it has kept and what it has not."""

import re
from dataclasses import replace
from functools import partial

import pytest

from infra import commands
from infra.backends import BACKENDS
from infra.docker import images
from infra.faults import fault
from infra.faults.link_probe import LinkAnswer
from infra.faults.target import Target
from infra.own_environment import OwnEnvironment
from infra.tests.environments import await_unclean, on
from infra.tests.live import hurting
from infra.tests.live.hurting import await_, await_answer, await_kept, done, keep, leader_hit, reign


@on(*BACKENDS)
def test_a_wiped_server_starts_with_nothing_of_its_own(environment: OwnEnvironment, target: Target) -> None:
    keep(target, "before")
    before = reign(target)
    role = " (leader)" if target.backend in hurting.ELECTING else ""
    options = {} if role else {"nodes": [before.leader.name]}
    assert all(environment.disks.files(name) for name in target.members)
    with done(target, "wipe-server", **options) as hit:
        victim = leader_hit(target, hit, before)
        assert hit.target == victim.name + role
        assert victim.state() == "stopped"
        assert environment.disks.files(victim.name) == []
        await_answer(target, "c1", victim.name, LinkAnswer.CLOSED)
        if role:
            hurting.await_leader_but(target, victim)
    assert environment.disks.files(victim.name) != []
    # A server without peers has forgotten everything. A member has been told everything again by its peers.
    if role:
        await_kept(target, "before")
    else:
        assert hurting.kept(target, victim) is None
        await_kept(target, "before", victim)


@on("etcd", "etcd=learner")
def test_an_etcd_that_lost_its_data_comes_back_as_another_member(target: Target) -> None:
    def members(learners: int = 0) -> dict[str, str]:
        endpoint = target.cluster.nodes[0].endpoint
        listed = hurting.insist(partial(hurting.etcd, endpoint, "cluster/member/list", linearizable=True))["members"]
        assert sum(member.get("isLearner", False) for member in listed) == learners
        return {member.get("name", ""): member["ID"] for member in listed}

    for _ in range(2):  # the second time, the member was replaced before
        before = members()
        with done(target, "wipe-server", nodes=["etcd2"]):
            members(learners=len(target.kind.learners))
        after = members()
        assert after.keys() == before.keys() == set(target.members)
        assert [name for name in after if after[name] != before[name]] == ["etcd2"]


@on("etcd")
def test_an_etcd_keeps_its_data_where_no_majority_can_replace_it(environment: OwnEnvironment, target: Target) -> None:
    keep(target, "before")
    old = fault.leader(target)
    other = next(node for node in target.cluster.nodes if node is not old)
    other.kill("another")
    try:
        with (
            pytest.raises(fault.Nobody, match=r"^etcd\d keeps its data; no successor") as nobody,
            done(replace(target, by="this", alone=False), "wipe-server"),
        ):
            raise AssertionError("there was a majority")
        victim = target.node(str(nobody.value).split()[0])
        assert victim is not other
        assert victim.state() == "running"
    finally:
        other.let_go("another")
    fault.await_whole(target)
    await_kept(target, "before")


@on("redis", "zookeeper")
def test_an_orderly_restart_keeps_all_and_another_leads(target: Target) -> None:
    keep(target, "before")
    before = reign(target)
    with done(target, "restart-leader") as hit:
        victim = leader_hit(target, hit, before)
        assert victim.state() == "stopped"
        await_answer(target, "c2", victim.name, LinkAnswer.CLOSED)
        if target.backend == "redis":
            assert b"User requested shutdown" in victim.process.logs()
        else:  # ZooKeeper logs nothing about it
            hurting.await_leader_but(target, victim)
    await_kept(target, "before")


@on(*BACKENDS)
def test_a_power_failure_stops_all_servers_and_no_kept_data_are_lost(target: Target) -> None:
    keep(target, "before")
    with done(target, "restart-all") as hit:
        assert hit.target == ", ".join(target.members)
        assert {node.state() for node in target.cluster.nodes} == {"stopped"}
        for name in target.members:
            await_answer(target, "c3", name, LinkAnswer.CLOSED)
    await_kept(target, "before")


@on("etcd")
def test_an_etcd_that_was_replaced_but_not_wiped_is_healed(environment: OwnEnvironment, target: Target) -> None:
    target.node("etcd2").kill()
    others = [target.node(name) for name in ("etcd1", "etcd3")]
    assert not BACKENDS["etcd"].lost_place(others, "etcd2")
    BACKENDS["etcd"].replace_member(others, "etcd2")
    await_(lambda: BACKENDS["etcd"].lost_place(others, "etcd2"))
    environment.heal()
    await_unclean(environment)
    assert not BACKENDS["etcd"].lost_place(others, "etcd2")


@on("etcd")
def test_an_etcd_of_an_older_version_that_died_is_healed(environment: OwnEnvironment, target: Target) -> None:
    node, older = target.node("etcd2"), images.resolve("etcd", "3.4")
    images.ensure(older)
    await_(lambda: BACKENDS["etcd"].agreed_version(node).startswith("3.5"))  # below it, an older one may join
    node.replace(older.name)
    await_(lambda: node.state() == "stopped", lambda: node.process.logs().decode()[-3000:])
    assert commands.heal(environment.name) == 0


MAINTAINED = {
    "redis": r"redis1 \(files written anew\)",
    "etcd": r"etcd1 \(compacted up to \d+, file of \d+ kB defragmented\)",
    "postgres": r"postgres \(checkpoint, [1-9]\d* of \d+ tables written anew\)",
}


@on(*MAINTAINED)
def test_maintenance_compacts_the_data_of_servers_and_loses_nothing(target: Target) -> None:
    for word in ("before", "again"):
        keep(target, word)
        with done(target, "maintenance") as hit:
            assert re.fullmatch(MAINTAINED[target.backend], hit.target)
        with done(target, "kill-in-maintenance") as hit:
            assert hit.target.endswith(" (in maintenance)")
        await_kept(target, word)


@on("etcd")
def test_a_member_that_was_away_for_long_gets_a_snapshot(target: Target) -> None:
    with done(target, "rejoin-then-lead"):
        assert any(b'"applied snapshot"' in node.process.logs() for node in target.cluster.nodes)
