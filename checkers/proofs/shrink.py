"""A minimal bad part of a bad history: a few operations that no order explains, of which none can be spared.

Source: checkers/CONDITIONS.md, section 21. Delta debugging: larger closed parts are left out first. No closed part of
the result is bad, since each lies within what remains without some one operation and those that need it.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from checkers.engines.search import search
from checkers.engines.search_plan import OutOfTime, look_at_the_clock
from checkers.models.model import Model, Operation
from checkers.models.operations import Operations
from checkers.row_format import INFINITY

_FIRST_WINDOW: Final = 8  # operations


class Shrunk(NamedTuple):
    rows: tuple[int, ...] | None  # the sub-history, in order of invocation; None: no bad sub-history was found
    minimal: bool = False  # nothing can be left out
    refuted: bool = False  # there is no bad sub-history, since all operations of the key have an order


def shrink(operations: Operations, model: Model, suspects: Sequence[int], deadline: float) -> Shrunk:
    """A minimal bad sub-history of the operations of one key.

    suspects: rows that are said to contradict each other, or where no order got past; no order gets past the last of
    them. deadline: of `time.monotonic`; when it has passed, the best result until then is the answer.
    """
    shrinker = _Shrinker(operations, model, deadline)
    try:
        for rows in shrinker.attempts(suspects):
            if shrinker.bad(rows):
                return shrinker.least(rows, suspects)
    except OutOfTime:
        return Shrunk(None)
    return Shrunk(None, refuted=True)


class _Shrinker:
    """_known: rows that count. _idle: rows that failed and prove nothing. _needs: what each needs (`Model.needs`)."""

    def __init__(self, operations: Operations, model: Model, deadline: float) -> None:
        self._operations = operations
        self._model = model
        self._deadline = deadline
        self._known: dict[int, Operation] = {}
        self._idle: set[int] = set()
        self._needs: dict[int, frozenset[int] | None] = {}

    def attempts(self, suspects: Sequence[int]) -> Iterator[frozenset[int]]:
        """Closed sets that may be bad: the suspects', then with more and more rows invoked before, then all rows."""
        rows = self._operations.rows
        (last,) = self._operations.only(suspects[-1:])
        until = int(np.searchsorted(self._operations.array("inv"), last.ret, "right"))
        tried: frozenset[int] = frozenset()
        for size in (0, *_windows(until), until):
            closed = self._closed([*suspects, *rows[until - size : until].tolist()])
            if len(closed) > len(tried):
                tried = closed
                yield closed
        yield self._closed(rows.tolist())

    def _closed(self, rows: Iterable[int]) -> frozenset[int]:
        """The smallest closed set that contains the rows. Raises OutOfTime."""
        result: set[int] = set()
        todo = self._counting(rows)
        until = passed = -1  # all that was invoked by then and changes the state is needed
        while todo:
            result |= todo
            following: set[int] = set()
            for row in todo:
                needed = self._needed(row)
                if needed is not None:
                    following |= needed
                elif not self._known[row].unknown:
                    until = max(until, self._known[row].ret)
            if until > passed:
                between = np.searchsorted(self._operations.array("inv"), (passed, until), "right")
                earlier = self._counting(self._operations.rows[slice(*between)].tolist())
                following.update(row for row in earlier if self._model.changes(self._known[row]))
                passed = until
            todo = following - result
        return frozenset(result)

    def _needed(self, row: int) -> frozenset[int] | None:
        if row not in self._needs:
            look_at_the_clock(self._deadline)
            rows = self._model.needs(self._known[row], self._operations)
            self._needs[row] = None if rows is None else frozenset(self._counting(rows))
        return self._needs[row]

    def _counting(self, rows: Iterable[int]) -> set[int]:
        """The rows that are of the key, and did not fail without proving anything."""
        wanted = set(rows)
        fresh = np.array(sorted(wanted.difference(self._known, self._idle)), np.int64)
        all_rows = self._operations.rows
        place = np.searchsorted(all_rows, fresh)
        fresh = fresh[(place < len(all_rows)) & (all_rows[np.minimum(place, len(all_rows) - 1)] == fresh)]
        for operation in self._operations.only(fresh):
            if not operation.row & 1023:
                look_at_the_clock(self._deadline)
            if operation.failed and not self._model.evidence(operation):
                self._idle.add(operation.row)
            else:
                self._known[operation.row] = operation
        return wanted & self._known.keys()

    def bad(self, rows: Iterable[int]) -> bool:
        """Whether no order explains the rows. Raises OutOfTime, also if the memory did not suffice."""
        look_at_the_clock(self._deadline)
        searched = search(self._operations.only(rows), self._model, self._deadline - time.monotonic())
        if searched.valid is None:
            raise OutOfTime
        return not searched.valid

    def least(self, rows: frozenset[int], suspects: Sequence[int]) -> Shrunk:
        """If nothing bad remains without an operation, the operation stays, and so does all that it needs.

        For without one of these the operation would be missing too, and a closed part of something good is good.
        """
        current = set(rows)
        staying: set[int] = set()
        needing: defaultdict[int, list[int]] = defaultdict(list)
        for row in rows:
            for needed in self._needed(row) or ():
                needing[needed].append(row)

        def leave_out(rows: Iterable[int]) -> None:
            part = [row for row in rows if row in current and row not in staying]
            rest = self._without(current, part, needing)
            if part and rest and self.bad(rest):
                current.intersection_update(rest)
            elif len(part) == 1:
                staying.update(self._closed(part))

        size = len(current)
        try:
            for row in sorted(set(suspects) & current, key=self._weight, reverse=True):
                leave_out([row])  # most other rows are there because one of these needs them
            while free := sorted(current - staying, key=self._weight, reverse=True):
                size = max(size // 2, 1)
                for begin in range(0, len(free), size):
                    leave_out(free[begin : begin + size])
        except OutOfTime:
            return Shrunk(tuple(sorted(current)))
        return Shrunk(tuple(sorted(current)), minimal=True)

    def _weight(self, row: int) -> tuple[int, int]:
        """Sorts rows so that those that need much are left out first: with them goes the reason for what they need."""
        needed = self._needs[row]
        return len(self._operations) if needed is None else len(needed), row

    def _without(self, rows: set[int], part: Sequence[int], needing: Mapping[int, Sequence[int]]) -> set[int]:
        """What remains without a part and without all rows that need it."""
        gone: set[int] = set()
        todo = set(part)
        while todo:
            gone |= todo
            following = {row for needed in todo for row in needing.get(needed, ())}
            since = min((self._known[r].inv for r in todo if self._model.changes(self._known[r])), default=INFINITY)
            if since < INFINITY:
                following.update(r for r in rows if self._needs[r] is None and since <= self._known[r].ret < INFINITY)
            todo = following - gone
        return rows - gone


def _windows(until: int) -> Iterator[int]:
    size = _FIRST_WINDOW
    while size < until:
        yield size
        size *= 4
