"""`deadlock-free`: no circle of holders, each of whom waits for what the next one holds, lasts longer than a TTL.

A worker waits for a key from the invocation of an acquire to its end, and holds one from its grant until it leaves.
Leases and timeouts break every circle in the end. If a circle lasts longer than a lease, and nearly until one of those
who wait gives up, the lock did not break it.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from checkers.history.counting import grouped
from checkers.history.finding import Finding
from checkers.history.holds_and_leases import Hold
from checkers.history.interval_sets import length, moment, without
from checkers.history.view import View
from checkers.properties.property import Examined, Property
from checkers.properties.shared_counters import Exercise, idle, lock_unexercised, unless
from checkers.properties.stories import in_turn
from checkers.row_format import SHARED, Outcome

BOTH: Final = "acquires by a holder of another key"
CYCLES: Final = "circles of waiting holders"
LONGEST: Final = "longest circle (ms)"
NEARLY: Final = 1_000_000_000
"""ns before the first of a circle would have given up: what has not been broken by then is not broken by the lock."""


class Wait(NamedTuple):
    """A worker that holds one key and waits for another, from `begin` to `end` (ns)."""

    begin: int
    end: int
    worker: int
    row: int
    wanted: int
    shared: bool
    held: Hold

    def blocked_by(self, other: "Wait") -> bool:
        """Whether the other holds what this one waits for, and does not share it."""
        return self.worker != other.worker and self.wanted == other.held.key and not (self.shared and other.held.shared)


def _examine(view: View) -> Examined:
    """Exact, for one permit: each circle counts, and is told if it lasts too long, less stalls and silences."""
    findings = []
    cycles = longest = 0
    for circle in _circles(view.once(_waits)) if view.facts.permits == 1 else ():
        begin, end = max(wait.begin for wait in circle), min(wait.end for wait in circle)
        lasted, limit = without([(begin, end)], view.once(idle)), _limit(view, circle)
        cycles += 1
        longest = max(longest, length(lasted))
        if length(lasted) > limit:
            rows = (*(wait.held.row for wait in circle), *(wait.row for wait in circle))
            holders = in_turn([wait.held for wait in circle])
            findings.append(Finding("deadlock", moment(lasted, limit), rows, holders))
    return Examined(findings, {CYCLES: cycles, LONGEST: longest // 1_000_000})


def _exercise(view: View) -> Exercise:
    both = len(view.once(_waits))
    missing = unless(view.facts.permits == 1, "several may hold at once")
    missing = missing or unless(both, "no holder asked for another lock") or lock_unexercised(view)
    return Exercise(missing, {BOTH: both})


def _limit(view: View, circle: Sequence[Wait]) -> int:
    """ns for which a circle may last: a TTL, and where those who wait were told to do so for longer, nearly as long."""
    outcome, ttl = view.column("outcome"), view.column("ttl")
    patiences = (ttl[wait.row] for wait in circle if outcome[wait.row] != Outcome.OK and ttl[wait.row])
    return max(view.facts.ttl, min(patiences, default=0) - NEARLY)


def _waits(view: View) -> list[Wait]:
    """In order of their beginnings. An acquire without an answer waits until it was given up."""
    by_worker = grouped(view.holds, lambda hold: view.worker(hold.row))
    inv, key, flags = (view.column(name) for name in ("inv", "key", "flags"))
    moments = view.array("ret").tolist()
    waits = []
    current: dict[int, int] = {}
    for row in view.attempts():
        worker = view.worker(row)
        holds = by_worker.get(worker, [])
        # Grants of a worker come in order, and few are held at once: those that are over are never looked at again.
        first = current.get(worker, 0)
        while first < len(holds) and holds[first].left <= inv[row]:
            first += 1
        current[worker] = first
        for held in holds[first:]:
            if held.ret > inv[row]:
                break
            end = min(moments[row], held.left)
            if held.key != key[row] and end > inv[row]:
                waits.append(Wait(inv[row], end, worker, row, key[row], bool(flags[row] & SHARED), held))
    return waits


def _circles(waits: Sequence[Wait]) -> Iterator[tuple[Wait, ...]]:
    """Every circle of waits that have some time in common, once: it starts at the wait that began last."""
    going: list[Wait] = []
    for last in waits:
        going = [wait for wait in going if wait.end > last.begin]
        yield from _back_to(last, (last,), going)
        going.append(last)


def _back_to(last: Wait, path: tuple[Wait, ...], going: Sequence[Wait]) -> Iterator[tuple[Wait, ...]]:
    if len(path) > 1 and path[-1].blocked_by(last):
        yield path
    workers = {wait.worker for wait in path}
    for wait in going:
        if wait.worker not in workers and path[-1].blocked_by(wait):
            yield from _back_to(last, (*path, wait), going)


DEADLOCK_FREE: Final = Property("deadlock-free", _examine, _exercise, by_workload=True)
