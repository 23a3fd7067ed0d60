"""Sorting rows by two columns inside kernels, in one pass where they are in order."""

import numpy as np

from checkers.engines.kernel import Column, kernel

RUN = 16
"""Rows that are sorted by insertion before runs are merged."""


@kernel
def sort_rows(rows: Column, end: int, first: Column, second: Column) -> None:
    """Puts rows[:end] into the order of (first[row], second[row]); equal ones stay as they are."""
    for low in range(0, end, RUN):
        for n in range(low + 1, min(low + RUN, end)):
            row, place = rows[n], n
            while place > low and _above(rows[place - 1], row, first, second):
                rows[place] = rows[place - 1]
                place -= 1
            rows[place] = row
    width = RUN
    spare = np.empty(end if end > RUN else 0, np.int32)
    while width < end:
        for low in range(0, end - width, 2 * width):
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
def _above(row: int, below: int, first: Column, second: Column) -> bool:
    if first[row] != first[below]:
        return bool(first[row] > first[below])
    return bool(second[row] > second[below])
