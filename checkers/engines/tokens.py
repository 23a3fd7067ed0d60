"""The order of fencing tokens: exact, O(n log n). Source: checkers/CONDITIONS.md, sections 2 and 8."""

from typing import Final

import numpy as np

from checkers.engines.fenced_order import fitted
from checkers.history.counting import any_of, apart
from checkers.history.history import History
from checkers.models.engine_answer import Conflict, EngineAnswer
from checkers.models.model import Settings, Unusable
from checkers.row_format import ACQUIRES, NESTED, NONE, SHARED, F, Outcome

NOT_LARGER: Final = "token-not-larger"
REPEATED: Final = "token-repeated"


def fencing_tokens(history: History, settings: Settings) -> EngineAnswer:
    """Decides every key. Unknown acquires, those without a token and those inside the own hold impose nothing.
    Raises Unusable if no grant has a token.
    """
    del settings
    c = history.columns
    answered = any_of(c["f"], (*ACQUIRES, F.RELEASE)) & (c["outcome"] == Outcome.OK)
    granted, has_token = answered & (c["f"] != F.RELEASE), c["token"] != NONE
    if granted.any() and not (granted & has_token).any():
        raise Unusable("no grant has a token")
    counts = granted & has_token & (c["flags"] & NESTED == 0)
    grants = np.flatnonzero(counts)
    grants = grants[np.lexsort((c["token"][grants], c["key"][grants]))]
    key, token, shared = c["key"][grants], c["token"][grants], c["flags"][grants] & SHARED != 0
    sent, returned = apart((key, c["inv"][grants]), (key, c["ret"][grants])).places
    # Of each grant: the first place of its token in this order, the first place of the next larger token, and the
    # soonest return from there on.
    new = np.append(True, (key[1:] != key[:-1]) | (token[1:] != token[:-1]))[: len(grants)]
    first = np.flatnonzero(new)[np.cumsum(new) - 1]
    larger = np.append(np.flatnonzero(new), len(grants))[np.cumsum(new)]
    soonest = np.append(np.minimum.accumulate(returned[::-1])[::-1], np.iinfo(np.int64).max)[larger]
    conflicts: dict[int, Conflict] = {}
    repeated = np.flatnonzero(~new & ~(shared & shared[first]))
    for n in repeated[np.argsort(grants[repeated])].tolist():
        pair = (int(grants[first[n]]), int(grants[n]))
        conflicts.setdefault(int(key[n]), Conflict(REPEATED, int(key[n]), pair))
    late = np.flatnonzero(soonest < sent)
    for n in late[np.argsort(grants[late])].tolist():
        if key[n] not in conflicts:
            sooner = larger[n] + np.argmin(returned[larger[n] : np.searchsorted(key, key[n], "right")])
            conflicts[int(key[n])] = Conflict(NOT_LARGER, int(key[n]), (int(grants[sooner]), int(grants[n])))
    others = np.flatnonzero(answered & ~counts)
    return EngineAnswer(tuple(conflicts.values()), {}, lambda: fitted(c, grants, others))
