"""How long a lock had no holder while versions change, to be shown beside the times of both versions. Pure.

It decides nothing: a cluster that is upgraded member by member has no baseline.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Final

from results.comparison.speeds import MEASURES
from results.record import LaneSummary
from results.stages import STAGES, TOGETHER

SHOWN: Final = ("recovery", "longest gap")
"""Measures with a meaning in such a trial."""


@dataclass(frozen=True, slots=True)
class HandoverGap:
    """One measure of a lock in one stage. An empty lock means all locks of the backend.

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
    """The gaps of every backend as a whole, and of each of its locks."""
    chosen = [measure for measure in MEASURES if measure.name in SHOWN]
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
