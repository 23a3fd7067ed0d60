"""Cuts of clients from nodes, and from the store. See infra/README.md for what refuse, drop and hold do.

A cut counts as applied when a fresh question through it is refused (refuse) or gets no answer (drop, hold).
"""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from infra.backends.backend import Trait
from infra.faults import link_proof
from infra.faults.fault import SPANS, Fault, FaultInjection, OnWorkers
from infra.faults.fault_options import ALL_GROUPS, GROUP, Option, Options, Site, different, must, some_nodes
from infra.faults.gate_scripts import catch, catch_within, hits_of, let_go, run_traps, stall_writers
from infra.faults.link_proof import DOWN, SHOWS
from infra.faults.target import Hit, Target
from infra.network.links import Cut
from infra.network.topology import STORE

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

Way = Literal["both", "requests", "replies"]  # which bytes between a client group and a node are lost


class OnClientLinks(FaultInjection):
    """A fault injection whose heal undoes what it did to links, and proves that through the links of the clients."""

    __slots__ = ()

    def heal(self, target: Target) -> None:
        target.links.lift(target.by)
        link_proof.await_answers(target, target.client_links)
        super().heal(target)


@dataclass(frozen=True, slots=True)
class CutClients(OnWorkers, OnClientLinks):
    """Cut each client group from its own set of nodes. words: for people: "clients ... from ...".

    Where only replies are lost, that hits a write if the lock service keeps the data: see `stall_writers`.
    """

    how: Cut
    lost: tuple[tuple[str, tuple[str, ...]], ...]
    words: str
    way: Way = "both"

    @classmethod
    def all_from(cls, how: Cut, groups: Sequence[str], nodes: tuple[str, ...]) -> "CutClients":
        """Cut these client groups from the same nodes."""
        words = f"clients {', '.join(groups)} from {', '.join(nodes)}"
        return cls(how, tuple((group, nodes) for group in groups), words)

    @classmethod
    def apart(cls, lost: Mapping[str, Sequence[str]]) -> "CutClients":
        """Cut each client group from its own set of nodes by dropping the bytes."""
        words = "; ".join(f"{group} from {', '.join(nodes)}" for group, nodes in lost.items())
        return cls(Cut.DROP, tuple((group, tuple(nodes)) for group, nodes in lost.items()), f"clients {words}")

    def describe(self) -> str:
        return f"cut {self.words} ({self.how})" if self.way == "both" else f"lose {self.words}"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by questions through each of the links. Only a test can see that the other direction is whole."""
        begun = target.clock.now()
        pairs = tuple((group, node) for group, nodes in self.lost for node in nodes)
        traps = stall_writers(target, pairs[0][0]) if self.way == "replies" else []
        with target.links.together():
            for group, node in pairs:
                if self.way == "both":
                    target.links.cut(group, node, self.how, target.by)
                else:
                    ends = (group, node) if self.way == "requests" else (node, group)
                    target.links.block(*ends, self.how, target.by)
        link_proof.await_cut(target, pairs, DOWN if self.way == "replies" else SHOWS[self.how])
        cut = Hit("cut", self.words, begun, target.clock.now(), silent=pairs)
        let_go(traps)
        return [cut, *hits_of(traps)]


@dataclass(frozen=True, slots=True)
class StoreLink(FaultInjection):
    """Hold what a client group sends to the store, or drop what the store answers. The store is never hurt.

    In each lane a worker of the group that is about to write is stalled until the link is cut. So a write comes late or
    is not answered. At a random moment the fault would mostly hit the read before the write instead.
    """

    group: str
    late: bool

    def describe(self) -> str:
        return f"hold what clients {self.group} send to the store" if self.late else f"lose {self._words()}"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by a question to the store through the link. Then the stalled workers go on."""
        script = catch("between-read-and-write", "stall", group=self.group)
        traps = run_traps(target, script, catch_within(target.actors.ttl))
        begun = target.clock.now()
        if self.late:
            target.links.block(self.group, STORE, Cut.HOLD, target.by)
        else:
            target.links.block(STORE, self.group, Cut.DROP, target.by)
        link_proof.await_cut(target, [(self.group, STORE)], SHOWS[Cut.HOLD] if self.late else DOWN)
        applied = target.clock.now()
        let_go(traps)
        return [Hit("cut", self._words(), begun, applied), *hits_of(traps)]

    def heal(self, target: Target) -> None:
        """Proven by a question to the store through the link."""
        target.actors.let_go(target.by)
        target.links.lift(target.by)
        link_proof.await_answers(target, [(self.group, STORE)])

    def _words(self) -> str:
        words = "requests of clients {} to the store" if self.late else "replies of the store to clients {}"
        return words.format(self.group)


def _minority(site: Site) -> tuple[int, int]:
    return (len(site.members) - 1) // 2, 1


def _majority(site: Site) -> tuple[int, int]:
    return len(site.members) - 1, len(site.members) // 2 + 1


def _part(bounds: Callable[[Site], tuple[int, int]]) -> Option:
    """The option for a part of the nodes. bounds: how many nodes at most, and at least."""
    return Option(
        "nodes",
        lambda value, site, _: different(value, site.members, *bounds(site)),
        lambda rng, site, _: sorted(some_nodes(rng, site, *bounds(site))),
    )


def _each_its_own(value: Any, site: Site, _: Options) -> dict[str, tuple[str, ...]]:
    groups = ", ".join(ALL_GROUPS)
    must(isinstance(value, dict) and sorted(value) == sorted(ALL_GROUPS), f"be lists of nodes for {groups}")
    lost = {group: different(value[group], site.members, len(site.members) - 1) for group in ALL_GROUPS}
    must(len(set(map(frozenset, lost.values()))) == len(lost), "be other nodes for each group")
    return lost


def _any_sets(rng: random.Random, site: Site, _: Options) -> dict[str, list[str]]:
    names = site.members
    sets = [nodes for count in range(1, len(names)) for nodes in itertools.combinations(names, count)]
    return dict(zip(ALL_GROUPS, map(list, rng.sample(sets, len(ALL_GROUPS))), strict=True))


_OF_CLIENTS: Final = partial(Fault, kind="cut", options=(GROUP,), spans=SPANS, needs=("client-links",))
_OF_STORE: Final = partial(_OF_CLIENTS, needs=("store-link",))


def _cut_client(how: Cut) -> Fault:
    return _OF_CLIENTS(
        f"cut-client-{how}",
        summary=f"one group of clients loses all nodes ({how})",
        inject=lambda site, group: CutClients.all_from(how, [group], site.members),
        needs=("client-links", "refusal") if how is Cut.REFUSE else ("client-links",),
        how=HOW[how],
        sees=SEES[how],
    )


def _cut_part(name: str, part: str, bounds: Callable[[Site], tuple[int, int]], *, everybody: bool = False) -> Fault:
    """Cut one group of clients, or all groups, from a part of the nodes."""
    return _OF_CLIENTS(
        name,
        summary=f"{'all clients lose' if everybody else 'one group of clients loses'} a {part} of the nodes (drop)",
        inject=lambda _, nodes, group=None: CutClients.all_from(Cut.DROP, ALL_GROUPS if everybody else [group], nodes),
        options=(_part(bounds),) if everybody else (GROUP, _part(bounds)),
        trait=Trait.PARTS,
        least=3,
        how=HOW[Cut.DROP],
        sees=f"a {part} of the nodes is silent",
    )


def _lose(way: Literal["requests", "replies"], words: str, sees: str) -> Fault:
    return _OF_CLIENTS(
        f"lose-{way}",
        summary=f"all {way} of one group of clients are lost",
        inject=lambda site, group: CutClients(Cut.DROP, ((group, site.members),), words.format(group), way),
        how="Toxiproxy: timeout 0, one direction",
        sees=sees,
    )


CUT_CLIENT: Final = tuple(map(_cut_client, Cut))

CUT_PART: Final = (
    _cut_part("cut-client-minority", "minority", _minority),
    _cut_part("cut-client-majority", "majority", _majority),
    _OF_CLIENTS(
        "cut-clients-apart",
        summary="each group of clients loses other nodes (drop)",
        inject=lambda _, nodes: CutClients.apart(nodes),
        options=(Option("nodes", _each_its_own, _any_sets),),
        trait=Trait.PARTS,
        least=3,
        how=HOW[Cut.DROP],
        sees="some nodes are silent, and others for other clients",
    ),
    _cut_part("cut-minority-drop", "minority", _minority, everybody=True),
    _cut_part("cut-majority-drop", "majority", _majority, everybody=True),
)

LOSE: Final = (
    _lose("requests", "all requests of clients {}", "silence; nothing was done"),
    _lose("replies", "all replies to clients {}", "silence; all of it was done"),
)

STORE_LINK: Final = (
    _OF_STORE(
        "delayed-write",
        summary="what one group of clients writes to the store arrives late",
        inject=lambda _, group: StoreLink(group, late=True),
        how="Toxiproxy: latency of a day on the bytes to the store",
        sees="no answer from the store; the write lands at the heal, whoever holds the lock by then",
    ),
    _OF_STORE(
        "store-reply-lost",
        summary="the store does what one group of clients asks for, but its answers are lost",
        inject=lambda _, group: StoreLink(group, late=False),
        how="Toxiproxy: timeout 0 on the bytes from the store",
        sees="no answer from the store; the write was done",
    ),
)
