"""How long acquires and releases took before, during and after the faults, those without an answer included."""

from typing import Final, NamedTuple

import numpy as np

from checkers.history.counting import Flags, Ints
from checkers.measures.measure_result import Reading, Value, counts, durations, measure
from checkers.measures.measured_history import MeasuredHistory
from checkers.row_format import F, Outcome, Reason

QUANTILES: Final = (("p50", 500), ("p90", 900), ("p99", 990), ("p999", 999))
"""Names of quantiles, and the thousandths that took no longer."""

ALL: Final = "all"
BEFORE: Final = "before"
DURING: Final = "during"
AFTER: Final = "after"


@measure("acquire-latency", "unasked", "untimed")
def acquire_latency(measured: MeasuredHistory) -> Reading:
    """How long an acquire took from its invocation to the return of its grant: quantiles of the Kaplan-Meier estimate,
    for each phase.

    An acquire that timed out or had no answer is censored there: it took longer. Other refused acquires, and tries, did
    not wait and are left out. A quantile is the least time by which at least so many are estimated to be done; None:
    too many were given up before. Phases: `during`, under way between the beginning of a fault and its heal; `before`,
    over before the first fault; `after`, the rest. Source: Kaplan and Meier, JASA 53, 1958.
    """
    return _by_phase(measured, acquires(measured))


@measure("release-latency", "unreleased", "untimed")
def release_latency(measured: MeasuredHistory) -> Reading:
    """How long a release took from its invocation to its answer, whatever the answer was: quantiles of the Kaplan-Meier
    estimate, for each phase.

    A release without an answer is censored when it was given up. Quantiles and phases as in acquire-latency.
    """
    return _by_phase(measured, releases(measured))


class Waits(NamedTuple):
    """The wait of each request. done: whether it was answered at `ended`, or given up then. Times in ns."""

    row: Ints
    done: Flags
    inv: Ints
    ended: Ints

    @property
    def lasted(self) -> Ints:
        return self.ended - self.inv


def acquires(measured: MeasuredHistory) -> Waits:
    """The waits that acquire-latency measures. measured: a history that is `timed`."""
    c, rows = measured.history.columns, measured.acquires
    waited = (c["outcome"][rows] != Outcome.FAIL) | (c["reason"][rows] == Reason.TIMEOUT)
    rows = rows[(c["f"][rows] == F.ACQUIRE) & waited]
    return _waits(measured, rows, c["outcome"][rows] == Outcome.OK)


def releases(measured: MeasuredHistory) -> Waits:
    """The waits that release-latency measures. measured: a history that is `timed`."""
    return _waits(measured, measured.released, measured.array("outcome")[measured.released] != Outcome.INFO)


def kaplan_meier(lasted: Ints, done: Flags) -> tuple[Ints, Ints, Ints]:
    """The times at which waits were done, in order, how many were done then, and how many had not ended before.

    lasted: ns. done: whether a wait was done after that time, or else given up; at equal times, done waits come first.
    """
    times, ended = np.unique(lasted[done], return_counts=True)
    return times, ended, len(lasted) - np.searchsorted(np.sort(lasted), times, "left")


def survival_quantile(times: Ints, ended: Ints, there: Ints, permille: int) -> int | None:
    """The first of the times at which the estimate says that so many thousandths are done, or None."""
    remaining = np.cumprod(1 - ended / there)
    reached = np.flatnonzero(remaining <= 1 - permille / 1000 + 1e-12)
    return int(times[reached[0]]) if len(reached) else None


def _waits(measured: MeasuredHistory, rows: Ints, done: Flags) -> Waits:
    c = measured.history.columns
    never = (c["outcome"][rows] == Outcome.INFO) & (c["ret"][rows] == 0)
    ended = np.where(never, max(measured.finish, 1), measured.ended[rows])
    return Waits(rows, done, c["inv"][rows], ended)


def _by_phase(measured: MeasuredHistory, waits: Waits) -> Reading:
    done = waits.done
    values: list[Value] = []
    for phase, of in _phases(measured, waits.inv, waits.ended):
        if of.any():
            values += _quantiles(phase, waits.lasted[of], done[of])
    slowest = np.argsort(-np.where(done, waits.lasted, -1), kind="stable")[:1]
    witness = tuple((int(waits.row[n]),) for n in slowest if done[n])
    return Reading(values, None if done.any() else "none was answered", witness)


def _quantiles(phase: str, lasted: Ints, done: Flags) -> list[Value]:
    estimate = kaplan_meier(lasted, done)
    quantiles = {name: survival_quantile(*estimate, permille) for name, permille in QUANTILES}
    longest = lasted[done].max(initial=0) if done.any() else None
    return counts(phase, answered=done.sum(), censored=(~done).sum()) + durations(phase, **quantiles, longest=longest)


def _phases(measured: MeasuredHistory, inv: Ints, ended: Ints) -> list[tuple[str, Flags]]:
    everything = np.ones(len(inv), bool)
    if not measured.struck:
        return [(ALL, everything)]
    during = np.zeros(len(inv), bool)
    for fault in measured.struck:
        during |= (inv <= fault.over) & (ended >= fault.begun)
    before = ended < min(fault.begun for fault in measured.struck)
    return [(ALL, everything), (BEFORE, before), (DURING, during), (AFTER, ~before & ~during)]
