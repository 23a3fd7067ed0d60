"""What each attempt to hold a lease consists of, gathered from the operations of a history in one pass."""

from __future__ import annotations

from typing import Final

import numpy as np

from checkers.engines.kernel import kernel
from checkers.engines.lease_kernels import INFINITY, Ints
from checkers.wire import F, Outcome, Reason

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
def fold(
    group: Ints, f: Ints, outcome: Ints, reason: Ints, inv: Ints, ret: Ints
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, int, int]:
    """Gathers the operations of each attempt to hold.

    Given acquires, renewals, releases and beliefs, those of one owner and key together and in order of invocation;
    group is a number that owner and key have in common.

    Returns per attempt: the place of its acquire (of its first operation where there was none), whether that was
    answered (-1 where there was none), the last invocation and the first return of its acknowledged renewals, the first
    invocation of a release that may have happened, the last invocation and the first return of acknowledged ones and
    how many there were, the first return of a refusal, the last moment of belief, and from where to where its renewals
    are in the next two; then invocations and returns of acknowledged renewals; then what is wrong, and the place where.
    """
    n = len(f)
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
    renewal_inv = np.zeros(n, np.int64)
    renewal_ret = np.zeros(n, np.int64)
    renewals = 0
    one = -1
    current = -1
    busy = np.int64(0)
    loose = False
    wrong = 0
    where = -1
    for place in range(n):
        kind = f[place]
        fate = outcome[place]
        fresh = place == 0 or group[place] != group[place - 1]
        begins = kind in (ACQUIRE, TRY_ACQUIRE)
        if (begins and fate == FAIL) or (kind == BELIEF and fate != OK):
            fate = 0
        if fresh:
            current = -1
        if begins and fate != 0:
            if current >= 0 and wrong == 0:
                if busy > inv[place]:
                    wrong, where = OVERLAPPING, place
                elif loose:
                    wrong, where = AMBIGUOUS, place
            current = -1
        # Who renews or releases without an acquire has an attempt of its own, which nothing can explain.
        if fate != 0 and current < 0 and (begins or (fate == OK and kind != BELIEF)):
            one += 1
            current = one
            acquire[one] = place
            answered[one] = (1 if fate == OK else 0) if begins else -1
            first[one] = renewals
            last[one] = renewals
            busy = np.int64(ret[place]) if fate == OK else np.int64(0)
            loose = fate == INFO
        if fate != 0 and current >= 0 and not begins:
            if kind == BELIEF:
                believed[one] = max(believed[one], inv[place])
            else:
                if wrong == 0 and answered[one] == 1 and inv[place] < ret[acquire[one]]:
                    wrong, where = EARLY, place
                if wrong == 0 and answered[one] == 0 and kind == RENEW:
                    wrong, where = UNANSWERED, place
                if fate != INFO:
                    busy = max(busy, np.int64(ret[place]))
                if fate == FAIL:
                    if is_refusal(reason[place]) and answered[one] == 1:
                        refused[one] = min(refused[one], ret[place])
                elif kind == RENEW:
                    if fate == OK:
                        renewed[one] = max(renewed[one], inv[place])
                        proven[one] = min(proven[one], ret[place])
                        renewal_inv[renewals] = inv[place]
                        renewal_ret[renewals] = ret[place]
                        renewals += 1
                        last[one] = renewals
                else:
                    released[one] = min(released[one], inv[place])
                    if fate == OK:
                        frees[one] += 1
                        freeing[one] = max(freeing[one], inv[place])
                        freed[one] = min(freed[one], ret[place])
                    else:
                        loose = True
    count = one + 1
    return (
        acquire[:count],
        answered[:count],
        renewed[:count],
        proven[:count],
        released[:count],
        freeing[:count],
        freed[:count],
        frees[:count],
        refused[:count],
        believed[:count],
        first[:count],
        last[:count],
        renewal_inv[:renewals],
        renewal_ret[:renewals],
        wrong,
        where,
    )
