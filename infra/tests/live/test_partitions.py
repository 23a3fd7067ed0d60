"""Cuts between nodes, and networks that fall apart, on real clusters: what the nodes do then."""

from infra.cluster.nodes import Node
from infra.faults import fault
from infra.faults.fault_options import ALL_GROUPS
from infra.faults.link_probe import LinkAnswer
from infra.faults.target import Target
from infra.tests.environments import on
from infra.tests.live import hurting
from infra.tests.live.hurting import ELECTING, await_, await_leader_but, done, leader_hit, reign


@on(*ELECTING)
def test_an_isolated_leader_is_succeeded_and_still_reached(target: Target) -> None:
    before = reign(target)
    with done(target, f"isolate-leader-{'hold' if target.backend == 'zookeeper' else 'drop'}") as hit:
        old = leader_hit(target, hit, before)
        peers = [node for node in target.members if node != old.name]
        assert hit.target == f"{old.name} (leader) from {', '.join(peers)}"
        seen: list[int | None] = []

        def seen_often() -> bool:
            """Note the leader by the answers of all, if all others answer. Whether that happened ten times."""
            healths = target.cluster.healths()
            if all(health for node, health in zip(target.cluster.nodes, healths, strict=True) if node is not old):
                seen.append(target.kind.leader(healths))
            return len(seen) == 10

        await_(seen_often)
        assert target.cluster.nodes.index(old) not in seen
        assert not target.cluster.ready()
        for group in ALL_GROUPS:
            hurting.await_answer(target, group, old.name, LinkAnswer.ANSWERED)


@on(*ELECTING)
def test_an_isolated_follower_stops_serving_and_the_others_go_on(target: Target) -> None:
    before = reign(target)
    with done(target, "cut-nodes-drop", follower=1) as hit:
        victim = target.node(hit.target.split()[0])
        peers = [node for node in target.members if node != victim.name]
        assert hit.target == f"{victim.name} (follower) from {', '.join(peers)}"
        after = reign(target)
        if after.term == before.term:  # else a node stood still, and there was an election
            assert after.leader is before.leader
            assert victim is [node for node in target.cluster.nodes if node is not before.leader][1]
        await_(lambda: victim.health() is None)
        await_leader_but(target, victim)


@on("etcd")
def test_a_mute_leader_hears_of_its_successor_and_a_deaf_leader_does_not(target: Target) -> None:
    for name, hears in (("mute-leader", True), ("deafen-leader", False)):
        before = reign(target)
        with done(target, name) as hit:
            old = leader_hit(target, hit, before)

            def followed(old: Node = old) -> bool:
                """Whether the old leader follows a new one."""
                healths, was = target.cluster.healths(), target.cluster.nodes.index(old)
                index, mine = target.kind.leader(healths), healths[was]
                new = None if index is None or index == was else healths[index]
                return bool(new and mine and mine.leader == new.me)

            if hears:
                await_(followed)
            else:
                await_leader_but(target, old)
                assert not target.clock.wait(1.0, followed, 0.05)


@on("etcd")
def test_no_member_leads_or_takes_a_write_in_a_ring_of_three(target: Target) -> None:
    with done(target, "split-ring"):
        await_(lambda: target.cluster.leader() is None)
        assert _writers(target) == set()
    await_(target.cluster.ready)


@on("etcd")
def test_only_members_that_see_a_leader_take_writes_over_a_bridge(target: Target) -> None:
    leader = fault.leader(target)
    for bridge in (leader, next(node for node in target.cluster.nodes if node is not leader)):
        with done(target, "split-bridge", bridge=bridge.name):
            await_(lambda bridge=bridge: _write_over(target, bridge))  # type: ignore[misc]
    for node in target.cluster.nodes:
        await_(node.ready)


def _write_over(target: Target, bridge: Node) -> bool:
    """Whether just these nodes take a write: all if the bridge leads, else the leader and the bridge."""
    # The bridge may be elected, as all nodes reach it. If it leads and stands still, another node may be elected.
    leader, writers = target.cluster.leader(), _writers(target)
    if leader is None:
        return False
    return writers == (set(target.members) if leader is bridge else {leader.name, bridge.name})


def _writers(target: Target) -> set[str]:
    """The nodes that take a write."""
    return {node.name for node in target.cluster.nodes if target.kind.write(node).outcome == "kept"}
