"""The values written under one token: whether they can be put in order.

Source: Gibbons and Korach, *Testing shared memories* (1997); checkers/CONDITIONS.md, section 19. A cluster is a write
and the reads of its value, and stands together in any valid order. It has an instant f when some of it had returned,
and an instant s when some of it was yet to be invoked. Cluster A must come before B if f of A < s of B.

Where no two clusters must each come before the other, max(f, s) sorts them, on ties those with f < s first. For let A
stand before B in that order though f of B < s of A. Then f of B < s of B, and s of B is the larger of all four, or A
would stand behind; so either A must come before B as well, or f of A = s of B, a tie in which B goes first.
So the order decides, with a running maximum of s; where it fails, the two are a contradiction by themselves.
"""

from __future__ import annotations

import numpy as np

from checkers.engines.fenced_groups import ACCEPTED, UNKNOWN
from checkers.engines.fenced_origins import live
from checkers.engines.fenced_survey import OVERWRITTEN, STALE_READ, WITHIN_TOKEN, noted
from checkers.engines.kernel import kernel
from checkers.engines.sorting import Column, sort_rows
from checkers.wire import INFINITY


@kernel
def returned(first_ret: Column, ret: Column, write: int) -> int:
    """f of a write's cluster."""
    return INFINITY if first_ret[write] < 0 else ret[first_ret[write]]


@kernel
def sorted_clusters(
    rows: Column, count: int, group: Column, first_ret: Column, last_inv: Column, inv: Column, ret: Column
) -> Column:
    """The writes rows[:count] by group and, within it, in the order in which their clusters stand if they can."""
    result = np.empty(count, np.int32)
    until = np.empty(len(group), np.int64)
    used = 0
    for forward in range(1, -1, -1):
        for n in range(count):
            f, s = returned(first_ret, ret, rows[n]), inv[last_inv[rows[n]]]
            if (f < s) == (forward == 1):
                until[rows[n]] = max(f, s)
                result[used] = rows[n]
                used += 1
    sort_rows(result, 0, count, group, until)
    return result


@kernel
def within(
    kind: Column,
    origin: Column,
    key: Column,
    group: Column,
    inv: Column,
    ret: Column,
    turn: Column,
    carried_late: Column,
    first_ret: Column,
    last_inv: Column,
    heir: Column,
    reader: Column,
    found: Column,
    used: int,
) -> tuple[Column, Column, Column, int]:
    """The groups of the keys that are not in `turn`: carried reads first, then clusters, last the one read later.

    (of each group the two writes whose clusters have the smallest f, -1 for none, and findings)
    """
    groups = len(heir)
    low = np.full(groups, -1, np.int32)
    second = np.full(groups, -1, np.int32)
    top = np.full(groups, -1, np.int32)
    hard = np.full(groups, False, np.bool_)
    count = 0
    for row in range(len(kind)):
        what = kind[row]
        if not ACCEPTED <= what <= UNKNOWN or turn[key[row]] or not live(kind, origin, row):
            continue
        here = group[row]
        f = returned(first_ret, ret, row)
        if low[here] < 0 or f < returned(first_ret, ret, low[here]):
            low[here], second[here] = row, low[here]
        elif second[here] < 0 or f < returned(first_ret, ret, second[here]):
            second[here] = row
        if row != heir[here]:
            if top[here] >= 0 and f < inv[top[here]]:
                hard[here] = True
            top[here] = max(top[here], last_inv[row])
            count += 1
    some = False
    for here in range(groups):
        late = carried_late[here]
        if late >= 0 and low[here] >= 0 and inv[late] > returned(first_ret, ret, low[here]):
            found, used = noted(found, used, STALE_READ, late, first_ret[low[here]], late, -1, -1)
        last = heir[here]
        if last >= 0 and top[here] >= 0 and inv[top[here]] > returned(first_ret, ret, last):
            found, used = noted(found, used, OVERWRITTEN, top[here], first_ret[last], top[here], reader[here], -1)
        some = some or hard[here]
    if some:
        found, used = _zones(
            kind, origin, key, group, inv, ret, turn, first_ret, last_inv, heir, hard, count, found, used
        )
    return low, second, found, used


@kernel
def _zones(
    kind: Column,
    origin: Column,
    key: Column,
    group: Column,
    inv: Column,
    ret: Column,
    turn: Column,
    first_ret: Column,
    last_inv: Column,
    heir: Column,
    hard: Column,
    most: int,
    found: Column,
    used: int,
) -> tuple[Column, int]:
    """Groups whose clusters are not in order as they come."""
    rows = np.empty(most, np.int32)
    count = 0
    for row in range(len(kind)):
        what = kind[row]
        if not ACCEPTED <= what <= UNKNOWN or turn[key[row]] or not live(kind, origin, row):
            continue
        if hard[group[row]] and heir[group[row]] != row:
            rows[count] = row
            count += 1
    rows = sorted_clusters(rows, count, group, first_ret, last_inv, inv, ret)
    worst = -1
    for n in range(count):
        row = rows[n]
        if n == 0 or group[rows[n - 1]] != group[row]:
            worst = -1
        if worst >= 0 and returned(first_ret, ret, row) < inv[last_inv[worst]]:
            at = max(last_inv[worst], last_inv[row])
            found, used = noted(
                found, used, WITHIN_TOKEN, at, first_ret[worst], last_inv[row], first_ret[row], last_inv[worst]
            )
        if worst < 0 or last_inv[row] > last_inv[worst]:
            worst = row
    return found, used
