"""Cuts of clients from nodes. See `infra.links` for what refuse, drop and hold do.

A cut counts as applied when a fresh question through it is refused (refuse) or gets no answer (drop, hold).
"""

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from infra.backends.backend import Trait
from infra.faults import fault, proof
from infra.faults.fault import Fault, Options
from infra.faults.proof import DOWN, SHOWS
from infra.faults.target import Hit, Target
from infra.links import Cut
from infra.star import GROUPS, client, members

CUT_FOR: Final = 2.0
"""Seconds; longer than the shortest TTL."""

ALL_GROUPS: Final = tuple(map(client, GROUPS))

HOW: Final[Mapping[Cut, str]] = {
    Cut.REFUSE: "Toxiproxy: proxies disabled",
    Cut.DROP: "Toxiproxy: timeout 0, bytes vanish",
    Cut.HOLD: "Toxiproxy: latency of a day, bytes are kept",
}
SEES: Final[Mapping[Cut, str]] = {
    Cut.REFUSE: "connection closed, then refused",
    Cut.DROP: "silence; at the heal the connection ends, and what was sent never arrives",
    Cut.HOLD: "silence; at the heal everything arrives late, and the connection lives on",
}


@dataclass(frozen=True, slots=True)
class CutClients:
    """Client groups from nodes."""

    how: Cut
    groups: tuple[str, ...]
    nodes: tuple[str, ...]

    def describe(self) -> str:
        return f"cut {self._said()} ({self.how})"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by questions through each of the links."""
        return CutApart(self.how, tuple((group, self.nodes) for group in self.groups), self._said()).apply(target)

    def heal(self, target: Target) -> None:
        """Proven by questions through each of the links."""
        heal_clients(target, [(group, node) for group in self.groups for node in self.nodes])

    def _said(self) -> str:
        return f"clients {listed(self.groups)} from {listed(self.nodes)}"


@dataclass(frozen=True, slots=True)
class CutApart:
    """Each client group from nodes of its own. said: for people: "clients ... from ..."."""

    how: Cut
    lost: tuple[tuple[str, tuple[str, ...]], ...]
    said: str

    def describe(self) -> str:
        return f"cut {self.said} ({self.how})"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by questions through each of the links."""
        begun = target.clock.now()
        with target.links.together():
            for group, node in self._pairs():
                target.links.cut(group, node, self.how, target.by)
        proof.await_cut(target, self._pairs(), SHOWS[self.how])
        return [Hit("cut", self.said, begun, target.clock.now())]

    def heal(self, target: Target) -> None:
        """Proven by questions through each of the links."""
        heal_clients(target, self._pairs())

    def _pairs(self) -> list[tuple[str, str]]:
        return [(group, node) for group, nodes in self.lost for node in nodes]


@dataclass(frozen=True, slots=True)
class LoseOneWay:
    """The bytes of one direction between a client group and all nodes: its requests, or the replies to them."""

    group: str
    requests: bool

    def describe(self) -> str:
        return f"lose {self._said()}"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by questions through each of the links. That the others arrive only a test can see."""
        begun = target.clock.now()
        nodes = [node.name for node in target.cluster.nodes]
        with target.links.together():
            for node in nodes:
                ends = (self.group, node) if self.requests else (node, self.group)
                target.links.block(*ends, Cut.DROP, target.by)
        shows = SHOWS[Cut.DROP] if self.requests else DOWN
        proof.await_cut(target, [(self.group, node) for node in nodes], shows)
        return [Hit("cut", self._said(), begun, target.clock.now())]

    def heal(self, target: Target) -> None:
        """Proven by questions through each of the links."""
        heal_clients(target, [(self.group, node.name) for node in target.cluster.nodes])

    def _said(self) -> str:
        return f"all requests of clients {self.group}" if self.requests else f"all replies to clients {self.group}"


def cut_client(how: Cut) -> Fault:
    """One client group from all nodes."""

    def make(backend: str, options: Options) -> CutClients:
        fault.only(options, "group")
        return CutClients(how, (checked_group(options),), members(backend))

    return Fault(
        f"cut-client-{how}",
        "cut",
        f"one group of clients loses all nodes ({how})",
        make,
        choose=some_group,
        seconds=CUT_FOR,
        needs=frozenset({"client-links", "refusal"}) if how is Cut.REFUSE else frozenset({"client-links"}),
        how=HOW[how],
        sees=SEES[how],
    )


def cut_part(name: str, groups: str, part: str) -> Fault:
    """Clients from a part of the nodes, which then drop their bytes. groups: one, all; part: minority, majority."""

    def bounds(backend: str) -> tuple[int, int]:
        nodes = len(members(backend))
        return (1, (nodes - 1) // 2) if part == "minority" else (nodes // 2 + 1, nodes - 1)

    def make(backend: str, options: Options) -> CutClients:
        fault.only(options, *(["group"] if groups == "one" else []), "nodes")
        least, most = bounds(backend)
        nodes = fault.checked_nodes(options["nodes"], members(backend), most)
        if len(nodes) < least:
            raise ValueError(f"nodes: must be at least {least} different nodes, not {options['nodes']!r}")
        return CutClients(Cut.DROP, (checked_group(options),) if groups == "one" else ALL_GROUPS, nodes)

    def choose(rng: random.Random, backend: str) -> Options:
        least, most = bounds(backend)
        group = some_group(rng, backend) if groups == "one" else {}
        names = members(backend)
        count = rng.randint(least, most)
        first, others = (names[:1], names[1:]) if fault.has(backend, Trait.FIRST_NODE) else ((), names)
        return {**group, "nodes": sorted([*first, *rng.sample(others, count - len(first))])}

    who = "one group of clients loses" if groups == "one" else "all clients lose"
    return Fault(
        name,
        "cut",
        f"{who} a {part} of the nodes (drop)",
        make,
        choose=choose,
        seconds=CUT_FOR,
        trait=Trait.PARTS,
        least=3,
        needs=frozenset({"client-links"}),
        how=HOW[Cut.DROP],
        sees=f"a {part} of the nodes is silent",
    )


def cut_apart() -> Fault:
    """Each group from another set of nodes."""

    def make(backend: str, options: Options) -> CutApart:
        fault.only(options, "nodes")
        told, known = options["nodes"], members(backend)
        if not isinstance(told, dict) or sorted(told) != sorted(ALL_GROUPS):
            raise ValueError(f"nodes: must be lists of nodes for {listed(ALL_GROUPS)}, not {told!r}")
        lost = tuple((group, fault.checked_nodes(told[group], known, len(known) - 1)) for group in ALL_GROUPS)
        if len({frozenset(nodes) for _, nodes in lost}) < len(lost):
            raise ValueError(f"nodes: must be other nodes for each group, not {told!r}")
        said = "; ".join(f"{group} from {listed(nodes)}" for group, nodes in lost)
        return CutApart(Cut.DROP, lost, f"clients {said}")

    def choose(rng: random.Random, backend: str) -> Options:
        names = members(backend)
        sets = [some for count in range(1, len(names)) for some in itertools.combinations(names, count)]
        return {"nodes": dict(zip(ALL_GROUPS, map(list, rng.sample(sets, len(ALL_GROUPS))), strict=True))}

    return Fault(
        "cut-clients-apart",
        "cut",
        "each group of clients loses other nodes (drop)",
        make,
        choose=choose,
        seconds=CUT_FOR,
        trait=Trait.PARTS,
        least=3,
        needs=frozenset({"client-links"}),
        how=HOW[Cut.DROP],
        sees="some nodes are silent, and others for other clients",
    )


def lose(what: str) -> Fault:
    """The requests of one group, or the replies to them."""

    def make(_: str, options: Options) -> LoseOneWay:
        fault.only(options, "group")
        return LoseOneWay(checked_group(options), what == "requests")

    return Fault(
        f"lose-{what}",
        "cut",
        f"all {what} of one group of clients are lost",
        make,
        choose=some_group,
        seconds=CUT_FOR,
        needs=frozenset({"client-links"}),
        how="Toxiproxy: timeout 0, one direction",
        sees="silence; nothing was done" if what == "requests" else "silence; all of it was done",
    )


def heal_clients(target: Target, pairs: Sequence[tuple[str, str]]) -> None:
    """Undo what was done to these links (group, node), and prove it."""
    target.links.lift(target.by)
    proof.await_answers(target, pairs)


def some_group(rng: random.Random, _: str) -> Options:
    """The option `group`."""
    return {"group": rng.choice(ALL_GROUPS)}


def checked_group(options: Options) -> str:
    """The option `group`. Raises ValueError."""
    group = options["group"]
    if group not in ALL_GROUPS:
        raise ValueError(f"group: must be one of {listed(ALL_GROUPS)}, not {group!r}")
    return str(group)


def listed(names: Sequence[str]) -> str:
    """For people."""
    return ", ".join(names)
