"""What each attempt to hold a lease consists of, gathered from the operations of a history in one pass: O(n).

An attempt is an acquire and all that its owner did to the key until its next acquire (checkers/CONDITIONS.md, section
16). Which attempt an operation belongs to follows from its owner's own order alone; where it does not, that is said.
"""

from typing import NamedTuple

import numpy as np

from checkers.engines.codes import ACQUIRE, FAIL, INFO, OK, RELEASE, RENEW, TRY_ACQUIRE, UNAVAILABLE
from checkers.engines.kernel import Column, kernel
from checkers.engines.lease_kernels import Ints, Renewals
from checkers.row_format import INFINITY

EARLY, OVERLAPPING, AMBIGUOUS, UNANSWERED = 1, 2, 3, 4
"""Why operations of one owner cannot be told apart, or are none that a client can have asked for."""


@kernel
def is_refusal(reason: int) -> bool:
    """Whether a failed renewal or release was told that the lock is not its owner's; others never got so far."""
    return reason < UNAVAILABLE


@kernel
def begins(kind: int, fate: int, current: int) -> bool:
    """Whether an operation begins an attempt. current: that of the operation before it, -1 for none."""
    if kind in (ACQUIRE, TRY_ACQUIRE):
        return fate != FAIL
    # Who renews or releases without an acquire has an attempt of its own, which nothing can explain.
    return current < 0 and fate == OK


@kernel
def counts(order: Column, group: Column, f: Ints, outcome: Ints) -> tuple[int, int]:
    """How many attempts there are, and acknowledged renewals: what there is room for need not be paid for twice."""
    attempts, renewals, current = 0, 0, -1
    for place in range(len(order)):
        row = order[place]
        if place == 0 or group[place] != group[place - 1]:
            current = -1
        if begins(f[row], outcome[row], current):
            current = attempts
            attempts += 1
        if f[row] == RENEW and outcome[row] == OK:
            renewals += 1
    return attempts, renewals


class LeaseCalls(NamedTuple):
    """Columns of a history."""

    f: Ints
    outcome: Ints
    reason: Ints
    inv: Ints  # ns
    ret: Ints  # ns


class Answers(NamedTuple):
    """What the client of each attempt was told; ns. Where it never was: `INFINITY` for what is first, -1 for last."""

    acquire: Ints  # the place of its acquire in the order; of its first operation where it has none
    answered: Ints  # 1 if that was acknowledged, 0 if it was not answered, -1 if there is none
    renewed: Ints  # the last invocation of an acknowledged renewal
    proven: Ints  # the first return of one
    released: Ints  # the first invocation of a release that may have happened
    freeing: Ints  # the last invocation of an acknowledged one
    freed: Ints  # the first return of one
    frees: Ints  # how many there are
    refused: Ints  # the first return of a renewal or release that was told that the lock is not its owner's
    first: Ints  # where its acknowledged renewals begin in `Folded.renewals`
    last: Ints  # and where they end


class Folded(NamedTuple):
    """answers: of each attempt, in the order of the operations. renewals: of all attempts."""

    answers: Answers
    renewals: Renewals
    wrong: int  # EARLY, OVERLAPPING, AMBIGUOUS or UNANSWERED, 0 for none
    where: int  # the place of that in the order


@kernel
def fold(order: Column, group: Column, calls: LeaseCalls) -> Folded:
    """order: rows of acquires, renewals and releases; those of one owner and key together, as invoked.

    group: of each of these a number that owner and key have in common.
    """
    f, outcome, reason, inv, ret = calls
    n, room = counts(order, group, f, outcome)
    acquire = np.full(n, -1, np.int64)
    answered = np.full(n, 1, np.int64)
    renewed = np.full(n, -1, np.int64)
    proven = np.full(n, INFINITY, np.int64)
    released = np.full(n, INFINITY, np.int64)
    freeing = np.full(n, -1, np.int64)
    freed = np.full(n, INFINITY, np.int64)
    frees = np.zeros(n, np.int64)
    refused = np.full(n, INFINITY, np.int64)
    first = np.zeros(n, np.int64)
    last = np.zeros(n, np.int64)
    renewal_inv = np.zeros(room, np.int64)
    renewal_ret = np.zeros(room, np.int64)
    renewals = 0
    here = -1
    current = -1
    busy = np.int64(0)
    unanswered = False
    wrong = 0
    where = -1
    for place in range(len(order)):
        row = order[place]
        kind = f[row]
        fate = outcome[row]
        if place == 0 or group[place] != group[place - 1]:
            current = -1
        if begins(kind, fate, current):
            acquires = kind != RENEW and kind != RELEASE
            if acquires and current >= 0 and wrong == 0:
                if busy > inv[row]:
                    wrong, where = OVERLAPPING, place
                elif unanswered:
                    wrong, where = AMBIGUOUS, place
            here += 1
            current = here
            acquire[here] = place
            answered[here] = (1 if fate == OK else 0) if acquires else -1
            first[here] = renewals
            last[here] = renewals
            busy = np.int64(ret[row]) if fate == OK else np.int64(0)
            unanswered = fate == INFO
        if current < 0 or kind in (ACQUIRE, TRY_ACQUIRE):
            continue
        if wrong == 0 and answered[here] == 1 and inv[row] < ret[order[acquire[here]]]:
            wrong, where = EARLY, place
        if wrong == 0 and answered[here] == 0 and kind == RENEW:
            wrong, where = UNANSWERED, place
        if fate != INFO:
            busy = max(busy, np.int64(ret[row]))
        if fate == FAIL:
            if is_refusal(reason[row]) and answered[here] == 1:
                refused[here] = min(refused[here], ret[row])
        elif kind == RENEW:
            if fate == OK:
                renewed[here] = max(renewed[here], inv[row])
                proven[here] = min(proven[here], ret[row])
                renewal_inv[renewals] = inv[row]
                renewal_ret[renewals] = ret[row]
                renewals += 1
                last[here] = renewals
        else:
            released[here] = min(released[here], inv[row])
            if fate == OK:
                frees[here] += 1
                freeing[here] = max(freeing[here], inv[row])
                freed[here] = min(freed[here], ret[row])
            else:
                unanswered = True
    answers = Answers(acquire, answered, renewed, proven, released, freeing, freed, frees, refused, first, last)
    return Folded(answers, Renewals(renewal_inv, renewal_ret), wrong, where)
