"""Faults that are sequences of kills, while a client writes beside the locks (`infra.background_writes`).

Some server releases have lost acknowledged writes when members were killed again and again while they wrote, or when a
member that had been away led the others. A sequence happens wholly in `apply`, and starts members again as it goes on.
"""

import contextlib
import random
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from infra.backends.answers import NO_ANSWER
from infra.backends.backend import Trait
from infra.cluster.nodes import Node
from infra.errors import Failed
from infra.faults import fault
from infra.faults.fault import HEALED_WITHIN, LOOK_EVERY, Fault, Nobody
from infra.faults.fault_options import LEADER, Option, Options, Site, must, number, within
from infra.faults.servers.strikes import end, named
from infra.faults.target import Hit, Target
from infra.waiting import at_once

RATE: Final = 400.0
"""Writes a second, if the cluster takes so many."""
ANSWERED_WITHIN: Final = 60.0
"""Seconds for a leader, and for writes to be acknowledged: on an overloaded machine an election alone takes twenty."""
KILLS: Final = (8, 10)
"""Kills in a random sequence, least and most."""
MOST_KILLS: Final = 100
MOMENT: Final = (50, 500)
"""ms from the first write that is acknowledged after a kill until the next kill, least and most."""
BUSY: Final = (0, 200)
"""ms from the start of a member's maintenance until its kill, least and most."""
AWAY: Final = 1000
"""Writes that a member misses while it is away."""
ALL: Final = "all"
"""Stands for all members at once."""


def _whom(kills: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{who} after {after} ms" for who, after in kills)


def _killed(target: Target, who: str) -> Sequence[Node]:
    return target.cluster.nodes if who == ALL else [target.node(who)]


@dataclass(frozen=True, slots=True)
class KillUnderLoad(fault.OnNodes):
    """Kill members and start them again at once. kills: name of a member, or ALL, and the ms before the kill."""

    kills: tuple[tuple[str, int], ...]

    def describe(self) -> str:
        return f"kill and start while {RATE:.0f} keys a second are written: {_whom(self.kills)},"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by the states of containers, and by writes that are acknowledged before each kill."""
        hits = []
        with target.writes.going_on(RATE):
            for who, after in self.kills:
                written = _await_writes(target, 1)
                target.clock.sleep(after / 1000)
                nodes = _killed(target, who)
                hits.append(_kill(target, nodes, "", written))
                _start(target, nodes)
        return hits


@dataclass(frozen=True, slots=True)
class KillInMaintenance(fault.OnNodes):
    """Kill members while they compact, rewrite or vacuum what was written before. kills: as in `KillUnderLoad`."""

    kills: tuple[tuple[str, int], ...]

    def describe(self) -> str:
        return f"kill and start while it compacts, rewrites or vacuums what it keeps: {_whom(self.kills)},"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by the states of containers; the maintenance of each goes on until it is killed."""
        hits = []
        for who, after in self.kills:
            nodes = _killed(target, who)
            _await_ready(target, who)
            if target.kind.has(Trait.LEADER):
                with target.writes.going_on(RATE):
                    _await_writes(target, AWAY)
            with _maintaining(target, nodes) as going:
                target.clock.sleep(after / 1000)
                hits.append(_kill(target, nodes, "in maintenance" if all(map(Future.running, going)) else "", 0))
            _start(target, nodes)
        return hits


@dataclass(frozen=True, slots=True)
class Cascade(fault.OnNodes):
    """Kill `times` leaders, one after another. Each is started again when the next leader is killed."""

    times: int

    def describe(self) -> str:
        return f"kill {self.times} leaders, each as soon as it leads, while {RATE:.0f} keys a second are written,"

    def apply(self, target: Target) -> Sequence[Hit]:
        hits, away = [], list[Node]()
        with target.writes.going_on(RATE):
            for _ in range(self.times):
                leader = fault.leader(target, ANSWERED_WITHIN)
                hits.append(_kill(target, [leader], LEADER, 0))
                _start(target, away)
                away = [leader]
        return hits


@dataclass(frozen=True, slots=True)
class RejoinThenLead(fault.OnNodes):
    """A follower is away and returns. A minority, of three the other one, is away when another minority is killed, the
    leader with it. So one that was there has to lead: of an odd number of voters, the first.
    """

    def describe(self) -> str:
        return f"a follower misses {AWAY} writes, then a minority does, then another is killed with the leader,"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by writes that are acknowledged meanwhile, and by who leads in the end."""
        with target.writes.going_on(RATE):
            first = self._followers(target)[0]
            hits = [self._away(target, first)]
            _start(target, [first])
            _await_ready(target, first.name)
            minority = (len(target.cluster.voters) - 1) // 2
            others = self._followers(target, first)[:minority]
            hits.append(self._away(target, *others))
            leader = fault.leader(target, ANSWERED_WITHIN)
            elected = leader is first  # it may lead already, on an overloaded machine
            if not elected:
                hits.append(_kill(target, [leader], LEADER, 0))
                rest = [node for node in target.cluster.voters if node not in (first, leader, *others)]
                if beside := rest[: minority - 1]:
                    hits.append(_kill(target, beside, "", 0))
            _start(target, others)
            if target.alone and not elected and (leads := fault.leader(target, ANSWERED_WITHIN)) in others:
                raise Failed(f"{leads.name} leads, though it cannot have all that was acknowledged")
        return hits

    def _followers(self, target: Target, *but: Node) -> list[Node]:
        """The followers that are none of `but`."""
        leader = fault.leader(target, ANSWERED_WITHIN)
        return [node for node in target.cluster.voters if node not in (leader, *but)]

    def _away(self, target: Target, *nodes: Node) -> Hit:
        hit = _kill(target, nodes, "", 0)
        _await_writes(target, AWAY)
        return hit


@contextlib.contextmanager
def _maintaining(target: Target, nodes: Sequence[Node]) -> Iterator[Sequence[Future[None]]]:
    """During the block, have each of the nodes maintain its data again and again, until it fails or is killed."""
    over = threading.Event()

    def maintain(node: Node) -> None:
        with contextlib.suppress(*NO_ANSWER, Failed):
            while True:
                target.kind.maintain(node)
                if over.is_set():
                    return

    with ThreadPoolExecutor(len(nodes), "maintenance") as pool:
        try:
            yield [pool.submit(maintain, node) for node in nodes]
        finally:
            over.set()


def _await_ready(target: Target, after: str) -> None:
    """Raises Failed, or Nobody if another fault is on. after: who was hit."""
    if not target.clock.wait(target.patience(HEALED_WITHIN), target.cluster.ready, LOOK_EVERY):
        raise (Failed if target.alone else Nobody)(f"{after} does not come back")


def _await_writes(target: Target, more: int) -> int:
    """Wait until so many more writes are acknowledged. Returns how many were in all. Raises Failed."""
    before, patience = target.writes.made, target.patience(ANSWERED_WITHIN)
    if not target.clock.wait(patience, lambda: target.writes.made >= before + more, LOOK_EVERY) and target.alone:
        raise Failed(f"{target.writes.made - before} writes were acknowledged in {patience:.0f} s, not {more}")
    return target.writes.made


def _kill(target: Target, nodes: Sequence[Node], role: str, written: int) -> Hit:
    """Kill the nodes at the same time. written: writes beside the locks until then, 0 if they do not matter."""
    begun = target.clock.now()
    at_once(lambda node: end(target, node), nodes)
    after = f" after {written} writes" if written else ""
    return Hit("kill", ", ".join(named(node, role) for node in nodes) + after, begun, target.clock.now())


def _start(target: Target, nodes: Sequence[Node]) -> None:
    at_once(lambda node: node.let_go(target.by), nodes)


def _kills(value: Any, site: Site, _: Options) -> tuple[tuple[str, int], ...]:
    known = (ALL, *site.members)
    must(isinstance(value, list) and 0 < len(value) <= MOST_KILLS, f"be a list of 1 to {MOST_KILLS} kills")
    for kill in value:
        right = isinstance(kill, list) and len(kill) == 2 and kill[0] in known and type(kill[1]) is int
        must(right and 0 <= kill[1] <= 60_000, f"be a list of [one of {', '.join(known)}, ms from 0 to 60000]")
    return tuple((who, after) for who, after in value)


def _drawn_kills(rng: random.Random, site: Site, _: Options) -> list[list[str | int]]:
    """Random kills. Every second one kills all members at once."""
    whom = [rng.choice(site.members) if count % 2 else ALL for count in range(rng.randint(*KILLS))]
    return [[who, rng.randint(*MOMENT)] for who in whom]


_SEQUENCE: Final = partial(Fault, kind="kill", trait=Trait.LEADER, needs=("kill", "load"), least=3)

SEQUENCES: Final = (
    _SEQUENCE(
        "kill-under-load",
        summary="members, or all at once, are killed and started again and again while much is written",
        inject=lambda _, kills: KillUnderLoad(kills),
        options=(Option("kills", _kills, _drawn_kills),),
        how="Docker: SIGKILL, start, at random moments, beside a client of our own that writes",
        sees="connections closed, then refused, for seconds; what was acknowledged must be there",
    ),
    _SEQUENCE(
        "cascade",
        summary="each leader is killed as soon as it leads, while much is written",
        inject=lambda _, times: Cascade(times),
        options=(number("times", 1, MOST_KILLS, within((4, 6)), "a number of leaders"),),
        how="Docker: SIGKILL of the leader; the one before is started then, and catches up from the third",
        sees="connections closed, one election after another",
    ),
    _SEQUENCE(
        "rejoin-then-lead",
        summary="a member that was away while much was written catches up, and leads while the next one does",
        inject=fault.always(RejoinThenLead()),
        how="Docker: SIGKILL and start of one follower, of a minority, and of another minority with the leader",
        sees="connections closed; a leader that had been away",
    ),
)

KILL_IN_MAINTENANCE: Final = Fault(
    "kill-in-maintenance",
    "kill",
    "each server is killed while it compacts, rewrites or vacuums what it keeps, and started again",
    lambda _, kills: KillInMaintenance(kills),
    (Option("kills", _kills, lambda rng, site, _: [[who, rng.randint(*BUSY)] for who in site.members]),),
    trait=Trait.MAINTAINED,
    needs=("kill", "load", "maintenance"),
    how="as maintenance, again and again until Docker sends SIGKILL; of etcd after 1000 writes",
    sees="connections closed, then refused, of one server after another",
)
