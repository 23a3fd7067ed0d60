"""How often the events that stress a promise happened in each stage: contention, expired leases, ... Pure.

If an event did not happen in a stage, the certificate is inconclusive, unless it could not happen there.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from checkers.measures.latency import DURING
from checkers.properties.fenced_store import BY_VERSION, STALE
from checkers.properties.shared_counters import CONTENDED, EXPIRED, MIXED
from results.certificate.trials import ServerStep, UpgradeLane, UpgradeTrial
from results.record import Cell, LaneSummary
from results.stages import ALONE, ROLLBACK, STAGES

REFUSED: Final = "stale writes refused"
UNFENCED: Final = "stale attempts without a fence"
FAULTY: Final = "fault seconds"
EXPOSURES: Final = (CONTENDED, EXPIRED, REFUSED, UNFENCED, FAULTY, MIXED)

_UNFENCED: Final = "unfenced"


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
    """The exposures of every backend and stage with a trial, by backend."""
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
    uncounted = places - {
        (cell.backend, cell.stage) for cell in cells if cell.store == _UNFENCED and STALE in cell.counters
    }
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
    if what == MIXED and stage in ALONE:
        return "one version only"
    if what == MIXED and stage == ROLLBACK and refused:
        return "no way back"
    if stage == ROLLBACK and what not in (CONTENDED, MIXED):
        return "nobody is struck while servers go back"
    if not lanes:
        return ""
    if what == MIXED and all(lane.servers == 1 for lane in lanes):
        return "a single server has no mixed state"
    if what == EXPIRED and all(lane.lease == "none" for lane in lanes):
        return "no lock that was tried has a lease"
    if what == REFUSED and all(lane.store in (_UNFENCED, *BY_VERSION) for lane in lanes):
        return "no lane that was tried has a fence"
    if what == UNFENCED and all(lane.store != _UNFENCED for lane in lanes):
        return "every lane that was tried has a fence"
    if what == UNFENCED and uncounted:
        return "no lane without a fence was asked for it"
    return ""


_Counted = defaultdict[tuple[str, str, str], float]
"""(what, backend, stage) → how often."""


def _counted(cells: Iterable[Cell]) -> _Counted:
    """The largest counter of a lane's properties, which all saw the same history; summed over lanes and trials."""
    most: dict[tuple[str, str, str, str, str], int] = {}
    for cell in cells:
        for what, name in ((CONTENDED, CONTENDED), (EXPIRED, EXPIRED), (UNFENCED, STALE), (MIXED, MIXED)):
            if what != UNFENCED or cell.store == _UNFENCED:
                key = what, cell.backend, cell.stage, cell.trial, cell.lane
                most[key] = max(most.get(key, 0), cell.counters.get(name, 0))
    total: _Counted = defaultdict(float)
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
