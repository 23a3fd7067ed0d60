"""The statistics against enumeration, and against simulation."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.comparison.paired import EXACT_UP_TO, able, centre, holm, interval, least, signed_rank

small = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=8)


def enumerated(differences: list[float]) -> float:
    """The same P value from all signs, one by one."""
    values = [value for value in differences if value]
    if not values:
        return 1.0
    sizes = sorted(abs(value) for value in values)
    rank = {size: 1 + sizes.index(size) + (sizes.count(size) - 1) / 2 for size in sizes}
    seen = sum(rank[abs(value)] for value in values if value > 0)
    signs = list(itertools.product((0, 1), repeat=len(values)))
    sums = [sum(sign * rank[abs(value)] for sign, value in zip(each, values, strict=True)) for each in signs]
    return sum(total >= seen - 1e-9 for total in sums) / len(signs)


@settings(deadline=None)  # how long an example takes says nothing
@given(small)
def test_a_p_value_is_the_share_of_all_signs_that_reach_as_far(differences: list[float]) -> None:
    assert signed_rank(differences) == pytest.approx(enumerated(differences))


@pytest.mark.parametrize("units", [1, 5, 12, 40])
def test_no_p_value_is_less_than_the_least(units: int) -> None:
    assert signed_rank([float(n) for n in range(1, units + 1)]) == pytest.approx(least(units))


def test_many_differences_are_as_good_as_normal() -> None:
    generator = np.random.default_rng(1)
    for shift in (0.0, 0.05, 0.1):
        values = generator.normal(shift, 1, EXACT_UP_TO).tolist()
        assert signed_rank([*values, 1e-9]) == pytest.approx(signed_rank(values), rel=0.05)


@settings(deadline=None)  # how long an example takes says nothing
@given(small, st.floats(-3, 3))
def test_the_centre_moves_with_the_differences(differences: list[float], by: float) -> None:
    assert centre([value + by for value in differences]) == pytest.approx(centre(differences) + by)


def test_one_wild_difference_hardly_moves_the_centre() -> None:
    assert centre([1.0, 1.1, 0.9, 1.05, 0.95, 1000.0]) < 1.2


def test_an_interval_is_what_the_test_does_not_reject() -> None:
    differences = np.random.default_rng(2).normal(0.3, 1, 12).tolist()
    found = interval(differences)
    assert found is not None
    for at in np.linspace(found[0] - 1, found[1] + 1, 400).tolist():
        above = signed_rank([value - at for value in differences])
        below = signed_rank([at - value for value in differences])
        assert (min(above, below) > 0.025) == (found[0] <= at <= found[1])


@pytest.mark.parametrize("units", [0, 1, 5])
def test_too_few_differences_have_no_interval(units: int) -> None:
    assert interval([1.0] * units) is None


@pytest.mark.parametrize(("units", "rounds"), [(8, 600), (25, 600), (EXACT_UP_TO + 1, 60)])
def test_intervals_hold_the_centre_as_often_as_they_say(units: int, rounds: int) -> None:
    generator = np.random.default_rng(3)
    hits = 0
    for _ in range(rounds):
        found = interval((generator.laplace(1.0, 1.0, units)).tolist())
        assert found is not None
        hits += found[0] <= 1.0 <= found[1]
    assert 0.91 <= hits / rounds <= 0.99


@settings(deadline=None)  # how long an example takes says nothing
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
    assert able(leasts, 0.01) == [True] * 3 + [False] * 500
    assert able([least(3)] * 4, 0.01) == [False] * 4
    assert able([], 0.01) == []


@settings(deadline=None)  # how long an example takes says nothing
@given(st.lists(st.integers(1, 30), max_size=40))
def test_all_that_are_able_could_be_significant_at_once(units: list[int]) -> None:
    leasts = [least(n) for n in units]
    chosen = [value for value, can in zip(leasts, able(leasts, 0.01), strict=True) if can]
    assert all(value * len(chosen) <= 0.01 for value in chosen)
