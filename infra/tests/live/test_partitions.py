"""Cuts between nodes, and networks that fall apart, on real clusters: seen by what the nodes make of it."""

from collections.abc import Collection
from functools import partial

from infra.faults import fault
from infra.faults.link_question import LinkAnswer
from infra.faults.target import Target
from infra.own_environment import OwnEnvironment
from infra.tests.environments import on
from infra.tests.live.hurting import ELECTING, SILENCE, ask, done, etcd, names

WITHIN = 10.0  # seconds for a node to find out what the others know already


@on(*ELECTING)
def test_an_isolated_leader_is_succeeded_and_still_reached(target: Target) -> None:
    """What ZooKeeper's has held is let go into connections that are dead by then."""
    old = fault.leader(target)
    with done(target, f"isolate-leader-{'hold' if target.backend == 'zookeeper' else 'drop'}") as hit:
        peers = [node for node in names(target) if node != old.name]
        assert hit.target == f"{old.name} (leader) from {', '.join(peers)}"
        assert old not in {fault.leader(target) for _ in range(10)}
        assert not target.cluster.ready()
        assert {ask(target, group, old.name) for group in target.groups} == {LinkAnswer.ANSWERED}


@on(*ELECTING)
def test_an_isolated_follower_stops_serving_and_the_others_go_on(target: Target) -> None:
    leader = target.cluster.leader()
    with done(target, "cut-nodes-drop", follower=1) as hit:
        victim = target.node(hit.target.split()[0])
        assert victim is [node for node in target.cluster.nodes if node is not leader][1]
        assert "(follower)" in hit.target
        assert victim.health() is None
        assert target.cluster.leader() is leader


@on("etcd")
def test_a_mute_leader_still_hears_who_follows_it_and_a_deaf_one_does_not(target: Target) -> None:
    for name, patience, hears in (("mute-leader", WITHIN, True), ("deafen-leader", 1.0, False)):
        old = fault.leader(target)
        with done(target, name):
            new = fault.leader(target).health()
            assert new
            followed = partial(lambda who, leader: getattr(who.health(), "leader", None) == leader, old, new.me)
            assert target.clock.wait(patience, followed, 0.05) is hears


@on("etcd")
def test_in_a_ring_of_three_nobody_leads_nor_writes(environment: OwnEnvironment, target: Target) -> None:
    with done(target, "split-ring"):
        assert target.cluster.leader() is None
        _only_these_write(environment, target, set())
    assert target.cluster.ready()


@on("etcd")
def test_over_a_bridge_all_write_but_who_has_its_leader_beyond_it(environment: OwnEnvironment, target: Target) -> None:
    leader = fault.leader(target)
    with done(target, "split-bridge", bridge=leader.name):
        _only_these_write(environment, target, names(target))
    leader = fault.leader(target)
    bridge, far = (node for node in target.cluster.nodes if node is not leader)
    with done(target, "split-bridge", bridge=bridge.name):
        if fault.leader(target) is leader:
            _only_these_write(environment, target, {leader.name, bridge.name})
        else:  # the bridge was elected, whom everybody reaches
            _only_these_write(environment, target, names(target))
    assert far.ready()


def _only_these_write(environment: OwnEnvironment, target: Target, takers: Collection[str]) -> None:
    """These nodes take a write, each within as long as an election may take, and no other node does."""
    wrote = {
        node
        for node, endpoint in zip(names(target), environment.direct("etcd"), strict=True)
        if target.clock.wait(WITHIN if node in takers else 0.0, partial(_writes, endpoint), 0.05)
    }
    assert wrote == set(takers)


def _writes(endpoint: str) -> bool:
    """Whether a put there is acknowledged."""
    try:
        return "error" not in etcd(endpoint, "kv/put", SILENCE, key="shape", value=endpoint)
    except OSError:
        return False
