"""The search of several keys: each key for a while, then each again for longer, until one is bad or all are good.

Source: checkers/CONDITIONS.md, section 21. A key whose search explodes must not hide a bad key that is found cheaply.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from checkers.engines.search_plan import OutOfTime, plan
from checkers.engines.search_states import OutOfMemory, StateSearch, Stuck
from checkers.engines.search_table import FOUND, MEMORY_SPENT, NONE_FOUND, SearchTable, search_table, table
from checkers.models.model import Model
from checkers.models.operations import Operations

FIRST_STEPS: Final = 2_000  # of each key in the first round
GROWTH: Final = 4  # the factor by which the steps grow from round to round
TABLE_AFTER: Final = 20_000
"""Steps without a table, if the kernel that searches tables would have to be loaded or compiled first."""
TABLE_STEPS: Final = 4_000_000  # no table takes more steps of the model; about a second's worth
TABLE_BYTES: Final = 1 << 30
TABLE_FIRST_STEPS: Final = 2_000
TABLE_GROWTH: Final = 8
STEPS_OF_A_ROW: Final = 16
"""Steps in a table that cost as much as a row does in other kernels; used to choose the kernel's form."""


class Searched(NamedTuple):
    valid: bool | None  # None: given up, `reason` says why
    order: tuple[int, ...] = ()  # row numbers in an order that explains everything, where there is one
    stuck: Stuck = Stuck(())  # the return that no order gets past, if there is one
    reason: str = ""
    suspects: tuple[int, ...] = ()  # rows that contradict each other, where that was deduced; the last of them is stuck


class KeySearch:
    """The search of one key, which can be interrupted and resumed. Moves to a table when that promises to pay."""

    def __init__(self, operations: Operations, model: Model, deadline: float) -> None:
        """deadline: of `time.monotonic`. Raises OutOfTime, and whatever the model raises."""
        self._model = model
        self._deadline = deadline
        self._plan = plan(operations, model, deadline)
        self._states: StateSearch | None = None
        self._table: SearchTable | None = None
        self._table_tried = 0
        self._tried = 0
        self._table_steps = TABLE_FIRST_STEPS
        self._rate = 0.0

    def run(self, steps: int) -> Searched | None:
        """The answer, or None after so many more steps. Raises as `__init__`; must not be called after it raised."""
        if self._table is None:
            self._make_table()
        if self._table is not None:
            return self._in_table(self._table)
        try:
            self._states = states = self._states or StateSearch(self._plan, self._model, self._deadline)
            ended = states.run(steps)
        except OutOfMemory:
            return Searched(None, reason=f"all the memory allowed was spent after {self.progress}")
        self._tried = states.tried
        if not ended:
            return None
        return Searched(False, stuck=states.stuck) if states.order is None else Searched(True, states.order)

    @property
    def progress(self) -> str:
        """How far the search came, for people."""
        return f"{self._tried} steps on {len(self._plan.rows)} operations"

    def _make_table(self) -> None:
        if self._tried < (FIRST_STEPS if search_table.fast else TABLE_AFTER):
            return
        limit = min(2 * max(self._tried, len(self._plan.rows)), TABLE_STEPS)
        if limit >= 2 * self._table_tried:
            self._table_tried = limit
            self._table = table(self._plan, self._model, limit, self._deadline)
            if self._table is not None:
                self._states = None

    def _in_table(self, made: SearchTable) -> Searched | None:
        """Searches from the beginning each time, for longer: what was done before is a small part of it."""
        begun = time.monotonic()
        left = self._deadline - begun
        if left <= 0:
            raise OutOfTime
        steps = min(self._table_steps, max(int(left * self._rate), 1)) if self._rate else self._table_steps
        self._table_steps *= TABLE_GROWTH
        memory = TABLE_BYTES // (8 * (24 + made.stride))
        answer, order, furthest, taken = search_table.sized(steps // STEPS_OF_A_ROW, made, steps, memory)
        self._rate = taken / max(time.monotonic() - begun, 1e-4)
        self._tried += taken
        rows, begins = self._plan.rows, self._plan.begins
        if answer == FOUND:
            return Searched(True, tuple(rows[order].tolist()))
        if answer == NONE_FOUND:
            flying = [furthest, *(n for n in range(furthest + 1, self._plan.answered) if begins[n] <= furthest)]
            return Searched(False, stuck=Stuck(tuple(rows[flying].tolist())))
        if answer == MEMORY_SPENT:
            return Searched(None, reason=f"all the memory allowed was spent after {self.progress}")
        return None


def search(operations: Operations, model: Model, seconds: float = 5.0) -> Searched:
    """Searches the operations of one key. Raises whatever the model raises."""
    return search_keys({0: operations}, model, seconds)[0]


def search_keys(keys: Mapping[int, Operations], model: Model, seconds: float) -> dict[int, Searched]:
    """Key → its result; a bad key ends unfinished ones, which are then missing. Raises whatever the model raises."""
    deadline = time.monotonic() + seconds
    results: dict[int, Searched] = {}
    searches: dict[int, KeySearch] = {}
    waiting: Iterable[int] = keys
    steps = FIRST_STEPS
    while waiting:
        unfinished = []
        for key in waiting:
            try:
                searched = None if key in searches else _deduced(keys[key], model)
                if searched is None:
                    if key not in searches:
                        searches[key] = KeySearch(keys[key], model, deadline)
                    searched = searches[key].run(steps)
            except OutOfTime:
                progress = f"after {searches[key].progress}" if key in searches else f"with {len(keys[key])} operations"
                searched = Searched(None, reason=f"the budget was spent {progress}")
            if searched is None:
                unfinished.append(key)
                continue
            searches.pop(key, None)
            results[key] = searched
            if searched.valid is False:
                return results
        waiting = unfinished
        steps *= GROWTH
    return results


def _deduced(operations: Operations, model: Model) -> Searched | None:
    """What the model knows without a search, or None."""
    if (deduced := model.deduced(operations)) is None:
        return None
    rows = tuple(deduced.rows)
    return Searched(True, rows) if deduced.valid else Searched(False, stuck=Stuck(rows[-1:]), suspects=rows)
