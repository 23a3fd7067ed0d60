"""How often a comparison or a certificate calls a version worse than itself, and how often it notices a slower version.

The tests draw stored trials of one version: for each fault one trial for A and another for B. They come from any two
runs (each with the machine as busy as it was), or all trials of A from one run and all trials of B from another.
"""

import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import combinations, product
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.claims import Verdict
from checkers.tests.build import cases, there
from results.certificate.certify import Certificate, Decision, certify
from results.certificate.promise_losses import weaknesses
from results.comparison.compare import compare
from results.comparison.paired import EXACT_UP_TO, able, centre, holm, interval, least, signed_rank
from results.comparison.speeds import MEASURES, STORE, Sample, Speed, TimeOrRate, samples, speeds
from results.record import Cell
from results.stages import ALONE, BASELINE, CANDIDATE, MIXED
from results.storage.reading import RunContents
from results.tests.trials import SLOW_SERVER, Trial, contents, load, slower
from results.tests.upgrades import cell, of

Draw = Callable[[random.Random], tuple[list[Trial], list[Trial]]]

DRAWINGS = int(os.environ.get("DRAWINGS", "5"))
"""How many comparisons of drawn trials each test makes; the nightly job makes a hundred."""
small = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=8)


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
    """Two whole runs of each backend, but only most of their faults, so that no two drawings are the same."""
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
    """`id` of a stored trial → what is compared of the trial after this change. It is read once for all drawings."""
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
        assert [speed for speed in found if speed.word == "worse"] == []


def test_a_version_breaks_no_promise_that_it_kept() -> None:
    for trials in _stored().values():
        runs = [contents(each for each in trials if each.run == run) for run in sorted({each.run for each in trials})]
        for before, after in zip(runs, runs[1:] + runs[:1], strict=True):
            assert [change for change in compare(before, after).changes if change.worse] == []


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("change", ["all of it", "one lock", "recovery"])
def test_a_version_that_is_three_times_slower_is_worse(draw: Draw, change: str) -> None:
    found = [_speeds(draw, seed, change) for seed in range(DRAWINGS)]
    assert sum(any(speed.word == "worse" for speed in one) for one in found) >= 0.95 * DRAWINGS - 1
    assert all(speed.word != "better" for one in found for speed in one if change == "all of it")


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_little_slower_is_the_same(draw: Draw) -> None:
    assert "worse" not in {speed.word for seed in range(DRAWINGS) for speed in _speeds(draw, seed, "a little")}


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_measures_share_the_machines_slowness_as_declared(measure: TimeOrRate) -> None:
    points = []
    for trials in _stored().values():
        by_lane = [{one.lane: one for one in samples(trial.lanes)} for trial in trials]
        for before, after in combinations(by_lane, 2):
            pairs = [(before[lane], after[lane]) for lane in before.keys() & after.keys()]
            stores, more = (
                [b.values[name] - a.values[name] for a, b in pairs if name in a.values and name in b.values]
                for name in (STORE, measure.name)
            )
            if stores and more:
                points.append((median(stores), median(more)))
    machine, more_ = np.array(points).T
    slope = (machine * more_).sum() / (machine**2).sum()
    assert abs(machine).max() > 2  # at times the machine was seven times as slow
    assert measure.share == pytest.approx(slope if measure.rises else -slope, abs=0.15)


UPGRADES = dict.fromkeys(("redis", "zookeeper", "etcd", "postgres"), ("1", "2"))
_known: dict[int, Trial] = {}


@cache
def staged(trial: int, stage: str, change: str) -> RunContents:
    """The contents of a stored trial (trial: its `id`), changed as named, in one stage of an upgrade."""
    found = contents([CHANGES[change](_known[trial])])
    cells = tuple(replace(cell, stage=stage) for cell in found.cells)
    return replace(found, cells=cells, lanes=tuple(replace(lane, stage=stage) for lane in found.lanes))


def certified(draw: Draw, seed: int, change: str = "nothing") -> Certificate:
    made: list[RunContents] = []
    for stage, trials, how in zip(ALONE, draw(random.Random(seed)), ("nothing", change), strict=True):
        _known.update({id(trial): trial for trial in trials})
        made += [staged(id(trial), stage, how) for trial in trials]
    cells = [cell for one in made for cell in one.cells]
    # While versions change, the verdicts are those of the candidate.
    cells += [replace(cell, stage=MIXED) for cell in cells if cell.stage == CANDIDATE]
    return certify(RunContents(tuple(cells), tuple(lane for one in made for lane in one.lanes), ()), UPGRADES)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_version_is_never_a_regression_of_itself(draw: Draw) -> None:
    for seed in range(DRAWINGS):
        found = certified(draw, seed)
        assert found.comparison.timed
        assert found.comparison.common > 100
        assert (found.regressed, found.slower) == ((), ())
        assert found.decision is not Decision.REGRESSION


def test_a_version_that_is_three_times_slower_is_a_regression() -> None:
    found = [certified(DRAWS["from one run each"], seed, "all of it").decision for seed in range(DRAWINGS)]
    assert found.count(Decision.REGRESSION) >= 0.95 * DRAWINGS - 1


@pytest.mark.parametrize("backend", ["redis", "etcd"])
def test_a_slow_server_is_a_regression(backend: str) -> None:
    trials = [trial for trial in load(SLOW_SERVER) if trial.backend == backend]
    sound, slow = sorted({trial.run for trial in trials})

    def draw(rng: random.Random) -> tuple[list[Trial], list[Trial]]:
        faults = {fault for fault in sorted({trial.fault for trial in trials}) if rng.random() < 0.7}
        chosen = [trial for trial in trials if trial.fault in faults]
        return [trial for trial in chosen if trial.run == sound], [trial for trial in chosen if trial.run == slow]

    for seed in range(DRAWINGS):
        found = certified(draw, seed)
        assert (found.decision, found.regressed) == (Decision.REGRESSION, ())
        assert "release p10" in {speed.measure for speed in found.slower}
        assert all("release" in speed.measure or "acquire" in speed.measure for speed in found.slower)


def shown(old: int, new: int, of_old: int = 5, of_new: int = 5, broken: Verdict = Verdict.WEAKNESS_SHOWN) -> list[Cell]:
    """Cells of trials with two lanes each. A weakness showed in `old` of `of_old` and `new` of `of_new` trials."""
    because = "explained by revoked-early"
    return [
        cell(stage, word, lane=f"etcd/set/{lane}", trial=f"{stage}-{seed}", seed=seed, because=because)
        for stage, hits, trials in ((BASELINE, old, of_old), (CANDIDATE, new, of_new))
        for seed in range(trials)
        for lane, word in enumerate((broken if seed < hits else Verdict.NOT_PROMISED_HELD,) * 2)
    ]


@pytest.mark.parametrize("broken", [Verdict.WEAKNESS_SHOWN, Verdict.NOT_PROMISED_BROKEN])
@cases(
    "old, new, of_each, what",
    *((old, new, 5, "lost") for old, new in ((0, 4), (1, 5))),
    *((old, new, 5, "") for old, new in ((1, 3), (4, 0), (5, 5))),
    (0, 1, 1, "undecided"), (0, 2, 2, "undecided"), (0, 2, 4, "warned"), (0, 3, 5, "warned"), (1, 2, 2, ""),
)  # fmt: skip
def test_weaknesses_regress_only_if_counts_decide(old: int, new: int, of_each: int, what: str, broken: Verdict) -> None:
    made = of(*shown(old, new, of_each, of_each, broken))
    counts = f"it showed in {new} of {of_each} trials of the new version, in {old} of {of_each} of the old one"
    decisions = {"lost": Decision.REGRESSION, "undecided": Decision.INCONCLUSIVE}
    assert made.decision is decisions.get(what, Decision.NO_REGRESSION)
    assert any(counts in words for words in made.doubts) == (what == "undecided")
    assert any(counts in words for words in made.warnings) == (what == "warned")
    assert [loss.why for loss in made.regressed] == [counts] * 2 * (what == "lost"), "a lane each"


def test_the_chance_of_the_counts_is_the_share_of_all_possible_deals() -> None:
    for old, new in product(range(4), range(5)):
        deals = list(combinations(range(7), old + new))
        alike = sum(sum(trial >= 3 for trial in deal) >= new for deal in deals) / len(deals)
        found = weaknesses(shown(old, new, 3, 4))
        assert [each.chance for each in found] == ([pytest.approx(alike)] if new * 3 > old * 4 else [])


def enumerated(differences: list[float]) -> float:
    """The P value of `signed_rank`, from all combinations of signs."""
    values = [value for value in differences if value]
    if not values:
        return 1.0
    sizes = sorted(abs(value) for value in values)
    rank = {size: 1 + sizes.index(size) + (sizes.count(size) - 1) / 2 for size in sizes}
    seen = sum(rank[abs(value)] for value in values if value > 0)
    signs = list(product((0, 1), repeat=len(values)))
    sums = [sum(sign * rank[abs(value)] for sign, value in zip(each, values, strict=True)) for each in signs]
    return sum(total >= seen - 1e-9 for total in sums) / len(signs)


@given(small)
def test_a_p_value_is_the_share_of_all_signs_that_reach_as_far(differences: list[float]) -> None:
    assert signed_rank(differences) == pytest.approx(enumerated(differences))


@pytest.mark.parametrize("units", [1, 5, 12, 40])
def test_the_least_p_value_is_reached_if_all_differences_are_positive(units: int) -> None:
    assert signed_rank([float(n) for n in range(1, units + 1)]) == pytest.approx(least(units))


def test_the_normal_approximation_agrees_with_the_exact_p_value() -> None:
    generator = np.random.default_rng(1)
    for shift in (0.0, 0.05, 0.1):
        values = generator.normal(shift, 1, EXACT_UP_TO).tolist()
        assert signed_rank([*values, 1e-9]) == pytest.approx(signed_rank(values), rel=0.05)


@given(small, st.floats(-3, 3))
def test_the_centre_moves_with_the_differences_and_hardly_with_a_wild_one(differences: list[float], by: float) -> None:
    assert centre([value + by for value in differences]) == pytest.approx(centre(differences) + by)
    assert centre([1.0, 1.1, 0.9, 1.05, 0.95, 1000.0]) < 1.2


def test_an_interval_has_every_centre_not_rejected_and_too_few_differences_have_none() -> None:
    assert [interval([1.0] * units) for units in (0, 1, 5)] == [None] * 3
    differences = np.random.default_rng(2).normal(0.3, 1, 12).tolist()
    found = there(interval(differences))
    for at in np.linspace(found[0] - 1, found[1] + 1, 400).tolist():
        above = signed_rank([value - at for value in differences])
        below = signed_rank([at - value for value in differences])
        assert (min(above, below) > 0.025) == (found[0] <= at <= found[1])


@pytest.mark.parametrize(("units", "rounds"), [(8, 600), (25, 600), (EXACT_UP_TO + 1, 60)])
def test_intervals_hold_the_centre_as_often_as_they_say(units: int, rounds: int) -> None:
    generator = np.random.default_rng(3)
    hits = 0
    for _ in range(rounds):
        low, high = there(interval((generator.laplace(1.0, 1.0, units)).tolist()))
        hits += low <= 1.0 <= high
    assert 0.91 <= hits / rounds <= 0.99


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_corrected_values_are_those_of_holms_procedure(values: list[float]) -> None:
    corrected = holm(values)
    for alpha in (0.001, 0.01, 0.05, 0.5):
        rejected, order = set(), sorted(range(len(values)), key=lambda n: values[n])
        for place, at in enumerate(order):
            if values[at] * (len(values) - place) > alpha:
                break
            rejected.add(at)
        assert {n for n, value in enumerate(corrected) if value <= alpha} == rejected


def test_only_tests_that_can_be_significant_are_corrected_for() -> None:
    leasts = [least(20)] * 3 + [least(2)] * 500
    assert (able(leasts, 0.01), able([least(3)] * 4, 0.01)) == ([True] * 3 + [False] * 500, [False] * 4)
    assert able([], 0.01) == []


@given(st.lists(st.integers(1, 30), max_size=40))
def test_all_chosen_tests_can_be_significant_at_once(units: list[int]) -> None:
    leasts = [least(n) for n in units]
    chosen = [value for value, can in zip(leasts, able(leasts, 0.01), strict=True) if can]
    assert all(value * len(chosen) <= 0.01 for value in chosen)
