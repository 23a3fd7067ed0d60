"""`recovery`: after the last heal a client gets the lock again within the bound that the lock declares.

Within the bound all permits are held at once again, or a writer beside readers is granted the lock again, and each
client that asks has an answer.
"""

import math
from bisect import bisect_right
from collections.abc import Container, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from checkers.claims import ANY
from checkers.history.counting import grouped
from checkers.history.finding import Finding
from checkers.history.interval_sets import Span, clipped, length, moment, shared_by, united, without
from checkers.history.view import View
from checkers.properties.property import EXCLUDES, Examined, Property
from checkers.properties.shared_counters import Exercise, ending, error_text, fault_missed, idle, unless, unserved
from checkers.properties.story_sentences import listing
from checkers.row_format import INFINITY, NOT_ASKED, SHARED, Outcome, Reason

ASKED: Final = "keys asked for after the heal"
SLOWEST: Final = "slowest recovery (ms)"
NO_SERVICE: Final = (Reason.UNAVAILABLE, Reason.NOT_OWNER)
"""Reasons with which an acquire fails that the service did not decide."""
AGAIN: Final = 6
"""After a refusal a client wants the lock for this part of the bound longer. By then it asks again, or never does."""


class KeyRecovery(NamedTuple):
    """How long it took, on one key, until somebody got the lock after the heal. Times in ns."""

    row: int  # the request from which the bound counts
    since: int  # when the bound begins to count
    # The time until a grant returned or, if none did, until the end of the last operation. Left out are stalls of a
    # worker, silences of the trial and, if the bound was missed, the time in which nobody wanted the lock.
    late: int
    missed: int | None = None  # when the bound had passed, None if it was kept


def _examine(view: View) -> Examined:
    """Exact, but for a chance that checkers/CONDITIONS.md, section 12, names."""
    cases = view.once(_cases)
    findings = [
        Finding("not-recovered", case.missed, (case.row,), conclusion=_why(view, case, case.missed))
        for case in cases
        if case.missed is not None
    ]
    gone = {view.key[case.row] for case in cases if case.missed is not None}
    findings += [*_recovered_in_part(view, gone), *_without_answers(view)]
    return Examined(findings, {SLOWEST: max((case.late for case in cases), default=0) // 1_000_000})


def _exercise(view: View) -> Exercise:
    judged = len(view.once(_cases))
    missing = unless(view.facts.planned, "there was no fault to recover from") or fault_missed(view)
    missing = missing or unless(_healed(view), "the fault was never healed")
    missing = missing or unless(judged, "nobody asked for the lock, or could have got it, after the last heal")
    return Exercise(missing or _part_not_seen(view), {ASKED: judged})


def _part_not_seen(view: View) -> str | None:
    """Why it is not known that all of the lock was granted again after the last heal, or None: `_recovered_in_part`."""
    healed, permits = _healed(view), view.facts.permits
    if permits > 1:
        inside = ([(hold.ret, hold.left) for hold in holds] for holds in view.holds.by_key.values())
        full = any(end > healed for spans in inside for _, end in shared_by(permits, spans))
        return unless(full, f"never were {permits} inside at once after the last heal")
    readers = any(hold.shared for hold in view.holds)
    written = any(hold.ret > healed and not hold.shared for hold in view.holds)
    return unless(written or not readers, "no writer got the lock after the last heal")


def _cases(view: View) -> list[KeyRecovery]:
    """At most one case for each key that can be judged."""
    healed, bound = _healed(view), view.facts.bounds.get(RECOVERY.id, 0)
    by_key = _requests(view, healed) if healed and bound else {}
    cases = (_case(view, key, requests, healed, bound) for key, requests in by_key.items())
    return [case for case in cases if case is not None]


def _case(view: View, key: int, requests: Sequence[int], healed: int, bound: int) -> KeyRecovery | None:
    ends, idle = view.once(_ends), view.once(unserved)
    holds = view.holds.by_key.get(key, ())
    free = max((healed, *(hold.left for hold in holds if hold.ret <= healed)))
    requests = [row for row in requests if ends[row] > free]
    first = min((hold for hold in holds if hold.ret > healed), key=lambda hold: hold.ret, default=None)
    granted = math.inf if first is None else first.ret
    begun, waiting = [view.inv[row] for row in requests], list(accumulate((ends[row] for row in requests), max))
    failed = (ends[row] for row in requests if view.outcome[row] == Outcome.FAIL)
    refused = max((end for end in failed if end < granted), default=0)
    until = int(min(granted, view.last_end))
    for row in requests:
        since = max(free, view.inv[row])
        counted = without([(since, until)], idle)
        late = length(counted)
        if late > bound:
            missed = moment(counted, bound)
            if max(waiting[bisect_right(begun, missed) - 1], refused) > missed:
                wanted = united((view.inv[each], int(min(ends[each], until)) + bound // AGAIN) for each in requests)
                counted = without(counted, without([(since, until)], wanted))
                if length(counted) > bound:
                    return KeyRecovery(row, since, length(counted), moment(counted, bound))
            continue  # the client gave up earlier, and nobody took its place: the next request counts
        if first is not None:
            return KeyRecovery(row, since, late)
        break
    if first is not None:
        since = max(healed, first.inv)
        late = length(without([(since, first.ret)], idle))
        if late <= bound:
            return KeyRecovery(first.row, since, late)
    return None


def _recovered_in_part(view: View, known: Container[int]) -> Iterator[Finding]:
    """Keys of which a part never came back though there was room for it: of several permits not all were held at once
    again, or no writer beside readers was granted the lock again. known: keys that did not come back at all.
    """
    healed, bound, permits = _healed(view), view.facts.bounds.get(RECOVERY.id, 0), view.facts.permits
    for key, rows in view.attempts_by_key.items() if healed and bound else ():
        writers = [row for row in rows if not view.flags[row] & SHARED]
        if key in known or (permits == 1 and len(writers) in (0, len(rows))):
            continue
        holds = view.holds.by_key.get(key, [])
        unanswered = [row for row in rows if view.outcome[row] == Outcome.INFO]
        live = [(view.inv[row], INFINITY) for row in unanswered if (view.stopped[row] or INFINITY) > healed]
        live += [(hold.ret, hold.left if hold.ret <= healed else max(hold.freed, hold.ret)) for hold in holds]
        in_line = [row for row in writers if view.outcome[row] != Outcome.INFO and view.reason[row] not in NOT_ASKED]
        waits = [(view.inv[row], view.ret[row]) for row in in_line]
        if permits == 1:
            whole = min((hold.ret for hold in holds if hold.ret > healed and not hold.shared), default=INFINITY)
            # A reader may be in from when it asked on, even if it failed: it may have given the lock back.
            readers = (row for row in rows if view.flags[row] & SHARED and view.outcome[row] != Outcome.INFO)
            asking = ((view.inv[row], view.ret[row]) for row in readers)
            wanted = without(united(waits), united((*live, *asking)))
            what, who = "no writer was granted the lock", "writers"
        else:
            at_once = shared_by(permits, live)
            whole = min((max(begin, healed) for begin, end in at_once if end > healed), default=INFINITY)
            # Somebody wants the last permit if holders and waiters together are as many as there are permits.
            wanted = shared_by(permits, (*live, *waits))
            what, who = f"fewer than {permits} held the lock at once", "others"
        since = max((healed, *(hold.left for hold in holds if hold.ret <= healed)))
        waiting = without(clipped(wanted, since, whole), view.once(idle))
        if length(waiting) > bound:
            missed = moment(waiting, bound)
            row = next(row for row in in_line if view.inv[row] <= missed < view.ret[row])
            why = f"{who} waited for more than the bound of {bound / 1e9:g} s in all while there was room"
            text = f"{_heal(view)} at {view.clock(healed)}. So until {view.clock(missed)} {what}, though {why}."
            yield Finding("not-recovered", missed, (row,), conclusion=text)


def _without_answers(view: View) -> Iterator[Finding]:
    """Workers whose acquires all failed by the service, for the bound after the heal, while others were granted the
    lock. A contender's refusal is an answer.
    """
    healed, bound = _healed(view), view.facts.bounds.get(RECOVERY.id, 0)
    after = (row for row in view.attempts() if view.stopped[row] > healed)
    for worker, rows in grouped(after, view.worker).items() if healed and bound else ():
        since, last, waits = 0, 0, list[Span]()  # ends of the first and last failure; when it asked from the first on
        for row in rows:
            lasted = view.stopped[row] - view.inv[row]
            unanswered = view.outcome[row] == Outcome.INFO
            if unanswered and lasted >= (view.ttl[row] or view.facts.patience):
                continue  # it waited for as long as it was told: perhaps for another holder
            if not unanswered and view.reason[row] not in NO_SERVICE:
                since, waits = 0, []
                continue
            if since:
                waits.append((last, min(last + bound // AGAIN, view.inv[row])))
                waits.append((max(view.inv[row], since), view.stopped[row]))
            since, last = since or view.stopped[row], view.stopped[row]
            counted = without(united(waits), view.once(unserved))
            if length(counted) > bound:
                missed = moment(counted, bound)
                served = next((hold.row for hold in view.holds if since <= hold.ret <= missed), None)
                if served is not None:
                    vain = f"worker {worker} asked in vain for longer than the bound of {bound / 1e9:g} s"
                    why = f"So {vain}, while another was served; its last call {ending(row, view)}."
                    text = f"{_heal(view)} at {view.clock(healed)}. {why}"
                    yield Finding("not-recovered", missed, (served, row), (served,), text)
                break


def _heal(view: View) -> str:
    """That the fault was undone that was undone last."""
    healed = _healed(view)
    return next(fault.name for fault in view.struck if fault.healed == healed) + " had been undone"


def _healed(view: View) -> int:
    """ns; when the last fault was healed; 0 if there was none, or one was never healed."""
    healed = [fault.healed for fault in view.struck]
    return max(healed) if healed and all(healed) else 0


def _why(view: View, case: KeyRecovery, until: int) -> str:
    """Two sentences: who asked, how long the bound is, when and why it begins; and how the last request ended."""
    clock, key, inv = view.clock, view.key[case.row], view.inv[case.row]
    healed, bound, since = _healed(view), view.facts.bounds[RECOVERY.id], case.since
    heal = _heal(view)
    if since == healed:
        why = heal
    elif since == inv:
        why = f"somebody asked for it, after {heal} at {clock(healed)}"
    else:
        why = f"the last of those left who had got it before {heal} at {clock(healed)}"
    served_nobody = length(clipped(view.once(unserved), since, until))
    if served_nobody:
        why += f", not counting {served_nobody / 1e9:.3f} s in which the machine did not run some worker or server"
    if unasked := until - since - bound - served_nobody:
        why += f", not counting {unasked / 1e9:.3f} s in which nobody asked for it"
    granted = next((hold for hold in view.holds.by_key.get(key, ()) if hold.ret > until), None)
    who, answer = _who_asked(view, key, healed, since, until)
    answer += f". The next grant was {view.who(granted.process)}'s, at {clock(granted.ret)}" if granted else ""
    vain = f"nobody got the lock within {bound / 1e9:g} s from {clock(since)} on, when {why}"
    return f"So {who}, and {vain}. Up to {clock(until)} {answer}."


def _who_asked(view: View, key: int, healed: int, since: int, until: int) -> tuple[str, str]:
    """Who asked for a key while nobody got it, and how the last call that returned ended."""
    ends = view.once(_ends)
    requests = [row for row in _requests(view, healed).get(key, ()) if view.inv[row] <= until and ends[row] >= since]
    workers = sorted({view.worker(row) for row in requests})
    whose = f"worker{'s' * (len(workers) != 1)} {listing(list(map(str, workers)))}"
    who = f"{whose} asked {f'{len(requests)} times' if len(requests) > 1 else 'once'}"
    last = max((row for row in requests if 0 < view.stopped[row] <= until), key=view.stopped.__getitem__, default=None)
    if last is None:
        return who, "there was no answer"
    error = error_text(last, view)
    answer = f"{view.who(view.process[last])}'s call was the last to return: it {ending(last, view)}"
    return who, f"{answer} at {view.clock(view.stopped[last])}" + (f": {error}" if error else "")


def _requests(view: View, healed: int) -> dict[int, list[int]]:
    """Key → the requests that were waiting at the heal or made later, in their order."""
    # A request of a worker that was killed before the heal never returned either.
    waiting = (row for row in view.attempts() if (view.stopped[row] or view.inv[row]) > healed)
    return grouped(waiting, view.key.__getitem__)


def _ends(view: View) -> list[float]:
    """Row → when its operation stopped waiting, infinite if it never returned."""
    return [moment or math.inf for moment in view.stopped]


RECOVERY: Final = Property("recovery", _examine, _exercise, needs=EXCLUDES, bounded=True, under=(ANY,))
