"""A history as every checker reads it: columns as lists (several times faster in loops than arrays), rows, holds."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from checkers.history.counting import Ints, any_of, grouped
from checkers.history.history import FaultInterval, History
from checkers.history.holds_and_lease_ends import Hold, Holds
from checkers.row_format import ACQUIRES, INFINITY, NESTED, F, Outcome

T = TypeVar("T")


class View:
    """A history as every checker reads it. It is made once for each history: `History.once(View)`."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.facts = history.facts
        self._lists: dict[str, list[int]] = {}
        self._once: dict[Callable[[View], object], object] = {}

    def array(self, name: str) -> npt.NDArray[Any]:
        """One column as it was recorded."""
        return self.history.columns[name]

    def column(self, name: str) -> list[int]:
        """One column as a list of integers; ``ret`` is `INFINITY` where the outcome is unknown."""
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
        return np.flatnonzero(mask).tolist()

    def whole(self, *kinds: F, outcomes: Sequence[Outcome] = ()) -> list[int]:
        """As `rows`, without nested acquires (of what their holder had already) and the releases that undid them."""
        flags = self.column("flags")
        return [row for row in self.rows(*kinds, outcomes=outcomes) if not flags[row] & NESTED]

    def attempts(self, *outcomes: Outcome) -> list[int]:
        """Row numbers of acquires and tries that are not nested, in order of invocation. No outcomes: all of them."""
        return self.whole(*ACQUIRES, outcomes=outcomes)

    @cached_property
    def attempts_by_key(self) -> dict[int, list[int]]:
        return grouped(self.attempts(), self.column("key").__getitem__)

    def worker(self, row: int) -> int:
        """The number of the worker that invoked an operation."""
        return self.facts.worker_of(self.column("process")[row])

    def hold_of(self, row: int) -> Hold | None:
        """The hold whose owner an operation names."""
        return self.holds.by_owner.get(self.column("owner")[row])

    def of_lease(self, hold: Hold, rows: Iterable[int]) -> list[int]:
        """The rows among `rows` that name the hold's owner or its session."""
        owner, session = self.column("owner"), self.column("session")
        return [r for r in rows if owner[r] == hold.owner or (hold.session and session[r] == hold.session)]

    def once(self, function: Callable[["View"], T]) -> T:
        """The function's result for this view. The function is called once, however often the result is asked for."""
        if function not in self._once:
            self._once[function] = function(self)
        return cast(T, self._once[function])

    @cached_property
    def holds(self) -> Holds:
        return Holds(self)

    @cached_property
    def struck(self) -> tuple[FaultInterval, ...]:
        """The faults that were applied."""
        return tuple(fault for fault in self.history.faults if fault.applied)

    @cached_property
    def zero(self) -> int:
        """ns; the time that stories call zero."""
        return int(self.array("inv")[0]) if len(self.history) else 0

    def clock(self, ns: int) -> str:
        """A time as text for people: seconds since `zero`."""
        return f"{(ns - self.zero) / 1e9:.3f} s"

    @cached_property
    def ended(self) -> Ints:
        """ns, by row; when the operation returned or its answer was given up, or its invocation if nobody knows."""
        ended: Ints = np.maximum(self.array("ret"), self.array("inv"))
        return ended

    @cached_property
    def finish(self) -> int:
        """ns; the last moment that the history knows of."""
        return int(self.ended.max(initial=0))
