"""The values of a history as numbers that engines can compare: equal where the specification calls them equal."""

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from checkers.history.history import History
from checkers.models import kv
from checkers.models.model import UNSET, Settings
from checkers.row_format import NONE

Array = npt.NDArray[np.int64]

NOWHERE: Final = -(1 << 62)
"""A number that no value has."""

_PLAIN: Final = frozenset({int, str, type(None)})
_LATE: Final = 1 << 60
"""Times from here on cannot be doubled: their ranks take their place."""


class Values(NamedTuple):
    """The values and times of all rows."""

    value: Array  # a number for each row
    base: Array  # likewise
    initial: int  # that of the value before everything
    nothing: int  # that of a nil that says nothing when it is read
    absent: int  # where the file gave no value at all
    inv: Array  # times that can be doubled
    ret: Array  # likewise


def values_of(history: History, settings: Settings, *, bare: bool = False) -> Values:
    """The values as they are numbered in the history, or anew where two numbers may stand for equal values.

    bare: whether empty strings and lists are the same as nil.
    """
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
        table = np.array([*anew, NONE], np.int64)  # the last is that of NONE
        value, base = table[value], table[base]
        names = tuple(numbers)
    nil = _number(names, None)
    given = None if settings.initial is UNSET else settings.initial
    initial = _number(names, kv.bare(given) if bare else given)
    return Values(value, base, initial, nil if settings.nil_read == "unknown" else NOWHERE, NONE, inv, ret)


def compact(values: Values, key: Array, asks: npt.NDArray[np.bool_]) -> tuple[Values, int]:
    """The same with numbers from 0 up that no two keys share, and how many there are: the value before everything
    becomes `NONE`, and a read that says nothing `NOWHERE`. asks: which rows are reads.
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


def _number(names: tuple[Any, ...], name: Any) -> int:
    try:
        return names.index(name)
    except ValueError:
        return NOWHERE
