"""The columns of a history as plain lists, and its rows by kind.

Plain integers in lists are several times faster in loops than elements of arrays.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from checkers.history.history import History
from checkers.wire import INFINITY, NESTED, F, Outcome


class Lists:
    """A history made ready for loops. `column("ret")` is `INFINITY` where the outcome is unknown."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.facts = history.facts
        self._lists: dict[str, list[int]] = {}

    def array(self, name: str) -> npt.NDArray[Any]:
        """One column as it was recorded."""
        return self.history.columns[name]

    def column(self, name: str) -> list[int]:
        """One column as a list of integers."""
        if name not in self._lists:
            values = self.array(name)
            if name == "ret":
                values = np.where(self.array("outcome") == Outcome.INFO, INFINITY, values)
            self._lists[name] = values.tolist()
        return self._lists[name]

    def rows(self, *kinds: F, outcomes: Sequence[Outcome] = ()) -> list[int]:
        """Row numbers of some kinds of operation, in order of invocation."""
        mask = any_of(self.array("f"), kinds)
        if outcomes:
            mask &= any_of(self.array("outcome"), outcomes)
        rows: list[int] = np.flatnonzero(mask).tolist()
        return rows

    def whole(self, *kinds: F, outcomes: Sequence[Outcome] = ()) -> list[int]:
        """The same without what a holder did inside its own hold: an acquire of what it had, and the release that
        undid it.
        """
        flags = self.column("flags")
        return [row for row in self.rows(*kinds, outcomes=outcomes) if not flags[row] & NESTED]

    @cached_property
    def zero(self) -> int:
        """ns; the time that stories call zero."""
        return int(self.array("inv")[0]) if len(self.history) else 0

    @cached_property
    def finish(self) -> int:
        """ns; the last moment that the history knows of."""
        return max(int(self.array("inv").max(initial=0)), int(self.array("ret").max(initial=0)))


def any_of(values: npt.NDArray[Any], wanted: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Which values are one of a few: several times faster than `numpy.isin` for so few."""
    mask = np.zeros(len(values), bool)
    for value in wanted:
        mask |= values == int(value)
    return mask
