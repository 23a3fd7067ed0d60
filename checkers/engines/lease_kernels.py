"""The arithmetic of leases: when a hold can end at the earliest, and the earliest starts of holds in a given order.

Source: checkers/CONDITIONS.md, sections 3 and 5. Every question about leases is a start window [start, latest] of each
grant and a monotone function E(a) >= a, the earliest moment at which the next grant is legal. E is monotone, so that in
a given order the earliest starts are best for everybody, and decide.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from checkers.engines.kernel import kernel
from checkers.wire import INFINITY

Ints = npt.NDArray[np.int64]

BLIND: Final = 0
TOLD: Final = 1
UNREFUSED: Final = 2
FULL: Final = 3
"""Modes; see `checkers.engines.leases`."""

TOUCHES: Final = 1
PARTS: Final = 2
CERTAIN: Final = 4
"""Bits of a grant in a session: it prolongs the session; so does its release; its hold lasted until its release."""


@kernel
def narrow(
    mode: int,
    answered: Ints,
    start: Ints,
    ret: Ints,
    length: Ints,
    renewed: Ints,
    proven: Ints,
    released: Ints,
    freeing: Ints,
    freed: Ints,
    frees: Ints,
    refused: Ints,
    in_session: Ints,
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints]:
    """Start windows of attempts in one mode.

    Returns which of them count, and for those: the latest start, what the lease adds to it (`INFINITY`: only the
    release ends the hold), until when it lasts at least, when it was last known to be held, when it may have been
    released, and by when it must be over. A latest start before the earliest one is a contradiction in itself.
    """
    n = len(start)
    who = np.zeros(n, np.int64)
    latest = np.zeros(n, np.int64)
    lasts = np.zeros(n, np.int64)
    fixed = np.zeros(n, np.int64)
    held = np.zeros(n, np.int64)
    free = np.zeros(n, np.int64)
    over = np.zeros(n, np.int64)
    count = 0
    for i in range(n):
        certain = mode >= UNREFUSED and frees[i] > 0
        if answered[i] != 1 and not certain and (mode == BLIND or renewed[i] < 0):
            continue  # an acquire without an answer, which may never have happened
        last = ret[i] if answered[i] == 1 else INFINITY
        lease, until, known, parting, end = length[i], -1, -1, released[i], INFINITY
        if mode != BLIND:
            known = renewed[i]
            until = -1 if known < 0 else known + lease
            last = min(last, proven[i])
            if answered[i] < 0 or known > freed[i]:
                last = -1  # renewed or released what was never granted; renewed after its release had returned
        if mode == FULL:
            end = refused[i]
        if certain:
            parting = freeing[i]
            if in_session[i] == 0:
                lease = INFINITY
            end = min(end, freed[i])
            last = min(last, freed[i])
            if frees[i] > 1:
                last = -1
        if end < INFINITY:
            possible = -1
            if max(parting, known) <= end or in_session[i] != 0:
                possible = end
            elif lease < INFINITY and until <= end:
                possible = end - lease
            last = min(last, possible)
        who[count] = i
        latest[count] = last
        lasts[count] = lease
        fixed[count] = until
        held[count] = known
        free[count] = parting
        over[count] = end
        count += 1
    return who[:count], latest[:count], lasts[:count], fixed[:count], held[:count], free[:count], over[:count]


@kernel
def prolonged(a: Any, end: Any, first: int, last: int, length: int, inv: Ints, ret: Ints) -> Any:
    """The end of a lease whose renewals extended it only where they were answered before it can have ended."""
    changed = True
    while changed:
        changed = False
        for place in range(first, last):
            if ret[place] < end and max(inv[place], a) + length > end:
                end = max(inv[place], a) + length
                changed = True
    return end


@kernel
def closing(lived: Any, first: int, last: int, inv: Ints, ret: Ints) -> Any:
    """When a session that still lived then can have been closed: not by what had returned before."""
    earliest = np.int64(INFINITY)
    for place in range(first, last):
        if ret[place] >= lived:
            earliest = min(earliest, np.int64(inv[place]))
    return earliest


@kernel
def soonest(
    start: Ints,
    lasts: Ints,
    fixed: Ints,
    held: Ints,
    free: Ints,
    floor: Ints,
    first: Ints,
    last: Ints,
    inv: Ints,
    ret: Ints,
) -> Ints:
    """E(start) of grants with leases of their own; see `settle`."""
    n = len(start)
    ends = np.zeros(n, np.int64)
    for i in range(n):
        lease = max(start[i] + lasts[i], fixed[i])
        if last[i] > first[i]:
            lease = prolonged(start[i], lease, first[i], last[i], lasts[i], inv, ret)
        ends[i] = max(min(max(free[i], start[i], held[i]), lease), floor[i])
    return ends


@kernel
def settle(
    key: Ints,
    start: Ints,
    latest: Ints,
    lasts: Ints,
    fixed: Ints,
    held: Ints,
    free: Ints,
    over: Ints,
    floor: Ints,
    first: Ints,
    last: Ints,
    inv: Ints,
    ret: Ints,
    session: Ints,
    bits: Ints,
    parts: Ints,
    alive: Ints,
    until: Ints,
    closings: Ints,
    closing_inv: Ints,
    closing_ret: Ints,
    dead: Ints,
    patience: int,
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, bool]:
    """The earliest starts of grants in their order, those of one key together: the least fixpoint over all of them.

    floor    nobody else is granted the key before that, whatever ended the hold (a client that believes).
    session  of each grant, -1 for none; `bits` says what that means, and `parts` when it was released, where it was.
    alive, until, dead  of each session: when it certainly lived, up to when its lease lasts at least, and by when it
             must be over.
    closings  of each session from where to where its closings are in the next two, its own place to the next one's.

    The end of a session is later than all that it did in the order of events, not in time alone: so moments are
    pairs (time, rank). A rank beyond the number of sessions is a circle, which only a release can break.

    Returns starts and their ranks, for each grant whether it has no place; for each session how long it certainly
    lived, with the rank, up to when its lease lasts, whether it lived too long; and whether all this is final. What has
    no place certainly has none, final or not.
    """
    n = len(key)
    sessions = len(alive)
    begun = np.zeros(n, np.int64)
    begun_rank = np.zeros(n, np.int64)
    stuck = np.zeros(n, np.int64)
    again = np.zeros(n, np.int64)
    seen = np.full(sessions, -1, np.int64)
    for back in range(n):
        i = n - 1 - back
        if session[i] >= 0:
            if seen[session[i]] == key[i]:
                again[i] = 1  # what one session holds twice is separated by the release alone
            seen[session[i]] = key[i]
    lived = np.zeros(sessions, np.int64)
    rank = np.full(sessions, 1, np.int64)
    lasting = np.zeros(sessions, np.int64)
    late = np.zeros(sessions, np.int64)
    for z in range(sessions):
        lived[z] = alive[z]
        lasting[z] = until[z]
    changed = True
    rounds = 0
    while changed and rounds < patience:
        changed = False
        rounds += 1
        end, end_rank, broken = np.int64(0), np.int64(0), False
        for i in range(n):
            if i == 0 or key[i] != key[i - 1]:
                end, end_rank, broken = np.int64(0), np.int64(0), False
            if broken:
                continue
            a, a_rank = np.int64(start[i]), np.int64(0)
            if end >= a:
                a, a_rank = end, end_rank
            if a > latest[i]:
                stuck[i] = 1
                broken = True
                continue
            begun[i], begun_rank[i] = a, a_rank
            end = max(max(free[i], a), held[i])
            end_rank = a_rank if end == a else np.int64(0)
            z = session[i]
            if z < 0:
                lease = max(a + lasts[i], fixed[i])
                if last[i] > first[i]:
                    lease = prolonged(a, lease, first[i], last[i], lasts[i], inv, ret)
                if lease < end:
                    end = lease
                    end_rank = a_rank if end == a else np.int64(0)
            else:
                proof, proof_rank = a, a_rank + 1
                lease = max(a + lasts[i], fixed[i]) if bits[i] & TOUCHES else fixed[i]
                if bits[i] & CERTAIN:
                    proof, proof_rank = end, end_rank + 1
                elif held[i] > a:
                    proof, proof_rank = np.int64(held[i]), np.int64(1)
                if bits[i] & PARTS:
                    parted = max(max(parts[i], a), held[i])
                    lease = max(lease, parted + lasts[i])
                    if parted > proof:
                        proof, proof_rank = parted, np.int64(1)
                if proof > lived[z] or (proof == lived[z] and proof_rank > rank[z]):
                    lived[z], rank[z] = proof, proof_rank
                    changed = True
                    if proof_rank > sessions + 2:
                        beyond = np.int64(INFINITY)
                        for j in range(n):
                            if session[j] >= 0 and max(free[j], held[j]) > proof:
                                beyond = min(beyond, np.int64(max(free[j], held[j])))
                        lived[z], rank[z] = beyond, np.int64(1)
                if lease > lasting[z]:
                    lasting[z] = lease
                    changed = True
                if again[i] == 0 and bits[i] & CERTAIN == 0:
                    shut = closing(lived[z], closings[z], closings[z + 1], closing_inv, closing_ret)
                    other, other_rank = min(lasting[z], shut), np.int64(1)
                    if lived[z] >= other:
                        other, other_rank = lived[z], rank[z]
                    if other < end or (other == end and other_rank < end_rank):
                        end, end_rank = other, other_rank
            if end < floor[i]:
                end, end_rank = np.int64(floor[i]), np.int64(0)
            if end > over[i]:
                stuck[i] = 1
                broken = True
    for z in range(sessions):
        shut = closing(lived[z], closings[z], closings[z + 1], closing_inv, closing_ret)
        if max(lived[z], min(lasting[z], shut)) > dead[z]:
            late[z] = 1
    return begun, begun_rank, stuck, lived, rank, lasting, late, not changed
