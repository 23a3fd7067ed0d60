"""Refusals by a fenced store: whether anything can have raised its bar above the token by then.

Source: checkers/CONDITIONS.md, sections 17 and 18. The bar can stand above t once a group of a higher token, or an
access that was never answered, has had its first access: not before all lower groups were invoked, nor before that
access itself.
"""

from __future__ import annotations

import numpy as np

from checkers.engines.fenced_groups import ACCEPTED, READ_REFUSED, READ_UNKNOWN, REFUSED, UNKNOWN
from checkers.engines.fenced_origins import live
from checkers.engines.fenced_survey import NEEDLESS, noted
from checkers.engines.fenced_zones import returned
from checkers.engines.kernel import kernel
from checkers.engines.sorting import Column
from checkers.wire import INFINITY


@kernel
def soonest(
    kind: Column,
    origin: Column,
    key: Column,
    group: Column,
    inv: Column,
    ret: Column,
    turn: Column,
    opener: Column,
    writer: Column,
    carried: Column,
    first_ret: Column,
    last_inv: Column,
    heir: Column,
    low: Column,
    second: Column,
) -> Column:
    """Of each group the row invoked first among those that may come first in it; -1 for none."""
    first = np.full(len(opener), -1, np.int32)
    undone = False
    for here in range(len(opener)):
        row = opener[here]
        if carried[here] >= 0:
            first[here] = carried[here]
        elif row >= 0:
            alone = turn[key[row]] or row == writer[here]
            if alone or _may_lead(inv, ret, first_ret, last_inv, heir, low, second, here, row):
                first[here] = row
            else:
                undone = True
    if undone:
        for row in range(len(kind)):
            what = kind[row]
            if not ACCEPTED <= what <= UNKNOWN or first[group[row]] >= 0 or not live(kind, origin, row):
                continue
            if _may_lead(inv, ret, first_ret, last_inv, heir, low, second, group[row], row):
                first[group[row]] = row
    return first


@kernel
def _may_lead(
    inv: Column,
    ret: Column,
    first_ret: Column,
    last_inv: Column,
    heir: Column,
    low: Column,
    second: Column,
    here: int,
    row: int,
) -> bool:
    """Whether the cluster of a write can come first in its group, which has others."""
    other = second[here] if low[here] == row else low[here]
    return bool(heir[here] != row and inv[last_inv[row]] <= returned(first_ret, ret, other))


@kernel
def explanations(
    spared: Column,
    kind: Column,
    origin: Column,
    group: Column,
    order: Column,
    begin: Column,
    inv: Column,
    strict: int,
    latest: Column,
    opener: Column,
    carried: Column,
    before: Column,
    first: Column,
) -> tuple[Column, Column]:
    """Of each group the row that can have raised the bar soonest, of those above it and of those at or above it.

    -1 for none. It is one that comes first in its group, or an unknown access of which nothing else is known. spared:
    rows that are neither answered accesses nor irrelevant, in order of invocation.
    """
    groups = len(order)
    write = np.full(groups, -1, np.int32)
    read = np.full(groups, -1, np.int32)
    for row in spared:
        if kind[row] == UNKNOWN and write[group[row]] < 0 and not live(kind, origin, row):
            write[group[row]] = row
        elif kind[row] == READ_UNKNOWN and read[group[row]] < 0:
            read[group[row]] = row
    above = np.full(groups, -1, np.int32)
    upward = np.full(groups, -1, np.int32)
    for k in range(len(begin) - 1):
        best = -1
        carries = False
        for place in range(begin[k + 1] - 1, begin[k], -1):
            here = order[place]
            above[here] = best
            if latest[here] >= 0:
                carries = carried[here] >= 0
            best = _sooner(before, group, inv, best, first[here])
            # It would overwrite what the next group still reads; strictly, it would keep its own group's write out.
            if not carries and not (strict and latest[here] >= 0):
                best = _sooner(before, group, inv, best, write[here])
            if not (strict and opener[here] >= 0):
                best = _sooner(before, group, inv, best, read[here])
            upward[here] = best
        above[order[begin[k]]] = best
        upward[order[begin[k]]] = best
    return above, upward


@kernel
def moment(before: Column, group: Column, inv: Column, row: int) -> int:
    """ns; the earliest at which a row that comes first in its group can have been accepted."""
    if row < 0:
        return INFINITY
    return int(inv[max(row, before[group[row]])])


@kernel
def _sooner(before: Column, group: Column, inv: Column, one: int, other: int) -> int:
    return other if moment(before, group, inv, other) < moment(before, group, inv, one) else one


@kernel
def needless(
    spared: Column,
    kind: Column,
    key: Column,
    group: Column,
    order: Column,
    begin: Column,
    tokens: Column,
    inv: Column,
    ret: Column,
    skip: Column,
    strict: int,
    before: Column,
    last: Column,
    opener: Column,
    carried: Column,
    above: Column,
    upward: Column,
    found: Column,
    used: int,
) -> tuple[Column, int]:
    """A finding for each refusal that nothing explains, of the keys not to `skip`.

    Its rows are a write that was in time to explain it but cannot come first in its group, the access that must come
    before all that might have explained it and was invoked too late, each -1 where there is none, and the refusal.
    """
    for row in spared:
        what = kind[row]
        if not READ_REFUSED <= what <= REFUSED or skip[key[row]]:
            continue
        here = group[row]
        reason = upward[here] if strict and what == REFUSED else above[here]
        if reason < 0 or ret[row] < moment(before, group, inv, reason):
            k = key[row]
            place = _obstacle(order, begin[k], begin[k + 1], inv, before, ret[row])
            there = order[place]
            late = before[order[place + 1]] if place + 1 < begin[k + 1] else last[k]
            rival = -1
            if late < 0 or inv[late] <= ret[row]:
                late = -1
            elif tokens[there] > tokens[here] or (strict and what == REFUSED and there == here):
                # Lower groups were wholly invoked, and would have explained it; higher ones come after what was late.
                if carried[there] >= 0 and inv[carried[there]] > ret[row]:
                    late = carried[there]
                elif opener[there] >= 0 and inv[opener[there]] <= ret[row]:
                    rival = opener[there]
            found, used = noted(found, used, NEEDLESS, row, rival, late, row, -1)
    return found, used


@kernel
def _obstacle(order: Column, begin: int, end: int, inv: Column, before: Column, moment: int) -> int:
    """Of the groups of a key, the place of the lowest that was not wholly invoked at a moment; else of the highest."""
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        row = before[order[middle]]
        if row >= 0 and inv[row] > moment:
            high = middle
        else:
            low = middle + 1
    return low - 1
