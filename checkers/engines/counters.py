"""A counter that is added to and read: exact, O(n log n), where all additions are of one number.

Every read must lie between what had certainly been added by its invocation and what may have been by its return; that
is necessary whatever is added, and all that Jepsen's counter asks. Where all additions have one sign, reads are
ordered by what they returned, and from one value to the next exactly their difference is added: an addition can go
between those two if nothing that comes earlier was invoked after its return, and nothing that comes later had
returned before its invocation. Where all additions are also alike, that is scheduling of unit jobs with release times
and deadlines, which earliest deadline first decides exactly (additions that follow one another in real time have
windows that do so too, and so can be put in that order); unanswered ones have no deadline, and may be left out.

Not decided: additions of both signs, and different ones for which earliest deadline first does not come out even.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import accumulate
from typing import Any, Final

from checkers.engines.engine import Answer, Conflict
from checkers.engines.growth import Order, Place, Table, answered, woven
from checkers.history import History
from checkers.leases import INFINITY
from checkers.models.accumulators import amount, is_number
from checkers.models.model import Settings
from checkers.wire import F

_BOTH_SIGNS: Final = "numbers of both signs were added"
_UNEVEN: Final = "different numbers were added"
_NOT_WHOLE: Final = "numbers were added or read that are not whole"


def counter(history: History, settings: Settings) -> Answer:
    """Conflicts: ``impossible-count``, ``counts-out-of-order``."""
    table = Table(history, settings, F.ADD, F.READ)
    initial = settings.initial if is_number(settings.initial) else 0
    conflicts: list[Conflict] = []
    undecided: dict[int, str] = {}
    orders: list[Order] = []
    for key, rows in table.by_key():
        found = _Key(table, rows, initial).judged()
        if isinstance(found, tuple):
            conflicts.append(Conflict(found[0], key, found[1]))
        elif isinstance(found, str):
            undecided[key] = found
        else:
            orders.append(found)
    return answered(conflicts, undecided, orders)


class _Key:
    """One key of a history. `_amounts`: row → what was added, without zeros."""

    def __init__(self, table: Table, rows: Sequence[int], initial: Any) -> None:
        self._table = table
        self._reads = [row for row in rows if table.f[row] == F.READ and table.ok(row)]
        self._said = [row for row in self._reads if not table.silent(row)]
        added = {row: amount(table.value(row)) for row in rows if table.f[row] == F.ADD and not table.failed(row)}
        self._amounts = {row: number for row, number in added.items() if number != 0}
        self._zeros = [row for row, number in added.items() if number == 0 and table.ok(row)]
        self._initial = initial

    def judged(self) -> tuple[str, tuple[int, ...]] | str | Order:
        """A conflict, why it is left undecided, or what makes the order."""
        table = self._table
        shown = {row: table.value(row) for row in self._said}
        for row, value in shown.items():
            if not is_number(value):
                return "not-a-number", (row,)
        numbers = [*shown.values(), *self._amounts.values(), self._initial]
        if not all(isinstance(number, int) for number in numbers):
            return _NOT_WHOLE
        lower, upper = self._bounds()
        for row, value in shown.items():
            if not lower(row) <= value - self._initial <= upper(row):
                return "impossible-count", (row,)
        if not shown:
            return partial(self._order, [sorted(row for row in self._amounts if table.ok(row))], [])
        signs = {number > 0 for number in self._amounts.values()}
        if len(signs) > 1:
            return _BOTH_SIGNS
        return self._one_sign(-1 if signs == {False} else 1, shown)

    def _bounds(self) -> tuple[Callable[[int], int], Callable[[int], int]]:
        """Row of a read → the least and the most that can have been added when it was answered."""
        table = self._table
        done = sorted((row for row in self._amounts if table.ok(row)), key=table.ret.__getitem__)
        begun = sorted(self._amounts, key=table.inv.__getitem__)
        rets, invs = [table.ret[row] for row in done], [table.inv[row] for row in begun]

        def sums(rows: Sequence[int], sign: int) -> list[int]:
            return [0, *accumulate(self._amounts[row] if self._amounts[row] * sign > 0 else 0 for row in rows)]

        more_done, less_done, more_begun, less_begun = sums(done, 1), sums(done, -1), sums(begun, 1), sums(begun, -1)

        def lower(row: int) -> int:
            return more_done[bisect_left(rets, table.inv[row])] + less_begun[bisect_right(invs, table.ret[row])]

        def upper(row: int) -> int:
            return less_done[bisect_left(rets, table.inv[row])] + more_begun[bisect_right(invs, table.ret[row])]

        return lower, upper

    def _one_sign(self, sign: int, shown: dict[int, int]) -> tuple[str, tuple[int, ...]] | str | Order:
        table = self._table
        groups: dict[int, list[int]] = {}
        for row, value in shown.items():
            groups.setdefault((value - self._initial) * sign, []).append(row)
        levels = sorted(groups)
        late = -1
        latest = [-1]  # before each slot: the last invocation of a read that comes earlier
        for level in levels:
            for row in groups[level]:
                if late >= 0 and table.ret[row] < table.inv[late]:
                    return "counts-out-of-order", (row, late)
            late = max((*groups[level], late), key=lambda row: table.inv[row] if row >= 0 else -1)
            latest.append(table.inv[late])
        soonest = [INFINITY]  # behind each slot: the first return of a read that comes later
        for level in reversed(levels):
            soonest.append(min(soonest[-1], *(table.ret[row] for row in groups[level])))
        soonest.reverse()
        opening: list[list[int]] = [[] for _ in soonest]
        closing: dict[int, int] = {}
        for row in self._amounts:
            slot = bisect_left(soonest, table.inv[row])
            closing[row] = bisect_right(latest, table.ret[row]) - 1
            if slot > closing[row]:  # it came between reads, the later of which shows no more than the earlier
                return "impossible-count", (row, *self._around(row))
            opening[slot].append(row)
        slots: list[list[int]] = []
        ready: list[tuple[int, int, int]] = []
        for slot, level in enumerate(levels):
            for row in opening[slot]:
                heappush(ready, (closing[row], table.inv[row], row))
            left = level - (levels[slot - 1] if slot else 0)
            chosen = []
            while left > 0 and ready:
                row = heappop(ready)[2]
                chosen.append(row)
                left -= abs(self._amounts[row])
            if left != 0 or (ready and ready[0][0] <= slot):
                if len(set(self._amounts.values())) > 1:
                    return _UNEVEN
                return "impossible-count", tuple(self._said)  # they need the additions
            slots.append(chosen)
        last = [row for _, _, row in ready] + opening[len(levels)]
        slots.append([row for row in last if table.ok(row)])
        return partial(self._order, slots, [groups[level] for level in levels])

    def _around(self, row: int) -> tuple[int, int]:
        """The read that shows most of those before an addition, and the one that shows least of those after it."""
        table = self._table
        before = [read for read in self._said if table.ret[read] < table.inv[row]]
        after = [read for read in self._said if table.inv[read] > table.ret[row]]
        furthest = {read: abs(table.value(read) - self._initial) for read in self._said}
        return max(before, key=furthest.__getitem__), min(after, key=furthest.__getitem__)

    def _order(self, slots: Sequence[Sequence[int]], groups: Sequence[Sequence[int]]) -> Sequence[int]:
        """slots: what was added before each group of reads, and after the last."""
        inv = self._table.inv
        sequence: list[int] = []
        for slot, reads in zip(slots, [*groups, ()], strict=True):
            sequence += sorted(slot, key=inv.__getitem__)
            sequence += sorted(reads, key=inv.__getitem__)
        guests = [Place(row) for row in (*(row for row in self._reads if self._table.silent(row)), *self._zeros)]
        return woven(sequence, guests, inv, self._table.ret)
