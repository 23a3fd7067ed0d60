"""The operations of a history by their rows: the columns as lists, and which rows have some kinds of operation."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from checkers.history.counting import Array, Ints, any_of
from checkers.history.history import History
from checkers.row_format import ACQUIRES, INFINITY, LATE, NESTED, F, Outcome


class _Column:
    """A column as a list of integers, made when it is first read."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, rows: "Rows", owner: type) -> list[int]:
        values: list[int] = rows.array(self._name).tolist()
        rows.__dict__[self._name] = values  # the next access finds the list without this method
        return values


class Rows:
    """The columns of `checkers.row_format.FIELDS` as lists, which are several times faster in loops than arrays."""

    inv, sent, ttl, token, owner, value, base, session = (_Column() for _ in range(8))
    process, key, f, outcome, reason, flags = (_Column() for _ in range(6))

    def __init__(self, history: History) -> None:
        self.history = history
        self.facts = history.facts

    def array(self, name: str) -> Array:
        """One column as it was recorded."""
        return self.history.columns[name]

    @cached_property
    def ret(self) -> list[int]:
        """ns; when each operation returned, `INFINITY` where the outcome is unknown."""
        values: list[int] = np.where(self.array("outcome") == Outcome.INFO, INFINITY, self.array("ret")).tolist()
        return values

    @cached_property
    def stopped(self) -> list[int]:
        """ns; when each operation returned or its answer was given up, 0 if nobody knows."""
        values: list[int] = self.array("ret").tolist()
        return values

    @cached_property
    def ended(self) -> Ints:
        """ns, by row; as `stopped`, or the invocation if nobody knows."""
        ended: Ints = np.maximum(self.array("ret"), self.array("inv"))
        return ended

    def rows(self, *kinds: F, outcomes: Sequence[Outcome] = ()) -> list[int]:
        """Row numbers of some kinds of operation, in order of invocation."""
        mask = any_of(self.array("f"), kinds)
        if outcomes:
            mask &= any_of(self.array("outcome"), outcomes)
        return np.flatnonzero(mask).tolist()

    def whole(self, *kinds: F, outcomes: Sequence[Outcome] = ()) -> list[int]:
        """As `rows`, without nested acquires (of what their holder had already) and the releases that undid them, and
        without what was sent on purpose after the release (`LATE`).
        """
        return [row for row in self.rows(*kinds, outcomes=outcomes) if not self.flags[row] & (NESTED | LATE)]

    def attempts(self, *outcomes: Outcome) -> list[int]:
        """Row numbers of acquires and tries that are not nested, in order of invocation. No outcomes: all of them."""
        return self.whole(*ACQUIRES, outcomes=outcomes)

    def worker(self, row: int) -> int:
        """The number of the worker that invoked an operation."""
        return self.facts.worker_of(self.process[row])
