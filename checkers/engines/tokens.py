"""The order of fencing tokens: exact, O(n log n), and O(n) where tokens come nearly in order.

Source: checkers/CONDITIONS.md, section 8. Tokens force the order of grants, so none may have returned before one with a
smaller token was invoked, and none may have another's token, unless both are readers'.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from checkers.engines.engine import Answer, Conflict
from checkers.engines.fenced_groups import ACCEPTED, HIGHEST, LOWEST, NOTHING, OK, grouped
from checkers.engines.fenced_order import fitted
from checkers.engines.fenced_survey import SECOND_WRITE, WORDS, noted, overtaken
from checkers.engines.kernel import kernel
from checkers.engines.sorting import Column, sort_rows
from checkers.history import History
from checkers.models.model import Settings
from checkers.wire import NESTED, NONE, SHARED, F

ACQUIRE, TRY_ACQUIRE, RELEASE = int(F.ACQUIRE), int(F.TRY_ACQUIRE), int(F.RELEASE)
NOT_LARGER: Final = "token-not-larger"
REPEATED: Final = "token-repeated"


def fencing_tokens(history: History, settings: Settings) -> Answer:
    """Decides every key. Acquires without a token, or inside the own hold, impose nothing; nor do unknown ones."""
    del settings
    c = history.columns
    keys = max(len(history.facts.keys), int(c["key"].max(initial=0)) + 1)
    asked: tuple[Any, ...] = (*(c[name] for name in ("f", "outcome", "flags", "key", "token", "inv", "ret")), keys)
    places = judged(*(*asked, 0)).reshape(-1, WORDS)
    bad, first = np.unique(c["key"][places[:, 1]], return_index=True)
    conflicts = tuple(
        Conflict(REPEATED if place[0] == SECOND_WRITE else NOT_LARGER, int(k), (place[2], place[3]))
        for k, place in zip(bad.tolist(), places[first].tolist(), strict=True)
    )
    return Answer(conflicts, {}, lambda: judged(*(*asked, 1)))


@kernel
def judged(
    f: Column,
    outcome: Column,
    flags: Column,
    key: Column,
    token: Column,
    inv: Column,
    ret: Column,
    keys: int,
    ordered: int,
) -> Column:
    """Findings as `fenced_survey.noted` makes them; ordered: rows in order instead."""
    count = len(f)
    kind = np.full(count, NOTHING, np.int8)
    low = np.full(keys, HIGHEST, np.int64)
    high = np.full(keys, LOWEST, np.int64)
    for row in range(count):
        if outcome[row] != OK or token[row] == NONE or (flags[row] & NESTED) != 0:
            continue
        if ACQUIRE <= f[row] <= TRY_ACQUIRE:
            kind[row] = ACCEPTED
            k = key[row]
            low[k], high[k] = min(low[k], token[row]), max(high[k], token[row])
    group, order, begin, _ = grouped(kind, key, token, low, high, 0)
    early = np.full(len(order), -1, np.int32)
    latest = np.full(len(order), -1, np.int32)
    opener = np.full(len(order), -1, np.int32)
    found = np.empty(WORDS, np.int64)
    used = 0
    for row in range(count):
        here = group[row]
        if here < 0:
            continue
        latest[here] = row
        if early[here] < 0 or ret[row] < ret[early[here]]:
            early[here] = row
        if opener[here] < 0:
            opener[here] = row
        elif (flags[row] & flags[opener[here]] & SHARED) == 0:
            found, used = noted(found, used, SECOND_WRITE, row, opener[here], row, -1, -1)
    _, _, _, found, used = overtaken(kind, group, key, group, order, begin, inv, ret, early, latest, 1, found, used)
    if not ordered:
        return found[:used]
    place = np.empty(count, np.int64)
    for n in range(len(order)):
        early[order[n]] = n
    rows = np.empty(count, np.int32)
    others = np.empty(count, np.int32)
    certain, idle = 0, 0
    for row in range(count):
        if group[row] >= 0:
            place[row] = early[group[row]]
            rows[certain] = row
            certain += 1
        elif outcome[row] == OK and (ACQUIRE <= f[row] <= TRY_ACQUIRE or f[row] == RELEASE):
            others[idle] = row
            idle += 1
    sort_rows(rows, 0, certain, place, place)
    return fitted(rows, certain, others, idle, key, inv, ret)
