"""Accesses to a fenced store, sorted out: what each proves, and the groups of one key and token, in order of tokens.

Where the tokens of each key are dense, a table has a place for each. Else a group is looked for from its key's highest
downwards, since tokens come nearly in order; where that takes too long, all rows are sorted instead.
"""

from __future__ import annotations

import numpy as np

from checkers.engines.kernel import kernel
from checkers.engines.sorting import Column, sort_rows
from checkers.wire import FINAL, INFINITY, NONE, F, Outcome, Reason

OK, FAIL, INFO = int(Outcome.OK), int(Outcome.FAIL), int(Outcome.INFO)
READ, WRITE = int(F.READ), int(F.WRITE)
STALE_TOKEN, NOT_OWNER = int(Reason.STALE_TOKEN), int(Reason.NOT_OWNER)

# What an access proves. Neighbours are asked for together.
NOTHING = 0
ACCEPTED = 1
"""A write."""
UNKNOWN = 2
"""A write that was never answered."""
READ_UNKNOWN, READ_REFUSED = 3, 4
"""Only where reads are fenced."""
REFUSED = 5
"""A write."""
READ_OK = 6
FREE = 7
"""A read past a fence that the others must pass: it raises nothing."""
SILENT = 8
"""A fenced read that was answered, nobody knows with what."""
IDLE = 9
"""Another such read, which raises nothing either: it has a place anywhere."""

LOWEST = -(1 << 63)
"""The token of the first group of each key, which stands for its initial value."""
HIGHEST = (1 << 63) - 1

PATIENCE = 8
"""Steps a row, on average, that looking for groups may take."""


@kernel
def classified(
    f: Column,
    outcome: Column,
    reason: Column,
    flags: Column,
    key: Column,
    token: Column,
    value: Column,
    keys: int,
    nothing: int,
    absent: int,
    reads: int,
) -> tuple[Column, Column, Column, Column, Column, int]:
    """(what each row proves, of each key the lowest and highest token and value written, whether some read is odd).

    reads: whether the fence is on reads too. nothing, absent: values that say nothing. Odd are free and silent reads.
    What failed for any other reason than the fence never reached the store.
    """
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
            says = answer == OK and value[row] != nothing and value[row] != absent
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
    return kind, low_token, high_token, low_value, high_value, odd


@kernel
def layout(low: Column, high: Column, limit: int) -> tuple[Column, int, int]:
    """A table of `limit` places at most for numbers that have a range in each key.

    (place of number 0 in it of each key, its length or -1, whether each key has a part for itself; else all share it)
    """
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
        return base, total, 1
    span = highest - lowest
    if span < 0 or span >= limit:
        return base, -1, 0
    for k in range(keys):
        base[k] = -lowest
    return base, span + 1, 0


@kernel
def grouped(
    kind: Column, key: Column, token: Column, low: Column, high: Column, odd: int
) -> tuple[Column, Column, Column, Column]:
    """(group of each row, all groups in order of key and token, where each key's begin among those, token of each).

    low, high, odd: see `classified`. Group k < keys is the one of key k's initial value, and comes first. A free read
    belongs to its key's last group.
    """
    keys = len(low)
    base, total, alone = layout(low, high, len(kind) + 64)
    if total >= 0 and alone:
        group, order, begin, tokens = _by_table(kind, key, token, keys, base, low, high, total)
    else:
        group, order, begin, tokens = _by_search(kind, key, token, keys)
    if odd:
        for row in range(len(kind)):
            if kind[row] == FREE:
                group[row] = order[begin[key[row] + 1] - 1]
    return group, order, begin, tokens


@kernel
def _by_table(
    kind: Column, key: Column, token: Column, keys: int, base: Column, low: Column, high: Column, total: int
) -> tuple[Column, Column, Column, Column]:
    group = np.full(len(kind), -1, np.int32)
    order = np.empty(keys + total, np.int32)
    begin = np.empty(keys + 1, np.int64)
    tokens = np.empty(keys + total, np.int64)
    used = 0
    for k in range(keys):
        begin[k] = used
        order[used], tokens[k] = k, LOWEST
        used += 1
        if low[k] <= high[k]:
            for n in range(high[k] - low[k] + 1):
                place = keys + base[k] + low[k] + n
                order[used], tokens[place] = place, low[k] + n
                used += 1
    begin[keys] = used
    for row in range(len(kind)):
        if NOTHING < kind[row] < FREE:
            group[row] = keys + base[key[row]] + token[row]
    return group, order, begin, tokens


@kernel
def _by_search(kind: Column, key: Column, token: Column, keys: int) -> tuple[Column, Column, Column, Column]:
    rows = len(kind)
    group = np.full(rows, -1, np.int32)
    tokens = np.full(rows + keys, LOWEST, np.int64)
    below = np.full(rows + keys, -1, np.int32)
    last = np.empty(keys, np.int32)
    begin = np.full(keys + 1, 1, np.int64)
    begin[0] = 0
    for k in range(keys):
        last[k] = k
    count = keys
    patience = PATIENCE * rows
    for row in range(rows):
        if not NOTHING < kind[row] < FREE:
            continue
        k, wanted = key[row], token[row]
        above, here = -1, last[k]
        while here >= keys and tokens[here] > wanted:
            above, here = here, below[here]
            patience -= 1
        if here < keys or tokens[here] != wanted:
            tokens[count], below[count] = wanted, here
            if above < 0:
                last[k] = count
            else:
                below[above] = count
            here = count
            count += 1
            begin[k + 1] += 1
        group[row] = here
        if patience < 0:
            break
    if patience < 0:
        count = _by_sorting(kind, key, token, keys, group, tokens, below, last, begin)
    for k in range(keys):
        begin[k + 1] += begin[k]
    order = np.empty(count, np.int32)
    for k in range(keys):
        here = last[k]
        for place in range(begin[k + 1] - 1, begin[k] - 1, -1):
            order[place] = here
            here = below[here]
    return group, order, begin, tokens


@kernel
def _by_sorting(
    kind: Column,
    key: Column,
    token: Column,
    keys: int,
    group: Column,
    tokens: Column,
    below: Column,
    last: Column,
    begin: Column,
) -> int:
    """How many groups there are."""
    rows = np.empty(len(kind), np.int32)
    count = 0
    for row in range(len(kind)):
        if NOTHING < kind[row] < FREE:
            rows[count] = row
            count += 1
    sort_rows(rows, 0, count, key, token)
    for k in range(keys):
        last[k] = k
        begin[k + 1] = 1
    groups = keys
    for n in range(count):
        row = rows[n]
        k = key[row]
        here = last[k]
        if here < keys or tokens[here] != token[row]:
            tokens[groups], below[groups] = token[row], here
            last[k] = here = groups
            groups += 1
            begin[k + 1] += 1
        group[row] = here
    return groups


@kernel
def sequential(kind: Column, key: Column, group: Column, inv: Column, ret: Column, keys: int, groups: int) -> Column:
    """Whether the accesses of each token of a key follow one another, nothing after an unknown one."""
    result = np.full(keys, True, np.bool_)
    busy = np.full(groups, -1, np.int64)
    for row in range(len(kind)):
        what = kind[row]
        if what == NOTHING or READ_REFUSED <= what <= REFUSED or what >= SILENT:
            continue
        here = group[row]
        if busy[here] >= inv[row]:
            result[key[row]] = False
        busy[here] = INFINITY if UNKNOWN <= what <= READ_UNKNOWN else ret[row]
    return result


@kernel
def unsettled(kind: Column, key: Column, value: Column, inv: Column, ret: Column, keys: int) -> Column:
    """Of each key whether it has silent reads, or free ones that cannot all be placed behind everything else.

    They cannot where they met answered accesses, or returned different values; they are made idle then.
    """
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
    some = False
    for k in range(keys):
        if first[k] >= 0 and inv[first[k]] <= settled[k]:
            result[k] = True
        some = some or (first[k] >= 0 and result[k])
    if some:
        for row in range(len(kind)):
            if kind[row] == FREE and result[key[row]]:
                kind[row] = IDLE
    return result


@kernel
def unanswered(kind: Column) -> tuple[Column, bool]:
    """(rows of refused and unknown accesses, whether some were refused)."""
    count = 0
    refused = False
    for row in range(len(kind)):
        what = kind[row]
        if READ_REFUSED <= what <= REFUSED:
            refused = True
            count += 1
        elif UNKNOWN <= what <= READ_UNKNOWN:
            count += 1
    result = np.empty(count, np.int32)
    count = 0
    for row in range(len(kind)):
        what = kind[row]
        if UNKNOWN <= what <= REFUSED:
            result[count] = row
            count += 1
    return result, refused
