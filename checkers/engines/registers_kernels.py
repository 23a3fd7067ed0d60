"""What decides a register with unique values, as loops over its operations: `checkers.engines.registers` says how.

A cluster is the write of a value and the reads of it, known by a number. A cluster whose value was set by comparing it
with that of another stands right behind that one: such a chain has one place in any order.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from checkers.engines.kernel import kernel
from checkers.wire import INFINITY, F, Outcome

Array = npt.NDArray[Any]

READ: Final = 1
WRITE: Final = 2
SWAP: Final = 3
MAYBE_WRITE: Final = 4
MAYBE_SWAP: Final = 5
"""Unknown whether it happened; so is the one before."""
REFUSED: Final = 6
"""A compare-and-set that failed: the value was another."""
FREE: Final = 7
"""A read that says nothing, but was answered: it stands somewhere."""

NEVER_WRITTEN: Final = 1
BEFORE_WRITE: Final = 2
SWAPPED_TWICE: Final = 3
CIRCLE: Final = 4
STALE: Final = 5
CROSSING: Final = 6
WITHOUT_REASON: Final = 7

_F_READ: Final = int(F.READ)
_F_WRITE: Final = int(F.WRITE)
_F_CAS: Final = int(F.CAS)
_OK: Final = int(Outcome.OK)
_FAIL: Final = int(Outcome.FAIL)
_FOREVER: Final = int(INFINITY)


@kernel
def roles(
    f: Array,
    outcome: Array,
    key: Array,
    value: Array,
    base: Array,
    keys: int,
    low: int,
    width: int,
    apart: int,
    swaps: int,
    observes: int,
    initial: int,
    nothing: int,
    absent: int,
) -> tuple[Array, Array, Array, bool]:
    """What each row is, the cluster it belongs to and the one that it expected (-1: none), and whether that is right.

    Values are numbers from `low`, `width` of them. apart: the same value under two keys is two values; where that was
    not said and it happens, the last answer is False. swaps, observes: whether to see compare-and-sets, and failed
    ones. initial, nothing, absent: the numbers of the value before everything, and of those that say nothing if read.
    """
    n = len(f)
    role = np.zeros(n, np.int8)
    own = np.full(n, -1, np.int32)
    expected = np.full(n, -1, np.int32)
    owner = np.full(1 if apart else width, -1, np.int32)
    for row in range(n):
        kind = f[row]
        if kind != _F_READ and kind != _F_WRITE and (kind != _F_CAS or not swaps):
            continue
        end = outcome[row]
        if end == _FAIL:
            if kind != _F_CAS or not observes:
                continue
            role[row] = REFUSED
        elif kind == _F_READ:
            if end != _OK:
                continue
            role[row] = FREE if value[row] == nothing or value[row] == absent else READ
        elif kind == _F_WRITE:
            role[row] = WRITE if end == _OK else MAYBE_WRITE
        elif base[row] == value[row]:
            if end != _OK:
                continue
            role[row] = READ
        else:
            role[row] = SWAP if end == _OK else MAYBE_SWAP
        here = np.int64(key[row])
        part = role[row]
        for side in range(2):
            if side == 0 and part >= REFUSED:
                continue
            if side == 1 and part != SWAP and part != MAYBE_SWAP and part != REFUSED:
                continue
            what = value[row] if side == 0 else base[row]
            if what == initial:
                label = -2 - here
            elif apart:
                label = here * width + (what - low)
            else:
                label = what - low
                if owner[label] < 0:
                    owner[label] = here
                elif owner[label] != here:
                    return role, own, expected, False
            if side == 0:
                own[row] = label
            else:
                expected[row] = label
    first = keys * width if apart else width
    for row in range(n):
        if own[row] < -1:
            own[row] = first - 2 - own[row]
        if expected[row] < -1:
            expected[row] = first - 2 - expected[row]
    return role, own, expected, True


@kernel
def observed(role: Array, own: Array, expected: Array, first: int, keys: int) -> tuple[Array, Array, Array, Array]:
    """Of each cluster: how often its value was written (2: more than once; the initial one was, by nobody), its first
    write, whether it was certainly there, and whether a failed compare-and-set asks for it.

    first: the number of the initial value's cluster under key 0; those of the other keys follow.
    """
    room = first + keys
    writers = np.zeros(room, np.int8)
    write = np.full(room, -1, np.int32)
    seen = np.zeros(room, np.bool_)
    asked = np.zeros(room, np.bool_)
    for cluster in range(first, room):
        writers[cluster] = 1
    for row in range(len(role)):
        part = role[row]
        if part == READ:
            seen[own[row]] = True
        elif part == REFUSED:
            asked[expected[row]] = True
        elif part != 0 and part != FREE:
            cluster = own[row]
            if writers[cluster] < 2:
                writers[cluster] += 1
            if write[cluster] < 0:
                write[cluster] = row
            if part == SWAP:
                seen[expected[row]] = True
    # An unknown compare-and-set whose value was there happened, so what it expected had been there too.
    for begin in range(room):
        cluster = begin
        while seen[cluster] and writers[cluster] == 1 and write[cluster] >= 0 and role[write[cluster]] == MAYBE_SWAP:
            cluster = expected[write[cluster]]
            if seen[cluster]:
                break
            seen[cluster] = True
    return writers, write, seen, asked


@kernel
def gather(
    role: Array,
    own: Array,
    expected: Array,
    key: Array,
    inv: Array,
    ret: Array,
    writers: Array,
    write: Array,
    seen: Array,
    asked: Array,
    first: int,
    keys: int,
    kind: Array,
    rows: Array,
) -> tuple[Array, Array, Array, Array, Array, Array, Array]:
    """The clusters of what certainly happened.

    Of each row its cluster (-1: none); of each cluster its writer, the compare-and-set that ended it, its read that
    returned first and the one invoked last; of each key whether it has values that do not say who wrote them, and
    whether a failed compare-and-set needs a place.

    kind, rows: of each key the first contradiction and its four rows, filled in here. A value written more than once
    that nobody saw is several values; one that was seen says nothing, except that somebody had begun to write it.
    """
    n = len(role)
    solos = 0
    for row in range(n):
        if (role[row] == WRITE or role[row] == SWAP) and writers[own[row]] > 1:
            solos += 1
    room = first + keys + solos
    mine = np.full(n, -1, np.int32)
    writer = np.full(room, -1, np.int32)
    swap = np.full(room, -1, np.int32)
    early = np.full(room, -1, np.int32)
    late = np.full(room, -1, np.int32)
    repeated = np.zeros(keys, np.bool_)
    contested = np.zeros(keys, np.bool_)
    solo = first + keys
    for row in range(n):
        part = role[row]
        if part == 0 or part == FREE:
            continue
        here = key[row]
        if part == REFUSED:
            cluster = expected[row]
            if writers[cluster] > 1:
                repeated[here] = True
            continue
        cluster = own[row]
        if part == READ:
            if writers[cluster] == 1:
                mine[row] = cluster
                late[cluster] = row
                if early[cluster] < 0 or ret[row] < ret[early[cluster]]:
                    early[cluster] = row
            elif writers[cluster] == 0:
                if kind[here] == 0:
                    kind[here] = NEVER_WRITTEN
                    rows[4 * here] = row
            else:
                repeated[here] = True
                if cluster < first and ret[row] < inv[write[cluster]] and kind[here] == 0:
                    kind[here] = BEFORE_WRITE
                    rows[4 * here] = row
                    rows[4 * here + 1] = write[cluster]
            continue
        certain = part <= SWAP
        if writers[cluster] > 1 and (seen[cluster] or asked[cluster]):
            repeated[here] = True
        if not certain and (writers[cluster] > 1 or not seen[cluster]):
            continue
        source = expected[row]
        alone = source >= 0 and writers[source] == 1
        if source >= 0 and not alone:
            if writers[source] > 1:
                repeated[here] = True
            if kind[here] == 0 and writers[source] == 0:
                kind[here] = NEVER_WRITTEN
                rows[4 * here] = row
            elif kind[here] == 0 and certain and source < first and ret[row] < inv[write[source]]:
                kind[here] = BEFORE_WRITE
                rows[4 * here] = row
                rows[4 * here + 1] = write[source]
        if writers[cluster] > 1:
            if seen[cluster] and not alone:
                continue
            cluster = solo
            solo += 1
        mine[row] = cluster
        writer[cluster] = row
        if alone:
            if swap[source] < 0:
                swap[source] = row
            elif kind[here] == 0:
                kind[here] = SWAPPED_TWICE
                rows[4 * here] = swap[source]
                rows[4 * here + 1] = row
    for row in range(n):
        if role[row] == REFUSED:
            cluster = expected[row]
            if writers[cluster] != 1 or (cluster < first and writer[cluster] < 0):
                continue
            here = key[row]
            contested[here] = True
            begun = -1
            soonest = np.int64(-1 if cluster >= first else _FOREVER)
            latest = np.int64(-1)
            ended = -1
            for other in (writer[cluster], early[cluster]):
                if other >= 0 and role[other] != MAYBE_WRITE and role[other] != MAYBE_SWAP and ret[other] < soonest:
                    begun = other
                    soonest = ret[other]
            for other in (writer[cluster], late[cluster], swap[cluster]):
                if other >= 0 and inv[other] > latest:
                    ended = other
                    latest = inv[other]
            if soonest < inv[row] and ret[row] < latest and kind[here] == 0:
                kind[here] = WITHOUT_REASON
                rows[4 * here] = begun
                rows[4 * here + 1] = ended
                rows[4 * here + 2] = row
    return mine, writer, swap, early, late, repeated, contested
