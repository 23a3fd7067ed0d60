"""A set that is added to and read as a whole: exact, near-linear in the operations and in what the reads show.

A set only grows, so reads are ordered by inclusion, and those that show the same stand together, after all that was
added to show it: stages, as in `checkers.engines.growth`. Of the additions of one element only the first does
anything, and taking the one invoked first for it leaves most room for the others, which may stand anywhere later.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import NamedTuple

from checkers.engines.engine import Answer, Conflict
from checkers.engines.growth import Order, Place, Stage, Table, answered, contradiction, woven
from checkers.history import History
from checkers.models.accumulators import collection
from checkers.models.model import Settings
from checkers.wire import F


def set_(history: History, settings: Settings) -> Answer:
    """Decides every key."""
    table = Table(history, settings, F.ADD, F.READ)
    given = settings.initial
    initial = frozenset(given) if isinstance(given, (tuple, list, set, frozenset)) else frozenset()
    conflicts, orders = [], []
    for key, rows in table.by_key():
        found = _Key(table, rows, initial).judged(key)
        if isinstance(found, Conflict):
            conflicts.append(found)
        else:
            orders.append(found)
    return answered(conflicts, {}, orders)


class Additions(NamedTuple):
    """Of one element, those that did not fail: the one invoked first, and the others."""

    first: int
    others: list[int]


def additions(table: Table, rows: Sequence[int]) -> tuple[dict[Hashable, Additions], dict[Hashable, int]]:
    """Element → its additions; and element → one that failed."""
    found: dict[Hashable, Additions] = {}
    failed: dict[Hashable, int] = {}
    for row in rows:
        if table.f[row] != F.ADD:
            continue
        element = table.value(row)
        if table.failed(row):
            failed[element] = row
        elif element not in found:
            found[element] = Additions(row, [])
        else:
            found[element].others.append(row)
    return found, failed


class _Key:
    """One key of a history."""

    def __init__(self, table: Table, rows: Sequence[int], initial: frozenset[Hashable]) -> None:
        self._table = table
        self._initial = initial
        self._added, self._failed = additions(table, rows)
        self._reads = [row for row in rows if table.f[row] == F.READ and table.ok(row)]

    def judged(self, key: int) -> Conflict | Order:
        """What contradicts itself, or what makes the order."""
        table = self._table
        sizes = []
        for row in self._reads:
            if not table.silent(row):
                shown = collection(table.value(row))
                if shown is None:
                    return Conflict("not-a-collection", key, (row,))
                sizes.append((len(shown), row))
        stages = [Stage([])]
        seen = set(self._initial)
        before = -1
        for size, row in sorted(sizes):
            shown = collection(table.value(row)) or frozenset()
            new = shown - seen
            if size != len(seen) + len(new):  # something that was there is not shown
                return Conflict("element-missing", key, (row,) if before < 0 else (before, row))
            for element in new:
                if element not in self._added:
                    if element in self._failed:
                        return Conflict("refused-value-read", key, (self._failed[element], row))
                    return Conflict("value-never-written", key, (row,))
            if new:
                stages.append(self._stage(new))
                seen |= new
            stages[-1].reads.append(row)
            before = row
        rest = [
            row
            for element, found in self._added.items()
            if element not in seen
            for row in (found.first, *found.others)
            if table.ok(row)
        ]
        rows = contradiction(stages, rest, table)
        if rows is not None:
            return Conflict("element-missing", key, rows)
        return partial(self._order, stages, rest)

    def _stage(self, new: frozenset[Hashable]) -> Stage:
        found = [self._added[element] for element in new]
        return Stage([one.first for one in found], [row for one in found for row in one.others if self._table.ok(row)])

    def _order(self, stages: Sequence[Stage], rest: Sequence[int]) -> Sequence[int]:
        table = self._table
        inv = table.inv
        sequence: list[int] = []
        for stage in stages:
            sequence += sorted(stage.first, key=inv.__getitem__)
            sequence += sorted(stage.reads, key=inv.__getitem__)
        sequence += sorted(rest, key=inv.__getitem__)
        place = {row: n for n, row in enumerate(sequence)}
        guests = [Place(row) for row in self._reads if table.silent(row)]
        for element, found in self._added.items():
            if element in self._initial:
                guests += [Place(row) for row in (found.first, *found.others) if table.ok(row)]
            else:
                guests += [
                    Place(row, place[found.first] + 1) for row in found.others if table.ok(row) and row not in place
                ]
        return woven(sequence, guests, inv, table.ret)
