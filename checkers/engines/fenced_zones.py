"""The values written under one token: whether they can be put in order.

Source: Gibbons and Korach, *Testing shared memories* (1997); checkers/CONDITIONS.md, section 19. A cluster is a write
and the reads of its value, and stands together in any valid order. It has an instant f when some of it had returned,
and an instant s when some of it was yet to be invoked. Cluster A must come before B if f of A < s of B.

Where no two clusters must each come before the other, max(f, s) sorts them, on ties those with f < s first. For let A
stand before B in that order though f of B < s of A. Then f of B < s of B, and s of B is the larger of all four, or A
would stand behind; so either A must come before B as well, or f of A = s of B, a tie in which B goes first.
So the order decides, with a running maximum of s; where it fails, the two are a contradiction by themselves.
"""

import numpy as np

from checkers.engines.fenced_accesses import Accesses, sort_rows
from checkers.engines.fenced_survey import OVERWRITTEN, STALE_READ, WITHIN_TOKEN, Findings, Survey, noted
from checkers.engines.kernel import Column, kernel
from checkers.row_format import INFINITY


@kernel
def returned(first_ret: Column, ret: Column, write: int) -> int:
    """f of a write's cluster."""
    return INFINITY if first_ret[write] < 0 else ret[first_ret[write]]


@kernel
def sorted_clusters(rows: Column, accesses: Accesses, survey: Survey) -> Column:
    """Writes by group and, within it, in the order in which their clusters stand if they can."""
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
    """The groups of the keys that do not take turns: carried reads first, then clusters, last the one read later.

    (of each group the write invoked first among those whose clusters may come first in it, -1 for none, and findings)
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
    """The writes of groups whose clusters are not in order as they come."""
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
