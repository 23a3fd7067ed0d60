"""Rows in the order of their columns, whichever way they are brought into it."""

from __future__ import annotations

import numpy as np
import pytest

from checkers.engines.kernel import always
from checkers.engines.sorting import by_number, sorted_within


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("wide", [1, 7, 1 << 40])
@pytest.mark.parametrize("count", [0, 1, 2, 300])
def test_rows_by_one_column_of_any_numbers(count: int, wide: int, compiled: bool) -> None:
    numbers = np.random.default_rng(count).integers(-wide, wide, count)
    with always(compiled=compiled):
        np.testing.assert_array_equal(by_number(numbers), np.argsort(numbers, kind="stable"))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("count", [0, 1, 300])
def test_rows_by_two_columns_within_each_group(count: int, compiled: bool) -> None:
    group, first, second = np.random.default_rng(count).integers(0, 9, (3, count))
    with always(compiled=compiled):
        rows = sorted_within(by_number(group), group, first, second)
    np.testing.assert_array_equal(rows, np.lexsort((second, first, group)))
