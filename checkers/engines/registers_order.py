"""The order of a register's clusters, once `checkers.engines.registers_kernels` has gathered them.

Source: Gibbons and Korach, *Testing shared memories* (1997); checkers/CONDITIONS.md, section 19. If chains are sorted
by what must come first, two chains contradict each other iff the later one must come before the earlier: O(n log n).
"""

from typing import NamedTuple

import numpy as np

from checkers.engines.kernel import Column, kernel, no_rows
from checkers.engines.registers_kernels import (
    BEFORE_WRITE,
    CIRCLE,
    CROSSING,
    MAYBE_SWAP,
    MAYBE_WRITE,
    REFUSED,
    STALE,
    Clusters,
    Contradictions,
    Roles,
    contradicted,
    gather,
    observed,
)
from checkers.row_format import INFINITY


class Chains(NamedTuple):
    """Clusters joined by compare-and-sets, single clusters included.

    A chain must hold its place from `begun`, when some of it had returned, to `ended`, when some of it was yet to be
    invoked. If chains are sorted by the lower of the two, on ties those with ``ended <= begun`` first, any two chains
    stand as they must, if any order has them so.
    """

    head: Column  # of each chain its first cluster
    key: Column  # of each chain
    first: Column  # of each chain its operation that returned first, -1: the initial value was there
    last: Column  # of each chain its operation that was invoked last
    begun: Column  # ns; when the first returned
    ended: Column  # ns; when the last was invoked
    low: Column  # what to sort by


@kernel
def forced(roles: Roles) -> tuple[Clusters, Chains, Contradictions]:
    """What all orders have in common."""
    wrong = Contradictions(np.zeros(roles.keys, np.int8), no_rows(4 * roles.keys))
    clusters = gather(roles, observed(roles), wrong)
    return clusters, _chains(roles, clusters, wrong), wrong


@kernel
def _chains(roles: Roles, clusters: Clusters, wrong: Contradictions) -> Chains:
    role, key, inv, ret, first = roles.role, roles.key, roles.inv, roles.ret, roles.first
    mine, writer, swap, early, late = clusters.mine, clusters.writer, clusters.swap, clusters.early, clusters.late
    room = len(writer)
    follows = np.zeros(room, np.bool_)  # of each cluster whether it stands behind another in a chain
    for row in swap:
        if row >= 0:
            follows[mine[row]] = True
    walked = np.zeros(room, np.bool_)
    heads, keys = np.empty(room, np.int32), np.empty(room, np.int32)
    firsts, lasts = np.empty(room, np.int32), np.empty(room, np.int32)
    begins, ends, lows = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    count = 0
    for head in range(room):
        row = writer[head]
        if row < 0:
            if head < first or head >= first + roles.keys or (early[head] < 0 and swap[head] < 0):
                continue
            here, begun = np.int64(head - first), np.int64(-1)
        else:
            if follows[head]:
                continue
            here, begun = np.int64(key[row]), np.int64(INFINITY)
        start, last, ended = -1, -1, np.int64(-1)
        cluster = head
        while True:
            walked[cluster] = True
            for soonest, latest in ((writer[cluster], writer[cluster]), (early[cluster], late[cluster])):
                if soonest < 0:
                    continue
                if role[soonest] != MAYBE_WRITE and role[soonest] != MAYBE_SWAP:
                    if ret[soonest] < ended:
                        kind = BEFORE_WRITE if last == writer[cluster] else STALE
                        contradicted(wrong, int(here), kind, (int(last), int(soonest), -1, -1))
                    if ret[soonest] < begun:
                        begun = np.int64(ret[soonest])
                        start = soonest
                if inv[latest] > ended:
                    ended = np.int64(inv[latest])
                    last = latest
            row = swap[cluster]
            if row < 0:
                break
            cluster = mine[row]
        heads[count], keys[count], firsts[count], lasts[count] = head, here, start, last
        begins[count], ends[count] = np.int64(-1) if start < 0 else begun, ended
        lows[count] = 2 * min(begun, ended) + (1 if begun < ended else 0)
        count += 1
    for cluster in range(room):
        row = writer[cluster]
        if row >= 0 and not walked[cluster]:  # no walk from the head of a chain has come to it
            contradicted(wrong, int(key[row]), CIRCLE, (int(row), -1, -1, -1))
    firsts, lasts, begins, ends = firsts[:count], lasts[:count], begins[:count], ends[:count]
    return Chains(heads[:count], keys[:count], firsts, lasts, begins, ends, lows[:count])


@kernel
def crossings(order: Column, chains: Chains, keys: int) -> Contradictions:
    """Of each key whether two of its chains must each come before the other. order: the chains, sorted."""
    _, key, first, last, begun, ended, _ = chains
    wrong = Contradictions(np.zeros(keys, np.int8), no_rows(4 * keys))
    held = no_rows(keys)
    for chain in order:
        here = key[chain]
        other = held[here]
        if other >= 0 and ended[other] > begun[chain]:
            proof = int(first[other]), int(last[chain]), int(first[chain]), int(last[other])
            contradicted(wrong, int(here), CROSSING, proof)
        if begun[chain] < ended[chain] and (other < 0 or ended[chain] > ended[other]):
            held[here] = chain
    return wrong


@kernel
def numbered(heads: Column, clusters: Clusters) -> Column:
    """Of each cluster its place among all (-1: in no chain). heads: of chains in order, see `Chains`."""
    swap = clusters.swap
    number = no_rows(len(swap))
    count = 0
    for head in heads:
        cluster = head
        while number[cluster] < 0:
            number[cluster] = count
            count += 1
            if swap[cluster] < 0:
                break
            cluster = clusters.mine[swap[cluster]]
    return number


@kernel
def _bounds(sequence: Column, roles: Roles, mine: Column) -> tuple[Column, Column, Column]:
    """Of each place in an order, among the places of its key: (ns of the first return from here on, ns of the last
    invocation up to here, the place behind the cluster that stands here).
    """
    role, key, inv, ret = roles.role, roles.key, roles.inv, roles.ret
    n = len(sequence)
    soonest, latest, ends = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int32)
    for place in range(n - 1, -1, -1):
        row = sequence[place]
        soonest[place] = INFINITY if role[row] in (MAYBE_WRITE, MAYBE_SWAP) else np.int64(ret[row])
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
    return soonest, latest, ends


@kernel
def gaps(sequence: Column, guests: Column, by_ret: Column, roles: Roles, mine: Column) -> tuple[Column, Column]:
    """Where operations that change nothing can stand in an order: of each guest the place in `sequence` before which it
    fits, and of each key whether one of its guests does not fit.

    sequence  rows in order, key by key, the clusters of each value together.
    guests    failed compare-and-sets and reads that say nothing, key by key, in order of invocation.
    by_ret    indexes into `guests`, key by key, in order of return.
    mine      of each row its cluster.

    Each guest takes the first place that real time and earlier guests allow and where the register does not hold what
    the guest expected. This is exact for the given sequence; another sequence of the clusters may have more room.
    """
    role, _, expected, key, inv, ret, first, keys = roles
    n, count = len(sequence), len(guests)
    soonest, latest, ends = _bounds(sequence, roles, mine)
    chosen = np.full(count, -1, np.int64)
    stuck = np.zeros(keys, np.bool_)
    here = np.int64(-1)
    place = begin = bound = returned = 0
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
