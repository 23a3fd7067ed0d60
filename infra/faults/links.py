"""Faults on links: cut refuses, drops or holds (see `infra.links`), slow delays.

A cut between a client group and nodes counts as applied when a fresh question through it is refused (refuse) or gets
no answer (drop, hold). A cut between nodes, which no question from outside can pass, counts as applied when Toxiproxy
shows it and the others notice: they elect another leader, or the lonely node stops serving.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from infra.faults import fault, probe
from infra.faults.fault import EFFECT_WITHIN, LEADERS, LOOK_EVERY, PROVEN_WITHIN, Fault
from infra.faults.probe import Answer
from infra.faults.target import Hit
from infra.links import Cut
from infra.machine import Failed
from infra.star import GROUPS, MEMBERS, client

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from infra.faults.fault import Options
    from infra.faults.target import Target

CUT_FOR: Final = 2.0
"""Seconds; longer than the shortest TTL."""

NOTICED_FOR: Final = 1.5
"""Seconds that a cut between nodes goes on after the others have noticed."""

LATENCIES: Final = (20, 60)
"""ms each way, least and most: a round trip of 40-150 ms stays below every election and request timeout."""

_SHOWS: Final = {Cut.REFUSE: Answer.CLOSED, Cut.DROP: Answer.SILENT, Cut.HOLD: Answer.SILENT}
_GROUPS: Final = tuple(map(client, GROUPS))


@dataclass(frozen=True, slots=True)
class CutClients:
    """Client groups from nodes."""

    how: Cut
    groups: tuple[str, ...]
    nodes: tuple[str, ...]

    def describe(self) -> str:
        """See `Injury`."""
        return f"cut clients {_listed(self.groups)} from {_listed(self.nodes)} ({self.how})"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by questions through each of the links."""
        begun = target.clock.now()
        pairs = [(group, node) for group in self.groups for node in self.nodes]
        for group, node in pairs:
            target.links.cut(group, node, self.how)
        endpoints = [target.endpoints[pair] for pair in pairs]
        if not target.clock.wait(
            PROVEN_WITHIN, lambda: set(probe.ask_all(target.backend, endpoints)) == {_SHOWS[self.how]}
        ):
            raise Failed(f"{_listed(self.groups)} are cut from {_listed(self.nodes)}, but questions still pass")
        said = f"clients {_listed(self.groups)} from {_listed(self.nodes)}"
        return [Hit("cut", said, begun, target.clock.now())]

    def heal(self, target: Target) -> None:
        """See `Injury`."""
        fault.heal_links(target)


@dataclass(frozen=True, slots=True)
class Isolate:
    """One node from its peers, while clients still reach it: the leader, or the n-th follower."""

    how: Cut
    follower: int | None = None

    def describe(self) -> str:
        """See `Injury`."""
        whom = "the leader" if self.follower is None else f"follower {self.follower + 1}"
        return f"isolate {whom} from its peers ({self.how}) until they notice, and"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by Toxiproxy's state, and by what the nodes make of it."""
        victim = leader = fault.leader(target)
        if self.follower is not None:
            victim = [node for node in target.cluster.nodes if node is not leader][self.follower]
        peers = [node.name for node in target.cluster.nodes if node is not victim]
        begun = target.clock.now()
        for peer in peers:
            target.links.cut(victim.name, peer, self.how)
        if victim is leader:
            remark = fault.await_successor(target, victim)
        else:
            lonely = target.clock.wait(EFFECT_WITHIN, lambda: victim.health() is None, LOOK_EVERY)
            remark = "" if lonely else f"; it still serves after {EFFECT_WITHIN:.0f} s"
        role = "leader" if victim is leader else "follower"
        return [Hit("cut", f"{victim.name} ({role}) from {_listed(peers)}{remark}", begun, target.clock.now())]

    def heal(self, target: Target) -> None:
        """See `Injury`."""
        fault.heal_links(target)


@dataclass(frozen=True, slots=True)
class Slow:
    """Every link of the backend, of clients and of peers. ms each way."""

    latency: int
    jitter: int

    @classmethod
    def make(cls, options: Options) -> Self:
        """Raises ValueError."""
        fault.only(options, "latency_ms", "jitter_ms")
        for name, value in options.items():
            if type(value) is not int or not 0 <= value <= 10_000:
                raise ValueError(f"{name}: must be a number of milliseconds from 0 to 10000, not {value!r}")
        if options["jitter_ms"] > options["latency_ms"]:
            raise ValueError("jitter_ms: must not be more than latency_ms")
        return cls(options["latency_ms"], options["jitter_ms"])

    def describe(self) -> str:
        """See `Injury`."""
        return f"slow all links by {self.latency} ± {self.jitter} ms each way"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by the time that a question takes through the link that was slowed last."""
        begun = target.clock.now()
        nodes = [node.name for node in target.cluster.nodes]
        pairs = [(group, node) for group in target.groups for node in nodes]
        peers = [(a, b) for a in nodes for b in nodes if a < b] if target.backend in LEADERS else []
        for a, b in peers + pairs:
            target.links.slow(a, b, self.latency, self.jitter)

        def shows() -> bool:
            asked = time.monotonic()
            answer = probe.ask(target.backend, target.endpoints[pairs[-1]], patience=30.0)
            return answer is Answer.ANSWERED and time.monotonic() - asked >= 2 * (self.latency - self.jitter) / 1000

        if not target.clock.wait(PROVEN_WITHIN, shows):
            raise Failed("links are slowed, but answers come as fast as before")
        return [Hit("slow", f"all links of {target.backend}", begun, target.clock.now())]

    def heal(self, target: Target) -> None:
        """See `Injury`."""
        fault.heal_links(target)


def cut_client(how: Cut) -> Fault:
    """One client group from all nodes."""

    def make(backend: str, options: Options) -> CutClients:
        fault.only(options, "group")
        if options["group"] not in _GROUPS:
            raise ValueError(f"group: must be one of {_listed(_GROUPS)}, not {options['group']!r}")
        return CutClients(how, (options["group"],), MEMBERS[backend])

    return Fault(
        f"cut-client-{how}",
        "cut",
        f"one group of clients loses all nodes ({how})",
        make,
        choose=lambda rng, _: {"group": rng.choice(_GROUPS)},
        refuses=how is Cut.REFUSE,
        seconds=CUT_FOR,
    )


def cut_minority(how: Cut) -> Fault:
    """All clients from a minority of the nodes."""

    def minority(backend: str) -> int:
        return (len(MEMBERS[backend]) - 1) // 2

    def make(backend: str, options: Options) -> CutClients:
        fault.only(options, "nodes")
        return CutClients(how, _GROUPS, fault.checked_nodes(options["nodes"], MEMBERS[backend], minority(backend)))

    return Fault(
        f"cut-minority-{how}",
        "cut",
        f"all clients lose a minority of the nodes ({how})",
        make,
        choose=lambda rng, backend: {"nodes": fault.some_nodes(rng, backend, minority(backend))},
        seconds=CUT_FOR,
        unfit={"postgres": "a single server has no minority"},
    )


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
        unfit={"redis": "five independent servers have no peers", "postgres": "a single server has no peers"},
    )


def isolate_leader(how: Cut) -> Fault:
    """The leader from its peers."""

    def make(_: str, options: Options) -> Isolate:
        fault.only(options)
        return Isolate(how)

    return Fault(
        f"isolate-leader-{how}",
        "cut",
        f"the leader loses its peers, not its clients ({how})",
        make,
        seconds=NOTICED_FOR,
        unfit={"redis": "five independent servers have no leader", "postgres": "a single server has no leader"},
    )


def slow_links() -> Fault:
    """Every link of the backend."""

    def choose(rng: random.Random, _: str) -> Options:
        latency = rng.randint(*LATENCIES)
        return {"latency_ms": latency, "jitter_ms": latency // 4}

    return Fault(
        "slow-links",
        "slow",
        "every link of the backend becomes slow",
        lambda _, options: Slow.make(options),
        choose=choose,
        seconds=CUT_FOR,
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
