"""The accesses to fenced stores: what each proves, its group (the accesses of one key and token), whose value it read.

Source: checkers/CONDITIONS.md, sections 17 and 18. Each number in the range of a key's tokens has a group, used or not,
and values are looked up in a table over each key's range of values, or over the range of all values if each value
belongs to one key: O(n), as there are no large gaps between these numbers.
"""

from typing import NamedTuple

import numpy as np

from checkers.engines.codes import F_READ, F_WRITE, FAIL, NOT_OWNER, OK, STALE_TOKEN
from checkers.engines.kernel import Column, kernel, no_rows
from checkers.row_format import FINAL, INFINITY, NONE

NOTHING, ACCEPTED, UNKNOWN, READ_UNKNOWN, READ_REFUSED, REFUSED, READ_OK, FREE, SILENT, IDLE = range(10)
"""What an access proves. The order of the numbers lets one comparison ask for several neighbours. ACCEPTED, UNKNOWN and
REFUSED are writes; UNKNOWN writes were never answered. READ_UNKNOWN and READ_REFUSED exist only where reads are fenced.
FREE: a read past a fence that other reads must pass; it raises nothing. SILENT: a fenced read that was answered with an
unknown value. IDLE: another read with an unknown value; it raises nothing either, so it has a place anywhere."""

# What stands in `Accesses.origin` in place of a row.
UNREAD = -1  # an unknown write whose value nobody read
INITIAL = -2
REPEATED = -3  # several writes of this value may have been accepted, or one beside the initial value
UNSURE = -4  # likewise, and one of them was never answered
UNWRITTEN = -5

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
    origin: Column  # of a read the write of its value, of a write a read of its value: see `traced`
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
    low_token, high_token = np.full(keys, HIGHEST, np.int64), np.full(keys, LOWEST, np.int64)
    low_value, high_value = np.full(keys, HIGHEST, np.int64), np.full(keys, LOWEST, np.int64)
    odd = 0
    for row in range(len(f)):
        answer = outcome[row]
        if answer == FAIL and reason[row] != STALE_TOKEN and reason[row] != NOT_OWNER:
            continue
        k = key[row]
        if f[row] == F_WRITE:
            kind[row] = ACCEPTED if answer == OK else REFUSED if answer == FAIL else UNKNOWN
            low_value[k] = min(low_value[k], value[row])
            high_value[k] = max(high_value[k], value[row])
        elif f[row] == F_READ:
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
    first = no_rows(keys)
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
    group = no_rows(len(kind))
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


@kernel
def traced(accesses: Accesses, values: Range, initial: int) -> None:
    """Fills in `origin`, which was `UNREAD`: of each accepted read the row of its write, or a constant of this module.

    Of an unknown write the row of a read that proves it accepted, or such a constant. values: the values written. There
    must be room for them in a table, and no two keys may have written one value where they share the table.
    """
    kind, key, value, origin = accesses.kind, accesses.key, accesses.value, accesses.origin
    low, high = values.low, values.high
    base, total = layout(values, 2 * len(kind) + 64)
    write_of = no_rows(total + len(low))  # behind the table: those of initial values
    for row in range(len(kind)):
        what, k = kind[row], key[row]
        if ACCEPTED <= what <= UNKNOWN or what == REFUSED:
            place = total + k if value[row] == initial else base[k] + value[row]
            write_of[place] = _written(kind, origin, write_of[place], row)
    for row in range(len(kind)):
        if READ_OK <= kind[row] <= FREE:
            k, seen = key[row], value[row]
            write = -1
            if seen == initial:
                write = write_of[total + k]
            elif low[k] <= seen <= high[k]:
                write = write_of[base[k] + seen]
                if write >= 0 and key[write] != k:
                    write = -1
            origin[row] = _read(kind, origin, write, row, seen == initial)


@kernel
def _written(kind: Column, origin: Column, other: int, row: int) -> int:
    """The write that stands for two writes of one value. other: -1 if there is no other write."""
    if kind[row] == REFUSED:
        return other if other >= 0 else row
    if other < 0 or kind[other] == REFUSED:
        return row
    if kind[row] == UNKNOWN or kind[other] == UNKNOWN or origin[other] == UNSURE:
        origin[other] = UNSURE
    else:
        origin[other] = REPEATED
    return other


@kernel
def _read(kind: Column, origin: Column, write: int, row: int, initial: int) -> int:
    """Origin of a read, given the write that stands for its value (-1 for none)."""
    if initial and (write < 0 or kind[write] == REFUSED):
        return INITIAL
    if write < 0:
        return UNWRITTEN
    if kind[write] == REFUSED:
        return write
    if origin[write] == REPEATED or origin[write] == UNSURE:
        return int(origin[write])
    if initial:
        return UNSURE if kind[write] == UNKNOWN else REPEATED
    if kind[write] == UNKNOWN:
        origin[write] = row
    return write


@kernel
def settled(accesses: Accesses, reads: int) -> None:
    """Fills in `home`, once `origin` is known: of reads, and of writes that were certainly accepted. See `Terms`."""
    kind, group, origin, home = accesses.kind, accesses.group, accesses.origin, accesses.home
    for row in range(len(kind)):
        what, other = kind[row], origin[row]
        if what == ACCEPTED or (what == UNKNOWN and other >= 0) or (reads == 1 and READ_OK <= what <= FREE):
            home[row] = group[row]
        elif READ_OK <= what <= FREE:
            if other == INITIAL:
                home[row] = accesses.begin[accesses.key[row]]
            elif other >= 0 and kind[other] != REFUSED:
                home[row] = group[other]
