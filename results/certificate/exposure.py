"""How often the events that stress a promise happened in each stage: contention, expired leases, ... And how long locks
had no holder while versions change. Pure.

If an event did not happen in a stage, the certificate is inconclusive, unless it could not happen there.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import Final

from checkers.measures.latency import DURING
from checkers.properties.fenced_store import BY_VERSION, STALE
from checkers.properties.shared_counters import CONTENDED, EXPIRED, MIXED
from results.certificate.trials import ServerStep, UpgradeLane, UpgradeTrial
from results.comparison.speeds import MEASURES
from results.record import Cell, LaneSummary
from results.stages import ALONE, ROLLBACK, STAGES, TOGETHER

REFUSED: Final = "stale writes refused"
UNFENCED: Final = "stale attempts without a fence"
FAULTY: Final = "fault seconds"
EXPOSURES: Final = (CONTENDED, EXPIRED, REFUSED, UNFENCED, FAULTY, MIXED)

_UNFENCED: Final = "unfenced"
_TIMED: Final = ("recovery", "longest gap")
"""Measures with a meaning in a trial in which versions change."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """How often an event happened. why: if it did not, why it could not; empty without a reason."""

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
    counted = _counted(cells)
    of_lanes: dict[tuple[str, str], list[UpgradeLane]] = defaultdict(list)
    for trial in trials:
        of_lanes[trial.backend, trial.stage] += trial.lanes
        counted[REFUSED, trial.backend, trial.stage] += sum(lane.refused for lane in trial.lanes)
    for (backend, stage, _), seconds in _fault_seconds(lanes).items():
        counted[FAULTY, backend, stage] += seconds
    refused = {(step.backend, step.stage) for step in steps if step.refused}
    places = {(cell.backend, cell.stage) for cell in cells}
    unfenced = (cell for cell in cells if cell.store == _UNFENCED)
    uncounted = places - {(cell.backend, cell.stage) for cell in unfenced if STALE in cell.counters}
    made = []
    for what, place in product(EXPOSURES, sorted(places, key=lambda place: (place[0], STAGES.index(place[1])))):
        number = round(counted[what, *place], 1)
        why = _why_not(what, place[1], of_lanes[place], place in refused, place in uncounted)
        made.append(Exposure(place[0], what, place[1], number, "" if number else why))
    return tuple(made)


def _why_not(what: str, stage: str, lanes: Sequence[UpgradeLane], refused: bool, uncounted: bool) -> str:  # noqa: FBT001
    """Why an event could not happen in a stage, or empty. refused: a server was not replaced. uncounted: no lane
    without a fence counts stale attempts.
    """
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


def _counted(cells: Iterable[Cell]) -> defaultdict[tuple[str, str, str], float]:
    """(what, backend, stage) → the largest counter of a lane's properties, which all saw the same history; summed over
    lanes and trials.
    """
    most: dict[tuple[str, str, str, str, str], int] = {}
    for cell in cells:
        for what, name in ((CONTENDED, CONTENDED), (EXPIRED, EXPIRED), (UNFENCED, STALE), (MIXED, MIXED)):
            if what != UNFENCED or cell.store == _UNFENCED:
                key = what, cell.backend, cell.stage, cell.trial, cell.lane
                most[key] = max(most.get(key, 0), cell.counters.get(name, 0))
    total: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    for (what, backend, stage, _, _), number in most.items():
        total[what, backend, stage] += number
    return total


def _fault_seconds(lanes: Iterable[LaneSummary]) -> Mapping[tuple[str, str, str], float]:
    """(backend, stage, trial) → seconds for which a fault was active, in the lane with most of them."""
    longest: dict[tuple[str, str, str], float] = {}
    for lane in lanes:
        if lane.stage in STAGES:
            key = lane.backend, lane.stage, lane.trial
            cycles = lane.measures["cycles"] if lane.measures else ()
            seconds = sum(cycle["seconds"] for cycle in cycles if cycle["phase"] == DURING)
            longest[key] = max(longest.get(key, 0.0), seconds)
    return longest


@dataclass(frozen=True, slots=True)
class HandoverGap:
    """How long a lock had no holder while versions change: one measure in one stage. Without a lock: of all of the
    backend. It decides nothing: a cluster that is upgraded member by member has no baseline.

    middle  the median over trials of the median over their lanes; worst: of any lane. In the unit.
    """

    backend: str
    lock: str
    measure: str
    stage: str
    middle: float
    worst: float
    unit: str
    trials: int


def handover_gaps(lanes: Iterable[LaneSummary]) -> tuple[HandoverGap, ...]:
    chosen = [measure for measure in MEASURES if measure.name in _TIMED]
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
