"""`reentrancy`: a holder may acquire again, gets the same grant, and its inner release frees nothing."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

from checkers.history.counting import grouped
from checkers.history.finding import Finding
from checkers.history.holds_and_leases import Hold, exclude
from checkers.history.order_of_grants import came_later
from checkers.history.view import View
from checkers.properties.property import Examined, Need, Property
from checkers.properties.shared_counters import Exercise, lock_unexercised, undisturbed, unless
from checkers.row_format import ACQUIRES, NESTED, F, Outcome, Reason

NESTED_ACQUIRES: Final = "nested acquires"
AWAITED: Final = "inner releases that somebody waited for"


def _examine(view: View) -> Examined:
    """Sound while the outer grant was certainly in force; that an inner release caused a wrong grant is only likely."""
    findings: list[Finding] = []
    for row, outer in _nested(view, *ACQUIRES):
        findings += _inner_acquire(view, row, outer)
    for row, outer in _nested(view, F.RELEASE):
        findings += _inner_release(view, row, outer)
    # One for each pair of grants: the latest of several inner releases is to blame.
    latest = {(finding.kind, finding.rows[0], finding.rows[-1]): finding for finding in findings}
    return Examined(list(latest.values()))


def _exercise(view: View) -> Exercise:
    nested = sum(view.column("outcome")[row] == Outcome.OK for row, _ in _nested(view, *ACQUIRES))
    awaited = sum(_awaited(view, [row for row, _ in _nested(view, F.RELEASE)]))
    missing = unless(nested, "nobody acquired again what it held")
    missing = missing or unless(awaited, "nobody waited at an inner release") or lock_unexercised(view)
    return Exercise(missing, {NESTED_ACQUIRES: nested, AWAITED: awaited})


def _nested(view: View, *kinds: F) -> Iterator[tuple[int, Hold]]:
    """Rows of nested operations, each with the grant that its worker held then."""
    holds = grouped(view.holds, lambda hold: (view.worker(hold.row), hold.key))
    inv, key, flags = (view.column(name) for name in ("inv", "key", "flags"))
    for row in view.rows(*kinds):
        if flags[row] & NESTED:
            own = holds.get((view.worker(row), key[row]), [])
            place = bisect_right(own, inv[row], key=attrgetter("ret"))
            if place:
                yield row, own[place - 1]


def _inner_acquire(view: View, row: int, outer: Hold) -> Iterator[Finding]:
    outcome, reason, ret = view.column("outcome")[row], view.column("reason")[row], view.column("ret")[row]
    if ret >= outer.core_end:
        return
    if outcome == Outcome.OK:
        if (view.column("token")[row], view.column("owner")[row]) != (outer.token, outer.owner):
            yield Finding("token-changed", ret, (outer.row, row), (outer.row,))
    elif reason in (Reason.HELD, Reason.NOT_OWNER) or (reason == Reason.TIMEOUT and undisturbed(row, view)):
        yield Finding("nested-refused", ret, (outer.row, row), (outer.row,))


def _inner_release(view: View, row: int, outer: Hold) -> Iterator[Finding]:
    """Others that were granted the key after it was sent, and later than the outer grant, while that was in force."""
    if view.column("outcome")[row] == Outcome.FAIL:
        return
    sent, until = view.column("inv")[row], outer.core_end
    holds = view.holds.by_key[outer.key]
    for other in holds[bisect_right(holds, sent, key=attrgetter("ret")) :]:
        if other.ret >= until:
            return
        if exclude(outer, other) and came_later(outer, other, view):
            yield Finding("freed-by-inner-release", other.ret, (outer.row, row, other.row), (outer.row, other.row))


def _awaited(view: View, releases: Sequence[int]) -> Iterator[bool]:
    """For each inner release, whether another worker's acquire of the key had no answer yet."""
    inv, key, ended = view.column("inv"), view.column("key"), view.ended.tolist()
    waiting: list[int] = []
    coming = view.attempts()[::-1]
    for release in releases:
        while coming and inv[coming[-1]] < inv[release]:
            waiting.append(coming.pop())
        waiting = [row for row in waiting if ended[row] > inv[release]]
        yield any(key[row] == key[release] and view.worker(row) != view.worker(release) for row in waiting)


REENTRANCY: Final = Property("reentrancy", _examine, _exercise, needs=frozenset({Need.EXCLUDES, Need.REENTRANT}))
