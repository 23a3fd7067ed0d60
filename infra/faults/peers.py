"""Cuts between nodes: of one from its peers, both ways or one, while clients still reach it.

No question from outside can pass such a link. So the cut counts as applied when Toxiproxy shows it and the others
notice: they elect another leader, or the lonely node stops serving.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from infra.backends.backend import Trait
from infra.faults import fault
from infra.faults.fault import EFFECT_WITHIN, LOOK_EVERY, MASKED_FOR, Fault, Options
from infra.faults.links import HOW, listed
from infra.faults.target import Hit, Target
from infra.links import Cut
from infra.star import MEMBERS

NOTICED_FOR: Final = 1.5
"""Seconds that a cut between nodes goes on after the others have noticed."""


@dataclass(frozen=True, slots=True)
class Isolate(fault.OnLinks):
    """One node from its peers, while clients still reach it: the leader, or the n-th follower."""

    how: Cut
    follower: int | None = None

    def describe(self) -> str:
        whom = "the leader" if self.follower is None else f"follower {self.follower + 1}"
        return f"isolate {whom} from its peers ({self.how}) until they notice, and"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by Toxiproxy's state, and by what the nodes make of it."""
        victim = leader = fault.leader(target)
        if self.follower is not None:
            victim = [node for node in target.cluster.nodes if node is not leader][self.follower]
        peers = [node.name for node in target.cluster.nodes if node is not victim]
        begun = target.clock.now()
        with target.links.together():
            for peer in peers:
                target.links.cut(victim.name, peer, self.how, target.by)
        if victim is leader:
            remark = fault.await_successor(target, victim)
        else:
            remark = await_noticed(target, lambda: victim.health() is None, "it still serves")
        role = "leader" if victim is leader else "follower"
        return [Hit("cut", f"{victim.name} ({role}) from {listed(peers)}{remark}", begun, target.clock.now())]


@dataclass(frozen=True, slots=True)
class OneWayLeader(fault.OnLinks):
    """The leader no longer heard by its peers, or no longer hearing them."""

    muted: bool

    def describe(self) -> str:
        lost = "what the leader tells its peers" if self.muted else "what its peers tell the leader"
        return f"drop {lost} until they notice, and"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by Toxiproxy's state, and by what the nodes make of it."""
        leader = fault.leader(target)
        peers = [node.name for node in target.cluster.nodes if node is not leader]
        begun = target.clock.now()
        with target.links.together():
            for peer in peers:
                ends = (leader.name, peer) if self.muted else (peer, leader.name)
                target.links.block(*ends, Cut.DROP, target.by)
        remark = fault.await_successor(target, leader)
        way = (
            f"{leader.name} (leader) to {listed(peers)}" if self.muted else f"{listed(peers)} to {leader.name} (leader)"
        )
        return [Hit("cut", f"bytes from {way}{remark}", begun, target.clock.now())]


def cut_nodes(how: Cut) -> Fault:
    """One follower from its peers."""

    def make(backend: str, options: Options) -> Isolate:
        fault.only(options, "follower")
        most = len(MEMBERS[backend]) - 2
        if type(options["follower"]) is not int or not 0 <= options["follower"] <= most:
            raise ValueError(f"follower: must be a number from 0 to {most}, not {options['follower']!r}")
        return Isolate(how, options["follower"])

    return Fault(
        f"cut-nodes-{how}",
        "cut",
        f"a follower loses its peers, not its clients ({how})",
        make,
        choose=lambda rng, backend: {"follower": rng.randrange(len(MEMBERS[backend]) - 1)},
        seconds=NOTICED_FOR,
        trait=Trait.PEERS,
        needs=frozenset({"peer-links"}),
        how=HOW[how],
        sees="one node answers with errors, or not at all",
    )


def isolate_leader(how: Cut) -> Fault:
    """The leader from its peers."""
    return Fault(
        f"isolate-leader-{how}",
        "cut",
        f"the leader loses its peers, not its clients ({how})",
        fault.without_options(Isolate(how)),
        seconds=NOTICED_FOR,
        trait=Trait.LEADER,
        needs=frozenset({"peer-links"}),
        how=HOW[how],
        sees="errors or silence for 1-3 s, until another leads; longer at the old leader",
    )


def one_way_leader(name: str) -> Fault:
    """mute-leader, deafen-leader."""
    muted = name == "mute-leader"
    return Fault(
        name,
        "cut",
        "the leader hears its peers, who do not hear it" if muted else "the leader is heard by its peers, but deaf",
        fault.without_options(OneWayLeader(muted)),
        seconds=NOTICED_FOR,
        trait=Trait.LEADER,
        needs=frozenset({"peer-links"}),
        how="Toxiproxy: timeout 0, one direction",
        sees="errors or silence for seconds, until another leads",
    )


def await_noticed(target: Target, noticed: Callable[[], bool], otherwise: str) -> str:
    """Wait until nodes have noticed; "", or a remark that they have not."""
    patience = EFFECT_WITHIN if target.alone else MASKED_FOR
    return "" if target.clock.wait(patience, noticed, LOOK_EVERY) else f"; {otherwise} after {patience:.0f} s"
