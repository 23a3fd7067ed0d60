"""The order of accesses of a fenced store: of the values written under one token, and of all accesses if one exists.

Source: Gibbons and Korach, *Testing shared memories* (1997); checkers/CONDITIONS.md, sections 17 to 19. A cluster's
first return is f, its last invocation is s. Cluster A must come before B if f of A < s of B. If no two clusters must
each come before the other, max(f, s) sorts them, on ties those with f < s first. Proof: let A stand before B in that
order although f of B < s of A. Then f of B < s of B, and s of B is the largest of all four, or A would stand behind B.
So either A must come before B as well, or f of A = s of B, a tie in which B goes first. Hence this order and a running
maximum of s decide; where the order fails, two clusters contradict each other.
"""

import numpy as np

from checkers.engines.fenced_accesses import FREE, IDLE, READ_OK, READ_REFUSED, REFUSED, Accesses
from checkers.engines.fenced_refusals import Reasons, StoreColumns
from checkers.engines.fenced_survey import OVERWRITTEN, STALE_READ, WITHIN_TOKEN, Findings, Survey
from checkers.engines.kernel import Column, kernel, no_rows
from checkers.history.counting import Ints, apart
from checkers.history.history import Columns
from checkers.row_format import INFINITY


@kernel
def returned(first_ret: Column, ret: Column, write: int) -> int:
    """f of a write's cluster."""
    return INFINITY if first_ret[write] < 0 else ret[first_ret[write]]


@kernel
def within(accesses: Accesses, survey: Survey, final_write: Column, reader: Column, findings: Findings) -> Column:
    """Checks groups of keys without turns: carried reads first, then clusters, last the cluster that later groups read.

    Of each group the write invoked first among those whose clusters may come first in it, -1 for none.
    """
    inv, ret, group = accesses.inv, accesses.ret, accesses.group
    first_ret, last_inv = survey.first_ret, survey.last_inv
    groups = len(final_write)
    # Of each group the two writes whose clusters have the smallest f.
    low, second = no_rows(groups), no_rows(groups)
    top = no_rows(groups)
    hard = np.full(groups, False, np.bool_)
    for row in survey.writes:
        here = group[row]
        f = returned(first_ret, ret, row)
        if low[here] < 0 or f < returned(first_ret, ret, low[here]):
            low[here], second[here] = row, low[here]
        elif second[here] < 0 or f < returned(first_ret, ret, second[here]):
            second[here] = row
        if row != final_write[here]:
            if top[here] >= 0 and f < inv[top[here]]:
                hard[here] = True
            top[here] = max(top[here], last_inv[row])
    any_hard = False
    for here in range(groups):
        late = survey.carried_late[here]
        if late >= 0 and low[here] >= 0 and inv[late] > returned(first_ret, ret, low[here]):
            findings.append((STALE_READ, late, first_ret[low[here]], late, -1, -1))
        last = final_write[here]
        if last >= 0 and top[here] >= 0 and inv[top[here]] > returned(first_ret, ret, last):
            findings.append((OVERWRITTEN, top[here], first_ret[last], top[here], reader[here], -1))
        any_hard = any_hard or hard[here]
    if any_hard:
        _zones(hard, final_write, accesses, survey, findings)
    lead = no_rows(groups)
    for row in survey.writes:
        here = group[row]
        if lead[here] < 0:
            other = second[here] if low[here] == row else low[here]
            if other < 0 or (final_write[here] != row and inv[last_inv[row]] <= returned(first_ret, ret, other)):
                lead[here] = row
    return lead


@kernel
def _zones(hard: Column, final_write: Column, accesses: Accesses, survey: Survey, findings: Findings) -> None:
    """Adds contradictions between clusters, for groups whose clusters do not fit in order of invocation (`hard`)."""
    group, inv, ret = accesses.group, accesses.inv, accesses.ret
    first_ret, last_inv = survey.first_ret, survey.last_inv
    clusters = [(0, 0, 0, 0)][:0]  # (group, max(f, s), f >= s, write)
    for row in survey.writes:
        if hard[group[row]] and final_write[group[row]] != row:
            f, s = returned(first_ret, ret, row), inv[last_inv[row]]
            clusters.append((group[row], max(f, s), int(f >= s), row))
    clusters.sort()
    worst, before = -1, -1
    for here, _, _, row in clusters:
        if here != before:
            worst, before = -1, here
        if worst >= 0 and returned(first_ret, ret, row) < inv[last_inv[worst]]:
            begun, late = last_inv[row], last_inv[worst]
            findings.append((WITHIN_TOKEN, max(late, begun), first_ret[worst], begun, first_ret[row], late))
        if worst < 0 or last_inv[row] > last_inv[worst]:
            worst = row


def arranged(store: StoreColumns, reasons: Reasons) -> Ints:
    """The rows of all keys that are not to be skipped, in an order of linearization points. O(n log n).

    A group stands in the order of its clusters, or as invoked if the accesses of each token follow one another. An
    unknown access that explains a refusal stands before the group of its token. A refusal stands before the first
    access invoked after its return: this respects real time, and what can have raised the bar comes before the refusal.
    """
    kind, group, home = store.accesses.kind, store.accesses.group, store.accesses.home
    wanted = ~store.skip[store.accesses.key]
    refused = np.flatnonzero(wanted & (kind >= READ_REFUSED) & (kind <= REFUSED))
    strictly = (kind[refused] == REFUSED) & (store.terms.strict == 1)
    explaining = np.where(strictly, reasons.upward[group[refused]], reasons.above[group[refused]])
    explaining = np.unique(explaining[home[explaining] < 0])
    certain = np.flatnonzero(wanted & (home >= 0))
    rows = np.concatenate((explaining, certain))
    places = np.concatenate((group[explaining], home[certain]))
    within = (np.append(np.full(len(explaining), -1), part) for part in _within(store, reasons.first, certain))
    rows = rows[np.lexsort((rows, *within, places))]
    idle = np.flatnonzero(wanted & (kind == IDLE))
    return fitted(store.accesses._asdict(), rows, np.concatenate((refused, idle)))


_CARRIED, _FIRST, _AMID, _LAST = range(4)
"""What stands where in a group: carried reads; a cluster that is to come first; the others; the last, read later on."""


def _within(store: StoreColumns, first: Column, rows: Column) -> tuple[Column, ...]:
    """What sorts certain accesses within their groups, as for `numpy.lexsort`: what counts most comes last.

    first: see `Reasons`. Where the accesses of each token follow one another nothing but their invocations counts.
    """
    accesses, survey = store.accesses, store.survey
    parts = np.zeros((5, len(rows)), np.int64)
    overlapping = np.flatnonzero(~survey.turn[accesses.key[rows]])
    rows = rows[overlapping]
    home, read = accesses.home[rows], (accesses.kind[rows] >= READ_OK) & (accesses.kind[rows] <= FREE)
    write = np.where(read, np.maximum(accesses.origin[rows], -1), rows)
    carried = (write < 0) | (accesses.group[write] != home)
    part = np.where(store.final_write[home] == write, _LAST, _AMID)
    part = np.where(carried, _CARRIED, np.where(first[home] == write, _FIRST, part))
    f = np.where(survey.first_ret[write] < 0, INFINITY, accesses.ret[survey.first_ret[write]])
    s = accesses.inv[survey.last_inv[write]]
    among = (read, write, f >= s, np.maximum(f, s))  # clusters by max(f, s), on ties those with f < s first
    parts[:4, overlapping] = np.where(carried, 0, among)
    parts[4, overlapping] = part
    return tuple(parts)


def fitted(columns: Columns, rows: Ints, others: Ints) -> Ints:
    """The rows, which are in order key by key, with each of the others put in as late as its return allows."""
    key, inv, ret = columns["key"], columns["inv"], columns["ret"]
    sent, returned = apart((key[rows], inv[rows]), (key[others], ret[others])).places
    order = np.argsort(returned, kind="stable")
    places = np.searchsorted(np.maximum.accumulate(sent), returned[order], "right")
    return np.insert(rows, places, others[order])
