"""The write whose value each read of a store returned, and the unanswered writes that were accepted, as a read proves.

Source: checkers/CONDITIONS.md, sections 17 and 18. Values are looked up in a table over each key's range of values, or
over the range of all values if each value belongs to one key: O(n).
"""

import numpy as np

from checkers.engines.fenced_accesses import ACCEPTED, FREE, READ_OK, REFUSED, UNKNOWN, Accesses, Range, layout
from checkers.engines.kernel import Column, kernel

UNREAD = -1  # an unknown write whose value nobody read
INITIAL = -2
REPEATED = -3  # several writes of this value may have been accepted, or one beside the initial value
UNSURE = -4  # likewise, and one of them was never answered
UNWRITTEN = -5


@kernel
def traced(accesses: Accesses, values: Range, initial: int) -> None:
    """Fills in `origin`, which was `UNREAD`: of each accepted read the row of its write, or a constant of this module.

    Of an unknown write the row of a read that proves it accepted, or such a constant. values: the values written. There
    must be room for them in a table, and no two keys may have written one value where they share the table.
    """
    kind, key, value, origin = accesses.kind, accesses.key, accesses.value, accesses.origin
    low, high = values.low, values.high
    base, total = layout(values, 2 * len(kind) + 64)
    write_of = np.full(total + len(low), -1, np.int32)  # behind the table: those of initial values
    for row in range(len(kind)):
        what, k = kind[row], key[row]
        if ACCEPTED <= what <= UNKNOWN or what == REFUSED:
            place = total + k if value[row] == initial else base[k] + value[row]
            write_of[place] = _written(kind, origin, write_of[place], row)
    for row in range(len(kind)):
        if READ_OK <= kind[row] <= FREE:
            k, seen = key[row], value[row]
            write = -1
            if seen == initial:
                write = write_of[total + k]
            elif low[k] <= seen <= high[k]:
                write = write_of[base[k] + seen]
                if write >= 0 and key[write] != k:
                    write = -1
            origin[row] = _read(kind, origin, write, row, seen == initial)


@kernel
def _written(kind: Column, origin: Column, other: int, row: int) -> int:
    """The write that stands for two writes of one value. other: -1 if there is no other write."""
    if kind[row] == REFUSED:
        return other if other >= 0 else row
    if other < 0 or kind[other] == REFUSED:
        return row
    if kind[row] == UNKNOWN or kind[other] == UNKNOWN or origin[other] == UNSURE:
        origin[other] = UNSURE
    else:
        origin[other] = REPEATED
    return other


@kernel
def _read(kind: Column, origin: Column, write: int, row: int, initial: int) -> int:
    """Origin of a read, given the write that stands for its value (-1 for none)."""
    if initial and (write < 0 or kind[write] == REFUSED):
        return INITIAL
    if write < 0:
        return UNWRITTEN
    if kind[write] == REFUSED:
        return write
    if origin[write] == REPEATED or origin[write] == UNSURE:
        return int(origin[write])
    if initial:
        return UNSURE if kind[write] == UNKNOWN else REPEATED
    if kind[write] == UNKNOWN:
        origin[write] = row
    return write


@kernel
def settled(accesses: Accesses, reads: int) -> None:
    """Fills in `home`, once `origin` is known: of reads, and of writes that were certainly accepted. See `Terms`."""
    kind, group, origin, home = accesses.kind, accesses.group, accesses.origin, accesses.home
    for row in range(len(kind)):
        what, other = kind[row], origin[row]
        if what == ACCEPTED or (what == UNKNOWN and other >= 0) or (reads == 1 and READ_OK <= what <= FREE):
            home[row] = group[row]
        elif READ_OK <= what <= FREE:
            if other == INITIAL:
                home[row] = accesses.begin[accesses.key[row]]
            elif other >= 0 and kind[other] != REFUSED:
                home[row] = group[other]
