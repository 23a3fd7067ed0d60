"""How long a lock was nobody's while versions change: to be read beside the times of both versions. Pure.

They decide nothing: a cluster that is upgraded member by member has no baseline to be held against.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Final

from results.comparison.speeds import MEASURES, Measure
from results.record import LaneSummary
from results.stages import STAGES, TOGETHER

SHOWN: Final = ("recovery", "longest gap")
"""Measures that say something of such a trial."""


@dataclass(frozen=True, slots=True)
class HandoverGap:
    """One measure of a lock in one stage. An empty lock stands for all those of the backend.

    middle  of the trials, each the middle of its lanes; worst: of any lane. In the unit.
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
    """Of every backend as a whole, and of each of its locks."""
    chosen = [measure for measure in MEASURES if measure.name in SHOWN]
    numbers: dict[tuple[str, str, str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for lane in lanes:
        if lane.stage in TOGETHER and lane.measures:
            for measure in chosen:
                if (number := measure.read(lane.measures)) is not None:
                    for lock in ("", lane.lock):
                        numbers[lane.backend, lock, measure.name, lane.stage][lane.trial].append(number)
    return tuple(
        _of(key, numbers[key], chosen) for key in sorted(numbers, key=lambda key: (*key[:3], STAGES.index(key[3])))
    )


def _of(key: tuple[str, str, str, str], trials: dict[str, list[float]], chosen: Iterable[Measure]) -> HandoverGap:
    (unit,) = (measure.unit for measure in chosen if measure.name == key[2])
    worst = max(number for numbers in trials.values() for number in numbers)
    return HandoverGap(*key, median(map(median, trials.values())), worst, unit, len(trials))
