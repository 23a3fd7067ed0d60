"""`recovery`: after the last heal somebody gets the lock again within the bound that the lock declares."""

from __future__ import annotations

from typing import Final

from checkers.claims import NO_FAULT
from checkers.exercise import counters, fault_missed
from checkers.finding import Finding
from checkers.narrate import Narrator
from checkers.verdict import Verdict
from checkers.view import View
from checkers.wire import F

RECOVERY: Final = "recovery"
ASKED: Final = "keys asked for after the heal"
SLOWEST: Final = "slowest recovery (ms)"

_BROKEN: Final = {"not-recovered": "So nobody got the lock within the bound that it declares."}


def recovery(view: View) -> Verdict:
    """Whether, on every key that somebody asked for after the last heal, a grant returned within the bound.

    The bound counts from the heal, from the first request that was still waiting or made after it, or from when the
    last client left that had been inside since before the heal, whichever is latest: who holds a lock and lives is no
    failure to recover. A key whose bound lies beyond the end of the history is not judged.
    """
    bound = view.facts.bounds.get(RECOVERY, 0)
    healed = max((fault.healed for fault in view.history.faults if fault.applied), default=0)
    findings: list[Finding] = []
    judged = slowest = 0
    if healed and bound:
        for key, (asked, row) in _first_asked(view, healed).items():
            grants = view.by_key.get(key, ())
            since = max(healed, asked, *(g.left for g in grants if g.ret <= healed))
            granted = min((g.ret for g in grants if g.ret > healed), default=None)
            late = max((view.finish if granted is None else granted) - since, 0)
            if late > bound:
                findings.append(Finding("not-recovered", since + bound, (row,)))
            elif granted is None:
                continue
            judged += 1
            slowest = max(slowest, late)
    counted = {**counters(view), ASKED: judged, SLOWEST: slowest // 1_000_000}
    violations = Narrator(view).tell(findings, _BROKEN)
    return Verdict(RECOVERY, not violations, violations, counted, unexercised=_unexercised(view, healed, judged))


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


def _first_asked(view: View, healed: int) -> dict[int, tuple[int, int]]:
    """Key → (ns, row) of the first acquire that was waiting at the heal or invoked later."""
    inv, key, moments = view.column("inv"), view.column("key"), view.array("ret").tolist()
    result: dict[int, tuple[int, int]] = {}
    for row in view.rows(F.ACQUIRE, F.TRY_ACQUIRE):
        if max(inv[row], moments[row]) > healed:
            result.setdefault(key[row], (inv[row], row))
    return result
