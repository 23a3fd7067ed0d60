"""Whether the grants of one key have room one after another: single-machine scheduling with start windows.

Source: checkers/CONDITIONS.md, section 4. Forced grants have one order, in which earliest starts decide: O(n log n).
`Search` places movable grants under a budget. The section says where this is exact, and where only sound.
"""

import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import inf
from typing import Any, Final

from checkers.engines.lease_problem import Problem, Windows, fewest
from checkers.history.finding import OutOfBudget
from checkers.row_format import INFINITY

WIDE: Final = 4096  # bits of a set that are handled in the time of one step


class Budget:
    """What a search may still cost. A step looks at one grant (for one set of movable grants, or in one order)."""

    def __init__(self, steps: int, deadline: float, which: str = "without a certain moment overlap") -> None:
        """deadline: by `time.monotonic`. which: grants are placed."""
        self._steps = steps
        self._deadline = deadline
        self._which = which

    def spend(self, steps: int, grants: int) -> None:
        """Called before the work is done. Raises OutOfBudget."""
        self._steps -= steps
        if self._steps < 0:
            raise OutOfBudget(f"{grants} grants {self._which}: too many orders to try")
        if time.monotonic() > self._deadline:
            raise OutOfBudget("the order of all grants was searched for too long")


_Path = Any  # (path, grant), or None: a linked list, shared by all paths that continue it
_States = dict[int, tuple[int, _Path]]


class Search:
    """The sets of movable grants that can have been placed before the present forced one, each with its smallest end.

    The forced grants are walked in their order; the smallest end is best, since E(a) is monotone. Exact: a set is
    dropped only where another set contains it and ends no later, or where a grant that it lacks can no longer begin.
    Exponential in the movable grants whose windows overlap, linear in the length of a history.

    A set is a bit mask over the movable grants in order of their latest starts; bit 0 stands for the grant at place
    `_base` of that order. Each end is kept with the path that reached it.
    """

    def __init__(self, windows: Windows, movable: Sequence[int], budget: Budget) -> None:
        """movable: in order of their latest starts."""
        self._windows = windows
        self._movable = movable
        self._latest = [windows.latest[n] for n in movable]
        self._start = [windows.start[n] for n in movable]
        self._instant = [windows.core_end[n] == windows.start[n] for n in movable]
        self._by_start = sorted(range(len(movable)), key=self._start.__getitem__)
        self._begun = 0
        self._open: list[int] = []
        self._base = 0
        self._first = 0
        self._states: _States = {0: (0, None)}
        self._budget = budget
        self._stretch: list[int] = []

    def place(self, n: int) -> tuple[int, ...] | None:
        """Let a forced grant come next; a conflict if no set of movable ones allows it."""
        start, latest = self._windows.start[n], self._windows.latest[n]
        conflict = self.walk(start)
        if conflict:
            return conflict
        self._begin(latest)
        placed: _States = {}
        horizon = self._windows.core_end[n]
        for mask, (end, path) in self._expand(latest, latest).items():
            a = max(start, end)
            if a > latest:
                continue
            after = self._windows.end(n, a)
            horizon = max(horizon, after)
            # A set is dropped if it lacks a movable grant that must begin before `after`: that grant is too late now.
            due = (1 << max(bisect_right(self._latest, after - 1) - self._base, 0)) - 1
            if mask & due == due:
                placed[mask] = after, (path, n)
        if not placed:
            return self._conflict(horizon, n)
        self._keep(placed)
        self._stretch.append(n)
        return None

    def order(self) -> list[int]:
        """All grants in an order in which they fit, once nothing is left over."""
        _, path = min(self._states.values(), key=lambda state: state[0])
        order = []
        while path is not None:
            path, n = path
            order.append(n)
        return order[::-1]

    def restart(self, n: int) -> None:
        """Begin anew with a forced grant and what is movable and can still come after it, wherever that then stands."""
        self._begin(self._windows.latest[n])
        self._budget.spend(self._begun // 4, len(self._open))
        self._base = max(self._base, bisect_right(self._latest, self._windows.core_end[n] - 1))
        self._first = self._base
        self._open = [m for m in self._by_start[: self._begun] if m >= self._base]
        self._states = {0: (0, None)}
        self._stretch = []
        self.place(n)

    def walk(self, until: int) -> tuple[int, ...] | None:
        """Place the movable grants that must begin before `until`, `INFINITY` for all; a conflict if they do not fit.

        It goes from latest start to latest start, so only grants that overlap there are open, however long the history.
        """
        while self._base < len(self._latest) and self._latest[self._base] < until:
            moment = self._latest[self._base]
            self._begin(moment)
            due = (1 << bisect_right(self._latest, moment) - self._base) - 1
            # If no open grant takes time, waiting for one can be put off until it is due: nothing can come between.
            wait = due if all(self._instant[m] for m in self._open) else -1
            reached = self._expand(moment, INFINITY, wait)
            placed = {mask: state for mask, state in reached.items() if mask & due == due}
            if not placed:
                return self._conflict(moment)
            self._keep(placed)
        return None

    def _begin(self, until: int) -> None:
        """Admit the movable grants that may begin by then."""
        while self._begun < len(self._by_start) and self._start[self._by_start[self._begun]] <= until:
            m = self._by_start[self._begun]
            if m >= self._base:
                self._open.append(m)
            self._begun += 1

    def _expand(self, begun: int, ended: int, wait: int = -1) -> _States:
        """The sets, extended by open grants that begin and end by then. wait: a mask of the grants to wait for."""
        best: _States = {}
        todo = [(mask, end, path) for mask, (end, path) in self._states.items()]
        count = len(self._open)
        cost = 1 + count * (1 + (max(self._open, default=self._base) - self._base) // WIDE)
        self._budget.spend(cost, count)
        bits = [(1 << (m - self._base), m) for m in self._open]
        eligible = [(bit, m) for bit, m in bits if bit & wait]
        while todo:
            self._budget.spend(cost, count)
            mask, end, path = self._settle(*todo.pop(), bits)
            if mask in best and best[mask][0] <= end:
                continue
            best[mask] = end, path
            for bit, m in eligible:
                if not mask & bit:
                    a = max(self._start[m], end)
                    if a <= self._latest[m] and a <= begun:
                        n = self._movable[m]
                        after = self._windows.end(n, a)
                        if after <= ended and (mask | bit not in best or best[mask | bit][0] > after):
                            todo.append((mask | bit, after, (path, n)))
        return best

    def _settle(self, mask: int, end: int, path: _Path, bits: Sequence[tuple[int, int]]) -> tuple[int, int, _Path]:
        """Place at once each grant that takes no time here: that never hurts."""
        for bit, m in bits:
            if self._start[m] <= end <= self._latest[m] and not mask & bit:
                n = self._movable[m]
                if self._windows.end(n, end) == end:
                    mask |= bit
                    path = path, n
        return mask, end, path

    def _keep(self, states: _States) -> None:
        """Drop sets that are worse than another, and the grants that every set has placed."""
        self._budget.spend(len(states), len(self._open))
        kept: list[tuple[int, tuple[int, _Path]]] = []
        for mask, reached in sorted(states.items(), key=lambda item: item[1][0]):
            if not any(mask | other == other for other, _ in kept[:64]):
                kept.append((mask, reached))
        common = kept[0][0]
        for mask, _ in kept:
            common &= mask
        shift = (~common & (common + 1)).bit_length() - 1
        self._base += shift
        self._states = {mask >> shift: reached for mask, reached in kept}
        common >>= shift
        self._open = [m for m in self._open if m >= self._base and not common >> (m - self._base) & 1]

    def _conflict(self, until: int, n: int | None = None) -> tuple[int, ...]:
        """All forced grants since the search began anew, `n`, and the movable grants that can begin by `until`."""
        movable = (self._movable[m] for m in range(self._first, len(self._movable)) if self._start[m] <= until)
        own = [] if n is None else [n]
        return tuple(sorted((*self._stretch, *movable, *own), key=self._windows.latest.__getitem__))


BUDGET: Final = 5_000_000  # steps for one key before its search is given up; some seconds
PER_GRANT: Final = 100  # steps more for each of its grants
SMALL: Final = 40  # the most grants of a conflict that is made smaller
SMALL_BUDGET: Final = 40_000  # steps for each try


def conflicts(problem: Problem, deadline: float = inf, order: list[int] | None = None) -> Iterator[tuple[int, ...]]:
    """Grants of one key that have no room together, by their numbers; sessions end them as `fixed` says, and no later.

    Each conflict is a pair, or a tuple that is too tight as a whole, mostly a smallest one; a grant that cannot begin
    at all stands alone. deadline: by `time.monotonic`. order: if there are no conflicts, receives all grants in an
    order in which they fit, unless there are readers or a quorum. Raises OutOfBudget after yielding what is certain.
    """
    windows = Windows(problem)
    every = range(len(problem))
    order = [] if order is None else order
    impossible = [n for n in every if windows.latest[n] < windows.start[n] or windows.core_end[n] > windows.over[n]]
    if impossible:
        yield from ((n,) for n in impossible)
    elif problem.quorum:
        yield from by_pairs(windows)
    elif len(problem) and int(problem.grants.key[0]) in problem.ordered:
        order += sorted(every, key=lambda n: windows.token[n])
        yield from in_order(windows, order)
    else:
        yield from _in_any_order(windows, deadline, order)


def in_order(windows: Windows, order: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Conflicts of grants whose order is known; the last grant of each conflict cannot begin.

    Pairs that exclude each other by themselves are all given, once for each later grant; a longer tuple is a chain that
    is too tight as a whole. After a conflict the walk begins anew with the later grant, so each conflict stands alone.
    """
    start, latest, core_end, reader = windows.start, windows.latest, windows.core_end, windows.reader
    soonest = list(accumulate((latest[n] for n in reversed(order)), min))[::-1]
    active: list[int] = []
    chain: list[int] = []
    over = written = 0  # the latest end of all grants so far, and of the writers among them
    for place, n in enumerate(order):
        active = [earlier for earlier in active if core_end[earlier] > soonest[place]]
        clashes = [e for e in active if core_end[e] > latest[n] and windows.exclude(e, n)]
        end = written if reader[n] else over
        for earlier in clashes:
            yield earlier, n
        if not clashes and end > latest[n]:
            yield *chain, n
        if clashes or end > latest[n]:
            begun, chain = start[n], [n]
            over = written = 0
        else:
            begun = max(start[n], end)
            if over <= start[n]:
                chain = []
            chain.append(n)
        over = max(over, windows.end(n, begun))
        if not reader[n]:
            written = over
        active.append(n)


def by_pairs(windows: Windows) -> Iterator[tuple[int, ...]]:
    """Conflicts between two grants only: these are certain even if a grant has no single instant.

    A majority lock (Redlock) is granted by several servers at several instants. Two grants share one server, so any
    two of them exclude each other as on one server; a third may share another server with each.
    """
    latest, core_end = windows.latest, windows.core_end
    active: list[int] = []
    for n in sorted(range(len(latest)), key=latest.__getitem__):
        active = [earlier for earlier in active if core_end[earlier] > latest[n]]
        yield from ((e, n) for e in active if core_end[n] > latest[e] and windows.exclude(e, n))
        active.append(n)


def _in_any_order(windows: Windows, deadline: float, order: list[int]) -> Iterator[tuple[int, ...]]:
    forced, movable = _parted(windows, range(len(windows.start)))
    if any(windows.reader):
        yield from in_order(windows, forced)
        free = set(movable)
        yield from (pair for pair in by_pairs(windows) if not free.isdisjoint(pair))
        return
    # What needs no search comes first, so that it is known even when the budget runs out.
    tight = list(in_order(windows, forced))
    yield from tight
    if not movable:
        order += forced
        return
    search = Search(windows, movable, Budget(BUDGET + PER_GRANT * len(windows.start), deadline))
    broken = {conflict[-1] for conflict in tight}
    for n in forced:
        if n in broken:
            search.restart(n)
        else:
            conflict = search.place(n)
            if conflict:
                yield _smallest(windows, conflict, deadline)
                search.restart(n)
    conflict = search.walk(INFINITY)
    if conflict:
        yield _smallest(windows, conflict, deadline)
    else:
        order += search.order()


def _parted(windows: Windows, grants: Sequence[int]) -> tuple[list[int], list[int]]:
    """The forced grants and the movable grants, each in order of their latest starts."""
    latest, core_end = windows.latest, windows.core_end
    by_latest = sorted(grants, key=latest.__getitem__)
    return [n for n in by_latest if latest[n] < core_end[n]], [n for n in by_latest if latest[n] >= core_end[n]]


def _smallest(windows: Windows, conflict: tuple[int, ...], deadline: float) -> tuple[int, ...]:
    """A conflict none of whose grants can be left out, unless it is too large to try."""
    if len(conflict) > SMALL:
        return conflict
    return tuple(fewest(list(conflict), lambda rest: not _possible(windows, rest, deadline), 1))


def _possible(windows: Windows, grants: Sequence[int], deadline: float) -> bool:
    """Whether the grants fit; also True if that takes too long to find out."""
    forced, movable = _parted(windows, grants)
    if next(in_order(windows, forced), None) is not None:
        return False
    search = Search(windows, movable, Budget(SMALL_BUDGET, deadline))
    try:
        return all(search.place(n) is None for n in forced) and search.walk(INFINITY) is None
    except OutOfBudget:
        return True
