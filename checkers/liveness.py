"""`recovery`: after the last heal somebody gets the lock again within the bound that the lock declares."""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import partial
from itertools import accumulate
from typing import Final

from checkers.claims import NO_FAULT
from checkers.exercise import counters, ending, error_text, fault_missed, worker_of
from checkers.finding import Finding
from checkers.narrate import Narrator
from checkers.verdict import Verdict
from checkers.view import View
from checkers.wire import NESTED, F, Outcome

RECOVERY: Final = "recovery"
ASKED: Final = "keys asked for after the heal"
SLOWEST: Final = "slowest recovery (ms)"


def recovery(view: View) -> Verdict:
    """Whether, on every key that somebody asked for after the last heal, a grant returned within the bound.

    The bound counts from the heal, or from when the last client left that had been inside since before it, whichever
    is later: who holds a lock and lives is no failure to recover; and from the first request that was still waiting by
    then or made later. Where nobody was waiting when the bound had passed, nor was refused after that, it counts anew
    from the next request: what nobody asks for, nobody gets. A key whose bound lies beyond the end is not judged.
    """
    bound = view.facts.bounds.get(RECOVERY, 0)
    healed = _healed(view)
    inv, outcome, ends = view.column("inv"), view.column("outcome"), _ends(view)
    findings: list[Finding] = []
    judged = slowest = 0
    if healed and bound:
        for key, requests in _requests(view, healed).items():
            grants = view.by_key.get(key, ())
            free = max((healed, *(g.left for g in grants if g.ret <= healed)))
            asked = [row for row in requests if ends[row] > free]
            granted = min((g.ret for g in grants if g.ret > healed), default=math.inf)
            begun, waiting = [inv[row] for row in asked], list(accumulate((ends[row] for row in asked), max))
            refused = max(
                (ends[row] for row in asked if outcome[row] == Outcome.FAIL and ends[row] < granted), default=0
            )
            for row in asked:
                since = max(free, inv[row])
                passed = since + bound
                late = max(int(min(granted, view.finish)) - since, 0)
                if late > bound and max(waiting[bisect_right(begun, passed) - 1], refused) <= passed:
                    continue  # who asked gave up before that, and nobody took its place: the next one's turn
                if late > bound:
                    findings.append(Finding("not-recovered", passed, (row,)))
                if late > bound or granted < math.inf:
                    judged += 1
                    slowest = max(slowest, late)
                break
    counted = {**counters(view), ASKED: judged, SLOWEST: slowest // 1_000_000}
    violations = Narrator(view).tell(findings, {"not-recovered": partial(_broken, view, healed)})
    return Verdict(RECOVERY, not violations, violations, counted, unexercised=_unexercised(view, healed, judged))


def _healed(view: View) -> int:
    """ns; when the last fault was healed, 0 where one never was, or there was none."""
    healed = [fault.healed for fault in view.history.faults if fault.applied]
    return max(healed) if healed and all(healed) else 0


def _broken(view: View, healed: int, finding: Finding) -> str:
    """What was broken: how long the bound is, from when on it counts and why, who asked by its end, what they got."""
    clock, key, inv = Narrator(view).clock, view.column("key")[finding.rows[0]], view.column("inv")[finding.rows[0]]
    bound, until = view.facts.bounds[RECOVERY], finding.at
    since = until - bound
    heal = next(fault.name for fault in view.history.faults if fault.applied and fault.healed == healed) + " was healed"
    if since == healed:
        why = heal
    elif since == inv:
        why = f"somebody asked for it, after {heal} at {clock(healed)}"
    else:
        why = f"the last of those left who had got it before {heal} at {clock(healed)}"
    return (
        f"So nobody got the lock within the bound that it declares, {bound / 1e9:g} s from {clock(since)} on, "
        f"when {why}; {_asked(view, key, healed, since, until)}."
    )


def _asked(view: View, key: int, healed: int, since: int, until: int) -> str:
    """Who asked for a key while nobody got it, what the last call that returned came to, and who got it at last."""
    words = Narrator(view)
    inv, moments, process = view.column("inv"), view.array("ret").tolist(), view.column("process")
    requests, ends = _requests(view, healed).get(key, ()), _ends(view)
    asked = [row for row in requests if inv[row] <= until and ends[row] >= since]
    *others, one = sorted({worker_of(process[row], view) for row in asked})
    whose = f"workers {', '.join(map(str, others))} and {one}" if others else f"worker {one}"
    told = f"until {words.clock(until)} {whose} asked {len(asked)} time{'s' * (len(asked) != 1)}"
    last = max((row for row in asked if 0 < moments[row] <= until), key=moments.__getitem__, default=None)
    if last is None:
        told += " and had no answer"
    else:
        text = error_text(last, view)
        told += f", and the last call that returned, {words.worker(process[last])}'s, {ending(last, view)}"
        told += f" at {words.clock(moments[last])}" + (f": {text}" if text else "")
    granted = next((grant for grant in view.by_key.get(key, ()) if grant.ret > until), None)
    if granted is not None:
        told += f"; {words.worker(granted.process)} got it at {words.clock(granted.ret)}"
    return told


def _unexercised(view: View, healed: int, judged: int) -> str | None:
    if not view.facts.bounds.get(RECOVERY, 0):
        return "the lock declares no bound"
    if all(name == NO_FAULT for name in view.facts.fault_names):
        return "there was no fault to recover from"
    missed = fault_missed(view, counters(view))
    if missed is not None:
        return missed
    if not healed:
        return "the fault was never healed"
    return None if judged else "nobody asked for the lock, or could have got it, after the last heal"


def _requests(view: View, healed: int) -> dict[int, list[int]]:
    """Key → the requests that were waiting at the heal or made later, in their order."""
    inv, key, flags = view.column("inv"), view.column("key"), view.column("flags")
    moments = view.array("ret").tolist()
    result: dict[int, list[int]] = {}
    for row in view.rows(F.ACQUIRE, F.TRY_ACQUIRE):
        # Who was killed before the heal never returned either.
        if not flags[row] & NESTED and (moments[row] or inv[row]) > healed:
            result.setdefault(key[row], []).append(row)
    return result


def _ends(view: View) -> list[float]:
    """Of each row until when it was waiting."""
    return [moment or math.inf for moment in view.array("ret").tolist()]
