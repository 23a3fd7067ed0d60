"""The values of a history as numbers that engines can compare: equal where the specification calls them equal."""

from typing import Any, Final, NamedTuple

import numpy as np

from checkers.history.counting import Flags, Ints
from checkers.history.history import History
from checkers.models import kv
from checkers.models.model import UNSET, Settings
from checkers.row_format import NONE

NOWHERE: Final = -(1 << 62)
"""A number that no value has."""

_PLAIN: Final = frozenset({int, str, type(None)})
_LATE: Final = 1 << 60
"""Times from here on cannot be doubled: if an invocation is so late, ranks take the place of all times."""


class Values(NamedTuple):
    """The values and times of all rows."""

    value: Ints  # a number for each row
    base: Ints  # likewise
    initial: int  # the number of the value before everything
    nothing: int  # the number of nil if a read of nil says nothing, else `NOWHERE`
    absent: int  # the number of a value that the file does not give
    inv: Ints  # times that can be doubled
    ret: Ints  # likewise


def values_of(history: History, settings: Settings, *, bare: bool = False) -> Values:
    """The values as numbered in the history, or anew where two may be equal. bare: empty strings and lists are nil."""
    c = history.columns
    value, base = c["value"], c["base"]
    inv, ret = c["inv"], c["ret"]
    if int(inv.max(initial=0)) >= _LATE:
        ranks = np.unique(np.concatenate((inv, ret)), return_inverse=True)[1].astype(np.int64)
        inv, ret = ranks[: len(inv)], ranks[len(inv) :]
    if not history.values:
        return Values(value, base, NONE, NOWHERE, NOWHERE, inv, ret)
    names = history.values
    if bare or not set(map(type, names)) <= _PLAIN:
        numbers: dict[Any, int] = {}
        anew = [numbers.setdefault(kv.bare(name) if bare else name, len(numbers)) for name in names]
        table = np.array([*anew, NONE], np.int64)  # the last entry is for NONE
        value, base = table[value], table[base]
        names = tuple(numbers)
    nil = names.index(None) if None in names else NOWHERE
    given = None if settings.initial is UNSET else settings.initial
    given = kv.bare(given) if bare else given
    initial = names.index(given) if given in names else NOWHERE
    return Values(value, base, initial, nil if settings.nil_read == "unknown" else NOWHERE, NONE, inv, ret)


def compact(values: Values, key: Ints, asks: Flags) -> tuple[Values, int]:
    """The values numbered anew from 0 up, so that no two keys share a number; and how many numbers there are. The value
    before everything becomes `NONE`, the value of a read that says nothing `NOWHERE`. asks: which rows are reads.
    """
    value, base = values.value, values.base
    size = len(value)
    ranks = np.unique(np.concatenate((value, base)), return_inverse=True)[1].astype(np.int64)
    here = key.astype(np.int64)
    pairs = np.concatenate((here, here)) * (int(ranks.max(initial=0)) + 1) + ranks
    numbers = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
    width = int(numbers.max(initial=0)) + 1
    silent = asks & ((value == values.nothing) | (value == values.absent))
    anew = np.where(value == values.initial, NONE, numbers[:size])
    anew[silent] = NOWHERE
    expected = np.where(base == values.initial, NONE, numbers[size:])
    return values._replace(value=anew, base=expected, initial=NONE, nothing=NOWHERE, absent=NOWHERE), width
