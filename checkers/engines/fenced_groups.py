"""The groups of accesses to fenced stores: those of one key and token, in order of tokens.

Source: checkers/CONDITIONS.md, section 17: an accepted access never has a lower token than one before it, so that no
other order of groups is possible. Where the tokens of each key are dense, each has a group of its number, used or not:
O(n). Else all rows are sorted: O(n log n).
"""

from typing import NamedTuple

import numpy as np

from checkers.engines.fenced_accesses import (
    FREE,
    HIGHEST,
    LOWEST,
    NOTHING,
    READ_REFUSED,
    READ_UNKNOWN,
    REFUSED,
    SILENT,
    UNKNOWN,
    AccessColumns,
    Accesses,
    Range,
)
from checkers.engines.kernel import Column, kernel
from checkers.engines.sorting import sort_rows
from checkers.row_format import INFINITY


class Table(NamedTuple):
    """Places for numbers that have a range in each key."""

    base: Column  # of each key the place of number 0
    total: int  # how many there are, -1 where there would be too many
    alone: int  # 1 where each key has a part for itself; else all share the whole


@kernel
def layout(numbers: Range, limit: int) -> Table:
    """limit: how many places there may be."""
    low, high = numbers.low, numbers.high
    keys = len(low)
    base = np.zeros(keys, np.int64)
    total = 0
    lowest, highest = HIGHEST, LOWEST
    for k in range(keys):
        if high[k] < low[k]:
            continue
        lowest, highest = min(lowest, low[k]), max(highest, high[k])
        span = high[k] - low[k]
        if total < 0 or span < 0 or span >= limit - total:  # below 0: too much for 64 bits
            total = -1
        else:
            base[k] = total - low[k]
            total += span + 1
    if total >= 0:
        return Table(base, total, 1)
    span = highest - lowest
    if span < 0 or span >= limit:
        return Table(base, -1, 0)
    for k in range(keys):
        base[k] = -lowest
    return Table(base, span + 1, 0)


@kernel
def grouped(kind: Column, columns: AccessColumns, tokens: Range, odd: int) -> tuple[Column, Column]:
    """`group` and `begin` of `Accesses`. kind, tokens, odd: see `fenced_accesses.classified`."""
    key, token, low, high = columns.key, columns.token, tokens.low, tokens.high
    keys = len(low)
    group = np.full(len(kind), -1, np.int32)
    begin = np.zeros(keys + 1, np.int64)
    table = layout(tokens, len(kind) + 64)
    if table.total >= 0 and table.alone:
        for k in range(keys):
            begin[k + 1] = begin[k] + 1 + (high[k] - low[k] + 1 if low[k] <= high[k] else 0)
        for row in range(len(kind)):
            if NOTHING < kind[row] < FREE:
                group[row] = begin[key[row]] + 1 + token[row] - low[key[row]]
    else:
        _by_sorting(kind, key, token, group, begin)
    if odd:
        for row in range(len(kind)):
            if kind[row] == FREE:
                group[row] = begin[key[row] + 1] - 1
    return group, begin


@kernel
def _by_sorting(kind: Column, key: Column, token: Column, group: Column, begin: Column) -> None:
    rows = np.empty(len(kind), np.int32)
    count = 0
    for row in range(len(kind)):
        if NOTHING < kind[row] < FREE:
            rows[count] = row
            count += 1
    sort_rows(rows, count, key, token)
    n, used = 0, 0
    for k in range(len(begin) - 1):
        begin[k] = used
        first = n
        while n < count and key[rows[n]] == k:
            if n == first or token[rows[n - 1]] != token[rows[n]]:
                used += 1
            group[rows[n]] = used
            n += 1
        used += 1
    begin[len(begin) - 1] = used


@kernel
def sequential(accesses: Accesses) -> Column:
    """Of each key whether the accesses of each of its tokens follow one another, nothing after an unknown one."""
    kind, group, inv, ret, begin = accesses.kind, accesses.group, accesses.inv, accesses.ret, accesses.begin
    keys = len(begin) - 1
    result = np.full(keys, True, np.bool_)
    busy = np.full(begin[keys], -1, np.int64)
    for row in range(len(kind)):
        what = kind[row]
        if what == NOTHING or READ_REFUSED <= what <= REFUSED or what >= SILENT:
            continue
        here = group[row]
        if busy[here] >= inv[row]:
            result[accesses.key[row]] = False
        busy[here] = INFINITY if UNKNOWN <= what <= READ_UNKNOWN else ret[row]
    return result
