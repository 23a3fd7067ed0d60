"""Numbers for the pairs (key, owner) of a history, so that what is known of each can stand in an array.

O(n); O(n log n) where owners are large numbers and have several keys.
"""

from typing import NamedTuple

import numpy as np

from checkers.engines.kernel import Column
from checkers.history.history import History


class Slots(NamedTuple):
    """of: slot of each row, int32. total: how many there may be; not all need have rows."""

    of: Column
    total: int


def slots(history: History) -> Slots:
    """One slot for each pair: computed where owners are few numbers, as processes are; the owner's own where each owns
    something of one key only, as grants do; by sorting where it is neither.
    """
    key, owner = history.columns["key"], history.columns["owner"]
    rows = len(key)
    if not rows:
        return Slots(np.empty(0, np.int32), 0)
    keys, low = int(key.max()) + 1, int(owner.min())
    span = int(owner.max()) - low + 1
    if keys * span <= max(rows, 64):
        return Slots((key * np.int64(span) + (owner - low)).astype(np.int32), keys * span)
    if span <= 2 * rows:
        of = (owner - low).astype(np.int32)
        home = np.empty(span, key.dtype)  # of each owner its last key
        home[of] = key
        if (home[of] == key).all():
            return Slots(of, span)
    _, owner = np.unique(owner, return_inverse=True)
    pairs, slot = np.unique(owner.astype(np.int64) * keys + key, return_inverse=True)
    return Slots(slot.astype(np.int32), len(pairs))
