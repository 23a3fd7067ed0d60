"""Identities handed out: no two may be the same. Exact."""

from __future__ import annotations

import numpy as np

from checkers.engines.engine import Answer, Conflict, Rows
from checkers.engines.values import values_of
from checkers.history import History
from checkers.models.model import Settings
from checkers.wire import NONE, F, Outcome


def unique_ids(history: History, settings: Settings) -> Answer:
    """Conflicts: ``handed-out-twice``, one for each key, with the first two that got the same."""
    c = history.columns
    values = values_of(history, settings)
    rows = np.flatnonzero((c["f"] == F.GENERATE) & (c["outcome"] == Outcome.OK))
    named = rows[values.value[rows] != NONE]
    order = named[np.lexsort((named, values.value[named], c["key"][named]))]
    key, value = c["key"][order], values.value[order]
    again = np.flatnonzero((key[1:] == key[:-1]) & (value[1:] == value[:-1])) + 1
    first = {int(key[place]): place for place in reversed(again.tolist())}
    conflicts = [
        Conflict("handed-out-twice", one, (int(order[place - 1]), int(order[place]))) for one, place in first.items()
    ]

    def by_key() -> Rows:
        return rows[np.argsort(c["key"][rows], kind="stable")]

    return Answer(tuple(conflicts), {}, by_key)
