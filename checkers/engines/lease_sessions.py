"""Leases shared by several locks: a session ends all its holds at one instant.

Source: checkers/CONDITIONS.md, section 5. In given orders of the grants of each key, the least fixpoint over all starts
and all ends of sessions decides. Orders are enumerated only among keys that share sessions, only where they are not
forced, and under a budget; so is whether an unanswered release happened that would have prolonged its session.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Final

import numpy as np
import numpy.typing as npt

from checkers.engines.lease_kernels import CERTAIN, PARTS, TOUCHES, Ints
from checkers.engines.lease_problem import PATIENCE, SECONDS, Problem, Solution, likely
from checkers.history.finding import OutOfBudget
from checkers.history.holds import Hold
from checkers.wire import INFINITY

WORK: Final = 2_000_000
"""Grants looked at for keys that hang together before the search for an order is given up; some seconds."""

CHOICES: Final = 256
"""Ways in which unanswered releases can have happened or not that are tried."""


def solve_sessions(problem: Problem) -> Solution:
    """See `lease_solve.solve`. What hangs together is decided together: a conflict stands at one of its keys."""
    executed = set(np.flatnonzero(problem.optional).tolist())
    order, _ = _likely(chosen(problem, executed))
    begun, _, stuck, _, _, _, late, final = chosen(problem, executed).part(order).settled()
    late = _concerned(problem, late)
    if final and not stuck.any() and not late.any():
        return Solution({}, {}, order, begun, frozenset(executed))
    conflicts: dict[int, tuple[int, ...]] = {}
    undecided: dict[int, str] = {}
    placed: dict[int, list[int]] = defaultdict(list)
    for n in order.tolist():
        placed[int(problem.key[n])].append(n)
    in_doubt = {int(key) for key in problem.key[order][stuck != 0]}
    in_doubt.update(problem.key[(problem.session >= 0) & (late[problem.session] != 0)].tolist())
    deadline = time.monotonic() + SECONDS
    for keys in _together(problem):
        if final and in_doubt.isdisjoint(keys):
            continue
        mine = np.array([n for key in keys for n in placed[key]], np.int64)
        executed.difference_update(mine.tolist())
        try:
            if time.monotonic() > deadline:
                raise OutOfBudget("other keys took all the time")
            found, happened = _decide(problem.part(mine))
        except OutOfBudget as spent:
            undecided.update(dict.fromkeys(keys, str(spent)))
            continue
        if found is None:
            conflicts[keys[0]] = tuple(mine.tolist())
            continue
        executed.update(mine[happened].tolist())
        for key in keys:
            placed[key] = [int(mine[n]) for n in found if problem.key[mine[n]] == key]
    order = np.array([n for key in sorted(placed) for n in placed[key]], np.int64)
    begun = chosen(problem, executed).part(order).settled()[0]
    return Solution(conflicts, undecided, order, begun, frozenset(executed))


def _concerned(problem: Problem, late: Ints) -> Ints:
    """Without sessions that hold nothing, of which it does not matter how long they lived."""
    holding = np.zeros(len(late), bool)
    holding[problem.session[problem.session >= 0]] = True
    return np.where(holding, late, 0)


def _together(problem: Problem) -> list[list[int]]:
    """Keys whose grants share sessions, directly or through others."""
    parent: dict[int, int] = {}

    def root(key: int) -> int:
        while parent.setdefault(key, key) != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    one_of: dict[int, int] = {}
    width = len(problem.alive) + 1
    for pair in np.unique(problem.key * width + problem.session + 1).tolist():
        key, session = pair // width, pair % width - 1
        mine = root(key)
        if session >= 0:
            other = root(one_of.setdefault(session, key))
            parent[max(mine, other)] = min(mine, other)
    groups: dict[int, list[int]] = defaultdict(list)
    for key in sorted(parent):
        groups[root(key)].append(key)
    return list(groups.values())


def _decide(problem: Problem) -> tuple[list[int] | None, list[int]]:
    """An order of all grants that fits, or None, and whose unanswered release happened. Raises OutOfBudget."""
    open_to_choice = np.flatnonzero(problem.optional).tolist()
    budget = [WORK]
    for happened in islice(product((True, False), repeat=len(open_to_choice)), CHOICES):
        executed = [n for n, yes in zip(open_to_choice, happened, strict=True) if yes]
        found = _arrange(chosen(problem, set(executed)), budget)
        if found is not None:
            return found, executed
    if 1 << len(open_to_choice) > CHOICES:
        raise OutOfBudget(f"{len(open_to_choice)} unanswered releases may have prolonged their sessions: too many ways")
    return None, []


def chosen(problem: Problem, executed: set[int]) -> Problem:
    """With the unanswered releases that happened, and prolonged their sessions, and those that did not happen."""
    if not problem.optional.any():
        return problem
    happened = np.zeros(len(problem), bool)
    happened[list(executed)] = True
    never = (problem.optional != 0) & ~happened
    return replace(
        problem,
        bits=np.where(happened, problem.bits | PARTS, problem.bits),
        free=np.where(never, problem.asked, problem.free),
    )


def _arrange(problem: Problem, budget: list[int]) -> list[int] | None:
    """An order of all grants that fits, or None. Raises OutOfBudget."""
    order, is_float = _likely(problem)
    if _fits(problem, order.tolist(), budget):
        return [int(n) for n in order]
    known = np.isin(problem.key, list(problem.ordered))
    loose = [int(n) for n in order if is_float[n] and not known[n]]
    if not loose:
        return None
    base = [int(n) for n in order if not is_float[n] or known[n]]
    return _inserted(problem, base, loose, budget)


def _likely(problem: Problem) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """See `lease_problem.likely`: with what is certain of the sessions wherever the grants stand in their windows."""
    alive, until, some = problem.alive.copy(), problem.until.copy(), problem.session >= 0
    certain = (problem.bits & CERTAIN) != 0
    np.maximum.at(alive, problem.session[some], np.where(certain, problem.free, problem.start)[some])
    touches = some & ((problem.bits & TOUCHES) != 0)
    np.maximum.at(until, problem.session[touches], (problem.start + problem.lasts)[touches])
    return likely(problem, until, alive)


def _inserted(problem: Problem, base: list[int], loose: Sequence[int], budget: list[int]) -> list[int] | None:
    """Depth first: the floats one after another at every place of their keys; fewer grants are never worse off."""
    if not _fits(problem, base, budget):
        return None
    stack = [_places(problem, base, loose[0])]
    while stack:
        candidate = next(stack[-1], None)
        if candidate is None:
            stack.pop()
        elif _fits(problem, candidate, budget):
            if len(stack) == len(loose):
                return candidate
            stack.append(_places(problem, candidate, loose[len(stack)]))
    return None


def _places(problem: Problem, base: list[int], n: int) -> Iterator[list[int]]:
    mine = [place for place, other in enumerate(base) if problem.key[other] == problem.key[n]]
    places = range(mine[0], mine[-1] + 2) if mine else range(len(base), len(base) + 1)
    for place in reversed(places):
        yield [*base[:place], n, *base[place:]]


def _fits(problem: Problem, order: list[int], budget: list[int]) -> bool:
    """Whether grants have room in this order. Raises OutOfBudget."""
    budget[0] -= len(order) + 1
    if budget[0] < 0:
        raise OutOfBudget(f"{len(problem)} grants of sessions that hang together: too many orders to try")
    part = problem.part(np.array(order, np.int64))
    _, _, stuck, _, _, _, late, final = part.settled()
    if stuck.any() or late[part.session[part.session >= 0]].any():
        return False
    if not final:
        raise OutOfBudget(f"sessions that prolong one another for more than {PATIENCE} rounds")
    return True


def posed(holds: Sequence[Hold], *, touch: bool, ordered: frozenset[int]) -> Problem:
    """Windows of grants, mode *told*, as one problem over all their keys; number n is `windows[n]`.

    What a window says of its session is used as it stands; unanswered releases happened, and prolonged nothing. So a
    conflict is certain, though there may be some that this does not show.
    """
    names = {name: z for z, name in enumerate(sorted({w.session for w in holds} - {0}))}

    def column(of: Callable[[Hold], int]) -> Ints:
        return np.array([of(hold) for hold in holds], np.int64)

    nothing, ever = np.zeros(len(holds), np.int64), np.full(len(names), INFINITY, np.int64)
    freed = column(lambda w: w.freeing < INFINITY)
    session = column(lambda w: names.get(w.session, -1))
    return Problem(
        who=np.arange(len(holds)),
        key=column(lambda w: w.key),
        start=column(lambda w: w.start),
        latest=column(lambda w: w.latest),
        lasts=column(lambda w: w.length),
        fixed=column(lambda w: w.fixed),
        held=column(lambda w: w.renewed),
        free=column(lambda w: w.free),
        over=nothing + INFINITY,
        floor=nothing,
        first=nothing,
        last=nothing,
        inv=nothing[:0],
        ret=nothing[:0],
        session=session,
        bits=np.where(session >= 0, TOUCHES + PARTS * freed, 0) if touch else nothing,
        parts=column(lambda w: w.freeing),
        asked=nothing + INFINITY,
        optional=nothing,
        token=column(lambda w: w.token),
        alive=ever * 0,
        until=ever * 0,
        shut=ever,
        closings=np.zeros(len(names) + 1, np.int64),
        closing_inv=nothing[:0],
        closing_ret=nothing[:0],
        dead=ever,
        ordered=ordered,
    )


def fewest(problem: Problem, grants: Sequence[int]) -> tuple[int, ...]:
    """Of grants that have no room together so few that none can be left out, as far as the budget goes."""
    left, size = list(grants), len(grants) // 2
    budget = WORK
    while size:
        place = 0
        while place < len(left):
            rest = left[:place] + left[place + size :]
            budget -= len(rest) + 1
            try:
                if budget > 0 and rest and _decide(problem.part(np.array(rest, np.int64)))[0] is None:
                    left = rest
                    continue
            except OutOfBudget:
                pass
            place += size
        size //= 2
    return tuple(left)
