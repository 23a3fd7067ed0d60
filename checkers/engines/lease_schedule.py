"""Whether grants of one lock fit one after another: single-machine scheduling with start windows.

Source: checkers/CONDITIONS.md, section 4. A grant with a strictly non-empty core is *forced*: two of those can follow
each other in one order only, so the earliest starts decide. A grant whose core is empty (its acquire took longer than
its TTL, or it was released at once) is a *float* and may stand in any gap: a search over the sets of floats placed so
far, which keeps the smallest end for each set. In general the problem is strongly NP-complete, hence the budget.

Readers follow one another in no order: what is said of two grants here is never said of two readers.
"""

import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, Final

from checkers.history.finding import OutOfBudget
from checkers.history.holds import Hold, exclude
from checkers.wire import INFINITY

BUDGET: Final = 5_000_000
PER_GRANT: Final = 100
"""Steps for one lock, and how many more for each of its grants, before the search is given up; some seconds.

A step is one float looked at for one set of floats.
"""

SMALL: Final = 40
SMALL_BUDGET: Final = 40_000
"""Grants of a conflict that is made smaller, and steps for each attempt at that."""

WIDE: Final = 4096
"""Bits of a set that are handled in the time of a step."""


def in_order(order: Sequence[Hold]) -> Iterator[tuple[Hold, ...]]:
    """Conflicts of grants whose order is known (by token): each a tuple of windows, the last of which cannot begin.

    Pairs that exclude each other by themselves are all given, once for each later grant; a longer tuple is a chain
    that is too tight as a whole. After a conflict the walk begins anew with the later grant, so that every conflict
    stands on its own.
    """
    soonest = _suffix_minimum([hold.latest for hold in order])
    active: list[tuple[int, Hold]] = []
    chain: list[Hold] = []
    over = written = 0  # the ends of all grants so far, and of the writers among them
    for place, hold in enumerate(order):
        active = [entry for entry in active if entry[0] > soonest[place]]
        clashes = [e for until, e in active if until > hold.latest and exclude(e, hold)]
        end = written if hold.shared else over
        for earlier in clashes:
            yield earlier, hold
        if not clashes and end > hold.latest:
            yield *chain, hold
        if clashes or end > hold.latest:
            start, chain = hold.start, [hold]
            over = written = 0
        else:
            start = max(hold.start, end)
            if over <= hold.start:
                chain = []
            chain.append(hold)
        over = max(over, hold.end(start))
        if not hold.shared:
            written = over
        active.append((hold.core_end, hold))


def in_any_order(
    all_windows: Sequence[Hold],
    budget: int = BUDGET,
    *,
    order: list[Hold] | None = None,
    deadline: float = inf,
) -> Iterator[tuple[Hold, ...]]:
    """Conflicts of grants whose order is not known; see `in_order`. Raises OutOfBudget, after what is certain.

    order: where there are no conflicts and no readers, receives all of them in an order in which they fit.
    deadline: by `time.monotonic`, for those who ask about several locks.

    A tuple of more than two is a set of grants of which at least one has no place; mostly a smallest one. Among
    readers, floats are not searched for a place but compared with one grant at a time: sound, and not exact.
    """
    forced, floats = _forced_and_floats(all_windows)
    if any(hold.shared for hold in all_windows):
        yield from in_order(forced)
        loose = {id(hold) for hold in floats}
        yield from (pair for pair in by_majority(all_windows) if any(id(hold) in loose for hold in pair))
        return
    if order is None:
        order = []
    if not floats:
        yield from in_order(forced)
        order += forced
        return
    # What needs no search comes first, so that it is known even when the budget runs out.
    tight = list(in_order(forced))
    yield from tight
    search = _Search(floats, _Purse(budget + PER_GRANT * len(all_windows), deadline))
    broken = {id(conflict[-1]) for conflict in tight}
    for hold in forced:
        if id(hold) in broken:
            search.restart(hold)
        else:
            conflict = search.place(hold)
            if conflict:
                yield _smallest(conflict, deadline)
                search.restart(hold)
    conflict = search.finish()
    if conflict:
        yield _smallest(conflict, deadline)
    else:
        order += search.order()


def _forced_and_floats(holds: Sequence[Hold]) -> tuple[list[Hold], list[Hold]]:
    """Those with a non-empty core, and the others, each in order of their latest starts."""
    ordered = sorted(holds, key=lambda w: w.latest)
    return [w for w in ordered if w.latest < w.core_end], [w for w in ordered if w.latest >= w.core_end]


def _smallest(conflict: tuple[Hold, ...], deadline: float) -> tuple[Hold, ...]:
    """A conflict none of whose grants can be left out, unless it is too large to try."""
    if len(conflict) > SMALL:
        return conflict
    for hold in conflict:
        rest = tuple(w for w in conflict if w is not hold)
        if not _possible(rest, deadline):
            conflict = rest
    return conflict


def _possible(holds: Sequence[Hold], deadline: float) -> bool:
    """Whether they fit; also if that takes too long to find out."""
    forced, floats = _forced_and_floats(holds)
    if next(in_order(forced), None) is not None:
        return False
    search = _Search(floats, _Purse(SMALL_BUDGET, deadline))
    try:
        return all(search.place(hold) is None for hold in forced) and search.finish() is None
    except OutOfBudget:
        return True


class _Purse:
    """What a search may still cost."""

    def __init__(self, steps: int, deadline: float) -> None:
        self._steps = steps
        self._deadline = deadline

    def spend(self, steps: int, floats: int) -> None:
        """Before the work is done. Raises OutOfBudget."""
        self._steps -= steps
        if self._steps < 0:
            raise OutOfBudget(f"{floats} grants without a certain moment overlap: too many orders to try")
        if time.monotonic() > self._deadline:
            raise OutOfBudget("the order of all grants was searched for too long")


_Path = Any  # (path, window), None: a list that is shared by all that go on from it
_States = dict[int, tuple[int, _Path]]


class _Search:
    """The sets of floats that can have been placed before the present forced grant, each with its smallest end.

    A set is a bit mask over `floats`, which are in order of their latest starts; bit 0 is `floats[base]`. With each end
    stands how it was reached.
    """

    def __init__(self, floats: Sequence[Hold], purse: _Purse) -> None:
        self._floats = floats
        self._latest = [hold.latest for hold in floats]
        self._instant = [hold.core_end == hold.start for hold in floats]
        self._by_start = sorted(range(len(floats)), key=lambda n: floats[n].start)
        self._begun = 0
        self._open: list[int] = []
        self._base = 0
        self._first = 0
        self._states: _States = {0: (0, None)}
        self._purse = purse
        self._stretch: list[Hold] = []

    def place(self, hold: Hold) -> tuple[Hold, ...] | None:
        """Let a forced grant come next; a conflict if no set of floats allows it."""
        conflict = self._walk(hold.start)
        if conflict:
            return conflict
        self._begin(hold.latest)
        placed: _States = {}
        horizon = hold.core_end
        for mask, (end, path) in self._expand(hold.latest, hold.latest).items():
            start = max(hold.start, end)
            if start > hold.latest:
                continue
            after = hold.end(start)
            horizon = max(horizon, after)
            # Floats that must have begun before `after` and have not can no longer be placed.
            due = (1 << max(bisect_right(self._latest, after - 1) - self._base, 0)) - 1
            if mask & due == due:
                placed[mask] = after, (path, hold)
        if not placed:
            return self._conflict(horizon, hold)
        self._keep(placed)
        self._stretch.append(hold)
        return None

    def finish(self) -> tuple[Hold, ...] | None:
        """A conflict if the floats left over do not fit after the last forced grant."""
        return self._walk(INFINITY)

    def order(self) -> list[Hold]:
        """All windows in an order in which they fit, once nothing is left over."""
        _, path = min(self._states.values(), key=lambda state: state[0])
        found = []
        while path is not None:
            path, hold = path
            found.append(hold)
        return found[::-1]

    def restart(self, hold: Hold) -> None:
        """Begin anew with a forced grant and the floats that can still come after it, wherever those then stand."""
        self._begin(hold.latest)
        self._purse.spend(self._begun // 4, len(self._open))
        self._base = max(self._base, bisect_right(self._latest, hold.core_end - 1))
        self._first = self._base
        self._open = [n for n in self._by_start[: self._begun] if n >= self._base]
        self._states = {0: (0, None)}
        self._stretch = []
        self.place(hold)

    def _walk(self, until: int) -> tuple[Hold, ...] | None:
        """Place the floats that must begin before `until`; a conflict if they do not fit.

        From one latest start to the next: only those that overlap there are open at once, in however long a history.
        """
        while self._base < len(self._floats) and self._latest[self._base] < until:
            moment = self._latest[self._base]
            self._begin(moment)
            due = (1 << bisect_right(self._latest, moment) - self._base) - 1
            # To wait for one that takes no time can be put off until it must, unless one that takes some comes between.
            wait = due if all(self._instant[n] for n in self._open) else -1
            placed = {mask: found for mask, found in self._expand(moment, INFINITY, wait).items() if mask & due == due}
            if not placed:
                return self._conflict(moment)
            self._keep(placed)
        return None

    def _begin(self, until: int) -> None:
        """Admit the floats that may begin by then."""
        while self._begun < len(self._by_start) and self._floats[self._by_start[self._begun]].start <= until:
            n = self._by_start[self._begun]
            if n >= self._base:
                self._open.append(n)
            self._begun += 1

    def _expand(self, begun: int, ended: int, wait: int = -1) -> _States:
        """All sets that can be reached by placing open floats that begin and end by then, the present ones included.

        wait: mask of the floats for which it may be waited.
        """
        best: _States = {}
        todo = [(mask, end, path) for mask, (end, path) in self._states.items()]
        count = len(self._open)
        cost = 1 + count * (1 + (max(self._open, default=self._base) - self._base) // WIDE)
        self._purse.spend(cost, count)
        bits = [(1 << (n - self._base), self._floats[n]) for n in self._open]
        eligible = [entry for entry in bits if entry[0] & wait]
        while todo:
            self._purse.spend(cost, count)
            mask, end, path = self._settle(*todo.pop(), bits)
            if mask in best and best[mask][0] <= end:
                continue
            best[mask] = end, path
            for bit, hold in eligible:
                if not mask & bit:
                    start = max(hold.start, end)
                    if start <= hold.latest and start <= begun:
                        after = hold.end(start)
                        if after <= ended and (mask | bit not in best or best[mask | bit][0] > after):
                            todo.append((mask | bit, after, (path, hold)))
        return best

    @staticmethod
    def _settle(mask: int, end: int, path: _Path, bits: Sequence[tuple[int, Hold]]) -> tuple[int, int, _Path]:
        """Place at once whatever takes no time here: that never hurts."""
        for bit, hold in bits:
            if hold.start <= end <= hold.latest and not mask & bit and hold.end(end) == end:
                mask |= bit
                path = path, hold
        return mask, end, path

    def _keep(self, states: _States) -> None:
        """Drop sets that are worse than another, and the floats that every set has placed."""
        self._purse.spend(len(states), len(self._open))
        ordered = sorted(states.items(), key=lambda item: item[1][0])
        kept: list[tuple[int, tuple[int, _Path]]] = []
        for mask, reached in ordered:
            if not any(mask | other == other for other, _ in kept[:64]):
                kept.append((mask, reached))
        common = kept[0][0]
        for mask, _ in kept:
            common &= mask
        shift = (~common & (common + 1)).bit_length() - 1
        self._base += shift
        self._states = {mask >> shift: reached for mask, reached in kept}
        common >>= shift
        self._open = [n for n in self._open if n >= self._base and not common >> (n - self._base) & 1]

    def _conflict(self, until: int, hold: Hold | None = None) -> tuple[Hold, ...]:
        """All that the search has seen since it began anew, and the floats that concern the present grant."""
        floats = (w for w in self._floats[self._first :] if w.start <= until)
        own = [hold] if hold else []
        return tuple(sorted((*self._stretch, *floats, *own), key=lambda w: w.latest))


def _suffix_minimum(values: Sequence[int]) -> list[int]:
    result = list(values)
    for n in range(len(result) - 2, -1, -1):
        result[n] = min(result[n], result[n + 1])
    return result


def by_majority(all_windows: Sequence[Hold]) -> Iterator[tuple[Hold, ...]]:
    """Conflicts between pairs only: what is certain where a grant has no single instant.

    A majority lock (Redlock) is granted by several servers at several instants. Two grants share one server, so any
    two of them exclude each other as on one server; a third may share another server with each.
    """
    order = sorted(all_windows, key=lambda w: w.latest)
    active: list[tuple[int, Hold]] = []
    for hold in order:
        active = [entry for entry in active if entry[0] > hold.latest]
        first = hold.core_end
        for _, earlier in active:
            if first > earlier.latest and exclude(earlier, hold):
                yield earlier, hold
        active.append((first, hold))
