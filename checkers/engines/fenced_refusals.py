"""Refusals by a fenced store: whether anything can have raised its bar above the token before the refusal returned.

Source: checkers/CONDITIONS.md, sections 17 and 18, rules 4 and 5. O(n), and a binary search for each needless refusal.
"""

from typing import NamedTuple

from checkers.engines.fenced_accesses import READ_REFUSED, READ_UNKNOWN, REFUSED, UNKNOWN, Accesses, Terms
from checkers.engines.fenced_survey import NEEDLESS, Findings, Survey
from checkers.engines.kernel import Column, kernel, no_rows
from checkers.row_format import INFINITY


class StoreColumns(NamedTuple):
    """All that is known of accesses that were answered; rows are -1 for none."""

    terms: Terms
    accesses: Accesses
    survey: Survey
    before: Column  # of each group the row that was invoked last in lower groups
    last: Column  # of each key the row that was invoked last
    final_write: Column  # of each group the write that later groups read, so that it must be the group's last
    lead: Column  # of each group the write invoked first among those whose clusters may come first: see `fenced_order`
    skip: Column  # of each key whether its refusals prove nothing: the key is out of order, or not judged here


class Reasons(NamedTuple):
    """Of each group a row, -1 for none: a group's first access, or an unknown one of which nothing else is known."""

    first: Column  # the access invoked first among those that may come first in the group
    above: Column  # the access of the groups above it that can have raised the bar soonest
    upward: Column  # likewise, of the groups at or above it


@kernel
def explanations(store: StoreColumns, spared: list[int]) -> Reasons:
    """What may explain refusals. spared: the rows of refused and unknown accesses, in order of invocation."""
    kind, key, _, inv, _, group, begin, _, home = store.accesses
    latest, first_write, carried = store.survey.latest, store.survey.first_write, store.survey.carried
    before, strict = store.before, store.terms.strict
    groups = len(latest)
    first = no_rows(groups)
    for here in range(groups):
        if carried[here] >= 0:
            first[here] = carried[here]
        elif first_write[here] >= 0:
            first[here] = first_write[here] if store.survey.turn[key[first_write[here]]] else store.lead[here]
    write, read = no_rows(groups), no_rows(groups)
    for row in spared:
        if kind[row] == UNKNOWN and write[group[row]] < 0 and home[row] < 0:
            write[group[row]] = row
        elif kind[row] == READ_UNKNOWN and read[group[row]] < 0:
            read[group[row]] = row
    above, upward = no_rows(groups), no_rows(groups)
    for k in range(len(begin) - 1):
        best = -1
        carries = False
        for here in range(begin[k + 1] - 1, begin[k], -1):
            above[here] = best
            if latest[here] >= 0:
                carries = carried[here] >= 0
            best = _sooner(before, group, inv, best, first[here])
            # Else this write overwrites what the next group still reads or, if strict, keeps its own group's write out.
            if not carries and not (strict and latest[here] >= 0):
                best = _sooner(before, group, inv, best, write[here])
            if not (strict and first_write[here] >= 0):
                best = _sooner(before, group, inv, best, read[here])
            upward[here] = best
        above[begin[k]], upward[begin[k]] = best, best
    return Reasons(first, above, upward)


@kernel
def moment(before: Column, group: Column, inv: Column, row: int) -> int:
    """ns; the earliest moment at which a row that comes first in its group can have been accepted."""
    if row < 0:
        return INFINITY
    return int(inv[max(row, before[group[row]])])


@kernel
def _sooner(before: Column, group: Column, inv: Column, row: int, other: int) -> int:
    return other if moment(before, group, inv, other) < moment(before, group, inv, row) else row


@kernel
def needless(store: StoreColumns, reasons: Reasons, spared: list[int], findings: Findings) -> None:
    """Adds a finding for each refusal that nothing explains, in the keys not to be skipped.

    Its rows: a write that was in time to explain the refusal but cannot come first in its group (-1 for none); the
    access that must come before all possible explanations and was invoked too late (-1 for none); the refusal.
    """
    kind, key, _, inv, ret, group, begin, _, _ = store.accesses
    before, strict = store.before, store.terms.strict
    carried, first_write = store.survey.carried, store.survey.first_write
    for row in spared:
        if not READ_REFUSED <= kind[row] <= REFUSED or store.skip[key[row]]:
            continue
        here, k = group[row], key[row]
        reason = int(reasons.upward[here] if strict and kind[row] == REFUSED else reasons.above[here])
        if reason < 0 or ret[row] < moment(before, group, inv, reason):
            there = _obstacle(begin[k], begin[k + 1], inv, before, ret[row])
            late = before[there + 1] if there + 1 < begin[k + 1] else store.last[k]
            rival = -1
            if late < 0 or inv[late] <= ret[row]:
                late = -1
            elif there > here or (strict and kind[row] == REFUSED and there == here):
                # Lower groups were wholly invoked and would have explained it; higher ones come after the late access.
                if carried[there] >= 0 and inv[carried[there]] > ret[row]:
                    late = carried[there]
                elif first_write[there] >= 0 and inv[first_write[there]] <= ret[row]:
                    rival = first_write[there]
            findings.append((NEEDLESS, row, rival, late, row, -1))


@kernel
def _obstacle(begin: int, end: int, inv: Column, before: Column, moment: int) -> int:
    """The lowest group of a key that was not wholly invoked at a moment; the highest group if there is none."""
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        row = before[middle]
        if row >= 0 and inv[row] > moment:
            high = middle
        else:
            low = middle + 1
    return low - 1
