"""`fail-fast`: a call ends in time, whatever the service does.

A call may take as long as it was told to wait, plus the margin that the lock declares. Time in which its process did
not run does not count: the process's own sentinel, which only sleeps for short times, and faults on the worker show it.
"""

from typing import Final

from checkers.history.finding import Finding
from checkers.history.interval_sets import Span, clipped, length, united
from checkers.history.view import View
from checkers.properties.property import EXCLUDES, Examined, Property
from checkers.properties.shared_counters import Exercise, fault_missed, stalls_by_worker
from checkers.row_format import ACQUIRES, F, Outcome

ANSWERED: Final = "calls that ended"
SLOWEST: Final = "longest call beyond its timeout (ms)"

_OTHERS: Final = (F.RENEW, F.RELEASE, F.KEEP_ALIVE)

_LAPSES: Final = ("freeze", "stall", "call")
"""Kinds of faults under which a worker, or a thread of it, does not run and goes on later."""


def _examine(view: View) -> Examined:
    """Whether every acquire returned within its patience and the margin, and every other call within the margin.

    A try has no patience. An acquire that was granted is judged by the longest patience of the trial. A call that never
    ended is not judged: its worker was killed, or the trial was over.
    """
    margin = view.facts.bounds.get(FAIL_FAST.id)
    patience = view.facts.patience
    lapses = _lapses(view)
    findings: list[Finding] = []
    slowest = 0
    for row in view.once(_ended):
        given = 0 if view.outcome[row] == Outcome.OK else view.ttl[row]
        allowed = (given or patience) if view.f[row] == F.ACQUIRE else 0
        beyond = view.stopped[row] - view.inv[row] - allowed
        if beyond <= min(slowest, slowest if margin is None else margin):
            continue
        beyond -= length(clipped(lapses.get(view.worker(row), ()), view.inv[row], view.stopped[row]))
        slowest = max(slowest, beyond)
        if margin is not None and beyond > margin:
            findings.append(Finding("hung-call", view.inv[row] + allowed + margin, (row,)))
    return Examined(findings, {SLOWEST: slowest // 1_000_000})


def _exercise(view: View) -> Exercise:
    judged = len(view.once(_ended))
    return Exercise(fault_missed(view) if judged else "no call ended", {ANSWERED: judged})


def _ended(view: View) -> list[int]:
    """Rows of the calls that are judged."""
    ended = view.array("ret")
    return [row for row in view.rows(*(ACQUIRES if view.facts.patience else ()), *_OTHERS) if ended[row]]


def _lapses(view: View) -> dict[int, list[Span]]:
    """Worker → when its process, or one of its threads, did not run."""
    spans = {worker: list(its) for worker, its in view.once(stalls_by_worker).items()}
    for fault in view.struck:
        if fault.kind in _LAPSES:
            spans.setdefault(view.facts.worker_of(fault.process), []).append((fault.applied, fault.over))
    return {worker: united(its) for worker, its in spans.items()}


FAIL_FAST: Final = Property("fail-fast", _examine, _exercise, needs=EXCLUDES, bounded=True)
