"""The groups of a fenced store: what each holds, whether they can follow one another, and what reads say of that.

Source: checkers/CONDITIONS.md, sections 17 and 18. Where the fence is on writes alone, a read stands in the group of
the write that it returned; where it is on reads too, in that of its own token. All else is the same rules.
"""

from __future__ import annotations

import numpy as np

from checkers.engines.fenced_groups import ACCEPTED, FREE, READ_OK, REFUSED, UNKNOWN
from checkers.engines.fenced_origins import INITIAL, REPEATED, UNSURE, UNWRITTEN, live
from checkers.engines.kernel import kernel
from checkers.engines.sorting import Column

# Kinds of findings, in the order of `fenced.KINDS`.
NEVER_WRITTEN = 0
REFUSED_VALUE = 1
BEFORE_WRITE = 2
BELOW_TOKEN = 3
NOT_LATEST = 4
STALE_WRITE = 5
STALE_READ = 6
SECOND_WRITE = 7
OVERWRITTEN = 8
WITHIN_TOKEN = 9
NEEDLESS = 10

WORDS = 10
"""Of a finding: kind, row that gives its time, up to four rows that prove it, and of each the read that proves it
accepted where it was never answered; -1 for none."""


@kernel
def noted(
    found: Column, used: int, kind: int, at: int, one: int, two: int, three: int, four: int
) -> tuple[Column, int]:
    """The findings with one more; how many words they take."""
    if used + WORDS > len(found):
        longer = np.empty(2 * len(found) + WORDS, np.int64)
        for n in range(used):
            longer[n] = found[n]
        found = longer
    found[used], found[used + 1] = kind, at
    found[used + 2], found[used + 3], found[used + 4], found[used + 5] = one, two, three, four
    for n in range(used + 6, used + WORDS):
        found[n] = -1
    return found, used + WORDS


@kernel
def proven(kind: Column, origin: Column, found: Column, used: int) -> None:
    """Completes findings with the reads that prove unknown writes accepted."""
    for finding in range(0, used, WORDS):
        for n in range(finding + 2, finding + 6):
            row = found[n]
            if row >= 0 and kind[row] == UNKNOWN and live(kind, origin, row):
                found[n + 4] = origin[row]


@kernel
def home(kind: Column, origin: Column, key: Column, group: Column, reads: int, row: int) -> int:
    """The group that a certain access counts in, -1 for others."""
    if READ_OK <= kind[row] <= FREE:
        if reads:
            return int(group[row])
        write = origin[row]
        if write == INITIAL:
            return int(np.int64(key[row]))
        return int(group[write]) if write >= 0 and kind[write] != REFUSED else -1
    return int(group[row]) if live(kind, origin, row) else -1


@kernel
def surveyed(
    kind: Column,
    origin: Column,
    key: Column,
    group: Column,
    tokens: Column,
    value: Column,
    inv: Column,
    ret: Column,
    turn: Column,
    reads: int,
    strict: int,
    groups: int,
) -> tuple[Column, Column, Column, Column, Column, Column, Column, Column, Column, Column, int]:
    """Rows are in order of invocation. turn: keys whose accesses follow one another token by token.

    Of each group the row that returned first, the one invoked last, its first and last write, and the first and last
    of its carried reads (of values from lower tokens). Of each write of the other keys, among itself and the reads of
    its value under its token, the row that returned first and the one invoked last. -1 for none. Then keys that this
    engine cannot judge, since a value that was read is that of several writes, and findings.
    """
    early = np.full(groups, -1, np.int32)
    latest = np.full(groups, -1, np.int32)
    opener = np.full(groups, -1, np.int32)
    writer = np.full(groups, -1, np.int32)
    carried = np.full(groups, -1, np.int32)
    carried_late = np.full(groups, -1, np.int32)
    first_ret = np.full(len(kind), -1, np.int32)
    last_inv = np.full(len(kind), -1, np.int32)
    doubtful = np.full(len(turn), False, np.bool_)
    found = np.empty(WORDS, np.int64)
    used = 0
    for row in range(len(kind)):
        what = kind[row]
        if READ_OK <= what <= FREE:
            k, write = key[row], origin[row]
            if write == UNWRITTEN:
                found, used = noted(found, used, NEVER_WRITTEN, row, row, -1, -1, -1)
            elif write >= 0 and kind[write] == REFUSED:
                found, used = noted(found, used, REFUSED_VALUE, row, write, row, -1, -1)
            elif write == UNSURE or (write == REPEATED and not turn[k]):
                doubtful[k] = True
            here = home(kind, origin, key, group, reads, row)
            if here < 0:
                continue
            latest[here] = row
            if early[here] < 0 or ret[row] < ret[early[here]]:
                early[here] = row
            if write <= UNSURE or (write >= 0 and kind[write] == REFUSED):
                continue
            if turn[k]:
                now = writer[here]
                if now < 0:
                    now = carried[here]
                if now < 0:
                    carried[here] = row
                elif value[row] != value[now]:
                    found, used = noted(found, used, NOT_LATEST, row, now, row, -1, -1)
                continue
            if write == REPEATED:
                continue
            if write >= 0 and ret[row] < inv[write]:
                found, used = noted(found, used, BEFORE_WRITE, row, row, write, -1, -1)
            if write >= 0 and group[write] == here:
                last_inv[write] = row
                if first_ret[write] < 0 or ret[row] < ret[first_ret[write]]:
                    first_ret[write] = row
            elif write >= 0 and tokens[group[write]] > tokens[here]:
                found, used = noted(found, used, BELOW_TOKEN, row, write, row, -1, -1)
            else:
                carried_late[here] = row
                if carried[here] < 0:
                    carried[here] = row
                elif origin[carried[here]] != write:
                    found, used = noted(found, used, NOT_LATEST, row, carried[here], row, -1, -1)
        elif what == ACCEPTED or (what == UNKNOWN and live(kind, origin, row)):
            here = group[row]
            latest[here] = row
            if opener[here] < 0:
                opener[here] = row
            elif strict:
                found, used = noted(found, used, SECOND_WRITE, row, writer[here], row, -1, -1)
            writer[here] = row
            if what == ACCEPTED and (early[here] < 0 or ret[row] < ret[early[here]]):
                early[here] = row
            if not turn[key[row]]:
                last_inv[row] = row
                if what == ACCEPTED and (first_ret[row] < 0 or ret[row] < ret[first_ret[row]]):
                    first_ret[row] = row
    if strict:
        for here in range(groups):
            read = carried[here]
            if opener[here] >= 0 and read >= 0 and kind[read] == READ_OK:
                found, used = noted(found, used, SECOND_WRITE, opener[here], read, opener[here], -1, -1)
    return early, latest, opener, writer, carried, carried_late, first_ret, last_inv, doubtful, found, used


@kernel
def overtaken(
    kind: Column,
    origin: Column,
    key: Column,
    group: Column,
    order: Column,
    begin: Column,
    inv: Column,
    ret: Column,
    early: Column,
    latest: Column,
    reads: int,
    found: Column,
    used: int,
) -> tuple[Column, Column, Column, Column, int]:
    """Groups against the order of tokens: none may have returned before one of a lower token was invoked.

    (of each group the row invoked last below it, of each key the row invoked last, keys whose groups are out of order,
    findings). A finding for each access that was overtaken, with the access of a higher token that returned first.
    """
    keys = len(begin) - 1
    before = np.full(len(order), -1, np.int32)
    last = np.full(keys, -1, np.int32)
    disordered = np.full(keys, False, np.bool_)
    some = False
    for k in range(keys):
        worst = -1
        for place in range(begin[k], begin[k + 1]):
            here = order[place]
            before[here] = worst
            if worst >= 0 and early[here] >= 0 and ret[early[here]] < inv[worst]:
                disordered[k] = some = True
            worst = max(worst, latest[here])
        last[k] = worst
    if some:
        sooner = np.full(len(order), -1, np.int32)
        for k in range(keys):
            first = -1
            for place in range(begin[k + 1] - 1, begin[k] - 1, -1):
                here = order[place]
                sooner[here] = first
                if early[here] >= 0 and (first < 0 or ret[early[here]] < ret[first]):
                    first = early[here]
        for row in range(len(kind)):
            if disordered[key[row]]:
                here = home(kind, origin, key, group, reads, row)
                if here >= 0 and sooner[here] >= 0 and inv[row] > ret[sooner[here]]:
                    broken = STALE_READ if READ_OK <= kind[row] <= FREE else STALE_WRITE
                    found, used = noted(found, used, broken, row, sooner[here], row, -1, -1)
    return before, last, disordered, found, used


@kernel
def bequeathed(
    origin: Column,
    group: Column,
    order: Column,
    begin: Column,
    value: Column,
    initial: int,
    turn: Column,
    disordered: Column,
    writer: Column,
    carried: Column,
    found: Column,
    used: int,
) -> tuple[Column, Column, Column, int]:
    """Carried reads against the group that wrote last before theirs; a finding for each group that read another value.

    (of each group the write that later ones read, so that it must be its last, and the read that says so, findings)
    """
    keys = len(begin) - 1
    heir = np.full(len(order), -1, np.int32)
    reader = np.full(len(order), -1, np.int32)
    for k in range(keys):
        if disordered[k]:
            continue
        source = -1
        for place in range(begin[k], begin[k + 1]):
            here = order[place]
            read = carried[here]
            if read >= 0:
                write = origin[read]
                if source < 0:
                    if value[read] != initial:
                        found, used = noted(found, used, NOT_LATEST, read, read, -1, -1, -1)
                elif turn[k]:
                    if value[read] != value[writer[source]]:
                        found, used = noted(found, used, NOT_LATEST, read, writer[source], read, -1, -1)
                elif write < 0 or group[write] != source:
                    found, used = noted(found, used, NOT_LATEST, read, writer[source], read, -1, -1)
                elif heir[source] < 0:
                    heir[source], reader[source] = write, read
                elif heir[source] != write:
                    found, used = noted(found, used, NOT_LATEST, read, reader[source], read, -1, -1)
            if writer[here] >= 0:
                source = here
    return heir, reader, found, used
