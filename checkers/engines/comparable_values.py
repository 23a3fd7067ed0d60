"""The values of a history as numbers that engines can compare: equal where the specification calls them equal."""

from typing import Any, Final, NamedTuple

import numpy as np

from checkers.history.counting import Ints, any_of
from checkers.history.history import History
from checkers.models import kv
from checkers.models.model import UNSET, Settings
from checkers.row_format import NONE, F

NOWHERE: Final = -(1 << 62)  # a number that no value has

_PLAIN: Final = frozenset({int, str, type(None)})
_LATE: Final = 1 << 60
"""Times from here on cannot be doubled: if an invocation is so late, ranks take the place of all times."""


class Values(NamedTuple):
    """The values and times of all rows."""

    value: Ints  # a number for each row
    base: Ints  # likewise
    initial: int  # the number of the value before everything
    nothing: int  # the value of a read that says nothing
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
        return Values(value, base, NONE, NOWHERE, inv, ret)
    names = history.values
    if bare or not set(map(type, names)) <= _PLAIN:
        numbers: dict[Any, int] = {}
        anew = [numbers.setdefault(kv.bare(name) if bare else name, len(numbers)) for name in names]
        table = np.array([*anew, NONE], np.int64)  # the last entry is for NONE
        value, base = table[value], table[base]
        names = tuple(numbers)
    unknown = (NONE, names.index(None)) if settings.nil_read == "unknown" and None in names else (NONE,)
    value = np.where((c["f"] == F.READ) & any_of(value, unknown), len(names), value)
    given = None if settings.initial is UNSET else settings.initial
    given = kv.bare(given) if bare else given
    initial = names.index(given) if given in names else NOWHERE
    return Values(value, base, initial, len(names), inv, ret)


def compact(values: Values, key: Ints) -> tuple[Values, int]:
    """The values numbered anew from 0 up, so that no two keys share a number; and how many numbers there are. The value
    before everything becomes `NONE`, the value of a read that says nothing `NOWHERE`.
    """
    value, base = values.value, values.base
    size = len(value)
    ranks = np.unique(np.concatenate((value, base)), return_inverse=True)[1].astype(np.int64)
    here = key.astype(np.int64)
    pairs = np.concatenate((here, here)) * (int(ranks.max(initial=0)) + 1) + ranks
    numbers = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
    width = int(numbers.max(initial=0)) + 1
    anew = np.where(value == values.initial, NONE, np.where(value == values.nothing, NOWHERE, numbers[:size]))
    expected = np.where(base == values.initial, NONE, numbers[size:])
    return values._replace(value=anew, base=expected, initial=NONE, nothing=NOWHERE), width
