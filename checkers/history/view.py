"""A history as every checker reads it: its rows, its holds, and what else is computed once."""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TypeVar, cast

from checkers.history.counting import grouped
from checkers.history.history import FaultInterval, History
from checkers.history.holds_and_lease_ends import Hold, Holds
from checkers.history.rows import Rows
from checkers.row_format import FINAL, F

T = TypeVar("T")


class View(Rows):
    """A history as every checker reads it. It is made once for each history: `History.once(View)`."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._once: dict[Callable[[View], object], object] = {}

    @cached_property
    def attempts_by_key(self) -> dict[int, list[int]]:
        return grouped(self.attempts(), self.key.__getitem__)

    def hold_of(self, row: int) -> Hold | None:
        """The hold whose owner an operation names."""
        return self.holds.by_owner.get(self.owner[row])

    def with_holds(self, rows: Iterable[int]) -> Iterator[tuple[int, Hold]]:
        """The operations that name the owner of a hold, by their rows, each with that hold."""
        return ((row, self.holds.by_owner[self.owner[row]]) for row in rows if self.owner[row] in self.holds.by_owner)

    def of_lease(self, hold: Hold, rows: Iterable[int]) -> list[int]:
        """The rows among `rows` that name the hold's owner or its session."""
        owner, session = self.owner, self.session
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
        """ns; the time that stories call zero: the same for all lanes of a trial, where that is known."""
        return self.facts.begun or (int(self.array("inv")[0]) if len(self.history) else 0)

    def clock(self, ns: int) -> str:
        """A time as text for people: seconds since `zero`."""
        return f"{(ns - self.zero) / 1e9:.3f} s"

    def who(self, process: int) -> str:
        """Whose a process number is, in words: a worker's, or the suite's own."""
        return f"worker {self.facts.worker_of(process)}" if process >= 0 else "the suite"

    def gave_itself(self, row: int) -> bool:
        """Whether a client gave itself this grant: the service gives grants TTLs, and this one has none."""
        return self.facts.lease in ("grant", "quorum") and self.ttl[row] == 0 and self._gives_ttls

    @cached_property
    def _gives_ttls(self) -> bool:
        return any(self.ttl[hold.row] for hold in self.holds)

    @cached_property
    def last_end(self) -> int:
        """ns; the end of the last operation of a worker. Final reads come seconds after hung workers were killed, and
        the stall of a dying worker lasts until somebody noticed its end.
        """
        of_workers = (self.array("flags") & FINAL == 0) & (self.array("f") != F.STALL)
        return int(self.ended[of_workers].max(initial=0))

    @cached_property
    def finish(self) -> int:
        """ns; the last moment that the history knows of."""
        return int(self.ended.max(initial=0))
