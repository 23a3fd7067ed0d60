"""The earliest end of a grant of a lease, and the earliest starts of grants in a given order.

Source: checkers/CONDITIONS.md, sections 3, 5 and 16. As E is monotone, the earliest starts in a given order are best
for every grant, and decide whether it is possible. O(n); with sessions O(n) for each round of a least fixpoint.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from checkers.engines.kernel import kernel
from checkers.history.counting import Ints
from checkers.row_format import INFINITY

TOUCHES: Final = 1  # bit of a grant that prolongs its session
PARTS: Final = 2  # bit of a grant whose release prolongs its session
CERTAIN: Final = 4  # bit of a grant in a session that lasted until its release
READER: Final = 8  # bit of a grant that excludes writers only


class Grants(NamedTuple):
    """Grants of any number of keys; where an order is meant, those of one key stand together. Times in ns."""

    key: Ints
    token: Ints
    start: Ints  # the earliest instant of the grant
    latest: Ints  # the latest instant; before `start`: a contradiction in itself
    lasts: Ints  # what the grant adds to its lease; `INFINITY`: only the release ends it
    fixed: Ints  # its lease does not end before this, whenever the grant began
    held: Ints  # when it was last known to be in force
    free: Ints  # from then on it may have been released
    over: Ints  # by then it has ended
    first: Ints  # where its renewals begin in `Renewals`, if those are doubted
    last: Ints  # and where they end
    session: Ints  # index of its session, -1 for none
    bits: Ints  # a sum of the numbers above
    parts: Ints  # when it was released, where the release prolongs its session
    again: Ints  # when its session asked for the same key again, having given this grant up
    optional: Ints  # 1: its unanswered release would prolong its session, and may have happened or not


class Renewals(NamedTuple):
    """Acknowledged renewals; ns."""

    inv: Ints
    ret: Ints


class Sessions(NamedTuple):
    """What is known of each session beside its grants; ns."""

    alive: Ints  # it certainly lived then
    until: Ints  # its lease lasts at least until then
    shut: Ints  # from here on its client may have closed it
    dead: Ints  # by then it is over
    closings: Ints  # where its closings begin in the next two columns; they end where the next session's begin
    closing_inv: Ints
    closing_ret: Ints


class Settled(NamedTuple):
    """The earliest starts of grants in an order. A grant that is stuck certainly has no place, even if not `final`."""

    begun: Ints  # ns; of each grant, meaningless from the first of its key that is stuck
    rank: Ints  # of each grant: its place among what happened at that instant
    stuck: Ints  # of each grant: 1 if it has no place, the first of its key
    lived: Ints  # ns; of each session until when it certainly lived
    lived_rank: Ints  # of each session: the place of that
    lasting: Ints  # ns; of each session until when its lease lasts
    late: Ints  # of each session: 1 if it lived too long
    final: bool  # whether the fixpoint was reached within the rounds allowed


@kernel
def prolonged(a: Any, end: Any, first: int, last: int, length: int, renewals: Renewals) -> Any:
    """The end of a lease whose renewals extended it only if they were answered before the lease can have ended."""
    inv, ret = renewals
    changed = True
    while changed:
        changed = False
        for place in range(first, last):
            if ret[place] < end and max(inv[place], a) + length > end:
                end = max(inv[place], a) + length
                changed = True
    return end


@kernel
def earliest_end(grants: Grants, renewals: Renewals, i: int, a: Any) -> Any:
    """E(a) of a grant whose lease is its own."""
    lease = max(a + grants.lasts[i], grants.fixed[i])
    if grants.last[i] > grants.first[i]:
        lease = prolonged(a, lease, grants.first[i], grants.last[i], grants.lasts[i], renewals)
    return min(max(grants.free[i], a, grants.held[i]), lease)


def core_ends(grants: Grants, renewals: Renewals) -> Ints:
    """E(start) of grants whose leases are their own."""
    start = grants.start
    lease = np.maximum(start + grants.lasts, grants.fixed)
    ends: Ints = np.minimum(np.maximum(np.maximum(grants.free, start), grants.held), lease)
    doubted = np.flatnonzero(grants.last > grants.first)
    if len(doubted):
        ends[doubted] = _core_ends(Grants(*[column[doubted] for column in grants]), renewals)
    return ends


@kernel
def _core_ends(grants: Grants, renewals: Renewals) -> Ints:
    ends = np.zeros(len(grants.start), np.int64)
    for i in range(len(ends)):
        ends[i] = earliest_end(grants, renewals, i, grants.start[i])
    return ends


@kernel
def closing(sessions: Sessions, z: int, lived: Any) -> Any:
    """When a session that was alive at `lived` can have been closed: not by a closing that had returned before."""
    earliest = np.int64(INFINITY)
    for place in range(sessions.closings[z], sessions.closings[z + 1]):
        if sessions.closing_ret[place] >= lived:
            earliest = min(earliest, np.int64(sessions.closing_inv[place]))
    return earliest


@kernel
def settle(grants: Grants, renewals: Renewals, sessions: Sessions, patience: int) -> Settled:
    """The earliest starts of grants in their order, those of one key together: the least fixpoint over all of them.

    A session ends after all that it did in the order of events, not only in time, so moments are pairs (time, rank). A
    rank beyond the number of sessions means a circle, which only a release can break.
    """
    key, start, latest, lasts, fixed = grants.key, grants.start, grants.latest, grants.lasts, grants.fixed
    held, free, over, first, last = grants.held, grants.free, grants.over, grants.first, grants.last
    session, bits, parts = grants.session, grants.bits, grants.parts
    n, count = len(key), len(sessions.alive)
    begun, begun_rank, stuck = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    again = _held_twice(key, session, count)
    lived, lasting, late = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    rank = np.full(count, 1, np.int64)
    for z in range(count):
        lived[z] = sessions.alive[z]
        lasting[z] = sessions.until[z]
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
                    lease = prolonged(a, lease, first[i], last[i], lasts[i], renewals)
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
                    if proof_rank > count + 2:
                        beyond = np.int64(INFINITY)
                        for j in range(n):
                            if session[j] >= 0 and max(free[j], held[j]) > proof:
                                beyond = min(beyond, np.int64(max(free[j], held[j])))
                        lived[z], rank[z] = beyond, np.int64(1)
                if lease > lasting[z]:
                    lasting[z] = lease
                    changed = True
                if again[i] == 0 and bits[i] & CERTAIN == 0:
                    other, other_rank = min(lasting[z], closing(sessions, z, lived[z])), np.int64(1)
                    if lived[z] >= other:
                        other, other_rank = lived[z], rank[z]
                    if other < end or (other == end and other_rank < end_rank):
                        end, end_rank = other, other_rank
            if end > over[i]:
                stuck[i] = 1
                broken = True
    for z in range(count):
        if max(lived[z], min(lasting[z], closing(sessions, z, lived[z]))) > sessions.dead[z]:
            late[z] = 1
    return Settled(begun, begun_rank, stuck, lived, rank, lasting, late, not changed)


@kernel
def _held_twice(key: Ints, session: Ints, sessions: int) -> Ints:
    """Of each grant whether its session is granted the key again, so that only its release lies between the two."""
    again = np.zeros(len(key), np.int64)
    seen = np.full(sessions, -1, np.int64)
    for i in range(len(key) - 1, -1, -1):
        if session[i] >= 0:
            if seen[session[i]] == key[i]:
                again[i] = 1
            seen[session[i]] = key[i]
    return again
