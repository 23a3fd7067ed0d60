"""`fail-fast`: a call ends in time, whatever the service does, and no acquire gives up long before its time.

A call may take as long as it was told to wait, plus the margin that the lock declares. Time in which its process did
not run does not count: the process's own sentinel, which only sleeps for short times, and faults on the worker show it.
An acquire that says that its time has passed took as long as it was told to wait, less that margin.
"""

from typing import Final

import numpy as np

from checkers.history.finding import Finding
from checkers.history.interval_sets import Span, clipped, length, united
from checkers.history.view import View
from checkers.properties.property import EXCLUDES, Examined, Property
from checkers.properties.shared_counters import Exercise, fault_missed, stalls_by_worker, undisturbed
from checkers.row_format import ACQUIRES, F, Outcome, Reason

ANSWERED: Final = "calls that ended"
SLOWEST: Final = "longest call beyond its timeout (ms)"

_OTHERS: Final = (F.RENEW, F.RELEASE, F.KEEP_ALIVE)

_LAPSES: Final = ("freeze", "stall", "call")
"""Kinds of faults under which a worker, or a thread of it, does not run and goes on later."""


def _examine(view: View) -> Examined:
    """Exact by the definition of checkers/CONDITIONS.md, section 12."""
    margin = view.facts.bounds.get(FAIL_FAST.id)
    patience = view.facts.patience
    lapses = _lapses(view)
    findings: list[Finding] = []
    slowest = 0
    ends = dict.fromkeys(_hanging(view), view.last_end) | {row: view.stopped[row] for row in view.once(_ended)}
    for row, end in sorted(ends.items()):
        given = 0 if view.outcome[row] == Outcome.OK else view.ttl[row]
        allowed = (given or patience) if view.f[row] == F.ACQUIRE else 0
        beyond = end - view.inv[row] - allowed
        if beyond <= min(slowest, slowest if margin is None else margin):
            continue
        beyond -= length(clipped(lapses.get(view.worker(row), ()), view.inv[row], end))
        slowest = max(slowest, beyond)
        if margin is not None and beyond > margin:
            took = "took" if view.stopped[row] else "had not ended after"
            timeout = f"its timeout is {allowed / 1e9:g} s, and " * (allowed > 0)
            limits = f"{timeout}the lock's margin is {margin / 1e9:g} s"
            why = f"So {view.who(view.process[row])}'s call {took} {(end - view.inv[row]) / 1e9:.3g} s: {limits}."
            findings.append(Finding("hung-call", view.inv[row] + allowed + margin, (row,), conclusion=why))
    if margin is not None and patience:
        for row in view.whole(F.ACQUIRE, outcomes=(Outcome.FAIL,)):
            allowed, waited = view.ttl[row] or patience, view.ret[row] - view.inv[row]
            if view.reason[row] == Reason.TIMEOUT and waited < allowed - margin and undisturbed(row, view):
                limits = f"it was told to wait for {allowed / 1e9:g} s, and the margin is {margin / 1e9:g} s"
                why = f"So {view.who(view.process[row])} gave up after {waited / 1e9:.3g} s, but {limits}."
                findings.append(Finding("gave-up-early", view.ret[row], (row,), conclusion=why))
    return Examined(findings, {SLOWEST: slowest // 1_000_000})


def _exercise(view: View) -> Exercise:
    judged = len(view.once(_ended))
    return Exercise(fault_missed(view) if judged else "no call ended", {ANSWERED: judged})


def _hanging(view: View) -> list[int]:
    """Rows of the acquires and releases that never ended: the last of their threads, whose workers no fault killed.

    A renewal may be left without an answer by a worker that has done its work, and ends.
    """
    workers, ended = view.facts.workers, view.array("ret")
    struck = (hit for hit in view.struck if hit.kind == "kill" and hit.process >= 0)
    kills = [(view.facts.worker_of(hit.process), hit.over) for hit in struck]
    last = {view.process[row] % (2 * workers): row for row in np.flatnonzero(view.array("f") != F.STALL).tolist()}
    calls = view.rows(*(ACQUIRES if view.facts.patience else ()), F.RELEASE)
    hanging = (row for row in calls if not ended[row] and last[view.process[row] % (2 * workers)] == row)
    return [row for row in hanging if not any(who == view.worker(row) and at >= view.inv[row] for who, at in kills)]


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
