"""The order of a register's clusters, once `checkers.engines.registers_kernels` has gathered them.

Source: Gibbons and Korach, *Testing shared memories* (1997), for clusters that follow one another freely; what is
glued by compare-and-set moves as one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from checkers.engines.kernel import kernel
from checkers.engines.registers_kernels import (
    BEFORE_WRITE,
    CIRCLE,
    MAYBE_SWAP,
    MAYBE_WRITE,
    REFUSED,
    STALE,
    gather,
    observed,
)
from checkers.wire import INFINITY

Array = npt.NDArray[Any]

_FOREVER: Final = int(INFINITY)


@kernel
def chains(
    role: Array,
    mine: Array,
    key: Array,
    inv: Array,
    ret: Array,
    writer: Array,
    swap: Array,
    early: Array,
    late: Array,
    first: int,
    keys: int,
    kind: Array,
    rows: Array,
) -> tuple[Array, Array, Array, Array]:
    """Chains of clusters glued by compare-and-set, single ones included: the first cluster of each, its operation that
    returned first (-1: the initial value was there), the one invoked last, and what to sort by. kind, rows: as in
    `gather`, for contradictions inside a chain.

    A chain must hold its place from `begun`, where something of it had returned, to `ended`, where something of it
    was yet to be invoked. Sorted by the lower of the two, at ties those with ``ended <= begun`` first, any two chains
    stand as they must if any order has them so.
    """
    room = len(writer)
    follows = np.zeros(room, np.bool_)
    for cluster in range(room):
        if swap[cluster] >= 0:
            follows[mine[swap[cluster]]] = True
    walked = np.zeros(room, np.bool_)
    heads = np.empty(room, np.int32)
    firsts = np.empty(room, np.int32)
    lasts = np.empty(room, np.int32)
    lows = np.empty(room, np.int64)
    count = 0
    for head in range(room):
        row = writer[head]
        if row < 0:
            if head < first or head >= first + keys or (early[head] < 0 and swap[head] < 0):
                continue
            here = np.int64(head - first)
            begun = np.int64(-1)
        else:
            if follows[head]:
                continue
            here = np.int64(key[row])
            begun = np.int64(_FOREVER)
        start = -1
        last = -1
        ended = np.int64(-1)
        cluster = head
        while True:
            walked[cluster] = True
            row = writer[cluster]
            if row >= 0:
                if role[row] != MAYBE_WRITE and role[row] != MAYBE_SWAP:
                    if ret[row] < ended and kind[here] == 0:
                        kind[here] = STALE
                        rows[4 * here] = last
                        rows[4 * here + 1] = row
                    if ret[row] < begun:
                        begun = np.int64(ret[row])
                        start = row
                if inv[row] > ended:
                    ended = np.int64(inv[row])
                    last = row
            row = early[cluster]
            if row >= 0:
                if ret[row] < ended and kind[here] == 0:
                    kind[here] = BEFORE_WRITE if last == writer[cluster] else STALE
                    rows[4 * here] = last
                    rows[4 * here + 1] = row
                if ret[row] < begun:
                    begun = np.int64(ret[row])
                    start = row
                row = late[cluster]
                if inv[row] > ended:
                    ended = np.int64(inv[row])
                    last = row
            row = swap[cluster]
            if row < 0:
                break
            cluster = mine[row]
        heads[count] = head
        firsts[count] = start
        lasts[count] = last
        lows[count] = 2 * min(begun, ended) + (1 if begun < ended else 0)
        count += 1
    for cluster in range(room):
        row = writer[cluster]
        if row >= 0 and not walked[cluster] and kind[key[row]] == 0:
            kind[key[row]] = CIRCLE
            rows[4 * np.int64(key[row])] = row
    return heads[:count], firsts[:count], lasts[:count], lows[:count]


@kernel
def forced(
    role: Array, own: Array, expected: Array, key: Array, inv: Array, ret: Array, first: int, keys: int
) -> tuple[Array, ...]:
    """What `gather` and `chains` find, in this order, and of each key the kind and the four rows of its contradiction.

    first, keys: see `observed`.
    """
    kind = np.zeros(keys, np.int8)
    rows = np.full(4 * keys, -1, np.int32)
    writers, write, seen, asked = observed(role, own, expected, first, keys)
    mine, writer, swap, early, late, repeated, contested = gather(
        role, own, expected, key, inv, ret, writers, write, seen, asked, first, keys, kind, rows
    )
    heads, firsts, lasts, lows = chains(role, mine, key, inv, ret, writer, swap, early, late, first, keys, kind, rows)
    return mine, swap, repeated, contested, heads, firsts, lasts, lows, kind, rows


@kernel
def crossings(
    order: Array, firsts: Array, lasts: Array, key: Array, inv: Array, ret: Array, keys: int
) -> tuple[Array, Array]:
    """Of each key whether two of its chains must each come before the other, and the rows that say so.

    order: the chains as `chains` would have them sorted.
    """
    crossed = np.zeros(keys, np.bool_)
    rows = np.full(4 * keys, -1, np.int32)
    held = np.full(keys, -1, np.int32)
    for n in range(len(order)):
        chain = order[n]
        last = lasts[chain]
        here = np.int64(key[last])
        start = firsts[chain]
        begun = np.int64(-1) if start < 0 else np.int64(ret[start])
        ended = np.int64(inv[last])
        other = held[here]
        if other >= 0 and inv[lasts[other]] > begun and not crossed[here]:
            crossed[here] = True
            rows[4 * here] = firsts[other]
            rows[4 * here + 1] = last
            rows[4 * here + 2] = start
            rows[4 * here + 3] = lasts[other]
        if begun < ended and (other < 0 or ended > inv[lasts[other]]):
            held[here] = chain
    return crossed, rows


@kernel
def numbered(order: Array, heads: Array, swap: Array, mine: Array) -> Array:
    """Of each cluster its place among all (-1: in no chain)."""
    number = np.full(len(swap), -1, np.int32)
    count = 0
    for n in range(len(order)):
        cluster = heads[order[n]]
        while number[cluster] < 0:
            number[cluster] = count
            count += 1
            if swap[cluster] < 0:
                break
            cluster = mine[swap[cluster]]
    return number


@kernel
def gaps(
    sequence: Array,
    guests: Array,
    by_ret: Array,
    role: Array,
    mine: Array,
    expected: Array,
    key: Array,
    inv: Array,
    ret: Array,
    first: int,
    keys: int,
) -> tuple[Array, Array]:
    """Where what changes nothing can stand in an order: of each guest the place in `sequence` before which it fits, and
    of each key whether one of them does not.

    sequence  rows in order, key by key, the clusters of each value together.
    guests    failed compare-and-sets and reads that say nothing, key by key, in order of invocation.
    by_ret    indexes into `guests`, key by key, in order of return.

    Each guest takes the first place that real time and the guests before it allow and where the register does not
    hold what it expected. For the given sequence that is exact; another sequence of the clusters may have more room.
    """
    n = len(sequence)
    count = len(guests)
    soonest = np.empty(n, np.int64)
    latest = np.empty(n, np.int64)
    ends = np.empty(n, np.int32)
    for place in range(n - 1, -1, -1):
        row = sequence[place]
        part = role[row]
        soonest[place] = _FOREVER if part in (MAYBE_WRITE, MAYBE_SWAP) else np.int64(ret[row])
        ends[place] = place + 1
        if place + 1 < n and key[sequence[place + 1]] == key[row]:
            soonest[place] = min(soonest[place], soonest[place + 1])
            if mine[sequence[place + 1]] == mine[row]:
                ends[place] = ends[place + 1]
    for place in range(n):
        row = sequence[place]
        latest[place] = inv[row]
        if place > 0 and key[sequence[place - 1]] == key[row]:
            latest[place] = max(latest[place], latest[place - 1])
    chosen = np.full(count, -1, np.int64)
    stuck = np.zeros(keys, np.bool_)
    here = np.int64(-1)
    place = 0
    begin = 0
    bound = 0
    returned = 0
    for guest in range(count):
        row = guests[guest]
        if np.int64(key[row]) != here:
            here = np.int64(key[row])
            while place < n and np.int64(key[sequence[place]]) < here:
                place += 1
            begin = place
            bound = place
            returned = guest
        while place < n and np.int64(key[sequence[place]]) == here and soonest[place] < inv[row]:
            place += 1
        while returned < count and np.int64(key[guests[by_ret[returned]]]) == here:
            other = by_ret[returned]
            if not ret[guests[other]] < inv[row]:
                break
            bound = max(bound, chosen[other])
            returned += 1
        spot = max(place, bound)
        if role[row] == REFUSED:
            held = mine[sequence[spot - 1]] if spot > begin else first + here
            if held == expected[row]:
                after = spot
                if spot > begin:
                    after = ends[spot - 1]
                elif spot < n and np.int64(key[sequence[spot]]) == here and mine[sequence[spot]] == held:
                    after = ends[spot]
                if after < n and np.int64(key[sequence[after]]) == here:
                    spot = after + 1
                else:
                    stuck[here] = True
        if spot > begin and latest[spot - 1] > ret[row]:
            stuck[here] = True
        chosen[guest] = spot
    return chosen, stuck
