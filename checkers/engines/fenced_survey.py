"""The groups of a fenced store: what each holds, whether they can follow one another, and what reads prove about that.

Source: checkers/CONDITIONS.md, sections 17 and 18, rules 1 to 3. O(n).
"""

from typing import Final, NamedTuple

import numpy as np

from checkers.engines.fenced_accesses import (
    ACCEPTED,
    FREE,
    READ_OK,
    REFUSED,
    REPEATED,
    UNKNOWN,
    UNSURE,
    UNWRITTEN,
    Accesses,
    Terms,
)
from checkers.engines.kernel import Column, kernel, no_rows

# Kinds of findings.
NEVER_WRITTEN, REFUSED_VALUE, BEFORE_WRITE, BELOW_TOKEN, NOT_LATEST, STALE_WRITE, STALE_READ = range(7)
SECOND_WRITE, OVERWRITTEN, WITHIN_TOKEN, NEEDLESS = range(7, 11)
KINDS: Final = {
    NEVER_WRITTEN: "value-never-written",
    REFUSED_VALUE: "refused-value-read",
    BEFORE_WRITE: "value-read-before-write",
    BELOW_TOKEN: "value-read-below-its-token",
    NOT_LATEST: "not-the-latest-value",
    STALE_WRITE: "stale-write-accepted",
    STALE_READ: "stale-read",
    SECOND_WRITE: "second-write-accepted",
    OVERWRITTEN: "overwritten-value-read-later",
    WITHIN_TOKEN: "no-order-within-token",
    NEEDLESS: "needless-refusal",
}

PROOF = 4  # the most rows that prove a finding

Findings = list[tuple[int, int, int, int, int, int]]
"""Of each one of the numbers above, the row that gives its time, and `PROOF` rows that prove it; -1 for none."""


class Survey(NamedTuple):
    """Rows, -1 for none. The cluster of a write is the write and the reads of its value under its token."""

    turn: Column  # of each key whether the accesses of each token follow one another
    doubtful: Column  # of each key whether a value that was read has several writes: it is not judged here
    early: Column  # of each group the access that returned first
    latest: Column  # of each group the access that was invoked last
    first_write: Column  # of each group its first write
    last_write: Column  # of each group its last write
    carried: Column  # of each group its first read of a value from a lower token
    carried_late: Column  # of each group its last such read
    first_ret: Column  # of each write in keys without `turn`, the access of its cluster that returned first
    last_inv: Column  # likewise the access that was invoked last
    writes: Column  # the writes in keys without `turn`, in order of invocation


@kernel
def surveyed(accesses: Accesses, turn: Column, terms: Terms, findings: Findings) -> Survey:
    """What each group holds. turn: see `Survey`."""
    kind, key, value, inv, ret, group, begin, origin, home = accesses
    count, strict = begin[len(begin) - 1], terms.strict
    early, latest = no_rows(count), no_rows(count)
    first_write, last_write = no_rows(count), no_rows(count)
    carried, carried_late = no_rows(count), no_rows(count)
    first_ret, last_inv = no_rows(len(kind)), no_rows(len(kind))
    writes = np.empty(len(kind), np.int32)
    clusters = 0
    doubtful = np.full(len(turn), False, np.bool_)
    for row in range(len(kind)):
        what = kind[row]
        if READ_OK <= what <= FREE:
            k, write = key[row], origin[row]
            if write == UNWRITTEN:
                findings.append((NEVER_WRITTEN, row, row, -1, -1, -1))
            elif write >= 0 and kind[write] == REFUSED:
                findings.append((REFUSED_VALUE, row, write, row, -1, -1))
            elif write == UNSURE or (write == REPEATED and not turn[k]):
                doubtful[k] = True
            here = home[row]
            if here < 0:
                continue
            latest[here] = row
            if early[here] < 0 or ret[row] < ret[early[here]]:
                early[here] = row
            if write <= UNSURE or (write >= 0 and kind[write] == REFUSED):
                continue
            if turn[k]:
                now = last_write[here]
                if now < 0:
                    now = carried[here]
                if now < 0:
                    carried[here] = row
                elif value[row] != value[now]:
                    findings.append((NOT_LATEST, row, now, row, -1, -1))
                continue
            if write == REPEATED:
                continue
            if write >= 0 and ret[row] < inv[write]:
                findings.append((BEFORE_WRITE, row, row, write, -1, -1))
            if write >= 0 and group[write] == here:
                last_inv[write] = row
                if first_ret[write] < 0 or ret[row] < ret[first_ret[write]]:
                    first_ret[write] = row
            elif write >= 0 and group[write] > here:
                findings.append((BELOW_TOKEN, row, write, row, -1, -1))
            else:
                carried_late[here] = row
                if carried[here] < 0:
                    carried[here] = row
                elif origin[carried[here]] != write:
                    findings.append((NOT_LATEST, row, carried[here], row, -1, -1))
        elif ACCEPTED <= what <= UNKNOWN and home[row] >= 0:
            here = home[row]
            latest[here] = row
            if first_write[here] < 0:
                first_write[here] = row
            elif strict:
                findings.append((SECOND_WRITE, row, last_write[here], row, -1, -1))
            last_write[here] = row
            if what == ACCEPTED and (early[here] < 0 or ret[row] < ret[early[here]]):
                early[here] = row
            if not turn[key[row]]:
                writes[clusters] = last_inv[row] = row
                clusters += 1
                if what == ACCEPTED and (first_ret[row] < 0 or ret[row] < ret[first_ret[row]]):
                    first_ret[row] = row
    if strict:
        for here in range(count):
            read, write = carried[here], first_write[here]
            if write >= 0 and read >= 0 and kind[read] == READ_OK:
                findings.append((SECOND_WRITE, write, read, write, -1, -1))
    writes = writes[:clusters]
    return Survey(
        turn, doubtful, early, latest, first_write, last_write, carried, carried_late, first_ret, last_inv, writes
    )


@kernel
def overtaken(accesses: Accesses, early: Column, latest: Column, findings: Findings) -> tuple[Column, Column, Column]:
    """Checks the groups against the order of tokens: no access may return before one of a lower token is invoked.

    (of each group the row invoked last below it, of each key the row invoked last, keys whose groups are out of order).
    Each overtaken access is a finding, with the access of a higher token that returned first.
    """
    kind, key, inv, ret, begin = accesses.kind, accesses.key, accesses.inv, accesses.ret, accesses.begin
    keys = len(begin) - 1
    before = no_rows(len(early))
    last = no_rows(keys)
    disordered = np.full(keys, False, np.bool_)
    broken_somewhere = False
    for k in range(keys):
        worst = -1
        for here in range(begin[k], begin[k + 1]):
            before[here] = worst
            if worst >= 0 and early[here] >= 0 and ret[early[here]] < inv[worst]:
                disordered[k] = broken_somewhere = True
            worst = max(worst, latest[here])
        last[k] = worst
    if broken_somewhere:
        sooner = no_rows(len(early))
        for k in range(keys):
            first = -1
            for here in range(begin[k + 1] - 1, begin[k] - 1, -1):
                sooner[here] = first
                if early[here] >= 0 and (first < 0 or ret[early[here]] < ret[first]):
                    first = early[here]
        for row in range(len(kind)):
            if disordered[key[row]]:
                here = accesses.home[row]
                if here >= 0 and sooner[here] >= 0 and inv[row] > ret[sooner[here]]:
                    broken = STALE_READ if READ_OK <= kind[row] <= FREE else STALE_WRITE
                    findings.append((broken, row, sooner[here], row, -1, -1))
    return before, last, disordered


@kernel
def carried_over(
    accesses: Accesses, survey: Survey, disordered: Column, initial: int, findings: Findings
) -> tuple[Column, Column]:
    """Checks carried reads against the last lower group that wrote; a finding for each group that read another value.

    (of each group the write that later groups read, thus its last; its reader). disordered: keys left out.
    """
    value, group, begin, origin = accesses.value, accesses.group, accesses.begin, accesses.origin
    turn, last_write, carried = survey.turn, survey.last_write, survey.carried
    final_write, reader = no_rows(len(carried)), no_rows(len(carried))
    for k in range(len(begin) - 1):
        if disordered[k]:
            continue
        source = -1
        for here in range(begin[k], begin[k + 1]):
            read = int(carried[here])
            if read >= 0:
                write = origin[read]
                if source < 0:
                    if value[read] != initial:
                        findings.append((NOT_LATEST, read, read, -1, -1, -1))
                elif turn[k]:
                    if value[read] != value[last_write[source]]:
                        findings.append((NOT_LATEST, read, last_write[source], read, -1, -1))
                elif write < 0 or group[write] != source:
                    findings.append((NOT_LATEST, read, last_write[source], read, -1, -1))
                elif final_write[source] < 0:
                    final_write[source], reader[source] = write, read
                elif final_write[source] != write:
                    findings.append((NOT_LATEST, read, reader[source], read, -1, -1))
            if last_write[here] >= 0:
                source = here
    return final_write, reader
