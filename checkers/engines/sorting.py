"""Sorting rows: by two columns inside kernels, in one pass where they are in order; by one column of any numbers."""

import numpy as np

from checkers.engines.kernel import Column as Column
from checkers.engines.kernel import kernel

RUN = 16
"""Rows that are sorted by insertion before runs are merged."""


def by_number(numbers: Column) -> Column:
    """Places in the order of their numbers, stable, int32: by counting, where numbers are not much more than places."""
    if not len(numbers):
        return np.empty(0, np.int32)
    low = int(numbers.min())
    span = int(numbers.max()) - low + 1
    if span <= 2 * len(numbers):
        return _counted(numbers, low, span)
    return np.argsort(numbers, kind="stable").astype(np.int32)


@kernel
def _counted(numbers: Column, low: int, span: int) -> Column:
    begins = np.zeros(span + 1, np.int32)
    for i in range(len(numbers)):
        begins[numbers[i] - low + 1] += 1
    for n in range(span):
        begins[n + 1] += begins[n]
    places = np.empty(len(numbers), np.int32)
    for i in range(len(numbers)):
        n = numbers[i] - low
        places[begins[n]] = i
        begins[n] += 1
    return places


@kernel
def first_from(times: Column, low: int, high: int, time: int) -> int:
    """The first place in a sorted stretch where it is that late, or the end of the stretch."""
    while low < high:
        middle = (low + high) // 2
        if times[middle] < time:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def sorted_within(rows: Column, group: Column, first: Column, second: Column) -> Column:
    """Rows that stand group by group, those of each group in the order of (first[row], second[row]), stable."""
    result = np.empty(len(rows), np.int64)
    begin = 0
    for i in range(len(rows)):
        result[i] = rows[i]
        if i + 1 == len(rows) or group[rows[i + 1]] != group[rows[i]]:
            sort_rows(result, begin, i + 1, first, second)
            begin = i + 1
    return result


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
def _above(row: int, below: int, first: Column, second: Column) -> bool:
    if first[row] != first[below]:
        return bool(first[row] > first[below])
    return bool(second[row] > second[below])
