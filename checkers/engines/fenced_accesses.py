"""Accesses to fenced stores, as columns, and what each of them proves.

Source: checkers/CONDITIONS.md, sections 17 and 18. O(n).
"""

from typing import NamedTuple

import numpy as np

from checkers.engines.codes import FAIL, NOT_OWNER, OK, READ, STALE_TOKEN, WRITE
from checkers.engines.kernel import Column, kernel
from checkers.row_format import FINAL, NONE

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

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1


class AccessColumns(NamedTuple):
    """Of each row of a history, in order of invocation, what the store's rule is about."""

    f: Column
    outcome: Column
    reason: Column
    flags: Column
    key: Column
    token: Column
    value: Column
    inv: Column  # ns
    ret: Column  # ns


class Terms(NamedTuple):
    """What is the same for all rows."""

    keys: int  # how many
    initial: int  # the value before everything
    nothing: int  # a value that says nothing if it is read
    absent: int  # likewise
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
    begin: Column  # of each key, not row, its first group; one more than there are keys
    origin: Column  # whose value it read, or who read its own: see `fenced_origins`


class Range(NamedTuple):
    """Numbers of each key; where there are none, the highest is below the lowest."""

    low: Column
    high: Column


@kernel
def classified(columns: AccessColumns, terms: Terms) -> tuple[Column, Range, Range, int]:
    """(what each row proves, tokens, values that were written, 1 where some read is free or silent).

    What failed for any other reason than the fence never reached the store.
    """
    f, outcome, reason, flags = columns.f, columns.outcome, columns.reason, columns.flags
    key, token, value = columns.key, columns.token, columns.value
    keys, nothing, absent, reads = terms.keys, terms.nothing, terms.absent, terms.reads
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
    return kind, Range(low_token, high_token), Range(low_value, high_value), odd


@kernel
def unsettled(kind: Column, columns: AccessColumns, keys: int) -> Column:
    """Of each key whether it has silent reads, or free ones that cannot all be placed behind everything else.

    They cannot where they met answered accesses, or returned different values; they are made idle then, in `kind`.
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
def unanswered(kind: Column) -> tuple[Column, bool]:
    """(rows of refused and unknown accesses, whether some were refused)."""
    rows = np.empty(len(kind), np.int32)
    count = 0
    refused = False
    for row in range(len(kind)):
        if UNKNOWN <= kind[row] <= REFUSED:
            rows[count] = row
            count += 1
            refused = refused or kind[row] >= READ_REFUSED
    return rows[:count], refused
