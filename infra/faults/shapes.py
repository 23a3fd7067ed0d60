"""Shapes: networks that fall apart as a whole. Bytes across are dropped; clients still reach every node.

    halves  two sides without a way from one to the other
    ring    everybody hears a majority, and everybody another one
    bridge  two sides, and one node that belongs to both

Redis's five servers do not talk to each other, so there it is the client groups that see such shapes: halves of the
servers; each another majority; two majorities that have one server in common.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.backends import BACKENDS
from infra.backends.backend import Trait
from infra.faults import fault
from infra.faults.fault import Fault, Injury, Options, has
from infra.faults.links import ALL_GROUPS, CUT_FOR, HOW, CutApart, listed
from infra.faults.peers import await_noticed
from infra.faults.target import Hit, Target
from infra.links import Cut
from infra.star import MEMBERS


@dataclass(frozen=True, slots=True)
class Halves(fault.OnLinks):
    """These nodes, fewer than half, from the others."""

    nodes: tuple[str, ...]

    def describe(self) -> str:
        return f"split {listed(self.nodes)} from all other nodes until they notice, and"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by Toxiproxy's state; by the leader on the other side, and by the silence of this one."""
        few = [node for node in target.cluster.nodes if node.name in self.nodes]
        many = [node for node in target.cluster.nodes if node.name not in self.nodes]
        had_leader = target.cluster.leader() in few

        def noticed() -> bool:
            healths = target.cluster.healths()
            served = [health for node, health in zip(target.cluster.nodes, healths, strict=True) if node in few]
            led = BACKENDS[target.backend].leader(
                [None if node in few else health for node, health in zip(target.cluster.nodes, healths, strict=True)],
            )
            return led is not None and (had_leader or not any(served))

        return _partition(
            target,
            [(a.name, b.name) for one, other in ((few, many), (many, few)) for a in one for b in other],
            f"{listed(self.nodes)} from {listed([node.name for node in many])}",
            noticed,
            "unnoticed",
        )


@dataclass(frozen=True, slots=True)
class Ring(fault.OnLinks):
    """In this order each node hears those after it, as many as make a majority with itself, and no others."""

    order: tuple[str, ...]

    def describe(self) -> str:
        return f"let each node hear only the next of {listed(self.order)} until they notice, and"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by Toxiproxy's state; of three, no two hear each other, so nobody leads."""
        hears = {node: _after(self.order, number, len(self.order) // 2) for number, node in enumerate(self.order)}
        lost = [(a, b) for b in self.order for a in self.order if a != b and a not in hears[b]]
        said = "; ".join(f"{node} hears only {listed(others)}" for node, others in hears.items())
        return _partition(target, lost, said, lambda: target.cluster.leader() is None, "there is still a leader")


@dataclass(frozen=True, slots=True)
class Bridge(fault.OnLinks):
    """The nodes on one side of a node from those on the other; it hears all, and all hear it."""

    bridge: str

    def describe(self) -> str:
        return f"let {self.bridge} alone connect the other nodes until they notice, and"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by Toxiproxy's state; where the bridge leads there is nothing to notice, else one node is lost."""
        others = [node for node in target.cluster.nodes if node.name != self.bridge]
        half = len(others) // 2
        one, other = others[:half], others[half:]

        def noticed() -> bool:
            leader = target.cluster.leader()
            return leader is not None and (leader not in others or not all(node.health() for node in others))

        return _partition(
            target,
            [(a.name, b.name) for x, y in ((one, other), (other, one)) for a in x for b in y],
            f"{listed([node.name for node in one])} from {listed([node.name for node in other])}, "
            f"all connected to {self.bridge}",
            noticed,
            "unnoticed",
        )


def split_halves() -> Fault:
    """The nodes in two, or for the groups of clients each its half."""

    def make(backend: str, options: Options) -> Injury:
        names = MEMBERS[backend]
        most = (len(names) - 1) // 2
        if has(backend, Trait.LEADER):
            fault.only(options, "nodes")
            return Halves(fault.checked_nodes(options["nodes"], names, most))
        fault.only(options, "nodes", "groups")
        nodes = fault.checked_nodes(options["nodes"], names, most)
        rest = tuple(node for node in names if node not in nodes)
        few = _checked_groups(options)
        return _seen({group: nodes if group in few else rest for group in ALL_GROUPS}, names)

    def choose(rng: random.Random, backend: str) -> Options:
        names = MEMBERS[backend]
        nodes = {"nodes": sorted(rng.sample(names, (len(names) - 1) // 2))}
        return nodes if has(backend, Trait.LEADER) else {**nodes, "groups": _some_groups(rng)}

    return _shape("split-halves", "two sides without a way from one to the other", make, choose)


def split_ring() -> Fault:
    """Everybody hears another majority of the nodes."""

    def make(backend: str, options: Options) -> Injury:
        fault.only(options, "order")
        order, names = options["order"], MEMBERS[backend]
        if not isinstance(order, list) or sorted(map(str, order)) != sorted(names):
            raise ValueError(f"order: must be {listed(names)} in some order, not {order!r}")
        if has(backend, Trait.LEADER):
            return Ring(tuple(order))
        # As far from each other as can be: of five servers 1-3, 3-5 and 5-2.
        majority = len(names) // 2
        starts = [number * majority % len(names) for number in range(len(ALL_GROUPS))]
        seen = [(order[start], *_after(order, start, majority)) for start in starts]
        return _seen(dict(zip(ALL_GROUPS, seen, strict=True)), names)

    def choose(rng: random.Random, backend: str) -> Options:
        names = MEMBERS[backend]
        return {"order": rng.sample(names, len(names))}

    return _shape("split-ring", "everybody hears a majority, and everybody another one", make, choose)


def split_bridge() -> Fault:
    """One node on both sides."""

    def make(backend: str, options: Options) -> Injury:
        names = MEMBERS[backend]
        leads = has(backend, Trait.LEADER)
        fault.only(options, "bridge", *([] if leads else ["nodes", "groups"]))
        bridge = options["bridge"]
        if bridge not in names:
            raise ValueError(f"bridge: must be one of {listed(names)}, not {bridge!r}")
        if leads:
            return Bridge(bridge)
        half = (len(names) - 1) // 2
        side = fault.checked_nodes(options["nodes"], [node for node in names if node != bridge], half)
        if len(side) != half:
            raise ValueError(f"nodes: must be {half} different nodes, not {options['nodes']!r}")
        ones = _checked_groups(options)
        other = tuple(node for node in names if node not in side)
        return _seen({group: (*side, bridge) if group in ones else other for group in ALL_GROUPS}, names)

    def choose(rng: random.Random, backend: str) -> Options:
        names = MEMBERS[backend]
        bridge = rng.choice(names)
        if has(backend, Trait.LEADER):
            return {"bridge": bridge}
        nodes = rng.sample([node for node in names if node != bridge], (len(names) - 1) // 2)
        return {"bridge": bridge, "nodes": sorted(nodes), "groups": _some_groups(rng)}

    return _shape("split-bridge", "two sides, and one node that belongs to both", make, choose)


def _shape(
    name: str,
    summary: str,
    make: Callable[[str, Options], Injury],
    choose: Callable[[random.Random, str], Options],
) -> Fault:
    return Fault(
        name,
        "cut",
        f"{summary} (drop)",
        make,
        choose=choose,
        seconds=CUT_FOR,
        trait=Trait.SPLITS,
        needs=frozenset({"client-links", "peer-links"}),
        how=HOW[Cut.DROP],
        sees="errors or silence from nodes without a majority; of redis, silence from servers not seen",
    )


def _partition(
    target: Target, lost: Sequence[tuple[str, str]], said: str, noticed: Callable[[], bool], otherwise: str
) -> Sequence[Hit]:
    """Drop the bytes from a to b for each of these pairs of nodes, and wait until it is noticed."""
    begun = target.clock.now()
    with target.links.together():
        for a, b in lost:
            target.links.block(a, b, Cut.DROP, target.by)
    remark = await_noticed(target, noticed, otherwise)
    return [Hit("cut", f"{said}{remark}", begun, target.clock.now())]


def _seen(seen: Mapping[str, Sequence[str]], names: Sequence[str]) -> CutApart:
    """The cut after which each group sees these nodes only."""
    lost = tuple((group, tuple(node for node in names if node not in nodes)) for group, nodes in seen.items())
    said = "; ".join(f"{group} from {listed(nodes)}" for group, nodes in lost)
    return CutApart(Cut.DROP, lost, f"clients {said}")


def _after(order: Sequence[str], number: int, count: int) -> tuple[str, ...]:
    """So many that come after the one with this number, round the ring."""
    return tuple(order[(number + step) % len(order)] for step in range(1, count + 1))


def _some_groups(rng: random.Random) -> list[str]:
    return sorted(rng.sample(ALL_GROUPS, rng.randint(1, len(ALL_GROUPS) - 1)))


def _checked_groups(options: Options) -> list[str]:
    """The option `groups`. Raises ValueError."""
    groups: Any = options["groups"]
    if not isinstance(groups, list) or not groups or any(group not in ALL_GROUPS for group in groups):
        raise ValueError(f"groups: must be a list of {listed(ALL_GROUPS)}, not {groups!r}")
    if len(set(groups)) != len(groups) or len(groups) == len(ALL_GROUPS):
        raise ValueError(f"groups: must be different groups and not all of them, not {groups!r}")
    return groups
