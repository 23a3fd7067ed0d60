"""Who was served before whom, and how evenly."""

from typing import NamedTuple

import numpy as np

from checkers.history.counting import Ints, any_of, apart, below, quantile
from checkers.measures.latency import acquires
from checkers.measures.measure_result import WITNESSES, Reading, counts, durations, measure, ratio
from checkers.measures.measured_history import MeasuredHistory
from checkers.properties.fifo_and_deadlock import FIFO
from checkers.row_format import F, Outcome


class Bypasses(NamedTuple):
    """How often each exclusive grant with a core was passed. delta: see `bypass`; None if all say when they queued."""

    rows: Ints
    times: Ints
    delta: int | None


@measure("bypass", "no_lock", "crowded", judged_by=FIFO.id)
def bypass(measured: MeasuredHistory) -> Reading:
    """Grants of a key that certainly went before another grant that had certainly been asked for earlier.

    A grant went before another if its core was over before the other's began. It was asked for later if it was invoked
    after the other was in the queue or, if the other does not tell that, more than `delta` after the other (the longest
    that an acknowledged release took, as a measure of the way to the service). `passed` counts acquires that were
    passed, `most` how often one of them was. Readers, which may pass, and grants without a core are left out. A lock
    that promises no order shows many; `fifo` judges locks that do. See checkers/CONDITIONS.md, section 22.
    """
    bypasses = _bypasses(measured)
    if bypasses is None:
        return Reading(unexercised="nothing tells how long a request takes to the service")
    rows, times, delta = bypasses
    worst = np.argsort(-times, kind="stable")[:WITNESSES]
    return Reading(
        counts(bypasses=times.sum(), passed=(times > 0).sum(), most=times.max(initial=0), acquires=len(rows))
        + durations(delta=delta if measured.in_ns else None),
        measured.idle,
        tuple((int(rows[n]),) for n in worst if times[n]),
    )


@measure("starvation", "no_lock")
def starvation(measured: MeasuredHistory) -> Reading:
    """How unevenly clients were served: the longest wait divided by the median wait, how often one acquire was passed
    at most (see bypass), and Jain's index of the grants of each worker.

    A wait is the time from invocation to return of an acquire that was granted, or that timed out and so waited at
    least so long. Jain's index of n workers with x grants each is (sum x)² / (n · sum x²): 1 if all got as many, 1/n if
    one got all. Workers that asked count. In histories from elsewhere processes count, and a process that had no answer
    goes on as another one. Source: Jain, Chiu and Hawe, DEC-TR-301, 1984.
    """
    c, rows = measured.history.columns, measured.acquires
    workers = np.array([measured.worker(row) for row in rows.tolist()], np.int64)
    granted = c["outcome"][rows] == Outcome.OK
    names, place = np.unique(workers, return_inverse=True)
    shares = np.bincount(place, granted).astype(np.int64)
    passed = None if measured.crowded else _bypasses(measured)
    values = [
        *counts(workers=len(names), least_grants=shares.min(), most_grants=shares.max()),
        ratio("jain", int(shares.sum()) ** 2 / (len(names) * sum(share**2 for share in shares.tolist()))),
        *counts(most_bypasses=0 if passed is None else passed.times.max(initial=0)),
    ]
    witness: tuple[tuple[int, ...], ...] = ()
    if measured.untimed is None:
        waits = acquires(measured.timed)
        answered = measured.array("outcome")[waits.row] != Outcome.INFO
        rows, lasted = waits.row[answered], waits.lasted[answered]
        if len(rows):
            ordered = np.sort(lasted)
            median = quantile(ordered, 500)
            values += durations(longest_wait=ordered[-1], median_wait=median)
            values.append(ratio("longest_by_median", int(ordered[-1]) / median if median else None))
            witness = ((int(rows[np.argmax(lasted)]),),)
    few = None if len(names) > 1 else "only one worker asked"
    return Reading(values, few or measured.idle, witness)


def _bypasses(measured: MeasuredHistory) -> Bypasses | None:
    holds, c = measured.holds.columns, measured.history.columns
    alone = np.flatnonzero(~holds.shared & (holds.latest < holds.core_end))
    if not len(alone):
        return Bypasses(alone, alone, None)
    rows, key = holds.row[alone], holds.key[alone]
    queued = np.zeros(len(rows), np.int64) if measured.foreign else np.maximum(c["base"][rows], 0)
    delta = None
    if not queued.all():
        freed = any_of(c["f"], (F.RELEASE,)) & (c["outcome"] == Outcome.OK)
        if not freed.any():
            return None
        delta = int((c["ret"] - c["inv"])[freed].max())
    there = np.where(queued > 0, queued, holds.inv[alone] + (delta or 0))
    moments = apart((key, holds.inv[alone]), (key, there), (key, holds.core_end[alone]), (key, holds.latest[alone]))
    sent, seen, end, begin = moments.places
    order = np.argsort(sent, kind="stable")
    sent, over = sent[order], end[order]
    # Only grants of the same key count that were asked for later: all of the key, less those asked for by then.
    first = np.searchsorted(sent, seen, "right")
    last = np.searchsorted(sent, (moments.key(seen) + 1) * moments.width, "left")
    times = below(over, last, begin + 1) - below(over, first, begin + 1)
    return Bypasses(rows, times, delta)
