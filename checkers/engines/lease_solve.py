"""Whether the attempts of a history can have held one after another, in one mode.

All keys are walked at once in the likeliest order; only keys with floats that do not fit into it are searched
(`checkers.engines.lease_schedule`), and keys that share sessions are searched together
(`checkers.engines.lease_sessions`).
"""

import time
from collections.abc import Sequence

import numpy as np

from checkers.engines.lease_kernels import Ints
from checkers.engines.lease_problem import SECONDS, Problem, Solution, likely
from checkers.engines.lease_schedule import in_any_order
from checkers.engines.lease_sessions import solve_sessions
from checkers.history.finding import OutOfBudget
from checkers.history.holds import Hold


def solve(problem: Problem) -> Solution:
    """Decides what it can within the budgets of these two."""
    if len(problem.alive):
        return solve_sessions(problem)
    order, floats = likely(problem, problem.until, problem.alive)
    begun, _, stuck, *_ = problem.part(order).settled()
    conflicts: dict[int, tuple[int, ...]] = {}
    undecided: dict[int, str] = {}
    bad = np.flatnonzero(stuck)
    if not len(bad):
        return Solution({}, {}, order, begun)
    keys = problem.key[order]
    firsts = np.searchsorted(keys, keys[bad], "left")
    lasts = np.searchsorted(keys, keys[bad], "right")
    changed = False
    deadline = time.monotonic() + SECONDS
    for place, first, last in zip(bad.tolist(), firsts.tolist(), lasts.tolist(), strict=True):
        key = int(keys[place])
        mine = order[first:last]
        if key in problem.ordered or not floats[mine].any():
            conflicts[key] = _squeezed(problem, order, begun, place)
            continue
        try:
            if time.monotonic() > deadline:
                raise OutOfBudget("other keys took all the time")
            found, conflict = fit(problem, mine.tolist())
        except OutOfBudget as spent:
            undecided[key] = str(spent)
            continue
        if conflict:
            conflicts[key] = conflict
        else:
            order[first:last] = found
            changed = True
    if changed:
        begun, *_ = problem.part(order).settled()
    return Solution(conflicts, undecided, order, begun)


def fit(problem: Problem, grants: Sequence[int]) -> tuple[list[int], tuple[int, ...]]:
    """Grants of one key in an order in which all have room, or some of them that have none. Raises OutOfBudget."""
    holds = [problem.hold(n) for n in grants]
    late = [w for w in holds if w.latest < w.start or w.core_end > problem.over[w.row]]
    if late:
        return [], (late[0].row,)
    order: list[Hold] = []
    for conflict in in_any_order(holds, order=order):
        return [], tuple(hold.row for hold in conflict)
    return [hold.row for hold in order], ()


def _squeezed(problem: Problem, order: Ints, begun: Ints, place: int) -> tuple[int, ...]:
    """The grant at a place, which has no room, and those before it that stand close to one another."""
    n = int(order[place])
    back = place
    if problem.start[n] <= problem.latest[n]:
        while back > 0 and problem.key[order[back - 1]] == problem.key[n]:
            if back < place and begun[back] <= problem.start[order[back]]:
                break
            back -= 1
    return tuple(int(one) for one in order[back : place + 1])
