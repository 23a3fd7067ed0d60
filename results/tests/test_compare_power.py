"""How often a comparison calls a version worse than itself, and how often it notices that one is slower.

Stored trials of one version are drawn again and again: for each fault one trial for A and another for B, either from
any two runs (how busy the machine was differs from trial to trial), or all of A's from one run and all of B's from
another (then it differs between the two).
"""

import itertools
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from statistics import median

import numpy as np
import pytest

from results.comparison.compare import compare
from results.comparison.speeds import MEASURES, STORE, Sample, Speed, TimeOrRate, samples, speeds
from results.tests.trials import Trial, contents, load, slower

Draw = Callable[[random.Random], tuple[list[Trial], list[Trial]]]

DRAWINGS = int(os.environ.get("DRAWINGS", "10"))
"""Comparisons of drawn trials for each statement; the nightly job makes a hundred."""


@cache
def _stored() -> dict[tuple[str, str], list[Trial]]:
    found: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial in load():
        found[trial.backend, trial.fault].append(trial)
    return found


def _from_any_two_runs(rng: random.Random) -> tuple[list[Trial], list[Trial]]:
    """Each run has tried a fault once, so trials of one fault from different runs are different trials."""
    sides: tuple[list[Trial], list[Trial]] = [], []
    for trials in _stored().values():
        runs = sorted({trial.run for trial in trials})
        if len(runs) > 1:
            for side, run in zip(sides, rng.sample(runs, 2), strict=True):
                side += [trial for trial in trials if trial.run == run]
    return sides


def _from_one_run_each(rng: random.Random) -> tuple[list[Trial], list[Trial]]:
    """Of two whole runs of each backend most of the faults that both have: no two drawings are the same."""
    sides: tuple[list[Trial], list[Trial]] = [], []
    for backend in sorted({backend for backend, _ in _stored()}):
        faults = [trials for (of, _), trials in _stored().items() if of == backend]
        counts = Counter(trial.run for trials in faults for trial in trials)
        runs = rng.sample([run for run, count in sorted(counts.items()) if count > len(faults) / 2], 2)
        for trials in faults:
            if rng.random() < 0.85:
                for side, run in zip(sides, runs, strict=True):
                    side += [trial for trial in trials if trial.run == run]
    return sides


DRAWS = {"from any two runs": _from_any_two_runs, "from one run each": _from_one_run_each}

CHANGES: dict[str, Callable[[Trial], Trial]] = {
    "nothing": lambda trial: trial,
    "all of it": lambda trial: slower(trial, 3),
    "one lock": lambda trial: slower(trial, 3, lock="redis"),
    "recovery": lambda trial: slower(trial, 3, only="recovery"),
    "a little": lambda trial: slower(trial, 1.2),
}


@cache
def _measured(change: str) -> dict[int, list[Sample]]:
    """By the identity of a stored trial what is compared of it, once it has changed so: read once for all drawings."""
    return {id(trial): samples(CHANGES[change](trial).lanes) for trials in _stored().values() for trial in trials}


def _speeds(draw: Draw, seed: int, change: str = "nothing") -> tuple[Speed, ...]:
    sides = zip(draw(random.Random(seed)), ("nothing", change), strict=True)
    before, after = ([one for trial in side for one in _measured(how)[id(trial)]] for side, how in sides)
    return speeds(before, after)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_version_is_never_slower_than_itself(draw: Draw) -> None:
    for seed in range(DRAWINGS):
        found = _speeds(draw, seed)
        assert any(speed.p is not None for speed in found)
        assert [speed for speed in found if speed.worse] == []


def test_a_version_breaks_no_promise_that_it_kept() -> None:
    """Of each fault every two runs, whatever else is drawn with them."""
    for trials in _stored().values():
        runs = [contents(trial for trial in trials if trial.run == run) for run in {trial.run for trial in trials}]
        for before, after in itertools.permutations(runs, 2):
            assert [change for change in compare(before, after).changes if change.worse] == []


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("change", ["all of it", "one lock", "recovery"])
def test_a_version_that_is_three_times_slower_is_worse(draw: Draw, change: str) -> None:
    found = [_speeds(draw, seed, change) for seed in range(DRAWINGS)]
    assert sum(any(speed.worse for speed in one) for one in found) >= 0.95 * DRAWINGS - 1
    assert all(not speed.better for one in found for speed in one if change == "all of it")


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_little_slower_is_the_same(draw: Draw) -> None:
    """By less than `RATIO`: nobody is called at night for that."""
    assert [speed for seed in range(DRAWINGS) for speed in _speeds(draw, seed, "a little") if speed.worse] == []


def _samples(trial: Trial) -> dict[str, Sample]:
    return {one.lane: one for one in samples(trial.lanes)}


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_measures_share_the_machines_slowness_as_declared(measure: TimeOrRate) -> None:
    """The slope through the origin, over all pairs of trials of one fault."""
    points = []
    for trials in _stored().values():
        for before, after in itertools.combinations(map(_samples, trials), 2):
            pairs = [(before[lane], after[lane]) for lane in before.keys() & after.keys()]
            stores, more = (
                [b.values[name] - a.values[name] for a, b in pairs if name in a.values and name in b.values]
                for name in (STORE, measure.name)
            )
            if stores and more:
                points.append((median(stores), median(more)))
    machine, more_ = np.array(points).T
    slope = (machine * more_).sum() / (machine**2).sum()
    assert abs(machine).max() > 2  # the machine was seven times as busy at times
    assert measure.share == pytest.approx(slope if measure.rises else -slope, abs=0.15)
