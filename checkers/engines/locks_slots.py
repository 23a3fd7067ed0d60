"""Numbers for the pairs (key, owner) of a history, so that what is known of each can stand in an array: O(n)."""

from typing import Final, NamedTuple

import numpy as np

from checkers.engines.kernel import Column, kernel
from checkers.history.history import History

MIXER: Final = 0x2545F4914F6CDD1D
PROBES: Final = 16
"""Looks into the table, for each row on average, after which the owners are sorted instead: somebody chose them so."""


class Slots(NamedTuple):
    """of: slot of each row, int32. total: how many there may be; not all need have rows."""

    of: Column
    total: int


def slots(history: History) -> Slots:
    """One slot for each pair: computed where owners are few numbers, as processes are; the owner's own where each owns
    something of one key only, as grants do; looked up where it is neither.
    """
    key, owner = history.columns["key"], history.columns["owner"]
    rows = len(key)
    if not rows:
        return Slots(np.empty(0, np.int32), 0)
    keys, low = int(key.max()) + 1, int(owner.min())
    span = int(owner.max()) - low + 1
    if keys * span <= max(rows, 64):
        return Slots(_computed(key, owner, low, span), keys * span)
    if span <= 2 * rows:
        of, alone = _of_owner(key, owner, low, span)
        if alone:
            return Slots(of, span)
    of, count = _looked_up(key, owner, max(8, (2 * rows - 1).bit_length()))
    if count < 0:
        _, owner = np.unique(owner, return_inverse=True)
        pairs, of = np.unique(owner.astype(np.int64) * keys + key, return_inverse=True)
        of, count = of.astype(np.int32), len(pairs)
    return Slots(of, count)


@kernel
def _computed(key: Column, owner: Column, low: int, span: int) -> Column:
    of = np.empty(len(key), np.int32)
    for i in range(len(key)):
        of[i] = key[i] * span + (owner[i] - low)
    return of


@kernel
def _of_owner(key: Column, owner: Column, low: int, span: int) -> tuple[Column, bool]:
    """(anything, False) where an owner has several keys."""
    of = np.empty(len(key), np.int32)
    home = np.zeros(span, np.int32)  # of each owner its first row + 1
    for i in range(len(key)):
        place = owner[i] - low
        of[i] = place
        if not home[place]:
            home[place] = i + 1
        elif key[home[place] - 1] != key[i]:
            return of, False
    return of, True


@kernel
def _looked_up(key: Column, owner: Column, bits: int) -> tuple[Column, int]:
    """A hash table with linear probing; (anything, -1) where it degenerates."""
    rows = len(key)
    of = np.empty(rows, np.int32)
    first = np.empty(rows, np.int32)
    mask = (1 << bits) - 1
    table = np.zeros(mask + 1, np.int32)
    count = 0
    probes = PROBES * rows + 1024
    for i in range(rows):
        # The low 62 bits of the product: the same whether integers wrap around or grow.
        place = ((((owner[i] ^ (owner[i] >> 31)) + 7 * key[i]) * MIXER) >> 20) & mask
        while table[place]:
            other = first[table[place] - 1]
            if owner[other] == owner[i] and key[other] == key[i]:
                break
            place = (place + 1) & mask
            probes -= 1
            if probes < 0:
                return of, -1
        if not table[place]:
            first[count] = i
            count += 1
            table[place] = count
        of[i] = table[place] - 1
    return of, count
