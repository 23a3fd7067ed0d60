"""Whether the grants of all keys can have been in force one after another, in one mode.

Source: checkers/CONDITIONS.md, sections 4 and 5. All keys are walked at once in the likeliest order, O(n log n); a key
that has no room in it is judged alone (`checkers.engines.lease_schedule`), and keys that share sessions are judged
together (`checkers.engines.lease_sessions`). Exact within what those two say; what exceeds a budget is undecided.
"""

import time
from typing import Final

import numpy as np

from checkers.engines.lease_kernels import Ints
from checkers.engines.lease_problem import Problem, Solution, likely
from checkers.engines.lease_schedule import conflicts
from checkers.engines.lease_sessions import solve_sessions
from checkers.history.finding import OutOfBudget

SECONDS: Final = 20.0
"""What all keys that need a search may take together."""


def solve(problem: Problem) -> Solution:
    """One conflict for each key that has any."""
    if len(problem.sessions.alive):
        return solve_sessions(problem, SECONDS)
    order, movable = likely(problem)
    settled = problem.part(order).settled()
    stuck = np.flatnonzero(settled.stuck)
    conflicting: dict[int, tuple[int, ...]] = {}
    undecided: dict[int, str] = {}
    keys = problem.grants.key[order]
    firsts = np.searchsorted(keys, keys[stuck], "left")
    lasts = np.searchsorted(keys, keys[stuck], "right")
    deadline = time.monotonic() + SECONDS
    for place, first, last in zip(stuck.tolist(), firsts.tolist(), lasts.tolist(), strict=True):
        key, mine = int(keys[place]), order[first:last]
        if key in problem.ordered or not movable[mine].any():
            conflicting[key] = tuple(order[_chained(problem, order, settled.begun, first, place) : place + 1].tolist())
            continue
        fitting: list[int] = []
        try:
            if time.monotonic() > deadline:
                raise OutOfBudget("other keys took all the time")
            conflict = next(conflicts(problem.part(mine), deadline, fitting), None)
        except OutOfBudget as spent:
            undecided[key] = str(spent)
            continue
        if conflict:
            conflicting[key] = tuple(mine[list(conflict)].tolist())
        else:
            order[first:last] = mine[fitting]
    return Solution(conflicting, undecided, order)


def _chained(problem: Problem, order: Ints, begun: Ints, first: int, stuck: int) -> int:
    """Where the chain begins of grants without a gap between them that leaves the stuck one no room."""
    start, latest = problem.grants.start, problem.grants.latest
    if start[order[stuck]] > latest[order[stuck]]:
        return stuck
    place = max(stuck - 1, first)
    while place > first and begun[place] > start[order[place]]:
        place -= 1
    return place
