"""The operations of a history as specifications see them, made from the columns when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from checkers.history.counting import Array, Flags, Ints, any_of, grouped
from checkers.history.history import History
from checkers.row_format import FINAL, INFINITY, NESTED, NONE, SHARED, F, Outcome, Reason

WHOLE: Final = NONE  # the key that stands for the whole history, for a model that knows no keys

# Looking up a name of the module takes a quarter of the time of looking up a member of an enumeration.
_OK, _FAIL, _INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO


class Operation(NamedTuple):
    """One operation as specifications see it.

    key, value and base are as recorded: what a file from elsewhere holds (`UNSET` if it holds nothing), or the numbers
    of our own recordings (`row_format.NONE`: the initial value).
    """

    row: int
    f: F
    outcome: Outcome
    inv: int
    ret: int  # `row_format.INFINITY` if it was never answered
    process: int
    key: Hashable
    owner: int  # the holder: a grant's identity, or the process if the history has none. Never 0
    token: int  # `row_format.NONE` for none
    value: Any
    base: Any
    flags: int = 0
    reason: Reason = Reason.NONE

    @property
    def ok(self) -> bool:
        return self.outcome == _OK

    @property
    def failed(self) -> bool:
        """Whether it certainly did not happen, or was refused."""
        return self.outcome == _FAIL

    @property
    def unknown(self) -> bool:
        return self.outcome == _INFO

    @property
    def shared(self) -> bool:
        """Whether it is a reader's acquire or release."""
        return bool(self.flags & SHARED)

    @property
    def nested(self) -> bool:
        """Whether it acquires what this owner holds already, or is the release that undoes that."""
        return bool(self.flags & NESTED)

    @property
    def final(self) -> bool:
        """Whether it is a read after everything else, past the fence."""
        return bool(self.flags & FINAL)


class Unset:
    """No value was given; None is a value."""


UNSET: Final = Unset()

_F: Final = tuple(F(n) if n in set(F) else None for n in range(256))
_OUTCOME: Final = tuple(Outcome(n) if n in set(Outcome) else None for n in range(256))
_REASON: Final = tuple(Reason(n) if n in set(Reason) else Reason.NONE for n in range(256))


def column(history: History, name: str, rows: Ints) -> Array:
    """A column of `row_format.FIELDS`, or ``row``, for these rows. ``ret`` is `INFINITY` if the outcome is unknown."""
    if name == "row":
        return rows
    numbers: Array = history.columns[name][rows]
    # NumPy takes seven times as long to compare with a member of an enumeration as with its number.
    return np.where(history.columns["outcome"][rows] == int(_INFO), INFINITY, numbers) if name == "ret" else numbers


def _words(history: History) -> dict[str, Callable[[int], Any]]:
    """For the fields of `Operation` that are no numbers, what a number stands for."""
    values = (*history.values, UNSET) if history.values else ()
    words: dict[str, Sequence[Any]] = {"f": _F, "outcome": _OUTCOME, "reason": _REASON}
    words |= {"key": history.facts.keys, "value": values, "base": values}
    return {name: table.__getitem__ for name, table in words.items() if table}


def _indexes(history: History) -> dict[Any, list[int]]:
    return grouped(range(len(history.values)), history.values.__getitem__)


def _numbers_of(history: History, value: Any) -> list[int]:
    """The numbers that stand for a value in the columns `value` and `base`."""
    if not history.values:
        return [value] if isinstance(value, int) else []
    try:
        return history.once(_indexes).get(value, [])
    except TypeError:  # not hashable, so not a value of the history
        return []


class Operations:
    """The operations of some rows, in order of invocation."""

    def __init__(self, history: History, rows: Ints) -> None:
        self.history = history
        self.rows = rows
        self._lookups = 0
        self._sorted: dict[str, tuple[Ints, Array]] = {}
        self._latest: dict[tuple[F, ...], tuple[Ints, Ints, Ints]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, places: slice) -> Operations:
        return Operations(self.history, self.rows[places])

    def __iter__(self) -> Iterator[Operation]:
        for begin in range(0, len(self.rows), _BLOCK):
            yield from self._made(self.rows[begin : begin + _BLOCK])

    def array(self, name: str) -> Array:
        return column(self.history, name, self.rows)

    def only(self, rows: Iterable[int]) -> Operations:
        return Operations(self.history, np.array(sorted(rows), np.int64))

    def where(
        self,
        *kinds: F,
        owner: int | None = None,
        value: Any = UNSET,
        base: Any = UNSET,
        tokens: tuple[int, int] | None = None,
        meets: tuple[int, int] | None = None,
    ) -> Sequence[Operation]:
        """The operations that fit all that is given, in order of invocation.

        kinds   only of these kinds; if none is given, of any kind.
        tokens  only with a token in this range, both ends included.
        meets   only if the time from invocation to return has an instant in common with this range, in ns.
        """
        rows, history = self.rows, self.history
        if owner is not None:
            rows = self._with("owner", [owner])
        elif value is not UNSET:
            rows = self._with("value", _numbers_of(history, value))
        elif base is not UNSET:
            rows = self._with("base", _numbers_of(history, base))
        if kinds:
            rows = rows[any_of(column(history, "f", rows), kinds)]
        for name, wanted in (("value", value), ("base", base)):
            if wanted is not UNSET:
                rows = rows[any_of(column(history, name, rows), _numbers_of(history, wanted))]
        if tokens is not None:
            token = column(history, "token", rows)
            rows = rows[(token >= tokens[0]) & (token <= tokens[1])]
        if meets is not None:
            rows = rows[(column(history, "inv", rows) <= meets[1]) & (column(history, "ret", rows) >= meets[0])]
        return list(self._made(rows))

    def _with(self, name: str, wanted: Sequence[int]) -> Ints:
        """Ints whose column holds one of these values, in order. From the `_OFTEN`-th lookup on an index is used."""
        self._lookups += 1
        if self._lookups < _OFTEN:
            return self.rows[any_of(self.array(name), wanted)]
        if name not in self._sorted:
            numbers = self.array(name)
            order = np.argsort(numbers, kind="stable")
            self._sorted[name] = self.rows[order], numbers[order]
        rows, numbers = self._sorted[name]
        parts = [rows[slice(*np.searchsorted(numbers, (value, value + 1)))] for value in wanted]
        return np.sort(np.concatenate(parts)) if parts else rows[:0]

    def latest(self, *kinds: F, before: int) -> tuple[int, int]:
        """Row and invocation of what was invoked last of all of these kinds acknowledged by then; (`NONE`, 0): none."""
        if kinds not in self._latest:
            rows = self.rows[any_of(self.array("f"), kinds) & (self.array("outcome") == int(_OK))]
            rows = rows[np.argsort(column(self.history, "ret", rows), kind="stable")]
            ret, inv = (column(self.history, name, rows) for name in ("ret", "inv"))
            newest = np.maximum.accumulate(np.where(inv == np.maximum.accumulate(inv), np.arange(len(rows)), 0))
            self._latest[kinds] = ret, rows[newest], inv[newest]
        ret, rows, inv = self._latest[kinds]
        place = int(np.searchsorted(ret, before)) - 1
        return (int(rows[place]), int(inv[place])) if place >= 0 else (NONE, 0)

    def _made(self, rows: Ints) -> Iterator[Operation]:
        words, fields = self.history.once(_words), list[Iterable[Any]]()
        for name in Operation._fields:
            numbers = column(self.history, name, rows).tolist()
            fields.append(map(words[name], numbers) if name in words else numbers)
        return map(Operation, *fields)


_BLOCK: Final = 1 << 14  # operations that are made at once
_OFTEN: Final = 16  # so many lookups cost about as much as sorting


class ByKey:
    """The operations of a history that a model speaks of, key by key. keyed: if not, all stand under `WHOLE`."""

    def __init__(self, history: History, kinds: Iterable[F], *, keyed: bool = True) -> None:
        self._history = history
        self._keyed = keyed
        self._wanted = np.zeros(256, bool)
        self._wanted[list(kinds)] = True

    def __len__(self) -> int:
        return int(np.count_nonzero(self._mask))

    @property
    def keys(self) -> list[int]:
        return list(self._parts)

    def __getitem__(self, key: int) -> Operations:
        rows = self._parts.get(key, self._rows[:0]) if self._keyed else self._rows
        return Operations(self._history, rows)

    def only(self, key: int) -> Operations:
        """As `[key]`, but without sorting the operations of other keys. Faster if only a few keys are asked for."""
        if not self._keyed:
            return Operations(self._history, self._rows)
        return Operations(self._history, np.flatnonzero(self._mask & (self._history.columns["key"] == key)))

    @cached_property
    def _mask(self) -> Flags:
        return self._wanted[self._history.columns["f"]]

    @cached_property
    def _rows(self) -> Ints:
        return np.flatnonzero(self._mask)

    @cached_property
    def _parts(self) -> dict[int, Ints]:
        if not len(self._rows):
            return {}
        if not self._keyed:
            return {WHOLE: self._rows}
        key = self._history.columns["key"][self._rows]
        order = np.argsort(key, kind="stable")
        rows, key = self._rows[order], key[order]
        bounds = [0, *(np.flatnonzero(key[1:] != key[:-1]) + 1).tolist(), len(key)]
        return {int(key[begin]): rows[begin:end] for begin, end in pairwise(bounds)}
