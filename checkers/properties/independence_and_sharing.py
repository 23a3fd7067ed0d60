"""`independence`, `sharing` and `reentrancy`: a lock keeps no client out without a reason.

`independence`: a lock keeps out no client that asks for a lock of another name. Only the holder of the lock that it
asks for, or another client that may have been granted that lock without an answer, can keep a client out. If there was
neither, another lock was in the way: the service takes the two for one.
`sharing`: no reader is kept out by another reader. Three kinds of writers may make a reader wait: one that holds, one
that waits (which keeps writers from starving), and one whose fate is unknown. If there was none of them while the
reader asked, only readers can have kept it out.
`reentrancy`: a holder may acquire its lock again, gets the same grant, and frees nothing by its inner release.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

from checkers.history.counting import grouped
from checkers.history.finding import Finding
from checkers.history.holds_and_lease_ends import Hold, exclude
from checkers.history.interval_sets import Span, clipped, length, meets, moment, united, without
from checkers.history.order_of_grants import came_later, first_sent_later
from checkers.history.view import View
from checkers.properties.exclusion import most_inside
from checkers.properties.property import EXCLUDES, Examined, Need, Property
from checkers.properties.shared_counters import Exercise, fault_missed, lock_unexercised, undisturbed, unless
from checkers.row_format import ACQUIRES, NESTED, NOT_ASKED, SHARED, F, Outcome, Reason

BESIDE: Final = "acquires of a free lock while another was held"
SLOWEST: Final = "longest wait for a free lock (ms)"
READERS: Final = "most readers inside at once"
REFUSED: Final = "readers that were refused"
NESTED_ACQUIRES: Final = "nested acquires"
AWAITED: Final = "inner releases that somebody waited for"


def _examine_name(view: View) -> Examined:
    """Sound: it judges the time in which the lock was certainly free (checkers/CONDITIONS.md, section 13)."""
    bound = view.facts.bounds.get(INDEPENDENCE.id)
    findings: list[Finding] = []
    slowest = 0
    for row, free in view.once(_free).items():
        waited = length(free)
        lied = view.reason[row] == Reason.HELD and waited == view.ret[row] - view.inv[row]
        if lied or undisturbed(row, view):
            slowest = max(slowest, waited)
            if lied or (bound is not None and waited > bound):
                at = view.ret[row] if lied else moment(free, bound or 0)
                holders = _met(view, row, at)
                limit = "" if lied else f" for longer than {(bound or 0) / 1e9:g} s"
                took = "took two locks for one: it " * bool(holders)
                why = f"So the service {took}kept {view.who(view.process[row])}{limit} from a lock that nobody else"
                why += " held or wanted."
                findings.append(Finding("kept-by-another-name", at, (*holders, row), holders, why))
    return Examined(findings, {SLOWEST: slowest // 1_000_000})


def _exercise_name(view: View) -> Exercise:
    beside = sum(bool(free) and bool(_met(view, row, view.ret[row])) for row, free in view.once(_free).items())
    missing = fault_missed(view) if beside else "nobody asked for a free lock while another was held"
    return Exercise(missing, {BESIDE: beside})


def _free(view: View) -> dict[int, list[Span]]:
    """Row of each answered acquire → when, during it, the lock was free and nobody else can have got it.

    An acquire without an answer may keep others out to the end, and so may a grant whose release is not certain.
    """
    freed = {hold.row: hold.freed for hold in view.holds}

    def free(row: int) -> list[Span]:
        others = (other for other in view.attempts_by_key[view.key[row]] if other != row)
        taken = ((view.inv[other], freed.get(other, view.ret[other])) for other in others)
        return without([(view.inv[row], view.ret[row])], united(clipped(taken, view.inv[row], view.ret[row])))

    return {row: free(row) for row in view.attempts(Outcome.OK, Outcome.FAIL) if view.reason[row] not in NOT_ASKED}


def _met(view: View, row: int, at: int) -> tuple[int, ...]:
    """Acquire rows of other workers' holds of other keys, from the invocation of this acquire to `at` (ns)."""
    key, since, who = view.key[row], view.inv[row], view.worker(row)
    others = (hold for hold in view.holds if hold.key != key and view.worker(hold.row) != who)
    return tuple(hold.row for hold in others if hold.ret <= at and since < hold.left)


def _examine_sharing(view: View) -> Examined:
    """Sound. A reader that timed out counts as refused, unless a fault or a stall can have made it late."""
    spans = _writers(view)
    findings = [
        Finding("reader-refused", view.ret[row], (*_readers(view, row), row))
        for row in view.once(_refused)
        if not meets(*spans.get(view.key[row], ([], [])), view.inv[row], view.ret[row])
        and (view.reason[row] == Reason.HELD or undisturbed(row, view))
    ]
    return Examined(findings)


def _exercise_sharing(view: View) -> Exercise:
    readers = most_inside(view, shared=True)
    few = None if readers >= 2 else f"no more than {readers} readers inside at once, 2 needed"
    return Exercise(few or fault_missed(view), {READERS: readers, REFUSED: len(view.once(_refused))})


def _refused(view: View) -> list[int]:
    """Rows of the readers that were refused because somebody else held, or that timed out."""
    refused = view.attempts(Outcome.FAIL)
    return [row for row in refused if view.flags[row] & SHARED and view.reason[row] in (Reason.HELD, Reason.TIMEOUT)]


def _writers(view: View) -> dict[int, tuple[list[int], list[int]]]:
    """Key → the times in which a writer may have held or waited: all beginnings, and all ends, each in order.

    A later grant of its own worker does not end a grant: that may be a downgrade, which counts from its request.
    """
    over: dict[int, int] = {}
    for holds in view.holds.by_key.values():
        for worker, own in grouped(holds, lambda hold: view.worker(hold.row)).items():
            others = (hold for hold in holds if view.worker(hold.row) != worker)
            given = first_sent_later([hold.ret for hold in own], others)
            over |= {hold.row: min(hold.freed, first) for hold, (first, _) in zip(own, given, strict=True)}
    writers = grouped((row for row in view.attempts() if not view.flags[row] & SHARED), view.key.__getitem__)
    return {
        name: ([view.inv[row] for row in rows], sorted(over.get(row, view.ret[row]) for row in rows))
        for name, rows in writers.items()
    }


def _readers(view: View, row: int) -> tuple[int, ...]:
    """Acquire rows of the readers that were inside when this one was refused."""
    key, at = view.key[row], view.ret[row]
    return tuple(hold.row for hold in view.holds.by_key.get(key, ()) if hold.shared and hold.ret <= at < hold.left)


def _examine_reentrancy(view: View) -> Examined:
    """Sound while the outer grant was certainly in force; that an inner release caused a wrong grant is only likely."""
    findings: list[Finding] = []
    for row, outer in _nested(view, *ACQUIRES):
        findings += _inner_acquire(view, row, outer)
    for row, outer in _nested(view, F.RELEASE):
        findings += _inner_release(view, row, outer)
    # One finding for each pair of grants: of several inner releases the latest is blamed.
    latest = {(finding.kind, finding.rows[0], finding.rows[-1]): finding for finding in findings}
    return Examined(list(latest.values()))


def _exercise_reentrancy(view: View) -> Exercise:
    nested = sum(view.outcome[row] == Outcome.OK for row, _ in _nested(view, *ACQUIRES))
    awaited = sum(_awaited(view, [row for row, _ in _nested(view, F.RELEASE)]))
    missing = unless(nested, "nobody acquired again what it held")
    missing = missing or unless(awaited, "nobody waited at an inner release") or lock_unexercised(view)
    return Exercise(missing, {NESTED_ACQUIRES: nested, AWAITED: awaited})


def _nested(view: View, *kinds: F) -> Iterator[tuple[int, Hold]]:
    """Rows of nested operations, each with the grant that its worker held then."""
    holds = grouped(view.holds, lambda hold: (view.worker(hold.row), hold.key))
    for row in view.rows(*kinds):
        if view.flags[row] & NESTED:
            own = holds.get((view.worker(row), view.key[row]), [])
            place = bisect_right(own, view.inv[row], key=attrgetter("ret"))
            if place:
                yield row, own[place - 1]


def _inner_acquire(view: View, row: int, outer: Hold) -> Iterator[Finding]:
    outcome, reason, ret = view.outcome[row], view.reason[row], view.ret[row]
    if ret >= outer.core_end:
        return
    if outcome == Outcome.OK:
        if (view.token[row], view.owner[row]) != (outer.token, outer.owner):
            yield Finding("token-changed", ret, (outer.row, row), (outer.row,))
    elif reason in (Reason.HELD, Reason.NOT_OWNER) or (reason == Reason.TIMEOUT and undisturbed(row, view)):
        yield Finding("nested-refused", ret, (outer.row, row), (outer.row,))


def _inner_release(view: View, row: int, outer: Hold) -> Iterator[Finding]:
    """Grants that came later than the outer grant, after this release was sent and while the outer was in force."""
    if view.outcome[row] == Outcome.FAIL:
        return
    sent, until = view.inv[row], outer.core_end
    holds = view.holds.by_key[outer.key]
    for other in holds[bisect_right(holds, sent, key=attrgetter("ret")) :]:
        if other.ret >= until:
            return
        if exclude(outer, other) and came_later(outer, other, view):
            yield Finding("freed-by-inner-release", other.ret, (outer.row, row, other.row), (outer.row, other.row))


def _awaited(view: View, releases: Sequence[int]) -> Iterator[bool]:
    """For each inner release, whether another worker's acquire of the key had no answer yet."""
    ended = view.ended.tolist()
    waiting: list[int] = []
    coming = view.attempts()[::-1]
    for release in releases:
        while coming and view.inv[coming[-1]] < view.inv[release]:
            waiting.append(coming.pop())
        waiting = [row for row in waiting if ended[row] > view.inv[release]]
        yield any(view.key[row] == view.key[release] and view.worker(row) != view.worker(release) for row in waiting)


INDEPENDENCE: Final = Property("independence", _examine_name, _exercise_name, needs=EXCLUDES, bounded=True)
SHARING: Final = Property("sharing", _examine_sharing, _exercise_sharing, needs=EXCLUDES | {Need.SHARED})
REENTRANCY: Final = Property("reentrancy", _examine_reentrancy, _exercise_reentrancy, needs=EXCLUDES | {Need.REENTRANT})
