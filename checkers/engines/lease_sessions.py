"""Leases shared by several keys: a session ends all its grants at one instant.

Source: checkers/CONDITIONS.md, section 5. In given orders of the grants of each key, the least fixpoint of
`lease_kernels.settle` decides. Other orders, and what unanswered releases did, are tried under a budget.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Final

import numpy as np

from checkers.engines.lease_kernels import PARTS
from checkers.engines.lease_problem import PATIENCE, Problem, Solution, fewest, likely
from checkers.engines.lease_schedule import Budget
from checkers.history.finding import OutOfBudget

WORK: Final = 2_000_000
"""Grants looked at for keys that hang together before the search for an order is given up; some seconds."""
CHOICES: Final = 256  # the most combinations of unanswered releases, each of which happened or did not, that are tried


def solve_sessions(problem: Problem, deadline: float) -> Solution:
    """Decides keys that share sessions as one: a conflict stands at one of its keys. deadline: by `time.monotonic`."""
    grants = problem.grants
    executed = set(np.flatnonzero(grants.optional).tolist())
    order = likely(chosen(problem, executed))[0]
    settled = chosen(problem, executed).part(order).settled()
    # How long a session lived does not matter if it holds nothing.
    late = np.where(np.isin(np.arange(len(settled.late)), grants.session), settled.late, 0)
    if settled.final and not settled.stuck.any() and not late.any():
        return Solution({}, {}, order, executed)
    conflicts: dict[int, tuple[int, ...]] = {}
    undecided: dict[int, str] = {}
    placed: dict[int, list[int]] = defaultdict(list)
    for n in order.tolist():
        placed[int(grants.key[n])].append(n)
    in_doubt = {int(key) for key in grants.key[order][settled.stuck != 0]}
    in_doubt.update(grants.key[(grants.session >= 0) & (late[grants.session] != 0)].tolist())
    for keys in _together(problem):
        if settled.final and in_doubt.isdisjoint(keys):
            continue
        mine = np.array([n for key in keys for n in placed[key]], np.int64)
        executed.difference_update(mine.tolist())
        try:
            if time.monotonic() > deadline:
                raise OutOfBudget("other keys took all the time")
            fitting, happened = _decide(problem.part(mine), deadline)
        except OutOfBudget as spent:
            undecided.update(dict.fromkeys(keys, str(spent)))
            continue
        if fitting is None:
            conflicts[keys[0]] = tuple(mine.tolist())
            continue
        executed.update(mine[happened].tolist())
        for key in keys:
            placed[key] = [int(mine[n]) for n in fitting if grants.key[mine[n]] == key]
    order = np.array([n for key in sorted(placed) for n in placed[key]], np.int64)
    return Solution(conflicts, undecided, order, executed)


def chosen(problem: Problem, executed: set[int]) -> Problem:
    """The problem if the unanswered releases in `executed` happened, prolonging their sessions, and no others did."""
    grants = problem.grants
    if not grants.optional.any():
        return problem
    happened = np.zeros(len(problem), bool)
    happened[list(executed)] = True
    never = (grants.optional != 0) & ~happened
    bits, free = np.where(happened, grants.bits | PARTS, grants.bits), np.where(never, grants.again, grants.free)
    return replace(problem, grants=grants._replace(bits=bits, free=free))


def _together(problem: Problem) -> list[list[int]]:
    """Groups of keys whose grants share sessions, directly or through other keys."""
    width = len(problem.sessions.alive) + 1
    sessions_of, keys_of = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for pair in np.unique(problem.grants.key * width + problem.grants.session + 1).tolist():
        key, session = pair // width, pair % width - 1
        sessions_of[key].append(session)
        keys_of[session].append(key)
    keys_of.pop(-1, None)  # grants without a session share nothing
    groups: list[list[int]] = []
    placed = set[int]()
    for first in sessions_of:
        group, todo = set[int](), {first} - placed
        while todo:
            group |= todo
            todo = {key for near in todo for z in sessions_of[near] for key in keys_of.pop(z, ())} - group
        if group:
            groups.append(sorted(group))
            placed |= group
    return groups


def _decide(problem: Problem, deadline: float) -> tuple[list[int] | None, list[int]]:
    """An order of all grants that fits, or None, and those whose unanswered release happened. Raises OutOfBudget."""
    open_to_choice = np.flatnonzero(problem.grants.optional).tolist()
    budget = Budget(WORK, deadline, "of sessions that hang together")
    for happened in islice(product((True, False), repeat=len(open_to_choice)), CHOICES):
        executed = [n for n, yes in zip(open_to_choice, happened, strict=True) if yes]
        order = _arrange(chosen(problem, set(executed)), budget)
        if order is not None:
            return order, executed
    if 1 << len(open_to_choice) > CHOICES:
        raise OutOfBudget(f"{len(open_to_choice)} unanswered releases may have prolonged their sessions: too many ways")
    return None, []


def _arrange(problem: Problem, budget: Budget) -> list[int] | None:
    """An order of all grants that fits, or None. Tries the movable grants one after another at every place of their
    keys, depth first: where some grants do not fit, more grants do not fit either. Raises OutOfBudget.
    """
    order, is_movable = likely(problem)
    if _fits(problem, order.tolist(), budget):
        return [int(n) for n in order]
    is_movable = is_movable[order] & ~np.isin(problem.grants.key[order], list(problem.ordered))
    movable: list[int] = order[is_movable].tolist()
    forced: list[int] = order[~is_movable].tolist()
    if not movable or not _fits(problem, forced, budget):
        return None
    stack = [_places(problem, forced, movable[0])]
    while stack:
        candidate = next(stack[-1], None)
        if candidate is None:
            stack.pop()
        elif _fits(problem, candidate, budget):
            if len(stack) == len(movable):
                return candidate
            stack.append(_places(problem, candidate, movable[len(stack)]))
    return None


def _places(problem: Problem, order: list[int], n: int) -> Iterator[list[int]]:
    """The order with one more grant, at each place of its key."""
    key = problem.grants.key
    mine = [place for place, other in enumerate(order) if key[other] == key[n]]
    places = range(mine[0], mine[-1] + 2) if mine else [len(order)]
    for place in reversed(places):
        yield [*order[:place], n, *order[place:]]


def _fits(problem: Problem, order: list[int], budget: Budget) -> bool:
    """Whether grants have room in this order. Raises OutOfBudget."""
    budget.spend(len(order) + 1, len(problem))
    part = problem.part(np.array(order, np.int64))
    settled, session = part.settled(), part.grants.session
    if settled.stuck.any() or settled.late[session[session >= 0]].any():
        return False
    if not settled.final:
        raise OutOfBudget(f"sessions that prolong one another for more than {PATIENCE} rounds")
    return True


def fewest_grants(problem: Problem, grants: Sequence[int], deadline: float) -> tuple[int, ...]:
    """Grants that have no room together, so few that none can be left out, as far as budget and deadline go."""
    budget = WORK

    def conflict(rest: list[int]) -> bool:
        nonlocal budget
        budget -= len(rest) + 1
        try:
            return budget > 0 and _decide(problem.part(np.array(rest, np.int64)), deadline)[0] is None
        except OutOfBudget:
            return False

    return tuple(fewest(list(grants), conflict, len(grants) // 2))
