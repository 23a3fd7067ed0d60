"""What each attempt to hold a lease consists of, gathered from the operations of a history in one pass."""

from __future__ import annotations

from typing import Final

import numpy as np

from checkers.engines.kernel import kernel
from checkers.engines.lease_kernels import Ints
from checkers.engines.sorting import Column
from checkers.wire import INFINITY, F, Outcome, Reason

ACQUIRE: Final = int(F.ACQUIRE)
TRY_ACQUIRE: Final = int(F.TRY_ACQUIRE)
RENEW: Final = int(F.RENEW)
RELEASE: Final = int(F.RELEASE)
BELIEF: Final = int(F.BELIEF)
OK: Final = int(Outcome.OK)
FAIL: Final = int(Outcome.FAIL)
INFO: Final = int(Outcome.INFO)
UNAVAILABLE: Final = int(Reason.UNAVAILABLE)

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
    return current < 0 and fate == OK and kind != BELIEF


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


@kernel
def fold(
    order: Column, group: Column, f: Ints, outcome: Ints, reason: Ints, inv: Ints, ret: Ints
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, int, int]:
    """Gathers the operations of each attempt to hold.

    Given columns, and the order of acquires, renewals, releases and beliefs in which those of one owner and key stand
    together, in order of invocation; group is a number that owner and key have in common.

    Returns per attempt: the place of its acquire (of its first operation where there was none), whether that was
    answered (-1 where there was none), the last invocation and the first return of its acknowledged renewals, the first
    invocation of a release that may have happened, the last invocation and the first return of acknowledged ones and
    how many there were, the first return of a refusal, the last moment of belief, and from where to where its renewals
    are in the next two; then invocations and returns of acknowledged renewals; then what is wrong, and the place where.
    """
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
    believed = np.full(n, -1, np.int64)
    first = np.zeros(n, np.int64)
    last = np.zeros(n, np.int64)
    renewal_inv = np.zeros(room, np.int64)
    renewal_ret = np.zeros(room, np.int64)
    renewals = 0
    one = -1
    current = -1
    busy = np.int64(0)
    loose = False
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
                elif loose:
                    wrong, where = AMBIGUOUS, place
            one += 1
            current = one
            acquire[one] = place
            answered[one] = (1 if fate == OK else 0) if acquires else -1
            first[one] = renewals
            last[one] = renewals
            busy = np.int64(ret[row]) if fate == OK else np.int64(0)
            loose = fate == INFO
        if current < 0 or kind in (ACQUIRE, TRY_ACQUIRE):
            continue
        if kind == BELIEF:
            if fate == OK:
                believed[one] = max(believed[one], inv[row])
            continue
        if wrong == 0 and answered[one] == 1 and inv[row] < ret[order[acquire[one]]]:
            wrong, where = EARLY, place
        if wrong == 0 and answered[one] == 0 and kind == RENEW:
            wrong, where = UNANSWERED, place
        if fate != INFO:
            busy = max(busy, np.int64(ret[row]))
        if fate == FAIL:
            if is_refusal(reason[row]) and answered[one] == 1:
                refused[one] = min(refused[one], ret[row])
        elif kind == RENEW:
            if fate == OK:
                renewed[one] = max(renewed[one], inv[row])
                proven[one] = min(proven[one], ret[row])
                renewal_inv[renewals] = inv[row]
                renewal_ret[renewals] = ret[row]
                renewals += 1
                last[one] = renewals
        else:
            released[one] = min(released[one], inv[row])
            if fate == OK:
                frees[one] += 1
                freeing[one] = max(freeing[one], inv[row])
                freed[one] = min(freed[one], ret[row])
            else:
                loose = True
    return (
        acquire,
        answered,
        renewed,
        proven,
        released,
        freeing,
        freed,
        frees,
        refused,
        believed,
        first,
        last,
        renewal_inv,
        renewal_ret,
        wrong,
        where,
    )
