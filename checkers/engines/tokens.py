"""The order of fencing tokens: exact, O(n log n), and O(n) where tokens come nearly in order.

Source: checkers/CONDITIONS.md, section 8. Tokens force the order of grants, so none may have returned before one with a
smaller token was invoked, and none may have another's token, unless both are readers'.
"""

from typing import Final

import numpy as np

from checkers.engines.codes import ACQUIRE, OK, RELEASE, TRY_ACQUIRE
from checkers.engines.fenced_accesses import ACCEPTED, HIGHEST, LOWEST, NOTHING, AccessColumns, Accesses, Range
from checkers.engines.fenced_groups import Groups, grouped
from checkers.engines.fenced_order import fitted
from checkers.engines.fenced_survey import PROOF, SECOND_WRITE, Findings, no_findings, noted, overtaken
from checkers.engines.kernel import Column, kernel
from checkers.engines.sorting import sort_rows
from checkers.history.history import History
from checkers.models.engine_answer import Conflict, EngineAnswer
from checkers.models.model import Settings
from checkers.row_format import NESTED, NONE, SHARED

NOT_LARGER: Final = "token-not-larger"
REPEATED: Final = "token-repeated"


def fencing_tokens(history: History, settings: Settings) -> EngineAnswer:
    """Decides every key. Acquires without a token, or inside the own hold, impose nothing; nor do unknown ones."""
    del settings
    c = history.columns
    keys = max(len(history.facts.keys), int(c["key"].max(initial=0)) + 1)
    grants = AccessColumns(*(c[name] for name in AccessColumns._fields))
    count, kind, at, rows = judged(grants, keys)
    bad, first = np.unique(c["key"][at[:count]], return_index=True)
    pairs = rows.reshape(-1, PROOF)[first, :2]
    conflicts = tuple(
        Conflict(REPEATED if what == SECOND_WRITE else NOT_LARGER, k, tuple(pair))
        for k, what, pair in zip(bad.tolist(), kind[first].tolist(), pairs.tolist(), strict=True)
    )
    return EngineAnswer(conflicts, {}, lambda: ordered(grants, keys))


@kernel
def judged(grants: AccessColumns, keys: int) -> Findings:
    """Of each pair of tokens that is out of order, or that are one."""
    flags, inv, ret = grants.flags, grants.inv, grants.ret
    kind, groups = _counting(grants, keys)
    group = groups.of
    early = np.full(len(groups.order), -1, np.int32)
    latest = np.full(len(groups.order), -1, np.int32)
    first_grant = np.full(len(groups.order), -1, np.int32)
    findings = no_findings()
    for row in range(len(kind)):
        here = group[row]
        if here < 0:
            continue
        latest[here] = row
        if early[here] < 0 or ret[row] < ret[early[here]]:
            early[here] = row
        if first_grant[here] < 0:
            first_grant[here] = row
        elif (flags[row] & flags[first_grant[here]] & SHARED) == 0:
            findings = noted(findings, SECOND_WRITE, row, (int(first_grant[here]), row, -1, -1))
    accesses = Accesses(kind, grants.key, grants.token, inv, ret, group, group)
    return overtaken(accesses, groups, early, latest, 1, findings)[3]


@kernel
def ordered(grants: AccessColumns, keys: int) -> Column:
    """Rows in order of tokens, key by key, with what has none where it fits."""
    f, outcome, key = grants.f, grants.outcome, grants.key
    kind, groups = _counting(grants, keys)
    group, count = groups.of, len(kind)
    place_of = np.empty(len(groups.order), np.int64)
    for n in range(len(groups.order)):
        place_of[groups.order[n]] = n
    place = np.empty(count, np.int64)
    rows = np.empty(count, np.int32)
    others = np.empty(count, np.int32)
    certain, idle = 0, 0
    for row in range(count):
        if group[row] >= 0:
            place[row] = place_of[group[row]]
            rows[certain] = row
            certain += 1
        elif outcome[row] == OK and (ACQUIRE <= f[row] <= TRY_ACQUIRE or f[row] == RELEASE):
            others[idle] = row
            idle += 1
    sort_rows(rows, 0, certain, place, place)
    return fitted(rows[:certain], others[:idle], key, grants.inv, grants.ret)


@kernel
def _counting(grants: AccessColumns, keys: int) -> tuple[Column, Groups]:
    """The grants that impose an order, as `fenced_accesses` would have them."""
    f, outcome, _, flags, key, token, _, _, _ = grants
    kind = np.full(len(f), NOTHING, np.int8)
    low = np.full(keys, HIGHEST, np.int64)
    high = np.full(keys, LOWEST, np.int64)
    for row in range(len(f)):
        if outcome[row] != OK or token[row] == NONE or (flags[row] & NESTED) != 0:
            continue
        if ACQUIRE <= f[row] <= TRY_ACQUIRE:
            kind[row] = ACCEPTED
            k = key[row]
            low[k], high[k] = min(low[k], token[row]), max(high[k], token[row])
    return kind, grouped(kind, key, token, Range(low, high), 0)
