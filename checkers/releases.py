"""`owner-release` and `crash-release`: a lock ends with its holder, and with nobody else.

The first asks whether a late release is told that it succeeded; the second, how long a lock outlives a holder that
died, or hangs and will never release.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate, islice
from typing import Final, NamedTuple

from checkers.exercise import counters, fault_missed
from checkers.finding import Finding
from checkers.history import FaultInterval
from checkers.leases import INFINITY, Grant, effective, exclude
from checkers.liveness import RECOVERY
from checkers.narrate import Narrator
from checkers.spans import Span, clipped, length, moment, united, without
from checkers.succession import superseded
from checkers.verdict import Verdict
from checkers.view import View
from checkers.wire import NESTED, SHARED, F, Outcome, Reason

OWNER_RELEASE: Final = "owner-release"
CRASH_RELEASE: Final = "crash-release"
STALE_RELEASES: Final = "releases of what another held"
CRASHED: Final = "holders that died or hung"
WAITED_FOR: Final = "of these waited for"
SLOWEST: Final = "slowest release of a dead holder's lock (ms)"

_NOT_ASKED: Final = (Reason.UNAVAILABLE, Reason.DENIED)
"""Why an acquire failed that was never in line."""

_BROKEN: Final = {
    "never-freed": "So what the dead holder held was never given to anybody who asked for it.",
    "freed-late": "So what the dead holder held was freed later than the TTL and the bound that the lock declares.",
    "kept-by-a-hung-holder": "So a holder that hung kept everybody else out for longer than the TTL and the bound.",
}


def owner_release(view: View) -> Verdict:
    """Whether no release was acknowledged that was sent after a grant had returned that certainly came later.

    Definite. What such a release does to the later holder is for `server-exclusion` to say.
    """
    outcome, inv, flags, owner = (view.column(name) for name in ("outcome", "inv", "flags", "owner"))
    following = superseded(view)
    present = _Present(view)
    findings = []
    stale = 0
    for row in view.rows(F.RELEASE):
        grant = view.by_owner.get(owner[row])
        if grant is None or flags[row] & NESTED:
            continue
        given, later = following[grant.row]
        if given < inv[row]:
            stale += 1
            if outcome[row] == Outcome.OK:
                other = present.holder(grant, later, inv[row])
                other = later if other is None else other
                findings.append(Finding("released-anothers", inv[row], (grant.row, other, row), (grant.row, other)))
    counted = {**counters(view), STALE_RELEASES: stale}
    violations = Narrator(view).tell(findings, {"released-anothers": present.conclusion})
    unexercised = None if stale else "nobody released what another held by then"
    return Verdict(OWNER_RELEASE, not violations, violations, counted, unexercised=unexercised)


class _Present:
    """Whose a lock was at the moment at which somebody released it whose own grant was over."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._ends: dict[int, list[int]] = {}

    def holder(self, grant: Grant, later: int, at: int) -> int | None:
        """The acquire row of the latest grant after this one that was certainly in force, if there is any.

        later: the first that came after.
        """
        grants = self._view.by_key[grant.key]
        place = bisect_left(grants, at, key=lambda other: other.ret) - 1
        while place >= 0 and self._over(grant.key)[place] > at:  # else all up to here were over
            other = grants[place]
            follows = other.row == later or other.start > grant.ret
            if follows and exclude(grant, other) and self._end(other) > at:
                return other.row
            place -= 1
        return None

    def conclusion(self, finding: Finding) -> str:
        """What was broken. Where nobody held the lock at that moment, it was not another's either."""
        own, other = (self._view.windows[row].grant for row in finding.holders)
        if self._end(other) > finding.at:
            return "So a release was acknowledged although the lock was another's by then."
        whose = Narrator(self._view).worker(own.process)
        return f"So a release was acknowledged although the lock had not been {whose}'s since another was granted it."

    def _end(self, grant: Grant) -> int:
        """ns; until when it was certainly in force."""
        window = self._view.windows[grant.row]
        return window.end(window.start)

    def _over(self, key: int) -> list[int]:
        """When each grant of a key and all that were answered before it may have been over."""
        if key not in self._ends:
            self._ends[key] = list(accumulate(map(self._end, self._view.by_key[key]), max))
        return self._ends[key]


class Crash(NamedTuple):
    """A holder that will not release. Times in ns.

    free     from here on the lock should be free for others, the bound aside.
    resumed  when a hung holder went on, `INFINITY` where it has not yet, or is dead.
    """

    grant: Grant
    fault: FaultInterval
    free: int
    resumed: int


def crash_release(view: View) -> Verdict:
    """Whether who asks for what a dead or hung holder held gets it within its TTL and the bound.

    The TTL counts from the last moment that can have prolonged the lease of the dead, or at which the hung still ran;
    a lock without a lease has none. Towards the bound counts the time in which somebody certainly waited and the
    machine ran. An acquire without an answer may have been granted, so from there on nobody is accused; who gets the
    lock in time shows that it was free. Nothing is counted while a server or a link is struck, or recovers, nor while
    readers held beside one that died: it is they who kept a writer waiting. A holder need not hang for as long as that:
    it keeps the lock from who waits once an acknowledged renewal has prolonged it beyond the TTL and the bound, unless
    somebody got it in time all the same: such a renewal prolonged nothing.
    """
    bound = view.facts.bounds.get(CRASH_RELEASE)
    exempt = _exempt(view)
    findings: list[Finding] = []
    crashes = judged = slowest = 0
    for crash in _crashes(view):
        grant, struck = crash.grant, crash.fault.applied
        rivals = [other for other in view.by_key[grant.key] if other.ret > grant.ret and _exclusive(grant, other)]
        granted = min((rival.ret for rival in rivals), default=INFINITY)
        if granted <= struck:
            continue
        crashes += 1
        asked, doubt = _asked(view, grant)
        end = min(granted, crash.resumed, view.finish)
        nobodys = united((*exempt, *_beside(view, grant)))
        waited = without(united(clipped(asked, crash.free, end)), nobodys)
        waiting = clipped(waited, crash.free, doubt)
        prolonged = None if bound is None else _prolonged(view, crash, bound)
        in_time = granted == end and (bound is None or length(waited) <= bound)  # whatever is in doubt
        promised = prolonged is not None and bool(waiting) and not in_time
        late = bound is not None and (length(waiting) > bound or promised)
        judged += late or in_time
        if crash.fault.kind == "kill" and granted == min(end, doubt):
            slowest = max(slowest, length(waiting))
        if late:
            at = moment(waiting, bound or 0) if prolonged is None else max(waiting[0][0], prolonged)
            findings.append(_kept(view, crash, at, next((r.row for r in rivals if r.ret == granted), None)))
    counted = {**counters(view), CRASHED: crashes, WAITED_FOR: judged, SLOWEST: slowest // 1_000_000}
    violations = Narrator(view).tell(findings, _BROKEN)
    unexercised = _crash_unexercised(view, crashes, judged)
    return Verdict(CRASH_RELEASE, not violations, violations, counted, unexercised=unexercised)


def _kept(view: View, crash: Crash, at: int, successor: int | None) -> Finding:
    """The witness: what the holder had, who got it at last, and somebody who waited at that moment, if anybody did."""
    inv, ret, key = view.column("inv"), view.column("ret"), view.column("key")
    waiters = (
        row
        for row in view.rows(F.ACQUIRE, F.TRY_ACQUIRE)
        if key[row] == crash.grant.key and row != crash.grant.row and inv[row] <= at <= ret[row] < INFINITY
    )
    holders = (crash.grant.row, *(() if successor is None else (successor,)))
    if crash.fault.kind != "kill":
        kind = "kept-by-a-hung-holder"
    else:
        kind = "never-freed" if successor is None else "freed-late"
    return Finding(kind, at, tuple(dict.fromkeys((*holders, *islice(waiters, 1)))), holders)


def _crash_unexercised(view: View, crashes: int, judged: int) -> str | None:
    if CRASH_RELEASE not in view.facts.bounds:
        return "the lock declares no bound"
    if view.facts.permits > 1:
        return "several may hold at once"
    missed = fault_missed(view, counters(view))
    if missed is not None:
        return missed
    if not crashes:
        return "no holder died, or hung for longer than the TTL"
    return None if judged else "nobody asked for long enough for what a dead or hung holder held"


def _crashes(view: View) -> Iterator[Crash]:
    """Holders that were killed, or that hung for longer than their TTL: the whole job, not its renewal alone."""
    for fault in view.history.faults if view.facts.permits == 1 else ():
        grant = view.by_owner.get(fault.owner)
        of_the_renewal = fault.process // view.facts.workers % 2
        if grant is None or not fault.applied or of_the_renewal or fault.kind not in ("kill", "stall", "call"):
            continue
        ttl = 0 if view.facts.lease == "none" else grant.ttl
        if fault.kind == "kill":
            yield Crash(grant, fault, max(_last(view, grant), fault.applied) + ttl, INFINITY)
        elif (resumed := fault.healing or INFINITY) > fault.applied + ttl:
            yield Crash(grant, fault, fault.applied + ttl, resumed)


def _last(view: View, grant: Grant) -> int:
    """ns; the last thing that was recorded of a grant or its session, and may have prolonged it."""
    inv, ret, owner, session = (view.array(name) for name in ("inv", "ret", "owner", "session"))
    its = (owner == grant.owner) | ((session == grant.session) & (session != 0))
    return max(int(inv[its].max(initial=0)), int(ret[its].max(initial=0)))


def _beside(view: View, grant: Grant) -> Iterator[Span]:
    """When others may have held what a reader held as well; nobody else can hold beside one who dies or hangs."""
    for other in view.by_key[grant.key] if grant.shared else ():
        if other.row != grant.row and other.shared:
            end = other.freed[1]
            if end == INFINITY and view.facts.lease != "none":
                end = _last(view, other) + other.ttl
            yield other.start, end


def _prolonged(view: View, crash: Crash, bound: int) -> int | None:
    """ns; when it was acknowledged that a lease lasts beyond TTL and bound though its holder hung by then, or None."""
    grant, ttl = crash.grant, effective(crash.grant.ttl, view.facts)
    inv, ret, owner, session = (view.column(name) for name in ("inv", "ret", "owner", "session"))
    if crash.fault.kind == "kill" or view.facts.lease == "none":
        return None
    return min(
        (
            ret[row]
            for row in view.rows(F.RENEW, F.KEEP_ALIVE, outcomes=(Outcome.OK,))
            if (owner[row] == grant.owner or (grant.session and session[row] == grant.session))
            and crash.fault.applied < inv[row] < crash.resumed
            and inv[row] + ttl > crash.free + bound
        ),
        default=None,
    )


def _exclusive(grant: Grant, other: Grant) -> bool:
    """Whether the two may not be in force at once."""
    return not (grant.shared and other.shared)


def _asked(view: View, grant: Grant) -> tuple[list[Span], int]:
    """When somebody certainly waited for what a grant keeps from others, and from when on (ns) that is in doubt."""
    inv, ret, outcome, key = (view.column(name) for name in ("inv", "ret", "outcome", "key"))
    reason, flags = view.column("reason"), view.column("flags")
    spans, doubt = [], INFINITY
    for row in view.rows(F.ACQUIRE, F.TRY_ACQUIRE):
        if key[row] != grant.key or flags[row] & NESTED:
            continue
        if outcome[row] == Outcome.INFO:
            doubt = min(doubt, inv[row])
        elif grant.shared and flags[row] & SHARED:
            continue
        elif reason[row] not in _NOT_ASKED:
            spans.append((inv[row], ret[row]))
    return spans, doubt


def _exempt(view: View) -> list[Span]:
    """When nobody can be blamed for a delay."""
    inv, ret = view.column("inv"), view.array("ret").tolist()
    spans = [(inv[row], ret[row]) for row in view.rows(F.STALL)]
    recovery = view.facts.bounds.get(RECOVERY, 0)
    for fault in view.history.faults:
        if fault.applied and fault.process < 0:
            spans.append((fault.begun, fault.healed + recovery if fault.healed else INFINITY))
        elif fault.applied and fault.kind == "freeze":
            spans.append((fault.applied, fault.healed or INFINITY))
    return united(spans)
