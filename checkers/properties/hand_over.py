"""`hand-over`: a released lock is granted to a client that waits for it, within the bound that the lock declares.

It is judged before the first fault and well after the last. How long a service may take when a fault strikes it, or
when it has lost a client, is judged by `recovery` and `crash-release`. No try is refused a lock that is free.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np

from checkers.history.finding import Finding
from checkers.history.history import Facts
from checkers.history.holds_and_lease_ends import Hold
from checkers.history.interval_sets import Span, clipped, length, moment, united, without
from checkers.history.order_of_grants import first_sent_later
from checkers.history.view import View
from checkers.properties.property import EXCLUDES, Examined, Property
from checkers.properties.recovery import RECOVERY
from checkers.properties.releases import waits_for
from checkers.properties.shared_counters import Exercise, idle, unanswered, unless, unserved
from checkers.row_format import INFINITY, NOT_ASKED, SHARED, F, Reason

JUDGED: Final = "releases that somebody waited for"
TRIED: Final = "tries of a free lock"
SLOWEST: Final = "slowest hand-over (ms)"
LEAST: Final = 10  # how many releases in vain cannot be chance
SHARE: Final = 4
"""The bound divided by this: how long others must have waited before the lease could end, for a release in vain."""


class HandOver(NamedTuple):
    """The wait for the next grant, after a release or after a grant that left a permit free. Times in ns."""

    hold: Hold
    since: int  # return of the release, or of that grant
    waiting: list[Span]  # when others waited, until `end`, while the service can have granted them the lock
    end: int  # return of the next grant, else end of the history; earlier if a fault or doubt about readers came before
    late: int  # when the bound was missed; if it was not, `end`
    granted: bool
    # Whether it exercises the property. Somebody must have waited from the release's return on, and have got the lock
    # within the bound, whoever was stalled, or have waited for some time without a stall.
    counts: bool


def _examine(view: View) -> Examined:
    """Sound: checkers/CONDITIONS.md, section 12."""
    hand_overs = view.once(_hand_overs)
    findings = [_told(view, given, given.late) for given in hand_overs if given.late < given.end]
    refused = (row for row in view.once(_free_tries) if view.reason[row] == Reason.HELD)
    findings += [*_in_vain(view), *(Finding("refused-while-free", view.ret[row], (row,)) for row in refused)]
    slowest = max((length(given.waiting) for given in hand_overs), default=0)
    return Examined(findings, {SLOWEST: slowest // 1_000_000})


def _exercise(view: View) -> Exercise:
    judged = _at_once(view) + sum(given.counts for given in view.once(_hand_overs))
    missing = unless(judged, "nobody waited for what was released, away from faults")
    return Exercise(missing, {JUDGED: judged, TRIED: len(view.once(_free_tries))})


def _unexpected(facts: Facts) -> str | None:
    return "faults may take up all of the time" if facts.planned else None


def _in_vain(view: View) -> list[Finding]:
    """The finding that releases had no effect: at least `LEAST` were acknowledged while somebody waited, and none of
    the locks was granted before its last holder's lease could have ended. The bound may be longer than leases are.

    Asking once in the bound, at random, misses ten releases by chance one time in twenty; asking four times, never.
    """
    granted = [given for given in view.once(_hand_overs) if given.granted and view.facts.permits == 1]
    if _at_once(view) or any(given.end < given.hold.expiry for given in granted):
        return []
    share = view.facts.bounds.get(HAND_OVER.id, INFINITY) // SHARE
    kept = [given for given in granted if length(clipped(given.waiting, given.hold.freed, given.hold.expiry)) >= share]
    if len(kept) < LEAST:
        return []
    last = kept[-1]
    why = f"So this release, like {len(kept) - 1} before it, freed nothing: the lock was granted again only when the"
    why += f" lease could have ended, at {view.clock(last.hold.expiry)}."
    return [_told(view, last, last.hold.expiry, "released-in-vain", why)]


def _told(view: View, given: HandOver, at: int, kind: str = "handed-over-late", why: str = "") -> Finding:
    """The witness: whose release or grant it was, and who waited at that moment."""
    hold = given.hold
    waiter = next(row for row in view.attempts_by_key[hold.key] if view.inv[row] <= at <= view.ret[row])
    released = (hold.release,) if given.since == hold.freed else ()
    return Finding(kind, at, (hold.row, *released, waiter), (hold.row,), why)


def _free_tries(view: View) -> list[int]:
    """Rows of the answered tries, before any fault, of a lock that had certainly been free for the bound, and was until
    the answer. Left out are those that met a stall or a silence, or followed one within the bound.
    """
    bound, before, spans = view.facts.bounds.get(HAND_OVER.id), view.once(_quiet)[0], view.once(idle)
    if bound is None:
        return []
    freed = {hold.row: hold.freed for hold in view.holds}
    tries: list[int] = []
    for rows in view.attempts_by_key.values():
        sent, answered = view.array("inv")[rows], np.array([view.ret[row] for row in rows])
        gone = np.sort([freed.get(row, view.ret[row]) for row in rows])
        others = np.searchsorted(sent, answered, "right") - np.searchsorted(gone, sent - bound) - 1
        free = (view.array("f")[rows] == F.TRY_ACQUIRE) & (answered < before) & (others < view.facts.permits)
        tries += np.array(rows)[free].tolist()
    in_line = (row for row in tries if view.reason[row] not in NOT_ASKED)
    silent = (*view.once(unserved), *view.once(unanswered))
    calm = (row for row in in_line if not clipped(silent, view.inv[row] - bound, view.inv[row]))
    return [row for row in calm if not clipped(spans, view.inv[row], view.ret[row])]


def _hand_overs(view: View) -> list[HandOver]:
    """Every release that can be judged and that somebody waited for; of several permits also every grant. If a fault or
    a doubt came before the next grant, it is judged only if that was late by then.
    """
    before, after = view.once(_quiet)
    bound = view.facts.bounds.get(HAND_OVER.id, INFINITY)
    permits = view.facts.permits
    result = []
    for key, holds in view.holds.by_key.items():
        waits, unanswered = waits_for(view, key, shared=False)
        doubt = min((view.inv[row] for row in unanswered if view.flags[row] & SHARED), default=INFINITY)
        # An acquire that ended as UNAVAILABLE may have been granted the lock before, and have given it back.
        refused = (row for row in view.attempts_by_key.get(key, ()) if view.reason[row] == Reason.UNAVAILABLE)
        taken = united((view.inv[row], view.ret[row]) for row in refused)
        of_key = []
        granted = [hold.ret for hold in holds]
        # One permit of several may still be held, late, by whose lease could have ended: its successor shows no end.
        over = sorted(_over(holds) if permits == 1 else (max(hold.freed, hold.ret) for hold in holds))
        sent = sorted(view.inv[row] for row in unanswered)
        starts = [(each.freed, each) for each in holds] + [(each.ret, each) for each in holds if permits > 1]
        for since, hold in starts:
            place = bisect_right(granted, since)  # holds before this place were granted by then
            whole = min((*granted[place : place + 1], view.finish))
            end = min(whole, doubt, before if since < before else whole)
            # Of several permits, each request without an answer may have one for good; of one: see `_certain`.
            inside = place - bisect_right(over, since) + (bisect_left(sent, end) if permits > 1 else 0)
            judged = inside < permits and since < end and not before <= since < after
            if not judged or not (waited := united(clipped(waits, since, end))):
                continue
            waiting = without(without(waited, view.once(idle)), taken)
            if end < whole and length(waiting) <= bound:
                continue
            late = moment(waiting, bound) if length(waiting) > bound else end
            granted_later = place < len(holds) and end == whole
            counted = waited if granted_later and end - since <= bound else waiting
            counts = since == hold.freed and bool(counted) and counted[0][0] == since
            of_key.append(HandOver(hold, since, waiting, end, late, granted_later, counts))
        result += of_key if permits > 1 else _certain(of_key, sent)
    return result


def _over(holds: Sequence[Hold]) -> Iterator[int]:
    """When each hold was over, as far as the history knows: `Hold.over`; of a reader without an acknowledged release,
    which others may join, when a writer's grant returned that was sent after its own.
    """
    given = first_sent_later([hold.ret for hold in holds], [hold for hold in holds if not hold.shared])
    for hold, (returned, _) in zip(holds, given, strict=True):
        yield returned if hold.shared and hold.freed == INFINITY else hold.over


def _at_once(view: View) -> int:
    """How many releases had not yet returned when a client that had waited before them was granted the lock."""
    before, after = view.once(_quiet)
    count = 0
    for holds in view.holds.by_key.values():
        granted, over = [hold.ret for hold in holds], sorted(hold.over for hold in holds)
        for hold in holds:
            place = bisect_left(granted, hold.freeing)
            full = place - bisect_right(over, hold.freeing) >= view.facts.permits
            quiet = hold.freed <= before or hold.freeing >= after
            if full and quiet and place < len(holds) and granted[place] <= hold.freed < INFINITY:
                count += holds[place].inv < hold.freeing
    return count


def _certain(hand_overs: Iterable[HandOver], unanswered: Iterable[int]) -> list[HandOver]:
    """The hand-overs that remain certain. An unanswered acquire may have had the lock and kept others out, once only:
    it takes out the slowest hand-over that was not late before it was sent. unanswered: when each was sent (ns).
    """
    coming = sorted(hand_overs, key=attrgetter("late"))
    possible: list[tuple[int, int, int]] = []  # (minus how long it took, its end, when it was late): a heap
    doubted: dict[int, int] = {}  # a hand-over's end → when the acquire in doubt was sent
    for sent in sorted(unanswered, reverse=True):
        while coming and coming[-1].late > sent:
            given = coming.pop()
            heappush(possible, (-length(given.waiting), given.end, given.late))
        while possible:
            _, end, late = heappop(possible)
            if doubted.get(end, INFINITY) >= late:
                doubted[end] = sent
                break
    return [given for given in hand_overs if doubted.get(given.end, INFINITY) >= given.late]


def _quiet(view: View) -> tuple[int, int]:
    """ns; when the first fault began, and when the last had been healed for the bound of recovery and a TTL: a dead
    client may keep its place for a TTL. Both are infinite without a fault, the second also without a heal or a bound.
    """
    began = min((fault.begun for fault in view.struck), default=INFINITY)
    bound = view.facts.bounds.get(RECOVERY.id)
    if bound is None or not view.struck or not all(fault.healed for fault in view.struck):
        return began, INFINITY
    longest = max((hold.ttl for hold in view.holds), default=0)
    return began, max(fault.healed for fault in view.struck) + bound + longest


HAND_OVER: Final = Property("hand-over", _examine, _exercise, needs=EXCLUDES, bounded=True, unexpected=_unexpected)
