"""Times and rates of two runs, compared trial by trial.

The unit is the trial, not the operation: a trial of one run is compared with the trial of the same backend, fault and
seed in the other run, or with those of the same backend and fault if the runs have no seed in common. All that lies
within a trial (a lock's lanes, fault cycles, operations) is reduced to one number for each lock (why:
`results.comparison.paired`): the median over the lock's lanes of the logarithm of the ratio.

The machine's speed is measured at the protected resource, whose version is pinned and which no fault touches. If its
median access took n times as long in the second run's trial, a measure is expected to be worse by n to the power of
its `share`: a release is as slow as the machine, an acquire also waits for holders, and what ends with a lease hardly
changes. The fastest tenth of all releases ran on an idle machine, so it is the first to show a slow server. The shares
were measured: they are slopes of logarithms over pairs of trials of one version, with a machine that was up to 14 times
as slow in one trial as in the other (`results/tests/test_power.py`).

A difference counts if it is certainly more than `RATIO` beyond what the machine explains, if it was measured as more
than `RATIO`, and if it is above a floor. The signed-rank test asks whether the centre lies beyond `RATIO`, not beyond
1, and P values are corrected over all locks and measures (Holm).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from statistics import fmean, median
from typing import Any, Final, Literal

from checkers.measures.latency import DURING
from results.comparison.paired import able, centre, holm, interval, least, signed_rank
from results.record import Cycle, LaneSummary, Measures, Times, grouped

RATIO: Final = 1.5
"""How many times longer, or rarer, counts as worse."""

_BEYOND: Final = math.log(RATIO)
_FAMILIES: Final = 2

ALPHA: Final = 0.05
"""Bound of the chance of one false alarm among all times and rates of a comparison, in each direction, if all of them
are exactly `RATIO` times worse. If nothing is worse, the chance is far smaller."""
STORE: Final = "store"
"""The median access of the protected resource, which measures the machine."""


@dataclass(frozen=True, slots=True)
class TimeOrRate:
    name: str
    unit: str
    floor: float  # the least difference that counts, in its unit
    rises: bool  # whether more is worse
    share: float  # how much of the machine's slowness the measure shows: 0 none, 1 all
    read: Callable[[Measures], float | None]  # reads the number from a lane's measures; None if none was measured


@dataclass(frozen=True, slots=True)
class Sample:
    """One lane of one trial. values: name of a measure, or `STORE` → natural logarithm."""

    backend: str
    lock: str
    lane: str
    fault: str
    seed: int
    values: Mapping[str, float]


Word = Literal["worse", "better", "unsure", "same", "too few"]


@dataclass(frozen=True, slots=True)
class Speed:
    """One measure of a lock in both runs. An empty lock means all locks of the backend.

    before, after  the median of the trials, in the unit.
    ratio          after / before, as it was measured; interval: at 95 %, None for too few trials.
    machine        how many times slower the machine was in the second run; the median.
    p              P value that it is worse, corrected for all comparisons; None: too few trials.
    p_better       P value that it is better, likewise.
    word           `unsure`: measured as worse or better, but the machine or chance may explain it; `too few`: trials.
    """

    backend: str
    lock: str
    measure: str
    unit: str
    before: float
    after: float
    ratio: float
    interval: tuple[float, float] | None
    machine: float
    trials: int
    p: float | None
    p_better: float | None
    word: Word


def samples(lanes: Iterable[LaneSummary]) -> list[Sample]:
    """Samples of first attempts with measures. Further attempts were made for a few lanes only."""
    made = []
    for lane in lanes:
        if lane.attempt <= 1 and lane.measures:
            numbers = {measure.name: measure.read(lane.measures) for measure in MEASURES}
            numbers[STORE] = _time(lane.measures["store_ms"], "p50")
            values = {name: log for name, number in numbers.items() if (log := _logarithm(number)) is not None}
            made.append(Sample(lane.backend, lane.lock, lane.lane, lane.fault, lane.seed, values))
    return made


def speeds(before: Sequence[Sample], after: Sequence[Sample]) -> tuple[Speed, ...]:
    """Every lock and measure that both runs have, by backend and lock, each backend as a whole first."""
    compared = [
        _Compared(backend, lock, measure, tuple(pairs))
        for (backend, lock), by_measure in sorted(_pairs(before, after).items())
        for measure in MEASURES
        if (pairs := by_measure.get(measure.name))
    ]
    # Two families, each with half of the chance of a false alarm: backends as a whole are few and more certain.
    families = ([item for item in compared if not item.lock], [item for item in compared if item.lock])
    judged = chain.from_iterable(map(_judged, families))
    return tuple(sorted(judged, key=lambda speed: (speed.backend, speed.lock)))


def _judged(family: Sequence[_Compared]) -> Iterator[Speed]:
    """The speeds of a family, with P values that are corrected for the number of comparisons in the family."""
    can_tell = able([least(len(item.pairs)) for item in family], ALPHA / _FAMILIES)
    telling = [item for item, can in zip(family, can_tell, strict=True) if can]
    worse = iter(holm([signed_rank([left - _BEYOND for left in item.left]) for item in telling]))
    better = iter(holm([signed_rank([-left - _BEYOND for left in item.left]) for item in telling]))
    for item, can in zip(family, can_tell, strict=True):
        p, p_better = (min(_FAMILIES * next(of), 1.0) if can else None for of in (worse, better))
        yield item.speed(p, p_better)


@dataclass(frozen=True, slots=True)
class _Pair:
    """One trial in both runs, as logarithms. more: after / before. machine: how many times slower the machine was."""

    before: float
    more: float
    machine: float


@dataclass(frozen=True, slots=True)
class _Compared:
    """One measure of one lock, in every trial that both runs have."""

    backend: str
    lock: str
    measure: TimeOrRate
    pairs: tuple[_Pair, ...]

    @property
    def left(self) -> list[float]:
        """How much worse each trial is than the machine explains; logarithms."""
        return [self._sign * pair.more - self.measure.share * pair.machine for pair in self.pairs]

    @property
    def _sign(self) -> int:
        return 1 if self.measure.rises else -1

    def speed(self, p: float | None, p_better: float | None) -> Speed:
        """The comparison as a `Speed`. p, p_better: corrected; None for too few trials."""
        more = [pair.more for pair in self.pairs]
        before = math.exp(median(pair.before for pair in self.pairs))
        after = math.exp(median(pair.before + pair.more for pair in self.pairs))
        bounds = interval(more)
        middle = centre(more)
        word: Word
        if p is None or p_better is None:
            word = "too few"
        elif abs(after - before) < self.measure.floor or abs(middle) < _BEYOND:
            word = "same"
        elif self._sign * middle > 0:
            word = "worse" if p < ALPHA else "unsure"
        else:
            word = "better" if p_better < ALPHA else "unsure"
        machine = math.exp(median(pair.machine for pair in self.pairs))
        ratios = (math.exp(bounds[0]), math.exp(bounds[1])) if bounds else None
        return Speed(
            self.backend, self.lock, self.measure.name, self.measure.unit, before, after, math.exp(middle), ratios,
            machine, len(self.pairs), p, p_better, word,
        )  # fmt: skip


# Pairs of trials

_Unit = tuple[str, str, int | None]
"""Backend, fault and seed; None for all seeds together, if the two runs have no seed in common."""

_Value = tuple[_Unit, str, str, str]
"""What identifies a value of a run: the unit, the name of the measure or `STORE`, the lock, the lane."""


def _pairs(before: Sequence[Sample], after: Sequence[Sample]) -> dict[tuple[str, str], dict[str, list[_Pair]]]:
    """(backend, lock) → name of a measure → its pairs, one for each trial."""
    seeds, others = _seeds(before), _seeds(after)
    common = {what: seeds[what] & others[what] for what in seeds.keys() & others.keys()}
    first, second = _means(before, common), _means(after, common)
    lanes: dict[_Unit, dict[str, dict[str, list[tuple[float, float]]]]]  # unit → measure → lock → values of each lane
    lanes = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for (unit, name, lock, lane), value in first.items():
        if (unit, name, lock, lane) in second:
            lanes[unit][name][lock].append((value, second[unit, name, lock, lane] - value))
    pairs: dict[tuple[str, str], dict[str, list[_Pair]]] = defaultdict(lambda: defaultdict(list))
    for (backend, *_), measured in lanes.items():
        machine = [more for values in measured.pop(STORE, {}).values() for _, more in values]
        slower = median(machine) if machine else 0.0
        for name, by_lock in measured.items():
            middle = {lock: _middle_of(values) for lock, values in by_lock.items()}
            if len(middle) > 1:
                middle[""] = _middle_of(middle.values())
            for lock, (number, more) in middle.items():
                pairs[backend, lock][name].append(_Pair(number, more, slower))
    return pairs


def _middle_of(values: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """The medians of the values in the first run, and of how much more they are in the second."""
    before, more = zip(*values, strict=True)
    return median(before), median(more)


def _seeds(run: Iterable[Sample]) -> dict[tuple[str, str], set[int]]:
    """(backend, fault) → seeds."""
    trials = grouped(run, lambda sample: (sample.backend, sample.fault))
    return {what: {sample.seed for sample in mine} for what, mine in trials.items()}


def _means(run: Iterable[Sample], common: Mapping[tuple[str, str], set[int]]) -> dict[_Value, float]:
    """Every value; the mean if a unit has several trials. common: (backend, fault) → seeds that both runs have."""
    values: dict[_Value, list[float]] = defaultdict(list)
    for sample in run:
        seeds = common.get((sample.backend, sample.fault))
        if not seeds or sample.seed in seeds:
            unit = sample.backend, sample.fault, sample.seed if seeds else None
            for name, value in sample.values.items():
                values[unit, name, sample.lock, sample.lane].append(value)
    return {key: fmean(each) for key, each in values.items()}


# What is read of a lane


def _number(value: Any) -> float | None:
    """A number from a file; None if it is negative, or larger than any clock or counter of a trial can be."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LARGEST
    return float(value) if is_number else None


def _logarithm(number: float | None) -> float | None:
    """The logarithm; None also for numbers near zero, so that ratios are finite."""
    return math.log(number) if number is not None and number >= 1 / _LARGEST else None


def _time(times: Times, quantile: Literal["p10", "p50", "p99"]) -> float | None:
    """A quantile in ms; the longest wait, a lower bound, if it was not reached; None if an older trial lacks it."""
    if quantile not in times:
        return None
    number = _number(times[quantile])
    return _number(times.get("longest")) if number is None else number


def _phases(measures: Measures, *, faulty: bool) -> list[Cycle]:
    return [cycle for cycle in measures["cycles"] if (cycle["phase"] == DURING) == faulty]


def _middle(measures: Measures, *, faulty: bool = False) -> float | None:
    """The median acquire time; of several phases the geometric mean of their medians, weighted by their acquires."""
    total = weight = 0.0
    for phase in _phases(measures, faulty=faulty):
        times = phase["acquire_ms"]
        log, count = _logarithm(_time(times, "p50")), _number(times["count"])
        if log is not None and count:
            total, weight = total + count * log, weight + count
    return math.exp(total / weight) if weight else None


def _rate(measures: Measures, *, faulty: bool = False) -> float | None:
    """Grants a second. Half a grant is added, so that no grant is a small number, not zero."""
    phases = _phases(measures, faulty=faulty)
    seconds = sum(_number(phase["seconds"]) or 0.0 for phase in phases)
    grants = sum(_number(phase["grants"]) or 0.0 for phase in phases)
    return (grants + 0.5) / seconds if seconds >= _SHORTEST else None


def _recovery(measures: Measures) -> float | None:
    """The geometric mean time from a heal to the next grant. The property `recovery` judges heals without a grant."""
    times = [number for time in measures["recovery_s"] if (number := _number(time))]
    return math.exp(fmean(math.log(max(number, 1e-3)) for number in times)) if times else None


_SHORTEST: Final = 0.3  # seconds; a rate over a shorter time is not used
_LARGEST: Final = 1e12  # the largest number that is believed, in its unit: 1e12 ms are thirty years

MEASURES: Final = (
    TimeOrRate("acquire p50", "ms", 5.0, True, 0.45, _middle),
    TimeOrRate("acquire p50 under the fault", "ms", 5.0, True, 0.25, partial(_middle, faulty=True)),
    TimeOrRate("acquire p99", "ms", 20.0, True, 0.1, lambda measures: _time(measures["acquire_ms"], "p99")),
    TimeOrRate("release p10", "ms", 1.0, True, 0.3, lambda measures: _time(measures["release_ms"], "p10")),
    TimeOrRate("release p50", "ms", 1.0, True, 0.9, lambda measures: _time(measures["release_ms"], "p50")),
    TimeOrRate("grants", "/s", 0.1, False, 0.3, _rate),
    TimeOrRate("grants under the fault", "/s", 0.1, False, 0.2, partial(_rate, faulty=True)),
    TimeOrRate("recovery", "s", 0.05, True, 0.3, _recovery),
    TimeOrRate("longest gap", "s", 0.05, True, 0.4, lambda measures: _number(measures["longest_gap_s"])),
)
