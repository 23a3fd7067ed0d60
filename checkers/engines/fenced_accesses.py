"""The accesses to fenced stores as columns, what each access proves, and groups: the accesses of one key and token.

Source: checkers/CONDITIONS.md, sections 17 and 18. Each number in the range of a key's tokens has a group, used or not:
O(n), as there are no large gaps between these numbers.
"""

from typing import NamedTuple

import numpy as np

from checkers.engines.codes import FAIL, NOT_OWNER, OK, READ, STALE_TOKEN, WRITE
from checkers.engines.kernel import Column, kernel
from checkers.row_format import FINAL, INFINITY, NONE

NOTHING, ACCEPTED, UNKNOWN, READ_UNKNOWN, READ_REFUSED, REFUSED, READ_OK, FREE, SILENT, IDLE = range(10)
"""What an access proves. The order of the numbers lets one comparison ask for several neighbours. ACCEPTED, UNKNOWN and
REFUSED are writes; UNKNOWN writes were never answered. READ_UNKNOWN and READ_REFUSED exist only where reads are fenced.
FREE: a read past a fence that other reads must pass; it raises nothing. SILENT: a fenced read that was answered with an
unknown value. IDLE: another read with an unknown value; it raises nothing either, so it has a place anywhere."""

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1


class AccessColumns(NamedTuple):
    """The columns of a history that the store's rule is about; rows in order of invocation."""

    f: Column
    outcome: Column
    reason: Column
    flags: Column
    key: Column
    token: Column  # or its rank among those of its key
    value: Column
    inv: Column  # ns
    ret: Column  # ns


class Terms(NamedTuple):
    """What is the same for all rows."""

    keys: int  # how many
    initial: int  # the value before everything
    nothing: int  # the value of a read that says nothing
    reads: int  # 1 where the fence is on reads too
    strict: int  # 1 where a write needs a larger token than the highest so far


class Accesses(NamedTuple):
    """Of each row, in order of invocation, what became of its access."""

    kind: Column  # what it proves: one of the numbers above
    key: Column
    value: Column
    inv: Column  # ns
    ret: Column  # ns
    group: Column  # the accesses of one key and token, -1 for none; a free read belongs to its key's last group. Groups
    # are numbered in order of key and token, each key's first one being that of its initial value
    begin: Column  # of each key, not row, its first group; one entry more than there are keys
    origin: Column  # of a read the write of its value, of a write a read of its value: see `fenced_origins`
    home: Column  # the group in which the access certainly counts, -1 for none


class Range(NamedTuple):
    """The lowest and the highest number of each key; for a key without any, the highest is below the lowest."""

    low: Column
    high: Column


@kernel
def classified(columns: AccessColumns, terms: Terms) -> tuple[Column, Range, Range, int]:
    """(what each row proves, tokens, values written, 1 for free or silent reads). Failures count only if refused."""
    f, outcome, reason, flags = columns.f, columns.outcome, columns.reason, columns.flags
    key, token, value = columns.key, columns.token, columns.value
    keys, nothing, reads = terms.keys, terms.nothing, terms.reads
    kind = np.zeros(len(f), np.int8)
    low_token = np.full(keys, HIGHEST, np.int64)
    high_token = np.full(keys, LOWEST, np.int64)
    low_value = np.full(keys, HIGHEST, np.int64)
    high_value = np.full(keys, LOWEST, np.int64)
    odd = 0
    for row in range(len(f)):
        answer = outcome[row]
        if answer == FAIL and reason[row] != STALE_TOKEN and reason[row] != NOT_OWNER:
            continue
        k = key[row]
        if f[row] == WRITE:
            kind[row] = ACCEPTED if answer == OK else REFUSED if answer == FAIL else UNKNOWN
            low_value[k] = min(low_value[k], value[row])
            high_value[k] = max(high_value[k], value[row])
        elif f[row] == READ:
            says = answer == OK and value[row] != nothing
            if not reads:
                kind[row] = READ_OK if says else IDLE if answer == OK else NOTHING
            elif (flags[row] & FINAL) != 0 or token[row] == NONE:
                kind[row] = FREE if says else IDLE if answer == OK else NOTHING
                odd = 1
            elif answer == OK:
                kind[row] = READ_OK if says else SILENT
                odd = odd if says else 1
            else:
                kind[row] = READ_REFUSED if answer == FAIL else READ_UNKNOWN
        if NOTHING < kind[row] < FREE:
            low_token[k] = min(low_token[k], token[row])
            high_token[k] = max(high_token[k], token[row])
    return kind, Range(low_token, high_token), Range(low_value, high_value), odd


@kernel
def unsettled(kind: Column, columns: AccessColumns, keys: int) -> Column:
    """Of each key whether it has silent reads, or free reads that cannot all be placed behind everything else.

    They cannot if they met answered accesses or returned different values. Free reads of such keys become IDLE.
    """
    key, value, inv, ret = columns.key, columns.value, columns.inv, columns.ret
    settled = np.zeros(keys, np.int64)
    first = np.full(keys, -1, np.int32)
    result = np.full(keys, False, np.bool_)
    for row in range(len(kind)):
        what, k = kind[row], key[row]
        if what == FREE:
            if first[k] < 0:
                first[k] = row
            elif value[row] != value[first[k]]:
                result[k] = True
        elif what == SILENT:
            result[k] = True
        elif what != NOTHING and what != IDLE and not UNKNOWN <= what <= READ_UNKNOWN:
            settled[k] = max(settled[k], ret[row])
    misplaced = False
    for k in range(keys):
        if first[k] >= 0 and inv[first[k]] <= settled[k]:
            result[k] = True
        misplaced = misplaced or (first[k] >= 0 and result[k])
    if misplaced:
        for row in range(len(kind)):
            if kind[row] == FREE and result[key[row]]:
                kind[row] = IDLE
    return result


@kernel
def unanswered(kind: Column) -> Column:
    """The rows of refused and unknown accesses, in order of invocation."""
    rows = np.empty(len(kind), np.int32)
    count = 0
    for row in range(len(kind)):
        if UNKNOWN <= kind[row] <= REFUSED:
            rows[count] = row
            count += 1
    return rows[:count]


@kernel
def layout(values: Range, limit: int) -> tuple[Column, int]:
    """Places for all values in a table: (of each key the place of number 0, how many places there are).

    Each key has a part of the table for itself; if that takes more places than `limit`, all share the whole; if that
    does, too, there are -1.
    """
    low, high = values.low, values.high
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
        return base, total
    span = highest - lowest
    if span < 0 or span >= limit:
        return base, -1
    for k in range(keys):
        base[k] = -lowest
    return base, int(span + 1)


@kernel
def grouped(kind: Column, columns: AccessColumns, tokens: Range, odd: int) -> tuple[Column, Column]:
    """`group` and `begin` of `Accesses`. kind, tokens, odd: see `classified`."""
    key, token, low, high = columns.key, columns.token, tokens.low, tokens.high
    keys = len(low)
    group = np.full(len(kind), -1, np.int32)
    begin = np.zeros(keys + 1, np.int64)
    for k in range(keys):
        begin[k + 1] = begin[k] + 1 + (high[k] - low[k] + 1 if low[k] <= high[k] else 0)
    for row in range(len(kind)):
        if NOTHING < kind[row] < FREE:
            group[row] = begin[key[row]] + 1 + token[row] - low[key[row]]
    if odd:
        for row in range(len(kind)):
            if kind[row] == FREE:
                group[row] = begin[key[row] + 1] - 1
    return group, begin


@kernel
def sequential(accesses: Accesses) -> Column:
    """Of each key whether the accesses of each token follow one another, with none after an unknown access."""
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
