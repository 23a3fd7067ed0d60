"""The groups of accesses to fenced stores: those of one key and token, in order of tokens.

Source: checkers/CONDITIONS.md, section 17: an accepted access never has a lower token than one before it, so that no
other order of groups is possible. Where the tokens of each key are dense, a table has a place for each: O(n). Else all
rows are sorted: O(n log n).
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
    Accesses,
    Range,
)
from checkers.engines.kernel import Column, kernel
from checkers.engines.sorting import sort_rows
from checkers.row_format import INFINITY


class Groups(NamedTuple):
    """Group k < keys is the one of key k's initial value, has the token `LOWEST`, and comes first."""

    of: Column  # of each row its group, -1 for none; a free read belongs to its key's last one
    order: Column  # all groups, in order of key and token
    begin: Column  # of each key where its groups begin in that order; one more than there are keys
    token: Column  # of each group


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
def grouped(kind: Column, key: Column, token: Column, tokens: Range, odd: int) -> Groups:
    """tokens, odd: see `fenced_accesses.classified`."""
    table = layout(tokens, len(kind) + 64)
    if table.total >= 0 and table.alone:
        groups = _by_table(kind, key, token, tokens, table)
    else:
        groups = _by_sorting(kind, key, token, len(tokens.low))
    if odd:
        group, order, begin = groups.of, groups.order, groups.begin
        for row in range(len(kind)):
            if kind[row] == FREE:
                group[row] = order[begin[key[row] + 1] - 1]
    return groups


@kernel
def _by_table(kind: Column, key: Column, token: Column, tokens: Range, table: Table) -> Groups:
    low, high, base, keys = tokens.low, tokens.high, table.base, len(tokens.low)
    group = np.full(len(kind), -1, np.int32)
    order = np.empty(keys + table.total, np.int32)
    begin = np.empty(keys + 1, np.int64)
    token_of = np.empty(keys + table.total, np.int64)
    used = 0
    for k in range(keys):
        begin[k] = used
        order[used], token_of[k] = k, LOWEST
        used += 1
        if low[k] <= high[k]:
            for n in range(high[k] - low[k] + 1):
                place = keys + base[k] + low[k] + n
                order[used], token_of[place] = place, low[k] + n
                used += 1
    begin[keys] = used
    for row in range(len(kind)):
        if NOTHING < kind[row] < FREE:
            group[row] = keys + base[key[row]] + token[row]
    return Groups(group, order, begin, token_of)


@kernel
def _by_sorting(kind: Column, key: Column, token: Column, keys: int) -> Groups:
    rows = np.empty(len(kind), np.int32)
    count = 0
    for row in range(len(kind)):
        if NOTHING < kind[row] < FREE:
            rows[count] = row
            count += 1
    sort_rows(rows, count, key, token)
    group = np.full(len(kind), -1, np.int32)
    order = np.empty(count + keys, np.int32)
    begin = np.empty(keys + 1, np.int64)
    token_of = np.full(count + keys, LOWEST, np.int64)
    n, used, groups = 0, 0, keys
    for k in range(keys):
        begin[k] = used
        here = order[used] = k
        used += 1
        while n < count and key[rows[n]] == k:
            row = rows[n]
            if here < keys or token_of[here] != token[row]:
                here = order[used] = groups
                token_of[groups] = token[row]
                groups += 1
                used += 1
            group[row] = here
            n += 1
    begin[keys] = used
    return Groups(group, order[:used], begin, token_of)


@kernel
def sequential(accesses: Accesses, groups: Groups) -> Column:
    """Of each key whether the accesses of each of its tokens follow one another, nothing after an unknown one."""
    kind, group, inv, ret = accesses.kind, accesses.group, accesses.inv, accesses.ret
    result = np.full(len(groups.begin) - 1, True, np.bool_)
    busy = np.full(len(groups.order), -1, np.int64)
    for row in range(len(kind)):
        what = kind[row]
        if what == NOTHING or READ_REFUSED <= what <= REFUSED or what >= SILENT:
            continue
        here = group[row]
        if busy[here] >= inv[row]:
            result[accesses.key[row]] = False
        busy[here] = INFINITY if UNKNOWN <= what <= READ_UNKNOWN else ret[row]
    return result
