"""The loops over operations that decide a register with unique values: `checkers.engines.registers` says how.

Source: checkers/CONDITIONS.md, section 19. A cluster is known by a number. O(n).
"""

from typing import Final, NamedTuple

import numpy as np

from checkers.engines.codes import F_CAS, F_READ, F_WRITE, FAIL, OK
from checkers.engines.kernel import Column, kernel, no_rows
from checkers.row_format import INFINITY

READ, WRITE, SWAP, MAYBE_WRITE, MAYBE_SWAP, REFUSED, FREE = range(1, 8)
"""What a row is. MAYBE: it is unknown whether the operation happened. REFUSED: a compare-and-set that failed because
the value was another. FREE: a read that says nothing, but was answered: it has a place somewhere."""

NEVER_WRITTEN, BEFORE_WRITE, SWAPPED_TWICE, CIRCLE, STALE, CROSSING, WITHOUT_REASON = range(1, 8)
KINDS: Final = {
    NEVER_WRITTEN: "value-never-written",
    BEFORE_WRITE: "value-read-before-write",
    SWAPPED_TWICE: "value-replaced-twice",
    CIRCLE: "values-in-a-circle",
    STALE: "not-the-latest-value",
    CROSSING: "no-order-of-values",
    WITHOUT_REASON: "failed-without-reason",
}
"""Kinds of conflicts. The first becomes ``refused-value-read`` where a write that failed is to blame."""


class Numbering(NamedTuple):
    """How values become numbers of clusters, and which operations count."""

    keys: int
    low: int  # the lowest number of a value
    width: int  # how many numbers there are from there on
    apart: int  # 1: the same value under two keys is two values
    swaps: int  # 1: compare-and-sets count
    observes: int  # 1: failed compare-and-sets count too
    initial: int  # the value before everything
    nothing: int  # the value of a read that says nothing


class Roles(NamedTuple):
    """What each row is. A cluster is known by a number; -1 stands for none."""

    role: Column  # of each row, 0 for nothing
    own: Column  # of each row the cluster that it belongs to
    expected: Column  # of each row the cluster that it expected
    key: Column  # of each row
    inv: Column  # ns
    ret: Column  # ns
    first: int  # the cluster of the initial value under key 0; those of the other keys follow, and are the last ones
    keys: int  # how many


@kernel
def roles(
    f: Column, outcome: Column, key: Column, value: Column, base: Column, numbering: Numbering
) -> tuple[Column, Column, Column, bool]:
    """Of each row its role, the cluster that it belongs to, and the cluster that it expected: see `Roles`.

    The last result is False, and the others mean nothing, if `apart` is 0 and two keys have a value in common.
    """
    keys, low, width, apart, swaps, observes, initial, nothing = numbering
    n, first = len(f), np.int64(keys * width if apart else width)
    role = np.zeros(n, np.int8)
    own, expected = no_rows(n), no_rows(n)
    owner = no_rows(1 if apart else width)
    for row in range(n):
        kind = f[row]
        if kind != F_READ and kind != F_WRITE and (kind != F_CAS or not swaps):
            continue
        end = outcome[row]
        if end == FAIL:
            if kind != F_CAS or not observes:
                continue
            role[row] = REFUSED
        elif kind == F_READ:
            if end != OK:
                continue
            role[row] = FREE if value[row] == nothing else READ
        elif kind == F_WRITE:
            role[row] = WRITE if end == OK else MAYBE_WRITE
        elif base[row] == value[row]:
            if end != OK:
                continue
            role[row] = READ
        else:
            role[row] = SWAP if end == OK else MAYBE_SWAP
        here = np.int64(key[row])
        part = role[row]
        for side in range(2):
            if side == 0 and part >= REFUSED:
                continue
            if side == 1 and part != SWAP and part != MAYBE_SWAP and part != REFUSED:
                continue
            what = value[row] if side == 0 else base[row]
            if what == initial:
                label = first + here
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
    return role, own, expected, True


class Observed(NamedTuple):
    """Of each cluster."""

    writers: Column  # how often its value was written (2: more than once; an initial value once, by nobody)
    write: Column  # its first write, -1 for none
    seen: Column  # whether it was certainly there
    compared: Column  # whether a failed compare-and-set expected it


@kernel
def observed(roles: Roles) -> Observed:
    """What is known of clusters before they are put together."""
    role, own, expected, _, _, _, first, keys = roles
    room = first + keys
    writers, write = np.zeros(room, np.int8), no_rows(room)
    seen, compared = np.zeros(room, np.bool_), np.zeros(room, np.bool_)
    for cluster in range(first, room):
        writers[cluster] = 1
    for row in range(len(role)):
        part = role[row]
        if part == READ:
            seen[own[row]] = True
        elif part == REFUSED:
            compared[expected[row]] = True
        elif part != 0 and part != FREE:
            cluster = own[row]
            if writers[cluster] < 2:
                writers[cluster] += 1
            if write[cluster] < 0:
                write[cluster] = row
            if part == SWAP:
                seen[expected[row]] = True
    # If the value of an unknown compare-and-set was there, it happened, so the value that it expected was there too.
    for begin in range(room):
        cluster = begin
        while seen[cluster] and writers[cluster] == 1 and write[cluster] >= 0 and role[write[cluster]] == MAYBE_SWAP:
            cluster = expected[write[cluster]]
            if seen[cluster]:
                break
            seen[cluster] = True
    return Observed(writers, write, seen, compared)


class Contradictions(NamedTuple):
    """Of each key the first one that was found."""

    kind: Column  # 0 for none
    rows: Column  # four of each key, -1 for none


@kernel
def contradicted(wrong: Contradictions, key: int, kind: int, rows: tuple[int, int, int, int]) -> None:
    """Notes what is wrong with a key, unless something was noted before."""
    if wrong.kind[key] == 0:
        wrong.kind[key] = kind
        place = 4 * key
        wrong.rows[place], wrong.rows[place + 1] = rows[0], rows[1]
        wrong.rows[place + 2], wrong.rows[place + 3] = rows[2], rows[3]


class Clusters(NamedTuple):
    """What certainly happened; -1 for none."""

    mine: Column  # of each row its cluster
    writer: Column  # of each cluster the row that wrote its value
    swap: Column  # of each cluster the compare-and-set that ended it
    early: Column  # of each cluster its read that returned first
    late: Column  # of each cluster its read that was invoked last
    repeated: Column  # of each key whether it has values that several writes may have written
    contested: Column  # of each key whether a failed compare-and-set needs a place


@kernel
def gather(roles: Roles, about: Observed, wrong: Contradictions) -> Clusters:
    """Puts clusters together, and notes contradictions.

    A value that was written more than once counts as several values if nobody saw it. If it was seen, it proves only
    that somebody had begun to write it.
    """
    role, own, expected, key, inv, ret, first, keys = roles
    writers, write, seen, compared = about
    n = len(role)
    solos = 0
    for row in range(n):
        if (role[row] == WRITE or role[row] == SWAP) and writers[own[row]] > 1:
            solos += 1
    room = first + keys + solos
    mine = no_rows(n)
    writer, swap = no_rows(room), no_rows(room)
    early, late = no_rows(room), no_rows(room)
    repeated, contested = np.zeros(keys, np.bool_), np.zeros(keys, np.bool_)
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
                contradicted(wrong, int(here), NEVER_WRITTEN, (row, -1, -1, -1))
            else:
                repeated[here] = True
                if cluster < first and ret[row] < inv[write[cluster]]:
                    contradicted(wrong, int(here), BEFORE_WRITE, (row, int(write[cluster]), -1, -1))
            continue
        certain = part <= SWAP
        if writers[cluster] > 1 and (seen[cluster] or compared[cluster]):
            repeated[here] = True
        if not certain and (writers[cluster] > 1 or not seen[cluster]):
            continue
        source = expected[row]
        alone = source >= 0 and writers[source] == 1
        if source >= 0 and not alone:
            if writers[source] > 1:
                repeated[here] = True
            if writers[source] == 0:
                contradicted(wrong, int(here), NEVER_WRITTEN, (row, -1, -1, -1))
            elif certain and source < first and ret[row] < inv[write[source]]:
                contradicted(wrong, int(here), BEFORE_WRITE, (row, int(write[source]), -1, -1))
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
            else:
                contradicted(wrong, int(here), SWAPPED_TWICE, (int(swap[source]), row, -1, -1))
    clusters = Clusters(mine, writer, swap, early, late, repeated, contested)
    for row in range(n):
        if role[row] == REFUSED:
            cluster = expected[row]
            if writers[cluster] == 1 and (cluster >= first or writer[cluster] >= 0):
                contested[key[row]] = True
                _without_reason(roles, clusters, cluster, row, wrong)
    return clusters


@kernel
def _without_reason(roles: Roles, clusters: Clusters, cluster: int, row: int, wrong: Contradictions) -> None:
    """Notes a failed compare-and-set that can have met no value but the one that it expected."""
    role, inv, ret = roles.role, roles.inv, roles.ret
    writer, swap, early, late = clusters.writer, clusters.swap, clusters.early, clusters.late
    begun, ended = -1, -1
    soonest, latest = np.int64(-1 if cluster >= roles.first else INFINITY), np.int64(-1)
    for other in (writer[cluster], early[cluster]):
        if other >= 0 and role[other] != MAYBE_WRITE and role[other] != MAYBE_SWAP and ret[other] < soonest:
            begun, soonest = other, ret[other]
    for other in (writer[cluster], late[cluster], swap[cluster]):
        if other >= 0 and inv[other] > latest:
            ended, latest = other, inv[other]
    if soonest < inv[row] and ret[row] < latest:
        contradicted(wrong, int(roles.key[row]), WITHOUT_REASON, (int(begun), int(ended), row, -1))
