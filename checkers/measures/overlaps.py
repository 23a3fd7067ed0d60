"""Two holders at once: for certain, possibly, and because somebody set a clock."""

from typing import Final

import numpy as np

from checkers.history.counting import Ints, apart, crossing, meeting
from checkers.judging.excuses_by_fault import MECHANISMS
from checkers.measures.measure import WITNESSES, Reading, count, measure, ns, silent, witnesses
from checkers.measures.measured_history import MeasuredHistory
from checkers.properties.check_result import Violation
from checkers.properties.exclusion import SERVER_EXCLUSION

BY_A_CLOCK: Final = ("expired-by-jump", "expired-by-return", "expired-by-drift")
"""Mechanisms that explain a violation by a fault of kind clock."""


@measure("definite-overlap", "no_lock", "crowded", judged_by=SERVER_EXCLUSION.id)
def definite_overlap(measured: MeasuredHistory) -> Reading:
    """Pairs of grants of one key that were certainly in force together, and for how long the longest.

    A grant is certainly in force in its core, from the latest moment at which it can have begun to the earliest at
    which it can have been over (checkers/CONDITIONS.md, section 3). A pair counts when neither can have been over
    before the other began: their cores intersect for some time, or one without a core lies within the other's. Pairs of
    readers are left out. `server-exclusion` also finds more than two that are too many.
    """
    pairs, (earlier, later, lasted) = _definite(measured), _worst(measured)
    return Reading(
        (count("pairs", pairs), ns("longest", lasted.max(initial=0) if measured.in_ns else None)),
        measured.idle,
        witnesses(earlier, later),
        "two held at once for certain" if pairs else None,
    )


@measure("possible-overlap", "no_lock", "crowded")
def possible_overlap(measured: MeasuredHistory) -> Reading:
    """Pairs of grants of one key that may have been in force together, and need not: never a failure.

    A grant may be in force from the request that won it to the return of its release; without one that was acknowledged
    it counts as far as it is certain (`open` of them). A pair counts when these times meet and it is no definite one.
    """
    holds = measured.holds.columns
    begin, over = apart((holds.key, holds.start), (holds.key, holds.over)).places
    readers = holds.shared
    touching = meeting(begin, over) - meeting(begin[readers], over[readers])
    return Reading(
        (count("pairs", touching - _definite(measured)), count("open", int((holds.freed > measured.finish).sum()))),
        measured.idle,
    )


@measure("clock-jump-double-grant", judged_by=SERVER_EXCLUSION.id)
def clock_jump(measured: MeasuredHistory) -> Reading:
    """Violations of `server-exclusion` that a fault on a clock explains, and the others.

    Explained: the clock of a server was set, set right, or ran wrong while the lease of an earlier holder was in force,
    and the violation came after it (the mechanisms expired-by-jump, -return and -drift). The clock is the cause in
    question where there are some inside these windows and none outside.
    """
    hits = [fault for fault in measured.struck if fault.kind == "clock"]
    if not hits:
        return silent("no clock was set")
    if measured.no_lock:
        return silent(measured.no_lock)
    result = measured.result(SERVER_EXCLUSION)

    def explained(violation: Violation) -> bool:
        came = [hit for hit in hits if hit.begun <= violation.at]
        return any(MECHANISMS[name](violation, measured, came) for name in BY_A_CLOCK)

    inside = [violation for violation in result.violations if explained(violation)]
    return Reading(
        (
            count("inside", len(inside)),
            count("outside", len(result.violations) - len(inside)),
            count("faults", len(hits)),
        ),
        result.unexercised if not result.violations else None,
        tuple(violation.rows for violation in inside[:WITNESSES]),
        "granted twice around a clock fault" if inside else None,
    )


def _definite(measured: MeasuredHistory) -> int:
    holds = measured.holds.columns
    latest, end = apart((holds.key, holds.latest), (holds.key, holds.core_end)).places
    readers = holds.shared
    return int(crossing(latest, end).sum() - crossing(latest[readers], end[readers]).sum())


def _worst(measured: MeasuredHistory) -> tuple[Ints, Ints, Ints]:
    """For each grant that is the later one of a definite overlap, in order of time: the acquire rows of the earlier one
    that lasts longest and of this one, and how long (ns) both were certainly in force, as far as the history goes; not
    positive where the later one has no core.
    """
    holds = measured.holds.columns
    moments = apart((holds.key, holds.latest), (holds.key, holds.core_end))
    latest, end = moments.places
    core = latest < end
    order = np.flatnonzero(core)[np.argsort(latest[core], kind="stable")]
    # Of what began earlier: of a core, all cores before it; without one, those that began before it can have been over.
    before = np.searchsorted(latest[order], end, "left")
    before[order] = np.arange(len(order))
    until, place = (column[before] for column in _largest_until(end[order]))
    written, writer = (column[before] for column in _largest_until(np.where(holds.shared[order], -1, end[order])))
    until, place = np.where(holds.shared, written, until), np.where(holds.shared, writer, place)
    later = np.flatnonzero(until > latest)
    later = later[np.argsort(holds.latest[later], kind="stable")]
    earlier = order[place[later]]
    last = np.minimum(np.minimum(holds.core_end[earlier], holds.core_end[later]), measured.finish)
    return holds.row[earlier], holds.row[later], last - holds.latest[later]


def _largest_until(values: Ints) -> tuple[Ints, Ints]:
    """The largest among the first n values and where it stands first, for n = 0 ... len(values); -1 for none."""
    highest = np.maximum.accumulate(np.append(-1, values))
    new = np.diff(highest, prepend=-1) > 0
    return highest, np.maximum.accumulate(np.where(new, np.arange(len(highest)), 0)) - 1
