"""Who was served before whom, and how evenly."""

from typing import NamedTuple

import numpy as np

from checkers.history.counting import Ints, apart, below, quantile
from checkers.measures.measured_history import Subject, of_kind
from checkers.measures.record import WITNESSES, Finding, count, measure, ns, ratio, silent
from checkers.properties.queue import FIFO
from checkers.wire import F, Outcome, Reason


class Bypasses(NamedTuple):
    """How often each grant of one holder alone was passed, in the order of `rows`.

    delta  ns, or places of events; what a request may take to the service. None: all say when they were queued.
    """

    rows: Ints
    times: Ints
    delta: int | None


@measure("bypass", judged_by=FIFO.id)
def bypass(subject: Subject) -> Finding:
    """Grants of a key that certainly went before another one that had certainly been asked for earlier.

    Granted earlier: the core of the one was over before the core of the other began. Asked for earlier: the other was
    invoked more than `delta` after this one, where delta is the longest that an acknowledged release took, as a measure
    of the way to the service; or, where this acquire says when it was in the queue, after that. `passed` is how many
    acquires it happened to, `most` how often to one of them. Readers pass rightly and are left out, and so are grants
    without a core. A lock that promises no order shows many; `fifo` judges those that do.
    See checkers/CONDITIONS.md, section 22.
    """
    if subject.no_lock or subject.crowded:
        return silent(subject.no_lock or subject.crowded or "")
    found = _bypasses(subject)
    if found is None:
        return silent("nothing tells how long a request takes to the service")
    worst = np.argsort(-found.times, kind="stable")[:WITNESSES]
    return Finding(
        (
            count("bypasses", int(found.times.sum())),
            count("passed", int((found.times > 0).sum())),
            count("most", int(found.times.max(initial=0))),
            count("acquires", len(found.rows)),
            ns("delta", found.delta if subject.in_ns else None),
        ),
        subject.idle,
        tuple((int(found.rows[n]),) for n in worst if found.times[n]),
    )


@measure("starvation")
def starvation(subject: Subject) -> Finding:
    """How unevenly those who asked were served: the longest wait by the median one, the most that one acquire was
    passed (see bypass), and Jain's index of grants for each worker.

    A wait is that of an acquire that was granted, invocation to return, and of one that timed out, which waited at
    least so long; tries do not wait. Jain's index of n workers with x grants each is (sum x)² / (n · sum x²): 1 when
    all got as many, 1/n when one got all. Counted are workers that asked at least once; in histories from elsewhere,
    processes, of which one that had no answer goes on as another. Source: Jain, Chiu and Hawe, DEC-TR-301, 1984.
    """
    if subject.no_lock:
        return silent(subject.no_lock)
    c, rows = subject.view.history.columns, subject.acquires
    view = subject.view
    workers = np.array([view.facts.worker_of(process) for process in c["process"][rows].tolist()], np.int64)
    granted = c["outcome"][rows] == Outcome.OK
    names, place = np.unique(workers, return_inverse=True)
    shares = np.bincount(place, granted).astype(np.int64)
    passed = None if subject.crowded else _bypasses(subject)
    values = [
        count("workers", len(names)),
        count("least_grants", int(shares.min())),
        count("most_grants", int(shares.max())),
        ratio("jain", int(shares.sum()) ** 2 / (len(names) * sum(share**2 for share in shares.tolist()))),
        count("most_bypasses", 0 if passed is None else int(passed.times.max(initial=0))),
    ]
    witness: tuple[tuple[int, ...], ...] = ()
    if subject.untimed is None:
        timed = subject.timed
        waits = timed.acquires[_waits(timed)]
        lasted = (timed.ended - timed.column("inv"))[waits]
        if len(waits):
            ordered = np.sort(lasted)
            median = quantile(ordered, 500)
            values += [
                ns("longest_wait", int(ordered[-1])),
                ns("median_wait", median),
                ratio("longest_by_median", int(ordered[-1]) / median if median else None),
            ]
            witness = ((int(waits[np.argmax(lasted)]),),)
    few = None if len(names) > 1 else "only one worker asked"
    return Finding(tuple(values), few or subject.idle, witness)


def _waits(subject: Subject) -> Ints:
    """Places among the acquires of those that waited to the end, whatever came of it."""
    c, rows = subject.view.history.columns, subject.acquires
    outcome, reason = c["outcome"][rows], c["reason"][rows]
    late = (outcome == Outcome.FAIL) & (reason == Reason.TIMEOUT)
    return np.flatnonzero((c["f"][rows] == F.ACQUIRE) & ((outcome == Outcome.OK) | late))


def _bypasses(subject: Subject) -> Bypasses | None:
    holds, c = subject.holds, subject.view.history.columns
    alone = np.flatnonzero(~holds.shared & (holds.latest < holds.core_end))
    if not len(alone):
        return Bypasses(alone, alone, None)
    rows, key = holds.row[alone], holds.key[alone]
    queued = np.zeros(len(rows), np.int64) if subject.foreign else np.maximum(c["base"][rows], 0)
    delta = None
    if not queued.all():
        freed = of_kind(c, F.RELEASE) & (c["outcome"] == Outcome.OK)
        if not freed.any():
            return None
        delta = int((c["ret"] - c["inv"])[freed].max())
    there = np.where(queued > 0, queued, holds.inv[alone] + (delta or 0))
    moments = apart(
        (key, holds.inv[alone]),
        (key, there),
        (key, holds.core_end[alone]),
        (key, holds.latest[alone]),
    )
    asked, seen, end, begin = moments.places
    order = np.argsort(asked, kind="stable")
    asked, over = asked[order], end[order]
    # Of the same key those are left that were asked for later: all, less those up to then.
    first = np.searchsorted(asked, seen, "right")
    last = np.searchsorted(asked, (moments.key(seen) + 1) * moments.width, "left")
    times = below(over, last, begin + 1) - below(over, first, begin + 1)
    return Bypasses(rows, times, delta)
