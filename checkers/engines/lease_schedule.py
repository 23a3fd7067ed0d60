"""Whether the grants of one key have room one after another: single-machine scheduling with start windows.

Source: checkers/CONDITIONS.md, section 4. Two *forced* grants, whose cores are not empty, can follow each other in one
order only, in which the earliest starts decide: O(n log n). A grant with an empty core (its acquire took longer than
its TTL, or it was released at once) is *movable*, and may stand in any gap: `checkers.engines.lease_search` looks for
it, exactly, under a budget, since the problem is strongly NP-complete. Exact, but for readers, who follow one another
in no order, and for grants of a quorum: there movable grants, or all, are compared pair by pair, which is sound.
"""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from checkers.engines.lease_problem import Problem, Windows, fewest
from checkers.engines.lease_search import Budget, Search
from checkers.history.finding import OutOfBudget

BUDGET: Final = 5_000_000
PER_GRANT: Final = 100
"""Steps for one key, and how many more for each of its grants, before the search is given up; some seconds."""

SMALL: Final = 40
SMALL_BUDGET: Final = 40_000
"""Grants of a conflict that is made smaller, and steps for each attempt at that."""


def conflicts(problem: Problem, deadline: float = inf, order: list[int] | None = None) -> Iterator[tuple[int, ...]]:
    """Grants of one key that have no room together, by their numbers; sessions end them as `fixed` says, and no later.

    Each a pair, or a tuple that is too tight as a whole, mostly a smallest one; one that cannot begin at all stands
    alone. deadline: by `time.monotonic`. order: where there are no conflicts, receives all grants in an order in which
    they fit, unless there are readers or a quorum. Raises OutOfBudget, after what is certain.
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
    """Conflicts of grants whose order is known; the last of each cannot begin.

    Pairs that exclude each other by themselves are all given, once for each later grant; a longer tuple is a chain
    that is too tight as a whole. After a conflict the walk begins anew with the later grant, so that every conflict
    stands on its own.
    """
    start, latest, core_end, reader = windows.start, windows.latest, windows.core_end, windows.reader
    soonest = [latest[n] for n in order]
    for place in range(len(order) - 2, -1, -1):
        soonest[place] = min(soonest[place], soonest[place + 1])
    active: list[int] = []
    chain: list[int] = []
    over = written = 0  # the ends of all grants so far, and of the writers among them
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
    """Conflicts between two grants only: what is certain where a grant has no single instant.

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
    """See `conflicts`."""
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
    conflict = search.finish()
    if conflict:
        yield _smallest(windows, conflict, deadline)
    else:
        order += search.order()


def _parted(windows: Windows, grants: Sequence[int]) -> tuple[list[int], list[int]]:
    """Those that are forced, and those that are movable, each in order of their latest starts."""
    latest, core_end = windows.latest, windows.core_end
    by_latest = sorted(grants, key=latest.__getitem__)
    return [n for n in by_latest if latest[n] < core_end[n]], [n for n in by_latest if latest[n] >= core_end[n]]


def _smallest(windows: Windows, conflict: tuple[int, ...], deadline: float) -> tuple[int, ...]:
    """A conflict none of whose grants can be left out, unless it is too large to try."""
    if len(conflict) > SMALL:
        return conflict
    return tuple(fewest(list(conflict), lambda rest: not _possible(windows, rest, deadline), 1))


def _possible(windows: Windows, grants: Sequence[int], deadline: float) -> bool:
    """Whether they fit; also if that takes too long to find out."""
    forced, movable = _parted(windows, grants)
    if next(in_order(windows, forced), None) is not None:
        return False
    search = Search(windows, movable, Budget(SMALL_BUDGET, deadline))
    try:
        return all(search.place(n) is None for n in forced) and search.finish() is None
    except OutOfBudget:
        return True
