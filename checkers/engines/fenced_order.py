"""An order of linearization points for the accesses of a fenced store, once it is known that there is one.

Groups stand in the order of their tokens, what they hold as `fenced_zones` says, or as invoked where the accesses of a
token follow one another. An unknown access that explains a refusal stands before the group of its token. A refusal
stands before the first access that was invoked after it had returned: then real time holds, and whatever can have
raised the bar by its return stands before it (checkers/CONDITIONS.md, sections 17 and 18).
"""

from __future__ import annotations

import numpy as np

from checkers.engines.fenced_groups import ACCEPTED, FREE, IDLE, READ_OK, READ_REFUSED, REFUSED, UNKNOWN
from checkers.engines.fenced_origins import live
from checkers.engines.fenced_survey import home
from checkers.engines.fenced_zones import sorted_clusters
from checkers.engines.kernel import kernel
from checkers.engines.sorting import Column, sort_rows

EXPLANATION = -3
CARRIED = -2
"""Places of accesses within a group, before those of clusters."""


@kernel
def arranged(
    kind: Column,
    origin: Column,
    key: Column,
    group: Column,
    order: Column,
    inv: Column,
    ret: Column,
    turn: Column,
    skip: Column,
    reads: int,
    strict: int,
    first: Column,
    heir: Column,
    first_ret: Column,
    last_inv: Column,
    above: Column,
    upward: Column,
) -> Column:
    """The rows of all keys that are not to be skipped."""
    count = len(kind)
    within = _within(kind, origin, key, group, inv, ret, turn, skip, reads, first, heir, first_ret, last_inv)
    place_of = np.empty(len(order), np.int64)
    for n in range(len(order)):
        place_of[order[n]] = n
    rows = np.empty(count, np.int32)
    others = np.empty(count, np.int32)
    place = np.full(count, -1, np.int64)
    certain, idle = 0, 0
    for row in range(count):
        what = kind[row]
        if skip[key[row]]:
            continue
        if READ_REFUSED <= what <= REFUSED or what == IDLE:
            others[idle] = row
            idle += 1
        if READ_REFUSED <= what <= REFUSED:
            reason = upward[group[row]] if strict and what == REFUSED else above[group[row]]
            if place[reason] < 0 and home(kind, origin, key, group, reads, reason) < 0:
                within[reason] = EXPLANATION
                place[reason] = place_of[group[reason]]
                rows[certain] = reason
                certain += 1
        else:
            here = home(kind, origin, key, group, reads, row)
            if here >= 0:
                place[row] = place_of[here]
                rows[certain] = row
                certain += 1
    sort_rows(rows, 0, certain, place, within)
    return fitted(rows, certain, others, idle, key, inv, ret)


@kernel
def fitted(rows: Column, count: int, others: Column, idle: int, key: Column, inv: Column, ret: Column) -> Column:
    """The first `count` rows, in order within each key, and `idle` others, each as late as its return allows."""
    sort_rows(others, 0, idle, key, ret)
    result = np.empty(count + idle, np.int64)
    done, waiting = 0, 0
    for n in range(count):
        row = rows[n]
        while waiting < idle and (
            key[others[waiting]] < key[row] or (key[others[waiting]] == key[row] and ret[others[waiting]] < inv[row])
        ):
            result[done] = others[waiting]
            done += 1
            waiting += 1
        result[done] = row
        done += 1
    for n in range(waiting, idle):
        result[done] = others[n]
        done += 1
    return result


@kernel
def _within(
    kind: Column,
    origin: Column,
    key: Column,
    group: Column,
    inv: Column,
    ret: Column,
    turn: Column,
    skip: Column,
    reads: int,
    first: Column,
    heir: Column,
    first_ret: Column,
    last_inv: Column,
) -> Column:
    """Sorts the accesses of a group; equal ones stand as they were invoked."""
    count = len(kind)
    within = np.zeros(count, np.int64)
    writes = np.empty(count, np.int32)
    found = 0
    for row in range(count):
        what = kind[row]
        if skip[key[row]] or turn[key[row]]:
            continue
        if ACCEPTED <= what <= UNKNOWN and live(kind, origin, row):
            writes[found] = row
            found += 1
    writes = sorted_clusters(writes, found, group, first_ret, last_inv, inv, ret)
    for n in range(found):
        row = writes[n]
        if first[group[row]] == row:
            within[row] = 0
        elif heir[group[row]] == row:
            within[row] = 2 * found + 2
        else:
            within[row] = 2 * n + 2
    for row in range(count):
        if READ_OK <= kind[row] <= FREE and not turn[key[row]] and not skip[key[row]]:
            here = home(kind, origin, key, group, reads, row)
            write = origin[row]
            within[row] = within[write] + 1 if write >= 0 and group[write] == here else CARRIED
    return within
