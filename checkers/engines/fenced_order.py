"""The order of accesses of a fenced store: of the values written under one token, and of all accesses if one exists.

Source: Gibbons and Korach, *Testing shared memories* (1997); checkers/CONDITIONS.md, sections 17 to 19. A cluster's
first return is f, its last invocation is s. Cluster A must come before B if f of A < s of B. If no two clusters must
each come before the other, max(f, s) sorts them, on ties those with f < s first. Proof: let A stand before B in that
order although f of B < s of A. Then f of B < s of B, and s of B is the largest of all four, or A would stand behind B.
So either A must come before B as well, or f of A = s of B, a tie in which B goes first. Hence this order and a running
maximum of s decide; where the order fails, two clusters contradict each other.
"""

import numpy as np

from checkers.engines.fenced_accesses import FREE, IDLE, READ_OK, READ_REFUSED, REFUSED, Accesses, sort_rows
from checkers.engines.fenced_refusals import Reasons, StoreColumns, reason_of
from checkers.engines.fenced_survey import OVERWRITTEN, STALE_READ, WITHIN_TOKEN, Findings, Survey, home, noted
from checkers.engines.kernel import Column, kernel
from checkers.row_format import INFINITY


@kernel
def returned(first_ret: Column, ret: Column, write: int) -> int:
    """f of a write's cluster."""
    return INFINITY if first_ret[write] < 0 else ret[first_ret[write]]


@kernel
def sorted_clusters(rows: Column, accesses: Accesses, survey: Survey) -> Column:
    """The writes by group and, within a group, in the order in which their clusters fit if any order fits."""
    inv, ret, first_ret, last_inv = accesses.inv, accesses.ret, survey.first_ret, survey.last_inv
    result = np.empty(len(rows), np.int32)
    until = np.empty(len(inv), np.int64)
    used = 0
    for forward in range(1, -1, -1):
        for n in range(len(rows)):
            f, s = returned(first_ret, ret, rows[n]), inv[last_inv[rows[n]]]
            if (f < s) == (forward == 1):
                until[rows[n]] = max(f, s)
                result[used] = rows[n]
                used += 1
    sort_rows(result, used, accesses.group, until)
    return result


@kernel
def within(
    accesses: Accesses, survey: Survey, final_write: Column, reader: Column, findings: Findings
) -> tuple[Column, Findings]:
    """Checks groups of keys without turns: carried reads first, then clusters, last the cluster that later groups read.

    (of each group the write invoked first among those whose clusters may come first in it, -1 for none; findings).
    """
    inv, ret, group = accesses.inv, accesses.ret, accesses.group
    first_ret, last_inv = survey.first_ret, survey.last_inv
    groups = len(final_write)
    # Of each group the two writes whose clusters have the smallest f.
    low = np.full(groups, -1, np.int32)
    second = np.full(groups, -1, np.int32)
    top = np.full(groups, -1, np.int32)
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
            findings = noted(findings, STALE_READ, int(late), (int(first_ret[low[here]]), int(late), -1, -1))
        last = final_write[here]
        if last >= 0 and top[here] >= 0 and inv[top[here]] > returned(first_ret, ret, last):
            at = int(top[here])
            findings = noted(findings, OVERWRITTEN, at, (int(first_ret[last]), at, int(reader[here]), -1))
        any_hard = any_hard or hard[here]
    if any_hard:
        rows = np.empty(len(survey.writes), np.int32)
        count = 0
        for row in survey.writes:
            if hard[group[row]] and final_write[group[row]] != row:
                rows[count] = row
                count += 1
        findings = _zones(rows[:count], accesses, survey, findings)
    lead = np.full(groups, -1, np.int32)
    for row in survey.writes:
        here = group[row]
        if lead[here] < 0:
            other = second[here] if low[here] == row else low[here]
            if other < 0 or (final_write[here] != row and inv[last_inv[row]] <= returned(first_ret, ret, other)):
                lead[here] = row
    return lead, findings


@kernel
def _zones(rows: Column, accesses: Accesses, survey: Survey, findings: Findings) -> Findings:
    """Adds contradictions between clusters, for groups whose clusters do not fit in order of invocation."""
    group, inv, ret = accesses.group, accesses.inv, accesses.ret
    first_ret, last_inv = survey.first_ret, survey.last_inv
    rows = sorted_clusters(rows, accesses, survey)
    worst = -1
    for n in range(len(rows)):
        row = rows[n]
        if n == 0 or group[rows[n - 1]] != group[row]:
            worst = -1
        if worst >= 0 and returned(first_ret, ret, row) < inv[last_inv[worst]]:
            begun, late = int(last_inv[row]), int(last_inv[worst])
            proof = int(first_ret[worst]), begun, int(first_ret[row]), late
            findings = noted(findings, WITHIN_TOKEN, max(late, begun), proof)
        if worst < 0 or last_inv[row] > last_inv[worst]:
            worst = row
    return findings


EXPLANATION = -3
CARRIED = -2
"""Places of accesses within a group, before those of clusters."""


@kernel
def arranged(store: StoreColumns, reasons: Reasons) -> Column:
    """The rows of all keys that are not to be skipped, in an order of linearization points. O(n log n).

    A group stands in the order of its clusters, or as invoked if the accesses of each token follow one another. An
    unknown access that explains a refusal stands before the group of its token. A refusal stands before the first
    access invoked after its return: this respects real time, and what can have raised the bar comes before the refusal.
    """
    accesses, reads = store.accesses, store.terms.reads
    kind, key, skip = accesses.kind, accesses.key, store.skip
    count = len(kind)
    within = _within(store, reasons.first)
    rows = np.empty(count, np.int32)
    others = np.empty(count, np.int32)
    place = np.full(count, -1, np.int64)
    certain, idle = 0, 0
    for row in range(count):
        what = kind[row]
        if skip[key[row]]:
            continue
        if READ_REFUSED <= what <= REFUSED or what == IDLE:
            others[idle] = row
            idle += 1
        if READ_REFUSED <= what <= REFUSED:
            reason = reason_of(reasons, accesses, store.terms.strict, row)
            if place[reason] < 0 and home(accesses, reads, reason) < 0:
                within[reason] = EXPLANATION
                place[reason] = accesses.group[reason]
                rows[certain] = reason
                certain += 1
        else:
            here = home(accesses, reads, row)
            if here >= 0:
                place[row] = here
                rows[certain] = row
                certain += 1
    sort_rows(rows, certain, place, within)
    return fitted(rows[:certain], others[:idle], key, accesses.inv, accesses.ret)


@kernel
def fitted(rows: Column, others: Column, key: Column, inv: Column, ret: Column) -> Column:
    """The rows, which are in order within each key, with each of the others put in as late as its return allows."""
    idle = len(others)
    sort_rows(others, idle, key, ret)
    result = np.empty(len(rows) + idle, np.int64)
    done, waiting = 0, 0
    for row in rows:
        while waiting < idle and (
            key[others[waiting]] < key[row] or (key[others[waiting]] == key[row] and ret[others[waiting]] < inv[row])
        ):
            result[done] = others[waiting]
            done += 1
            waiting += 1
        result[done] = row
        done += 1
    for n in range(waiting, idle):
        result[done] = others[n]
        done += 1
    return result


@kernel
def _within(store: StoreColumns, first: Column) -> Column:
    """The place of each access within its group; accesses with equal places stand in order of invocation."""
    kind, key, group, origin = store.accesses.kind, store.accesses.key, store.accesses.group, store.accesses.origin
    turn, final_write, skip = store.survey.turn, store.final_write, store.skip
    within = np.zeros(len(kind), np.int64)
    writes = np.empty(len(store.survey.writes), np.int32)
    count = 0
    for row in store.survey.writes:
        if not skip[key[row]]:
            writes[count] = row
            count += 1
    writes = sorted_clusters(writes[:count], store.accesses, store.survey)
    for n in range(count):
        row = writes[n]
        if first[group[row]] == row:
            within[row] = 0
        elif final_write[group[row]] == row:
            within[row] = 2 * count + 2
        else:
            within[row] = 2 * n + 2
    for row in range(len(kind)):
        if READ_OK <= kind[row] <= FREE and not turn[key[row]] and not skip[key[row]]:
            here = home(store.accesses, store.terms.reads, row)
            write = origin[row]
            within[row] = within[write] + 1 if write >= 0 and group[write] == here else CARRIED
    return within
