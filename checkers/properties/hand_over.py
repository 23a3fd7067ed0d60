"""`hand-over`: a lock that was released is granted to somebody who waits, within the bound that the lock declares.

Judged before the first fault and well after the last: what a service may take when it is struck, or has lost a client,
is for `recovery` and `crash-release` to say.
"""

from bisect import bisect_right
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import accumulate
from typing import Final, NamedTuple

from checkers.claims import NO_FAULT
from checkers.history.finding import Finding
from checkers.history.history import Facts
from checkers.history.holds_and_leases import Hold
from checkers.history.interval_sets import Span, clipped, length, moment, united, without
from checkers.history.view import View
from checkers.properties.property import Examined, Need, Property
from checkers.properties.recovery import RECOVERY
from checkers.properties.releases import waits_for
from checkers.properties.shared_counters import Exercise, stalls, unless
from checkers.row_format import INFINITY, SHARED

JUDGED: Final = "releases that somebody waited for"
SLOWEST: Final = "slowest hand-over (ms)"


class HandOver(NamedTuple):
    """A release, when others waited between its return and the return of the next grant, and that return (ns)."""

    hold: Hold
    waiting: list[Span]
    end: int


def _examine(view: View) -> Examined:
    """Whether after each release that returned and left nobody inside the next grant returned within the bound.

    Counted is the time in which an answered acquire certainly waited, less the stalls of the lane's workers. Sound:
    checkers/CONDITIONS.md, section 12.
    """
    bound = view.facts.bounds.get(HAND_OVER.id)
    findings: list[Finding] = []
    for hold, waiting, _ in view.once(_hand_overs):
        if bound is not None and length(waiting) > bound:
            findings.append(_late(view, hold, moment(waiting, bound)))
    slowest = max((length(one.waiting) for one in view.once(_hand_overs)), default=0)
    return Examined(findings, {SLOWEST: slowest // 1_000_000})


def _exercise(view: View) -> Exercise:
    judged = sum(one.waiting[0][0] == one.hold.freed for one in view.once(_hand_overs))
    return Exercise(unless(judged, "nobody waited for what was released, away from faults"), {JUDGED: judged})


def _unexpected(facts: Facts) -> str | None:
    faults = any(name != NO_FAULT for name in facts.fault_names)
    return "faults may take up all of the time" if faults else None


def _late(view: View, hold: Hold, at: int) -> Finding:
    """The witness: whose release it was, and who waited at that moment."""
    inv, ret = view.column("inv"), view.column("ret")
    waiter = next(row for row in view.attempts_by_key[hold.key] if inv[row] <= at <= ret[row])
    return Finding("handed-over-late", at, (hold.row, hold.release, waiter), (hold.row,))


def _hand_overs(view: View) -> list[HandOver]:
    """Every release that can be judged and that somebody waited for."""
    before, after, idle = *_quiet(view), view.once(stalls)
    inv, flags = view.column("inv"), view.column("flags")
    result = []
    for key, holds in view.holds.by_key.items() if view.facts.permits == 1 else ():
        waits, unanswered = waits_for(view, key, shared=False)
        doubt = min((inv[row] for row in unanswered if flags[row] & SHARED), default=INFINITY)
        found = []
        granted, over = [hold.ret for hold in holds], list(accumulate((hold.over for hold in holds), max))
        for hold in holds:
            place = bisect_right(granted, hold.freed)  # those before it were granted by then
            end = min((*granted[place : place + 1], view.finish))
            judged = over[place - 1] <= hold.freed < end <= doubt and (end <= before or hold.freed >= after)
            if judged and (waiting := without(united(clipped(waits, hold.freed, end)), idle)):
                found.append(HandOver(hold, waiting, end))
        result += _certain(found, (inv[row] for row in unanswered))
    return result


def _certain(found: Iterable[HandOver], unanswered: Iterable[int]) -> list[HandOver]:
    """Those that remain when each acquire that nobody answered is taken to have had the lock in the slowest that ended
    after its request: it has it once at most, and nobody is granted the lock meanwhile. unanswered: when each was sent
    (ns).
    """
    slowest: dict[int, int] = {}
    for one in found:
        slowest[one.end] = max(slowest.get(one.end, 0), length(one.waiting))
    ends, ended_later, doubted = sorted(slowest), list[Span](), set()
    for sent in sorted(unanswered, reverse=True):
        while ends and ends[-1] > sent:
            end = ends.pop()
            heappush(ended_later, (-slowest[end], end))
        if ended_later:
            doubted.add(heappop(ended_later)[1])
    return [one for one in found if one.end not in doubted]


def _quiet(view: View) -> tuple[int, int]:
    """ns; when the first fault began, and when the last had been healed for long enough: the bound of recovery, and a
    TTL, since a client that is gone may keep its place for that. Infinite where there was none, or none is healed.
    """
    faults = view.struck
    bound = view.facts.bounds.get(RECOVERY.id)
    if not faults:
        return INFINITY, INFINITY
    healed = bound is not None and all(fault.healed for fault in faults)
    longest = max((hold.ttl for hold in view.holds), default=0)
    settled = max(fault.healed for fault in faults) + (bound or 0) + longest if healed else INFINITY
    return min(fault.begun for fault in faults), settled


HAND_OVER: Final = Property(
    "hand-over",
    _examine,
    _exercise,
    needs=frozenset({Need.EXCLUDES, Need.ONE_PERMIT}),
    bounded=True,
    unexpected=_unexpected,
)
