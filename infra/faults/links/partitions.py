"""Cuts between nodes: one node from its peers, or the network into a shape, while clients still reach every node.

No question from outside can pass a link between nodes. So a cut counts as applied when Toxiproxy shows it and the nodes
notice: they elect another leader, or an isolated node stops serving.

Redis's five servers do not talk to each other. There the client groups see these shapes: a group sees one half of the
servers, or a majority of its own, or one of two majorities that have one server in common.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from infra.backends.backend import Trait
from infra.cluster.nodes import Node
from infra.faults import fault
from infra.faults.fault import SPANS, Fault, FaultInjection, await_noticed
from infra.faults.fault_options import ALL_GROUPS, FEW_GROUPS, Option, Options, Site, different, follower, must, one_of
from infra.faults.links.cuts import HOW, CutClients
from infra.faults.target import Hit, Target
from infra.network.links import Cut

Pairs = Sequence[tuple[str, str]]  # (from, to): the bytes on the way from one to the other are lost


@dataclass(frozen=True, slots=True)
class Partition:
    """What is cut between nodes, given their roles at this moment."""

    lost: Pairs
    words: str  # for people: "etcd1 (leader) from etcd2, etcd3"
    remark: Callable[[], str]  # waits until nodes notice; returns "", or a remark if they do not


@dataclass(frozen=True, slots=True)
class CutPeers(FaultInjection):
    """Cut links between nodes. partition: finds out at `apply` what to cut. doing: for people, before the run."""

    how: Cut
    doing: str
    partition: Callable[[Target], Partition]

    def describe(self) -> str:
        return f"{self.doing} until they notice, and"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by Toxiproxy's state, and by how the nodes react."""
        cut = self.partition(target)
        begun = target.clock.now()
        with target.links.together():
            for a, b in cut.lost:
                if self.how is Cut.REFUSE:  # a connection is refused in both directions
                    target.links.cut(a, b, self.how, target.by)
                else:
                    target.links.block(a, b, self.how, target.by)
        remark = cut.remark()
        return [Hit("cut", f"{cut.words}{remark}", begun, target.clock.now())]

    def heal(self, target: Target) -> None:
        target.links.lift(target.by)


def _across(here: Iterable[str], beyond: Iterable[str]) -> Pairs:
    """All pairs between two sides, in both directions."""
    there = [(a, b) for a in here for b in beyond]
    return there + [(b, a) for a, b in there]


def _names(nodes: Iterable[Node]) -> list[str]:
    return [node.name for node in nodes]


# --- one node from its peers ---


def _isolated(follower: int | None) -> Callable[[Target], Partition]:
    """Isolate the leader (None), or the follower of this index, from its peers."""

    def partition(target: Target) -> Partition:
        leader = fault.leader(target)
        victim = leader if follower is None else [node for node in target.cluster.nodes if node is not leader][follower]
        peers = _names(node for node in target.cluster.nodes if node is not victim)

        def remark() -> str:
            if victim is leader:
                return fault.await_successor(target, victim)
            return await_noticed(target, lambda: victim.health() is None, "it still serves after")

        role = "leader" if victim is leader else "follower" if victim in target.cluster.voters else "observer"
        return Partition(_across([victim.name], peers), f"{victim.name} ({role}) from {', '.join(peers)}", remark)

    return partition


def _one_way(*, muted: bool) -> Callable[[Target], Partition]:
    """Lose what the leader sends to its peers (muted), or what the peers send to the leader."""

    def partition(target: Target) -> Partition:
        leader = fault.leader(target)
        peers = _names(node for node in target.cluster.nodes if node is not leader)
        lost = [(leader.name, peer) if muted else (peer, leader.name) for peer in peers]
        ends = f"{leader.name} (leader)", ", ".join(peers)
        words = "bytes from {} to {}".format(*(ends if muted else reversed(ends)))
        return Partition(lost, words, lambda: fault.await_successor(target, leader))

    return partition


def _isolate(how: Cut, whom: str, follower: int | None = None) -> CutPeers:
    return CutPeers(how, f"isolate {whom} from its peers ({how})", _isolated(follower))


_OF_PEERS: Final = partial(Fault, kind="cut", spans=SPANS, about="election", trait=Trait.LEADER, needs=("peer-links",))


def _cut_nodes(how: Cut) -> Fault:
    return _OF_PEERS(
        f"cut-nodes-{how}",
        summary=f"a follower loses its peers, not its clients ({how})",
        inject=lambda _, follower: _isolate(how, f"follower {follower + 1}", follower),
        options=(follower("follower"),),
        trait=Trait.PEERS,
        how=HOW[how],
        sees="one node answers with errors, or not at all",
    )


CUT_NODES: Final = tuple(map(_cut_nodes, Cut))
ISOLATE_LEADER: Final = tuple(
    _OF_PEERS(
        f"isolate-leader-{how}",
        summary=f"the leader loses its peers, not its clients ({how})",
        inject=fault.always(_isolate(how, "the leader")),
        how=HOW[how],
        sees="errors or silence for 1-3 s, until another leads; longer at the old leader",
    )
    for how in Cut
)
ONE_WAY_LEADER: Final = tuple(
    _OF_PEERS(
        name,
        summary=f"the leader {what}",
        inject=fault.always(CutPeers(Cut.DROP, f"drop what {lost}", _one_way(muted=name == "mute-leader"))),
        how="Toxiproxy: timeout 0, one direction",
        sees="errors or silence for seconds, until another leads",
    )
    for name, what, lost in (
        ("mute-leader", "hears its peers, who do not hear it", "the leader tells its peers"),
        ("deafen-leader", "is heard by its peers, but deaf", "its peers tell the leader"),
    )
)


# --- shapes ---


def _after(order: Sequence[str], number: int, count: int) -> tuple[str, ...]:
    """The `count` nodes that come after the node of this number, round the ring."""
    return tuple(order[(number + step) % len(order)] for step in range(1, count + 1))


def _seen(seen: Mapping[str, Sequence[str]], names: Sequence[str]) -> CutClients:
    """The cut after which each group sees only its nodes in `seen`."""
    return CutClients.apart({group: [node for node in names if node not in nodes] for group, nodes in seen.items()})


def _halves(site: Site, nodes: tuple[str, ...], groups: Sequence[str] = ()) -> FaultInjection:
    """Split these nodes, fewer than half, from the rest. Without a leader `groups` see these, other groups the rest."""
    if not site.has(Trait.LEADER):
        rest = tuple(node for node in site.members if node not in nodes)
        return _seen({group: nodes if group in groups else rest for group in ALL_GROUPS}, site.members)

    def partition(target: Target) -> Partition:
        few = [node for node in target.cluster.nodes if node.name in nodes]
        many = [node for node in target.cluster.nodes if node.name not in nodes]
        had_leader = target.cluster.leader() in few

        def noticed() -> bool:
            """Whether the majority has a leader and, unless the minority had it before, the minority is silent."""
            by_node = dict(zip(target.cluster.nodes, target.cluster.healths(), strict=True))
            elsewhere = [None if node in few else health for node, health in by_node.items()]
            return site.backend.leader(elsewhere) is not None and (had_leader or not any(by_node[node] for node in few))

        lost, words = _across(_names(few), _names(many)), f"{', '.join(nodes)} from {', '.join(_names(many))}"
        return Partition(lost, words, lambda: await_noticed(target, noticed, "unnoticed after"))

    return CutPeers(Cut.DROP, f"split {', '.join(nodes)} from all other nodes", partition)


def _ring(site: Site, order: tuple[str, ...]) -> FaultInjection:
    """Each node hears only the nodes after it in this order, as many as make a majority together with itself.

    An observer keeps its links: whoever it hears, it does not vote.
    """
    majority = len(order) // 2
    if not site.has(Trait.LEADER):
        # The majorities lie as far apart as possible: of five servers 1-3, 3-5 and 5-2.
        starts = [number * majority % len(order) for number in range(len(ALL_GROUPS))]
        seen = [(order[start], *_after(order, start, majority)) for start in starts]
        return _seen(dict(zip(ALL_GROUPS, seen, strict=True)), site.members)

    def partition(target: Target) -> Partition:
        """Of an odd number of nodes, no two hear each other, so no node leads."""
        ring = [node for node in order if node not in target.kind.observers]
        hears = {node: _after(ring, number, len(ring) // 2) for number, node in enumerate(ring)}
        lost = [(a, b) for b in ring for a in ring if a != b and a not in hears[b]]
        words = "; ".join(f"{node} hears only {', '.join(others)}" for node, others in hears.items())
        nobody = lambda: target.cluster.leader() is None  # noqa: E731
        return Partition(lost, words, lambda: await_noticed(target, nobody, "there is still a leader after"))

    return CutPeers(Cut.DROP, f"let each voter hear only the next of {', '.join(order)}", partition)


def _bridge(site: Site, bridge: str, nodes: Sequence[str] = (), groups: Sequence[str] = ()) -> FaultInjection:
    """Split the nodes on one side of the bridge from those on the other. The bridge and all nodes hear each other."""
    if not site.has(Trait.LEADER):
        names = site.members
        other = tuple(node for node in names if node not in nodes)
        return _seen({group: (*nodes, bridge) if group in groups else other for group in ALL_GROUPS}, names)

    def partition(target: Target) -> Partition:
        others = [node for node in target.cluster.nodes if node.name != bridge]
        half = len(others) // 2
        side, other = _names(others[:half]), _names(others[half:])

        def noticed() -> bool:
            """Whether the bridge leads (then there is nothing to notice), or another node leads and one is lost."""
            leader = target.cluster.leader()
            return leader is not None and (leader not in others or not all(node.health() for node in others))

        words = f"{', '.join(side)} from {', '.join(other)}, all connected to {bridge}"
        return Partition(_across(side, other), words, lambda: await_noticed(target, noticed, "unnoticed after"))

    return CutPeers(Cut.DROP, f"let {bridge} alone connect the other nodes", partition)


def _half(site: Site) -> int:
    """Most nodes that are fewer than half. They are fewer than half of the voters, too: one observer at most is not."""
    return (len(site.members) - 1) // 2


def _is_order(value: Any, site: Site, _: Options) -> tuple[str, ...]:
    names = site.members
    must(isinstance(value, list) and sorted(map(str, value)) == sorted(names), f"be {', '.join(names)} in some order")
    return tuple(value)


def _beside(site: Site, options: Options) -> list[str]:
    """The nodes that are not the bridge."""
    return [node for node in site.members if node != options["bridge"]]


def _is_side(value: Any, site: Site, options: Options) -> tuple[str, ...]:
    half = _half(site)
    side = different(value, _beside(site, options), half)
    must(len(side) == half, f"be {half} different nodes")
    return side


_SHAPE: Final = partial(
    Fault,
    kind="cut",
    spans=SPANS,
    trait=Trait.SPLITS,
    needs=("client-links", "peer-links"),
    how=HOW[Cut.DROP],
    sees="errors or silence from nodes without a majority; of redis, silence from servers not seen",
)

SPLIT: Final = (
    _SHAPE(
        "split-halves",
        summary="two sides without a way from one to the other (drop)",
        inject=_halves,
        options=(
            Option(
                "nodes",
                lambda value, site, _: different(value, site.members, _half(site)),
                lambda rng, site, _: sorted(rng.sample(site.members, _half(site))),
            ),
            FEW_GROUPS,
        ),
    ),
    _SHAPE(
        "split-ring",
        summary="everybody hears a majority, and everybody another one (drop)",
        inject=_ring,
        options=(Option("order", _is_order, lambda rng, site, _: rng.sample(site.members, len(site.members))),),
    ),
    _SHAPE(
        "split-bridge",
        summary="two sides, and one node that belongs to both (drop)",
        inject=_bridge,
        options=(
            one_of("bridge", lambda site: site.members, lambda rng, site, _: rng.choice(site.members)),
            Option(
                "nodes",
                _is_side,
                lambda rng, site, options: sorted(rng.sample(_beside(site, options), _half(site))),
                unless=Trait.LEADER,
            ),
            FEW_GROUPS,
        ),
    ),
)
