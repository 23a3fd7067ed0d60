"""What a run was able to notice. Pure.

If an event that stresses a promise (contention, an expired lease, ...) did not happen in a stage, the certificate is
inconclusive, unless the event could not happen there.

A positive control is a hazard that is certain to show. A lock is broken by design if it is one of the suite's
anti-patterns. A run also tries planted bugs: in locks that run on the new version, and in servers.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Final

from checkers.claims import Verdict
from checkers.measures.latency import DURING
from checkers.properties.fenced_store import BY_VERSION, STALE
from checkers.properties.shared_counters import CONTENDED, EXPIRED, MIXED
from results.certificate.trials import ServerStep, UpgradeLane, UpgradeTrial
from results.comparison.speeds import MEASURES
from results.record import Cell, LaneSummary, grouped, judged
from results.report.verdict_changes import BLIND
from results.stages import ALONE, BASELINE, BROKEN_SERVER, CANDIDATE, CLIENTS, ROLLBACK, STAGES, TOGETHER

REFUSED: Final = "stale writes refused"
UNFENCED: Final = "stale attempts without a fence"
FAULTY: Final = "fault seconds"
EXPOSURES: Final = (CONTENDED, EXPIRED, REFUSED, UNFENCED, FAULTY, MIXED)

_UNFENCED: Final = "unfenced"


@dataclass(frozen=True, slots=True)
class Exposure:
    """How often an event happened. why: if the event did not happen, why it could not; empty without a reason."""

    backend: str
    what: str
    stage: str
    number: float
    why: str = ""

    @property
    def missing(self) -> bool:
        """Whether the event could have happened, and did not."""
        return not self.number and not self.why


def exposures(
    cells: Iterable[Cell], lanes: Iterable[LaneSummary], trials: Sequence[UpgradeTrial], steps: Iterable[ServerStep]
) -> tuple[Exposure, ...]:
    cells = [cell for cell in cells if cell.stage in STAGES]
    counted = _counted(cells, lanes, trials)
    of_lanes: dict[tuple[str, str], list[UpgradeLane]] = defaultdict(list)
    for trial in trials:
        of_lanes[trial.backend, trial.stage] += trial.lanes
    refused = {(step.backend, step.stage) for step in steps if step.refused}
    of_clients = {(trial.backend, trial.stage) for trial in trials if trial.column == CLIENTS}
    places = {(cell.backend, cell.stage) for cell in cells}
    unfenced = (cell for cell in cells if cell.store == _UNFENCED)
    uncounted = places - {(cell.backend, cell.stage) for cell in unfenced if STALE in cell.counters}
    made = []
    for what, place in product(EXPOSURES, sorted(places, key=lambda place: (place[0], STAGES.index(place[1])))):
        number = round(counted[what, *place], 1)
        why = _why_not(what, place[1], of_lanes[place], place in refused, place in uncounted)
        if what == MIXED and place in of_clients:
            why = "servers have one version, and half of the clients another than the rest all the while"
        made.append(Exposure(place[0], what, place[1], number, "" if number else why))
    return tuple(made)


def _why_not(what: str, stage: str, lanes: Sequence[UpgradeLane], refused: bool, uncounted: bool) -> str:  # noqa: FBT001
    """Why `what` cannot happen, or empty. refused: a server was not replaced. uncounted: no unfenced lane counts it."""
    stores = {lane.store for lane in lanes}
    reasons = (
        (what == MIXED and stage in ALONE, "one version only"),
        (what == MIXED and stage == ROLLBACK and refused, "no way back"),
        (stage == ROLLBACK and what not in (CONTENDED, MIXED), "nobody is struck while servers go back"),
        (not lanes, ""),
        (what == MIXED and all(lane.servers == 1 for lane in lanes), "a single server has no mixed state"),
        (what == EXPIRED and all(lane.lease == "none" for lane in lanes), "no lock that was tried has a lease"),
        (what == REFUSED and stores <= {_UNFENCED, *BY_VERSION}, "no lane that was tried has a fence"),
        (what == UNFENCED and _UNFENCED not in stores, "every lane that was tried has a fence"),
        (what == UNFENCED and uncounted, "no lane without a fence was asked for it"),
    )
    return next((why for holds, why in reasons if holds), "")


def _counted(
    cells: Iterable[Cell], lanes: Iterable[LaneSummary], trials: Iterable[UpgradeTrial]
) -> defaultdict[tuple[str, str, str], float]:
    """(what, backend, stage) → how often. Of a lane the largest counter counts, since all its properties see one
    history. A fault was active for as long as in that lane of the trial where it was longest.
    """
    most: defaultdict[tuple[str, str, str, str, str], float] = defaultdict(float)
    for cell in cells:
        for what, name in ((CONTENDED, CONTENDED), (EXPIRED, EXPIRED), (UNFENCED, STALE), (MIXED, MIXED)):
            if what != UNFENCED or cell.store == _UNFENCED:
                key = what, cell.backend, cell.stage, cell.trial, cell.lane
                most[key] = max(most[key], cell.counters.get(name, 0))
    for lane in lanes:
        if lane.measures:
            key = FAULTY, lane.backend, lane.stage, lane.trial, ""
            seconds = sum(cycle["seconds"] for cycle in lane.measures["cycles"] if cycle["phase"] == DURING)
            most[key] = max(most[key], seconds)
    total: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    for (what, backend, stage, _, _), number in most.items():
        total[what, backend, stage] += number
    for trial in trials:
        total[REFUSED, trial.backend, trial.stage] += sum(lane.refused for lane in trial.lanes)
    return total


@dataclass(frozen=True, slots=True)
class HandoverGap:
    """How long a lock had no holder while versions change: one measure in one stage. An empty `lock` means all locks of
    the backend. The gap decides nothing: a cluster that is upgraded member by member has no baseline.
    """

    backend: str
    lock: str
    measure: str
    stage: str
    middle: float  # in `unit`; the median over trials of the median over lanes; worst: the largest of any lane
    worst: float
    unit: str
    trials: int


def handover_gaps(lanes: Iterable[LaneSummary]) -> tuple[HandoverGap, ...]:
    # The measures with a meaning in a trial in which versions change.
    chosen = [measure for measure in MEASURES if measure.name in ("recovery", "longest gap")]
    numbers: dict[tuple[str, str, str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for lane in lanes:
        if lane.stage in TOGETHER and lane.measures:
            for measure in chosen:
                if (number := measure.read(lane.measures)) is not None:
                    for lock in ("", lane.lock):
                        numbers[lane.backend, lock, measure.name, lane.stage][lane.trial].append(number)
    units = {measure.name: measure.unit for measure in chosen}
    made = []
    for key in sorted(numbers, key=lambda key: (*key[:3], STAGES.index(key[3]))):
        trials = numbers[key].values()
        made.append(HandoverGap(*key, median(map(median, trials)), max(map(max, trials)), units[key[2]], len(trials)))
    return tuple(made)


@dataclass(frozen=True, slots=True)
class LockGap:
    """The longest time in which clients asked for a lock and nobody held it, in a trial in which versions change.

    begin, end  seconds since the trial's first operation.
    recovery    seconds within which the lock promises to be granted again after a fault; 0 without a bound.
    """

    backend: str
    lock: str
    stage: str
    trial: str
    begin: float
    end: float
    recovery: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


def lock_gaps(trials: Iterable[UpgradeTrial]) -> tuple[LockGap, ...]:
    """A gap for each trial and lock, the longest first."""
    gaps = [
        LockGap(trial.backend, lane.lock, trial.stage, trial.name, *lane.gap, lane.recovery)
        for trial in trials
        for lane in trial.lanes
        if lane.gap is not None
    ]
    seconds = attrgetter("seconds")
    longest = (max(mine, key=seconds) for mine in grouped(gaps, lambda gap: (gap.trial, gap.lock)).values())
    return tuple(sorted(longest, key=seconds, reverse=True))


@dataclass(frozen=True, slots=True)
class Tries:
    """In how many trials of the new version, or while versions change, a property of a lock was judged under a fault.

    Trials that stressed nothing, or came to no verdict, do not count.
    """

    backend: str
    lock: str
    property: str
    fault: str
    trials: int


def seen_in(trials: int) -> float:
    """The share of trials that must break for one of so many to break with a probability of 95 %."""
    return float(1 - 0.05 ** (1 / trials)) if trials else 1.0


def tries(cells: Iterable[Cell]) -> tuple[Tries, ...]:
    of_new = (cell for cell in judged(cells) if cell.stage in STAGES and cell.stage != BASELINE)
    by_question = grouped(of_new, lambda cell: (cell.backend, cell.lock, cell.property, cell.fault))
    return tuple(
        Tries(*key, len({cell.trial for cell in mine if cell.word not in BLIND}))
        for key, mine in sorted(by_question.items())
    )


def boundaries(lanes: Iterable[LaneSummary]) -> tuple[int, int]:
    """(hit, all): how many of the boundaries between two requests of a verb a fault struck on the new version."""
    struck = [each for lane in lanes if lane.stage == CANDIDATE for each in lane.boundaries.values()]
    return sum(each["hit"] for each in struck), sum(each["messages"] for each in struck)


_Controls = defaultdict[str, defaultdict[str, bool]]  # stage → name of a control → whether it was shown


@dataclass(frozen=True, slots=True)
class Shown:
    """The controls of one stage: how many were shown, of how many, and the names of the others."""

    stage: str
    shown: int
    of: int
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Planted:
    """A planted bug. name: of the lock's class or the server. by: the property that must detect it, and the fault."""

    backend: str
    name: str
    by: str
    caught: bool
    page: Path | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is known to be broken, and how much of it was detected."""

    hazards: tuple[Shown, ...]  # for each stage that has any: judgements in which a hazard was certain to show
    locks: tuple[Shown, ...]  # for each stage that has any: locks broken by design that had such a judgement
    planted: tuple[Planted, ...]  # bugs, each in a lock or in a server; empty if none were tried


def calibration(cells: Iterable[Cell], trials: Sequence[UpgradeTrial], planted: Iterable[Cell]) -> Calibration:
    """The calibration of a run. The histories declare its controls. planted: the judgements that must detect a bug."""
    certain = {(trial.name, lane.lane, name) for trial in trials for lane in trial.lanes for name in lane.controls}
    by_design = {lock for trial in trials for lock in trial.by_design}
    hazards: _Controls = defaultdict(lambda: defaultdict(bool))
    locks: _Controls = defaultdict(lambda: defaultdict(bool))
    for cell in cells:
        if (cell.trial, cell.lane, cell.property) in certain and cell.word is not Verdict.NOT_APPLICABLE:
            shown = cell.word is Verdict.WEAKNESS_SHOWN
            # Up to three trials of one series are one question: see `results.record.settled`.
            hazards[cell.stage][f"{cell.property} of {cell.lane} under {cell.fault}"] |= shown
            if cell.lock in by_design:
                locks[cell.stage][cell.lock] |= shown
    return Calibration(_shown(hazards), _shown(locks), tuple(map(_planted, planted)))


def _planted(cell: Cell) -> Planted:
    by = f"{cell.property} under {cell.fault}"
    if cell.stage == BROKEN_SERVER:
        name = f"server {cell.version.removeprefix('image:fencepost/planted-')}"
    else:
        name = re.sub("^(mutant|suites.locks.mutants):", "", cell.lock)  # older runs have the second name
    return Planted(cell.backend, name, by, cell.word is Verdict.VIOLATED, cell.page)


def _shown(controls: _Controls) -> tuple[Shown, ...]:
    return tuple(
        Shown(stage, sum(each.values()), len(each), tuple(sorted(name for name, shown in each.items() if not shown)))
        for stage in STAGES
        if (each := controls.get(stage))
    )
