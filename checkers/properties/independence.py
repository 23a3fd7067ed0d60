"""`independence`: a lock keeps out nobody who asks for a lock of another name.

A client can be kept out by the holder of the lock, and by another client that asked for it and may have been granted it
without an answer. If there was neither, another lock was in the way: the service takes the two for one.
"""

from typing import Final

from checkers.history.finding import Finding
from checkers.history.interval_sets import Span, clipped, length, moment, united, without
from checkers.history.view import View
from checkers.properties.property import Examined, Need, Property
from checkers.properties.shared_counters import Exercise, fault_missed, undisturbed
from checkers.row_format import INFINITY, Outcome, Reason

BESIDE: Final = "acquires of a free lock while another was held"
SLOWEST: Final = "longest wait for a free lock (ms)"

_NOT_ASKED: Final = (Reason.UNAVAILABLE, Reason.DENIED, Reason.NOT_OWNER)
"""Why an acquire failed that was never in line."""


def _examine(view: View) -> Examined:
    """Sound: judged is the time in which the lock was certainly free (checkers/CONDITIONS.md, section 13)."""
    bound = view.facts.bounds.get(INDEPENDENCE.id)
    inv, ret, reason = view.column("inv"), view.column("ret"), view.column("reason")
    findings: list[Finding] = []
    slowest = 0
    for row, free in view.once(_free).items():
        waited = length(free)
        lied = reason[row] == Reason.HELD and waited == ret[row] - inv[row]
        if lied or undisturbed(row, view):
            slowest = max(slowest, waited)
            if lied or (bound is not None and waited > bound):
                at = ret[row] if lied else moment(free, bound or 0)
                holders = _met(view, row, at)
                findings.append(Finding("kept-by-another-name", at, (*holders, row), holders))
    return Examined(findings, {SLOWEST: slowest // 1_000_000})


def _exercise(view: View) -> Exercise:
    ret = view.column("ret")
    beside = sum(bool(free) and bool(_met(view, row, ret[row])) for row, free in view.once(_free).items())
    missing = fault_missed(view) if beside else "nobody asked for a free lock while another was held"
    return Exercise(missing, {BESIDE: beside})


def _free(view: View) -> dict[int, list[Span]]:
    """Row of each answered acquire → when, during it, the lock was free and nobody else can have got it."""
    inv, ret, key = view.column("inv"), view.column("ret"), view.column("key")
    reason, taken = view.column("reason"), _taken(view)

    def free(row: int) -> list[Span]:
        others = [span for other, span in taken[key[row]].items() if other != row]
        return without([(inv[row], ret[row])], united(clipped(others, inv[row], ret[row])))

    return {row: free(row) for row in view.attempts(Outcome.OK, Outcome.FAIL) if reason[row] not in _NOT_ASKED}


def _taken(view: View) -> dict[int, dict[int, tuple[int, int]]]:
    """Key → row of each acquire of it → from when to when (ns) it may have kept others out.

    An acquire without an answer counts to the end, and so does one whose release is not certain.
    """
    inv, ret, key = (view.column(name) for name in ("inv", "ret", "key"))
    freed = {hold.row: hold.freed for hold in view.holds}
    taken: dict[int, dict[int, tuple[int, int]]] = {number: {} for number in set(key)}
    for row in view.attempts():
        taken[key[row]][row] = inv[row], min(freed.get(row, ret[row]), INFINITY)
    return taken


def _met(view: View, row: int, at: int) -> tuple[int, ...]:
    """Acquire rows of other workers' holds of other keys, from the invocation of this one to a moment."""
    key, since, who = view.column("key")[row], view.column("inv")[row], view.worker(row)
    others = (hold for hold in view.holds if hold.key != key and view.worker(hold.row) != who)
    return tuple(hold.row for hold in others if hold.ret <= at and since < hold.left)


INDEPENDENCE: Final = Property(
    "independence", _examine, _exercise, needs=frozenset({Need.EXCLUDES}), bounded=True, early=True
)
