"""`recovery`: after the last heal a client gets the lock again within the bound that the lock declares."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from checkers.claims import ANY, NO_FAULT
from checkers.history.counting import grouped
from checkers.history.finding import Finding
from checkers.history.interval_sets import clipped, length, moment, united, without
from checkers.history.view import View
from checkers.properties.property import EXCLUDES, Examined, Property
from checkers.properties.shared_counters import Exercise, ending, error_text, fault_missed, unless, unserved
from checkers.properties.violation_stories import Narrator, listing
from checkers.row_format import FINAL, Outcome

ASKED: Final = "keys asked for after the heal"
SLOWEST: Final = "slowest recovery (ms)"
AGAIN: Final = 6
"""After a refusal a client wants the lock for this part of the bound longer. By then it asks again, or never does."""


class KeyRecovery(NamedTuple):
    """How long it took, on one key, until somebody got the lock after the heal. Times in ns."""

    row: int  # the request from which the bound counts
    since: int  # when the bound begins to count
    # The time until a grant returned or, if none did, until the last deed of any worker. Left out are stalls of a
    # worker, silences of the trial and, if the bound was missed, the time in which nobody wanted the lock.
    late: int
    missed: int | None = None  # when the bound had passed, None if it was kept


def _examine(view: View) -> Examined:
    """Whether, on every key that somebody asked for after the last heal, a grant returned within the bound.

    When the bound begins: checkers/CONDITIONS.md, section 12. A client that gets in beside others (a reader, or one of
    several) shows that the lock is granted again. How long that took counts only if it was in time.
    """
    cases = view.once(_cases)
    findings = [
        Finding("not-recovered", case.missed, (case.row,), conclusion=_why(view, case, case.missed))
        for case in cases
        if case.missed is not None
    ]
    return Examined(findings, {SLOWEST: max((case.late for case in cases), default=0) // 1_000_000})


def _exercise(view: View) -> Exercise:
    judged = len(view.once(_cases))
    faults = [name for name in view.facts.fault_names if name != NO_FAULT]
    missing = unless(faults, "there was no fault to recover from") or fault_missed(view)
    missing = missing or unless(_healed(view), "the fault was never healed")
    missing = missing or unless(judged, "nobody asked for the lock, or could have got it, after the last heal")
    return Exercise(missing, {ASKED: judged})


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
    until = int(min(granted, view.once(_last_deed)))
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


def _healed(view: View) -> int:
    """ns; when the last fault was healed; 0 if there was none, or one was never healed."""
    healed = [fault.healed for fault in view.struck]
    return max(healed) if healed and all(healed) else 0


def _last_deed(view: View) -> int:
    """ns; the end of the last operation, final reads aside: they come seconds after hung workers were killed."""
    return int(view.ended[view.array("flags") & FINAL == 0].max(initial=0))


def _why(view: View, case: KeyRecovery, until: int) -> str:
    """The sentence that says how long the bound is, when and why it begins, and who asked meanwhile and got what."""
    clock, key, inv = view.clock, view.key[case.row], view.inv[case.row]
    healed, bound, since = _healed(view), view.facts.bounds[RECOVERY.id], case.since
    heal = next(fault.name for fault in view.struck if fault.healed == healed) + " was healed"
    if since == healed:
        why = heal
    elif since == inv:
        why = f"somebody asked for it, after {heal} at {clock(healed)}"
    else:
        why = f"the last of those left who had got it before {heal} at {clock(healed)}"
    served_nobody = length(clipped(view.once(unserved), since, until))
    if served_nobody:
        why += f", the {served_nobody / 1e9:.3f} s aside in which the machine did not run some worker or server"
    if unasked := until - since - bound - served_nobody:
        why += f", the {unasked / 1e9:.3f} s aside in which nobody asked for it"
    return (
        f"So nobody got the lock within the bound that it declares, {bound / 1e9:g} s from {clock(since)} on, "
        f"when {why}; {_who_asked(view, key, healed, since, until)}."
    )


def _who_asked(view: View, key: int, healed: int, since: int, until: int) -> str:
    """Who asked for a key while nobody got it, how the last call that returned ended, and who got the key at last."""
    words = Narrator(view)
    ends = view.once(_ends)
    requests = [row for row in _requests(view, healed).get(key, ()) if view.inv[row] <= until and ends[row] >= since]
    workers = sorted({view.worker(row) for row in requests})
    whose = f"worker{'s' * (len(workers) != 1)} {listing(list(map(str, workers)))}"
    text = f"until {view.clock(until)} {whose} asked {len(requests)} time{'s' * (len(requests) != 1)}"
    last = max((row for row in requests if 0 < view.stopped[row] <= until), key=view.stopped.__getitem__, default=None)
    if last is None:
        text += " and had no answer"
    else:
        error = error_text(last, view)
        text += f", and the last call that returned, {words.worker(view.process[last])}'s, {ending(last, view)}"
        text += f" at {view.clock(view.stopped[last])}" + (f": {error}" if error else "")
    granted = next((hold for hold in view.holds.by_key.get(key, ()) if hold.ret > until), None)
    if granted is not None:
        text += f"; {words.worker(granted.process)} got it at {view.clock(granted.ret)}"
    return text


def _requests(view: View, healed: int) -> dict[int, list[int]]:
    """Key → the requests that were waiting at the heal or made later, in their order."""
    # A request of a worker that was killed before the heal never returned either.
    waiting = (row for row in view.attempts() if (view.stopped[row] or view.inv[row]) > healed)
    return grouped(waiting, view.key.__getitem__)


def _ends(view: View) -> list[float]:
    """Row → when its operation stopped waiting, infinite if it never returned."""
    return [moment or math.inf for moment in view.stopped]


RECOVERY: Final = Property("recovery", _examine, _exercise, needs=EXCLUDES, bounded=True, under=(ANY,))
