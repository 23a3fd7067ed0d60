"""`independence`: a lock keeps nobody out who asks for one of another name.

What may keep a client from a lock is whoever holds it, and whoever else asks for it and may have been granted it
unseen. Where there was nobody of both, it is another lock that was in the way: the service takes the two for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from checkers.exercise import counters, fault_missed, undisturbed, worker_of
from checkers.finding import Finding
from checkers.leases import INFINITY
from checkers.narrate import Narrator
from checkers.spans import clipped, length, moment, united, without
from checkers.verdict import Verdict
from checkers.view import View
from checkers.wire import NESTED, F, Outcome, Reason

INDEPENDENCE: Final = "independence"
BESIDE: Final = "acquires of a free lock while another was held"
SLOWEST: Final = "longest wait for a free lock (ms)"

_NOT_ASKED: Final = (Reason.UNAVAILABLE, Reason.DENIED, Reason.NOT_OWNER)
"""Why an acquire failed that was never in line."""
_BROKEN: Final = {
    "kept-by-another-name": "So somebody was kept from a lock that nobody else held or asked for.",
}


def independence(view: View) -> Verdict:
    """Sound: judged is the time in which the lock was certainly free, and nobody else can have been given it.

    A refusal that says that it is held is a lie if it was free all the while. Any other answer may take the bound that
    the lock declares, which a fault or a stall excuses.
    """
    bound = view.facts.bounds.get(INDEPENDENCE)
    inv, ret, key = view.column("inv"), view.column("ret"), view.column("key")
    reason, flags = view.column("reason"), view.column("flags")
    taken = _taken(view)
    findings: list[Finding] = []
    beside = slowest = 0
    for row in view.rows(F.ACQUIRE, F.TRY_ACQUIRE, outcomes=(Outcome.OK, Outcome.FAIL)):
        if flags[row] & NESTED or reason[row] in _NOT_ASKED:
            continue
        others = [span for other, span in taken[key[row]].items() if other != row]
        free = without([(inv[row], ret[row])], united(clipped(others, inv[row], ret[row])))
        waited = length(free)
        lied = reason[row] == Reason.HELD and waited == ret[row] - inv[row]
        beside += bool(free) and bool(_met(view, row, ret[row]))
        if lied or undisturbed(row, view):
            slowest = max(slowest, waited)
            if lied or (bound is not None and waited > bound):
                at = ret[row] if lied else moment(free, bound or 0)
                holders = _met(view, row, at)
                findings.append(Finding("kept-by-another-name", at, (*holders, row), holders))
    counted = {**counters(view), BESIDE: beside, SLOWEST: slowest // 1_000_000}
    violations = Narrator(view).tell(findings, _BROKEN)
    return Verdict(INDEPENDENCE, not violations, violations, counted, unexercised=_unexercised(view, counted))


def _unexercised(view: View, counted: Mapping[str, int]) -> str | None:
    if INDEPENDENCE not in view.facts.bounds:
        return "the lock declares no bound"
    return fault_missed(view, counted) if counted[BESIDE] else "nobody asked for a free lock while another was held"


def _taken(view: View) -> dict[int, dict[int, tuple[int, int]]]:
    """Key → row of each acquire of it → from when to when (ns) that may have kept others out.

    One without an answer, or whose release is not certain, is counted to the end.
    """
    inv, ret, key, flags = (view.column(name) for name in ("inv", "ret", "key", "flags"))
    freed = {grant.row: grant.freed[1] for grant in view.grants}
    taken: dict[int, dict[int, tuple[int, int]]] = {number: {} for number in set(key)}
    for row in view.rows(F.ACQUIRE, F.TRY_ACQUIRE):
        if not flags[row] & NESTED:
            taken[key[row]][row] = inv[row], min(freed.get(row, ret[row]), INFINITY)
    return taken


def _met(view: View, row: int, at: int) -> tuple[int, ...]:
    """Acquire rows of other workers' holds of other keys, from the invocation of this one to a moment."""
    who, key, since = worker_of(view.column("process")[row], view), view.column("key")[row], view.column("inv")[row]
    return tuple(
        grant.row
        for grant in view.grants
        if grant.key != key and grant.ret <= at and since < grant.left and worker_of(grant.process, view) != who
    )
