"""Histories whose reads say in which order everything happened, since what they show only grows: exact, O(n log n).

A stage is what brought the state from one that was read to the next one that was, and the reads of that. Stages follow
one another; what was acknowledged and never shown comes after all of them. Inside a stage nothing else is known. So
there is an order iff it fits real time to walk the stages, which one running maximum of invocations decides.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from checkers.engines.engine import Answer, Conflict, Rows
from checkers.history import History
from checkers.leases import INFINITY
from checkers.models.model import UNSET, Settings
from checkers.wire import NONE, F, Outcome


@dataclass
class Stage:
    """Rows. first: what must have happened for it to be reached, one for each part that is new; also: other
    acknowledged operations that did nothing but may not come earlier; reads: those that showed the result.
    """

    first: list[int]
    also: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)


class Table:
    """The columns of a history as lists, its rows key by key, and its values in words."""

    def __init__(self, history: History, settings: Settings, *kinds: F) -> None:
        c = history.columns
        self.inv: list[int] = c["inv"].tolist()
        self.ret: list[int] = np.where(c["outcome"] == Outcome.INFO, INFINITY, c["ret"]).tolist()
        self.f: list[int] = c["f"].tolist()
        self.outcome: list[int] = c["outcome"].tolist()
        self._value: list[int] = c["value"].tolist()
        self._names = (*history.values, UNSET) if history.values else ()
        self._silent = (UNSET, None) if settings.nil_read == "unknown" else (UNSET,)
        self._rows = np.flatnonzero(np.isin(c["f"], kinds))
        self._key = c["key"][self._rows]

    def by_key(self) -> Iterator[tuple[int, list[int]]]:
        """Each key with its rows in order of invocation."""
        order = np.argsort(self._key, kind="stable")
        found, begins = np.unique(self._key[order], return_index=True)
        rows: list[int] = self._rows[order].tolist()
        ends = [*begins.tolist()[1:], len(rows)]
        for key, begin, end in zip(found.tolist(), begins.tolist(), ends, strict=True):
            yield key, rows[begin:end]

    def value(self, row: int) -> Any:
        """In words; UNSET where there is none."""
        value = self._value[row]
        if self._names:
            return self._names[value]
        return UNSET if value == NONE else value

    def ok(self, row: int) -> bool:
        """It was acknowledged."""
        return self.outcome[row] == Outcome.OK

    def failed(self, row: int) -> bool:
        """It did not happen."""
        return self.outcome[row] == Outcome.FAIL

    def silent(self, row: int) -> bool:
        """Whether a read was answered, but says nothing."""
        value = self.value(row)
        return any(value is nothing for nothing in self._silent)


class Place(NamedTuple):
    """An operation that changes nothing in an order, and the place before which it may not stand."""

    row: int
    least: int = 0


def contradiction(stages: Sequence[Stage], rest: Sequence[int], table: Table) -> tuple[int, ...] | None:
    """Rows that show that stages, and then the rest, cannot have come in this order; None if they can.

    The last one returned before the one before it was invoked, or the other way round, and the reads among them say
    that it must be otherwise.
    """
    inv, ret = table.inv, table.ret
    latest = -1
    of = 0
    for n, stage in enumerate(stages):
        for row in (*stage.first, *stage.also):
            if latest >= 0 and ret[row] < inv[latest]:
                return _distinct(row, *stages[of].reads[:1], latest)
        newest, since = latest, of
        for row in stage.first:
            if newest < 0 or inv[row] > inv[newest]:
                newest, since = row, n
        for row in stage.reads:
            if newest >= 0 and ret[row] < inv[newest]:
                return _distinct(*stages[since].reads[:1], newest, row)
        for row in stage.reads:
            if newest < 0 or inv[row] > inv[newest]:
                newest, since = row, n
        latest, of = newest, since
    for row in rest:
        if latest >= 0 and ret[row] < inv[latest]:
            return _distinct(row, *stages[of].reads[:1], latest)
    return None


def _distinct(*rows: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(rows))


def woven(sequence: Sequence[int], guests: Sequence[Place], inv: Sequence[int], ret: Sequence[int]) -> list[int]:
    """An order with operations put into it that change nothing: each at the first place that real time allows.

    That there is one for each follows from the order's own fitting real time.
    """
    soonest = [*(ret[row] for row in sequence), INFINITY]
    for place in range(len(sequence) - 1, -1, -1):
        soonest[place] = min(soonest[place], soonest[place + 1])
    by_ret = sorted(range(len(guests)), key=lambda n: ret[guests[n].row])
    order = sorted(range(len(guests)), key=lambda n: (inv[guests[n].row], n))
    chosen = [0] * len(guests)
    bound = returned = 0
    for n in order:
        row, least = guests[n]
        while returned < len(by_ret) and ret[guests[by_ret[returned]].row] < inv[row]:
            bound = max(bound, chosen[by_ret[returned]])
            returned += 1
        chosen[n] = max(bisect_left(soonest, inv[row]), least, bound)
    merged: list[int] = []
    done = 0
    for n in sorted(order, key=lambda n: chosen[n]):
        merged += sequence[done : chosen[n]]
        done = max(done, chosen[n])
        merged.append(guests[n].row)
    return [*merged, *sequence[done:]]


Order = Callable[[], Sequence[int]]
"""Makes the rows of one key in order."""


def answered(conflicts: Sequence[Conflict], undecided: Mapping[int, str], orders: Sequence[Order]) -> Answer:
    """An answer whose order is put together from those of the keys when it is asked for."""

    def order() -> Rows:
        return np.array([row for make in orders for row in make()], np.int64)

    return Answer(tuple(conflicts), dict(undecided), order)
