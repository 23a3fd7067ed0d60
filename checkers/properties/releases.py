"""`owner-release` and `crash-release`: the holder's release or death ends a lock, and nobody else ends it.

`owner-release` asks whether the service acknowledges a release that was sent after another client was granted the lock.
`crash-release` asks how long a lock outlives a holder that died, or that hangs and will never release it.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate, islice
from operator import attrgetter
from typing import Final, NamedTuple

from checkers.history.finding import Finding
from checkers.history.history import FaultInterval
from checkers.history.holds_and_lease_ends import IN_SESSIONS, Hold, effective, exclude
from checkers.history.interval_sets import Span, clipped, length, moment, united, without
from checkers.history.order_of_grants import superseded
from checkers.history.view import View
from checkers.properties.property import HANGS, ONE_HOLDER, Examined, Need, Property
from checkers.properties.recovery import RECOVERY
from checkers.properties.shared_counters import Exercise, fault_missed, idle, unanswered, unless
from checkers.row_format import INFINITY, NOT_ASKED, SHARED, F, Outcome

STALE_RELEASES: Final = "releases of what another held"
CRASHED: Final = "holders that died or hung"
WAITED_FOR: Final = "of these waited for"
SLOWEST: Final = "slowest release of a dead holder's lock (ms)"

_KILLED: Final = ("kill-holder", "kill-before-release", "kill-after-renewal", "at-every-request-kill")
"""Faults that kill a holder."""


def _examine_owner_release(view: View) -> Examined:
    """Whether no release was acknowledged that was sent after a certainly later grant had returned. Definite."""
    findings = []
    for row, hold, later in view.once(_stale_releases):
        if view.outcome[row] == Outcome.OK:
            other = holder(view, hold, later, view.inv[row])
            rows, why = (hold.row, other.row), whose(view, hold, other, row)
            findings.append(Finding("released-anothers", view.inv[row], (*rows, row), rows, why))
    return Examined(findings)


def _exercise_owner_release(view: View) -> Exercise:
    stale = len(view.once(_stale_releases))
    return Exercise(None if stale else "nobody released what another held by then", {STALE_RELEASES: stale})


def _stale_releases(view: View) -> list[tuple[int, Hold, int]]:
    """Rows of releases sent after a certainly later grant had returned, each with its hold and that grant's row."""
    following, releases = superseded(view), view.with_holds(view.whole(F.RELEASE))
    return [(row, hold, following[hold.row][1]) for row, hold in releases if following[hold.row][0] < view.inv[row]]


def whose(view: View, own: Hold, other: Hold, row: int) -> str:
    """What a release or a renewal broke. If nobody held the lock at that moment, it was not another's either."""
    what = "release" if view.f[row] == F.RELEASE else "renewal"
    since = f"{view.who(other.process)}, granted the lock at {view.clock(other.ret)}, held it by then"
    if other.core_end <= view.inv[row]:
        since = f"{view.who(other.process)} had been granted the lock after it"
    return f"So {view.who(own.process)}'s {what} was acknowledged although {since}."


def _ends(view: View) -> dict[int, list[int]]:
    """Key → for each grant, when this grant and all that were answered before it may have been over."""
    return {key: list(accumulate((hold.core_end for hold in holds), max)) for key, holds in view.holds.by_key.items()}


def holder(view: View, hold: Hold, later: int, at: int) -> Hold:
    """The hold of the client that held the lock when a release of an older hold was sent. It is the latest grant after
    that hold that was certainly in force, else the first grant that came after that hold (its acquire row: `later`).
    """
    holds, ends = view.holds.by_key[hold.key], view.once(_ends)[hold.key]
    place = bisect_left(holds, at, key=attrgetter("ret")) - 1
    while place >= 0 and ends[place] > at:  # else all holds up to `place` were over
        other = holds[place]
        if (other.row == later or other.start > hold.ret) and exclude(hold, other) and other.core_end > at:
            return other
        place -= 1
    return view.holds.by_row[later]


class Crash(NamedTuple):
    """A holder that will not release. Times in ns."""

    hold: Hold
    fault: FaultInterval
    free: int  # since when the lock should be free for others, the bound aside
    resumed: int  # when a hung holder went on, `INFINITY` if it has not yet, or is dead


def _examine_crash_release(view: View) -> Examined:
    """Sound: checkers/CONDITIONS.md, section 12. A client that gets the lock in time shows that it was free, whatever
    else is in doubt, and that a renewal that was acknowledged meanwhile prolonged nothing.
    """
    waits = view.once(_waits)
    ended = [length(wait.waiting) for wait in waits if wait.crash.fault.kind == "kill" and wait.over]
    findings = [_kept(view, wait) for wait in waits if wait.late is not None]
    return Examined(findings, {SLOWEST: max(ended, default=0) // 1_000_000})


def _exercise_crash_release(view: View) -> Exercise:
    waits = view.once(_waits)
    judged = sum(wait.late is not None or wait.in_time for wait in waits)
    missing = unless(view.facts.permits == 1, "several may hold at once") or fault_missed(view)
    missing = missing or unless(waits, "no holder died, or hung for longer than the TTL")
    missing = missing or unless(judged, "nobody asked for long enough for what a dead or hung holder held")
    return Exercise(missing, {CRASHED: len(waits), WAITED_FOR: judged})


class WaitForLease(NamedTuple):
    """How others waited for what a dead or hung holder held. Times in ns."""

    crash: Crash
    waiting: list[Span]  # when somebody certainly waited while the lock should have been free
    over: bool  # whether the wait ended with a grant, with nothing in doubt before
    in_time: bool  # whether the lock was granted within the bound
    late: int | None  # since when the bound was certainly missed, or None
    successor: int | None  # acquire row of the grant that came at last, or None


def _waits(view: View) -> list[WaitForLease]:
    """How others waited, for each crash whose holder still had the lock."""
    bound, exempt = view.facts.bounds.get(CRASH_RELEASE.id), _exempt(view)
    waits = []
    for crash in _crashes(view):
        hold = crash.hold
        rivals = [other for other in view.holds.by_key[hold.key] if other.ret > hold.ret and exclude(hold, other)]
        first = min(rivals, key=lambda rival: rival.ret, default=None)
        granted = INFINITY if first is None else first.ret
        if granted <= crash.fault.applied:
            continue
        waits_of_others, unanswered = waits_for(view, hold.key, shared=hold.shared)
        doubt = min((view.inv[row] for row in unanswered), default=INFINITY)
        end = min(granted, crash.resumed, view.finish)
        nobodys = united((*exempt, *_beside(view, hold)))
        waited = without(united(clipped(waits_of_others, crash.free, end)), nobodys)
        waiting = clipped(waited, crash.free, doubt)
        prolonged = None if bound is None else _prolonged(view, crash, bound)
        in_time = granted == end and (bound is None or length(waited) <= bound)  # whatever is in doubt
        promised = prolonged is not None and bool(waiting) and not in_time
        late = None
        if bound is not None and (length(waiting) > bound or promised):
            late = moment(waiting, bound) if prolonged is None else max(waiting[0][0], prolonged)
        over = granted == min(end, doubt)
        waits.append(WaitForLease(crash, waiting, over, in_time, late, None if first is None else first.row))
    return waits


def _kept(view: View, wait: WaitForLease) -> Finding:
    """The witness: the holder's grant, the grant that came at last, and an acquire that waited then, if any are."""
    hold, at, successor = wait.crash.hold, wait.late or 0, wait.successor
    others = (row for row in view.attempts_by_key[hold.key] if row != hold.row)
    waiters = (row for row in others if view.inv[row] <= at <= view.ret[row] < INFINITY)
    holders = (hold.row,) if successor is None else (hold.row, successor)
    freed = "never-freed" if successor is None else "freed-late"
    kind = freed if wait.crash.fault.kind == "kill" else "kept-by-a-hung-holder"
    bound, who = f"the bound of {view.facts.bounds[CRASH_RELEASE.id] / 1e9:g} s", view.who(hold.process)
    renewals = (sent for sent, _ in hold.renewals if wait.crash.fault.applied < sent <= at < hold.expiry)
    renewed = ", while its client went on renewing" * any(renewals)
    limits = bound if view.facts.lease == "none" else f"the TTL of {hold.ttl / 1e9:g} s and {bound} together"
    hung = f" hung{renewed}. It" if kind == "kept-by-a-hung-holder" else ", which was dead,"
    why = f"So {who}{hung} kept others from the lock for longer than {limits}." * (kind != "never-freed")
    witness = tuple(dict.fromkeys((*holders, *islice(waiters, 1))))
    return Finding(kind, at, witness, holders, conclusion=why)


def _crashes(view: View) -> Iterator[Crash]:
    """Holders that were killed, or that hung for longer than their TTL: the whole job, not its renewal alone.

    A holder whose lease can have been over when its acquire returned is left out: another client may hold by right.
    """
    for fault in view.struck if view.facts.permits == 1 else ():
        hold = view.holds.by_owner.get(fault.owner)
        of_the_renewal = fault.process // view.facts.workers % 2
        stalled = fault.kind in ("stall", "call") and not fault.name.startswith("at-every-")  # see section 12
        if hold is None or of_the_renewal or not (stalled or fault.kind == "kill") or hold.expiry <= hold.ret:
            continue
        ttl = 0 if view.facts.lease == "none" else hold.ttl
        if fault.kind == "kill":
            yield Crash(hold, fault, max(_last(view, hold), fault.applied) + ttl, INFINITY)
        elif (resumed := fault.healing or INFINITY) > fault.applied + ttl:
            yield Crash(hold, fault, fault.applied + ttl, resumed)


def _last(view: View, hold: Hold) -> int:
    """ns; the end of the last operation of a grant or its session, which may have prolonged it."""
    owner, session = view.array("owner"), view.array("session")
    its = (owner == hold.owner) | ((session == hold.session) & (session != 0))
    return int(view.ended[its].max(initial=0))


def _beside(view: View, hold: Hold) -> Iterator[Span]:
    """When other readers may have held beside a reader. Beside a writer that dies or hangs nobody can hold."""
    for other in view.holds.by_key[hold.key] if hold.shared else ():
        if other.row != hold.row and other.shared:
            end = other.freed
            if end == INFINITY and view.facts.lease != "none":
                end = _last(view, other) + other.ttl
            yield other.start, end


def _prolonged(view: View, crash: Crash, bound: int) -> int | None:
    """ns; when a renewal was acknowledged that prolonged a hung holder's lease beyond TTL and bound; None: never."""
    ttl = effective(crash.hold.ttl, view.facts)
    if crash.fault.kind == "kill" or view.facts.lease == "none":
        return None
    renewals = view.of_lease(crash.hold, view.rows(F.RENEW, F.KEEP_ALIVE, outcomes=(Outcome.OK,)))
    meanwhile = (row for row in renewals if crash.fault.applied < view.inv[row] < crash.resumed)
    return min((view.ret[row] for row in meanwhile if view.inv[row] + ttl > crash.free + bound), default=None)


def waits_for(view: View, key: int, *, shared: bool) -> tuple[list[Span], list[int]]:
    """When some client certainly waited for a key, and the rows of unanswered acquires. shared: only writers' waits."""
    spans: list[Span] = []
    unanswered = []
    for row in view.attempts_by_key.get(key, ()):
        if view.outcome[row] == Outcome.INFO:
            unanswered.append(row)
        elif not (shared and view.flags[row] & SHARED) and view.reason[row] not in NOT_ASKED:
            spans.append((view.inv[row], view.ret[row]))
    return spans, unanswered


def _exempt(view: View) -> list[Span]:
    """When nobody can be blamed for a delay: checkers/CONDITIONS.md, section 12. A new leader gives every session its
    full time anew, even a dead client's (etcd's `Promote`, ZooKeeper's session tracker).
    """
    spans = list(view.once(idle))
    if view.facts.lease in IN_SESSIONS:
        longest = max((hold.ttl for hold in view.holds), default=0)
        spans += ((begun, ended + longest) for begun, ended in view.once(unanswered))
    recovery = view.facts.bounds.get(RECOVERY.id, 0)
    for fault in view.struck:
        if fault.process < 0:
            spans.append((fault.begun, fault.healed + recovery if fault.healed else INFINITY))
        elif fault.kind == "freeze":
            spans.append((fault.applied, fault.over))
    return united(spans)


OWNER_RELEASE: Final = Property(
    "owner-release",
    _examine_owner_release,
    _exercise_owner_release,
    needs=frozenset({Need.ONE_PERMIT}),
    optional=True,
    under=("freeze-*", "late-write"),
)
CRASH_RELEASE: Final = Property(
    "crash-release",
    _examine_crash_release,
    _exercise_crash_release,
    needs=ONE_HOLDER,
    bounded=True,
    under=(*_KILLED, "freeze-successor", *HANGS),
    when_said=HANGS,
)
