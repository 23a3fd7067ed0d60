"""Sorting inside kernels: row numbers by two columns, stable, in O(n log n); in one pass where they are in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from checkers.engines.kernel import kernel

Column = npt.NDArray[Any]
"""Of integers or truth values."""

RUN = 16
"""Rows that are sorted by insertion before runs are merged."""


@kernel
def sort_rows(rows: Column, begin: int, end: int, first: Column, second: Column) -> None:
    """Puts rows[begin:end] into the order of (first[row], second[row]); equal ones stay as they are."""
    for low in range(begin, end, RUN):
        for n in range(low + 1, min(low + RUN, end)):
            row, place = rows[n], n
            while place > low and _above(rows[place - 1], row, first, second):
                rows[place] = rows[place - 1]
                place -= 1
            rows[place] = row
    width = RUN
    spare = np.empty(end - begin if end - begin > RUN else 0, np.int32)
    while width < end - begin:
        for low in range(begin, end - width, 2 * width):
            middle = low + width
            high = min(middle + width, end)
            if not _above(rows[middle - 1], rows[middle], first, second):
                continue
            for n in range(width):
                spare[n] = rows[low + n]
            left, right, place = 0, middle, low
            while left < width:
                if right < high and _above(spare[left], rows[right], first, second):
                    rows[place] = rows[right]
                    right += 1
                else:
                    rows[place] = spare[left]
                    left += 1
                place += 1
        width *= 2


@kernel
def _above(one: int, other: int, first: Column, second: Column) -> bool:
    if first[one] != first[other]:
        return bool(first[one] > first[other])
    return bool(second[one] > second[other])
