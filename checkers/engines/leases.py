"""Leases: a lock that one client at a time holds until it releases, or until its TTL has passed without a renewal.

Source: checkers/CONDITIONS.md, section 16: what each mode believes, and what is to blame. ``release-lied`` also says
that a service acknowledged releases of a lock that another held by then (deletes of what is not there). Of sessions,
blind believes grants, and keep-alives that were answered before the lease can have run out (by creation and keep-alives
alone); from told on, other requests prolong a session too. If a session was granted or acknowledged something after its
own closing had returned, the closing ended nothing in blind and told; from unrefused on this is a contradiction, as is
a renewal after its own release. O(n log n) for each mode, but for what `solve` has to search.
"""

import time
from collections.abc import Iterator, Sequence
from itertools import chain
from math import inf
from typing import Final

import numpy as np

from checkers.engines import lease_schedule
from checkers.engines.lease_attempts import Attempts, gather, restrict
from checkers.engines.lease_kernels import CERTAIN
from checkers.engines.lease_modes import BLIND, FULL, TOLD, UNREFUSED, in_order_of_tokens, pose
from checkers.engines.lease_problem import Problem, Solution, fewest, likely
from checkers.engines.lease_sessions import chosen, solve_sessions
from checkers.history.counting import Ints
from checkers.history.finding import OutOfBudget
from checkers.history.history import History
from checkers.models.engine_answer import Conflict, EngineAnswer
from checkers.models.model import Settings
from checkers.row_format import INFINITY, F, Outcome

BLAME: Final = {BLIND: "granted-inside-a-hold", TOLD: "renewal-lied", UNREFUSED: "release-lied", FULL: "lost-early"}

SECONDS: Final = 20.0  # what all keys that need a search may take together, if the budget is not less
OVERTIME: Final = 0.1  # part of the budget that blame and small conflicts may still take if the search took all of it
WITNESSES: Final = 10  # conflicts that are made as small as they can be; others name the grants that have no room
MINIMIZING: Final = 5.0  # seconds for making all of these conflicts small
SMALL: Final = 400  # conflicts of at most so many operations are made smaller one operation at a time

_Point = tuple[int, int, int, int, int]
"""(ns, rank, place of its grant in their order or -1 if it is about a session, kind, row); sorted in this order."""
_ACQUIRED, _RENEWED, _RELEASED, _REFUSED = range(4)
_LAST: Final = INFINITY


def lease(history: History, settings: Settings) -> EngineAnswer:
    """Exact, but for keys that exceed a budget. Raises Unusable."""
    deadline = time.monotonic() + min(SECONDS, settings.budget)
    attempts = gather(history, settings)
    ordered = in_order_of_tokens(attempts)
    problem, who = pose(attempts, FULL, ordered=ordered)
    solution = solve(problem, deadline)
    conflicting = {key: tuple(who[list(grants)].tolist()) for key, grants in solution.conflicts.items()}
    seconds = max(deadline - time.monotonic(), OVERTIME * settings.budget)
    conflicts = tuple(_blamed(attempts, settings, conflicting, ordered, seconds)) if conflicting else ()
    return EngineAnswer(conflicts, dict(solution.undecided), lambda: points(attempts, problem, who, solution))


def _blamed(
    attempts: Attempts,
    settings: Settings,
    conflicting: dict[int, tuple[int, ...]],
    ordered: frozenset[int],
    seconds: float,
) -> Iterator[Conflict]:
    """For each key the conflict in the first mode that has one; the earliest ones as small as they can be.

    Where it is not known whether an earlier mode has one, too, nothing in particular is blamed. conflicting: key →
    attempts that have no room together in the mode that believes most. seconds: half of them to find the modes.
    """
    left = conflicting
    deadline = time.monotonic() + seconds / 2
    doubtful = set[int]()  # keys of which an earlier mode may have a conflict, too
    blamed: list[tuple[int, int, str, int, tuple[int, ...]]] = []
    for mode in (BLIND, TOLD, UNREFUSED, FULL):
        conflicts = left
        if mode != FULL and left:
            keys = {*left, *attempts.key[[attempt for mine in left.values() for attempt in mine]].tolist()}
            problem, who = pose(attempts, mode, keys=keys, ordered=ordered)
            solved = solve(problem, deadline)
            conflicts = {key: tuple(who[list(grants)].tolist()) for key, grants in solved.conflicts.items()}
            doubtful.update(solved.undecided)
        for key, mine in conflicts.items():
            kind = BLAME[mode] if doubtful.isdisjoint(attempts.key[list(mine)].tolist()) else "no-order"
            blamed.append((int(attempts.start[list(mine)].max()), key, kind, mode, mine))
        left = {key: mine for key, mine in left.items() if conflicts.keys().isdisjoint(attempts.key[list(mine)])}
    deadline = time.monotonic() + min(seconds / 2, MINIMIZING)
    for place, (_, key, kind, mode, mine) in enumerate(sorted(blamed)):
        until = deadline if place < WITNESSES else 0.0
        yield Conflict(kind, key, least(attempts, settings, mode, mine, ordered, until))


def solve(problem: Problem, deadline: float = inf) -> Solution:
    """Whether the grants of all keys can have been in force one after another; one conflict for each key that has any.

    All keys are walked at once in the likeliest order, O(n log n). A key that does not fit in that order is judged
    alone (`lease_schedule`), and keys that share sessions are judged together (`lease_sessions`). Exact within the
    limits of these modules; keys that exceed a budget are undecided. Source: checkers/CONDITIONS.md, sections 4 and 5.
    """
    if len(problem.sessions.alive):
        return solve_sessions(problem, deadline)
    order, movable = likely(problem)
    settled = problem.part(order).settled()
    stuck = np.flatnonzero(settled.stuck)
    conflicting: dict[int, tuple[int, ...]] = {}
    undecided: dict[int, str] = {}
    keys = problem.grants.key[order]
    firsts = np.searchsorted(keys, keys[stuck], "left")
    lasts = np.searchsorted(keys, keys[stuck], "right")
    for place, first, last in zip(stuck.tolist(), firsts.tolist(), lasts.tolist(), strict=True):
        key, mine = int(keys[place]), order[first:last]
        if key in problem.ordered or not movable[mine].any():
            conflicting[key] = tuple(order[_chained(problem, order, settled.begun, first, place) : place + 1].tolist())
            continue
        fitting: list[int] = []
        try:
            if time.monotonic() > deadline:
                raise OutOfBudget("other keys took all the time")
            conflict = next(lease_schedule.conflicts(problem.part(mine), deadline, fitting), None)
        except OutOfBudget as spent:
            undecided[key] = str(spent)
            continue
        if conflict:
            conflicting[key] = tuple(mine[list(conflict)].tolist())
        else:
            order[first:last] = mine[fitting]
    return Solution(conflicting, undecided, order)


def _chained(problem: Problem, order: Ints, begun: Ints, first: int, stuck: int) -> int:
    """The place where the chain of grants without gaps begins that leaves the stuck grant no room."""
    start, latest = problem.grants.start, problem.grants.latest
    if start[order[stuck]] > latest[order[stuck]]:
        return stuck
    place = max(stuck - 1, first)
    while place > first and begun[place] > start[order[place]]:
        place -= 1
    return place


def least(
    attempts: Attempts, settings: Settings, mode: int, grants: Sequence[int], ordered: frozenset[int], deadline: float
) -> tuple[int, ...]:
    """Rows that contradict each other in this mode, given attempts that do; none can be left out, if time allows.

    Leaving out grants, renewals, refusals or keep-alives never adds a contradiction, so a contradiction that remains
    rests on the other rows; releases stay with their grants. Each try solves the problem of what is left: O(n log n)
    solutions for n grants. deadline: by `time.monotonic`; past it, what is left is returned.
    """
    c, sessions = attempts.history.columns, np.unique(attempts.session[list(grants)])
    if mode == TOLD:
        others = attempts.prolonging()
        grants = [*grants, *others[np.isin(attempts.session[others], sessions)].tolist()]
    units = [_rows(attempts, mode, attempt) for attempt in dict.fromkeys(grants)]
    session_rows = [row for z in sessions.tolist() if z >= 0 for row in attempts.lives.proof.get(z, ())]
    proofs = [row for row in session_rows if mode == FULL or c["outcome"][row] != Outcome.FAIL]

    def contradict(rows: Sequence[int]) -> bool:
        if time.monotonic() > deadline:
            return False
        part = restrict(attempts, settings, set(rows))
        return bool(solve(pose(part, mode, ordered=ordered)[0], deadline).conflicts)

    units = fewest(units, lambda rest: contradict([*proofs, *chain(*rest)]), len(units) // 2)
    acquires, rows = [unit[0] for unit in units], [*proofs, *chain(*units)]
    if len(rows) <= SMALL:
        staying = [row for row in rows if row in acquires or _stays(attempts, row)]
        loose = [row for row in rows if row not in staying]
        rows = [*staying, *fewest(loose, lambda rest: contradict([*staying, *rest]), 1)]
    holding = set(c["session"][acquires].tolist())
    needless = {row for row in proofs if c["session"][row] not in holding}
    return tuple(sorted(set(rows) - needless))


def _rows(attempts: Attempts, mode: int, attempt: int) -> list[int]:
    """The rows of an attempt that this mode believes."""
    refused = set(attempts.refusals(attempt)) if mode == FULL else set()
    believed = refused | {int(attempts.rows[attempt])}
    f, outcome = attempts.history.columns["f"], attempts.history.columns["outcome"]
    return [
        row
        for row in attempts.operations(attempt)
        if row in believed or outcome[row] == Outcome.OK or (outcome[row] == Outcome.INFO and f[row] == F.RELEASE)
    ]


def _stays(attempts: Attempts, row: int) -> bool:
    """Whether a row can have ended a hold, so that it must not be left out."""
    c = attempts.history.columns
    return bool(c["f"][row] in (F.RELEASE, F.SESSION_CLOSE) and c["outcome"][row] != Outcome.FAIL)


def points(attempts: Attempts, problem: Problem, who: Ints, solution: Solution) -> Ints:
    """Rows in an order of linearization points; meaningless where there are conflicts or undecided keys.

    Source: checkers/CONDITIONS.md, sections 3 and 5: each operation stands at the earliest instant that the starts
    allow, and no grant begins before the previous grant has ended. O(n log n). who: the attempt of each grant.
    """
    part = chosen(problem, set(solution.executed)).part(solution.order)
    settled = part.settled()
    lived = zip(settled.lived.tolist(), settled.lived_rank.tolist(), strict=True)
    leases = np.minimum(settled.lasting, problem.sessions.shut).tolist()
    ends = [max(life, (lease, 1)) for life, lease in zip(lived, leases, strict=True)]
    starts = list(zip(settled.begun.tolist(), settled.rank.tolist(), strict=True))
    moments = [*_of_grants(attempts, part, who[solution.order], starts, ends)]
    for z in np.unique(part.grants.session[part.grants.session >= 0]).tolist():
        closed = int(problem.sessions.shut[z]) if problem.sessions.shut[z] <= settled.lasting[z] else -1
        moments += _of_session(attempts, z, ends[z], closed)
    return np.array([row for *_, row in sorted(moments)], np.int64)


def _of_grants(
    attempts: Attempts, part: Problem, who: Ints, starts: Sequence[tuple[int, int]], ends: Sequence[tuple[int, int]]
) -> Iterator[_Point]:
    """The points of operations on grants. starts: instant and rank of each grant; ends: of each session."""
    c, grants = attempts.history.columns, part.grants
    f, outcome, inv = c["f"].tolist(), c["outcome"].tolist(), c["inv"].tolist()
    for place, (attempt, (a, rank)) in enumerate(zip(who.tolist(), starts, strict=True)):
        z, free = int(grants.session[place]), int(grants.free[place])
        parting = max(free, a, int(grants.held[place]))
        lease = ends[z][0] if z >= 0 else max(a + int(grants.lasts[place]), int(grants.fixed[place]))
        certain = bool(grants.bits[place] & CERTAIN) or (z < 0 and grants.lasts[place] >= INFINITY)
        over = parting if certain else min(parting, lease)
        released = False
        for row in attempts.operations(attempt):
            kind, fate, at = f[row], outcome[row], inv[row]
            if kind in (F.ACQUIRE, F.TRY_ACQUIRE):
                if row == attempts.rows[attempt]:
                    yield (a, rank, place, _ACQUIRED, row)
            elif fate == Outcome.FAIL:
                if row in attempts.refusals(attempt):
                    yield (max(at, over), _LAST, place, _REFUSED, row)
            elif kind == F.RENEW and fate == Outcome.OK:
                yield (max(at, a), rank if at <= a else 0, place, _RENEWED, row)
            elif kind == F.RELEASE and (fate == Outcome.OK or (not released and over == parting and at <= parting)):
                if fate == Outcome.INFO and (certain or free != at):
                    continue
                released = True
                yield (parting, rank if parting == a else 0, place, _RELEASED, row)


def _of_session(attempts: Attempts, z: int, end: tuple[int, int], closed: int) -> Iterator[_Point]:
    """The points of rows about a session. closed: when its client closed it, -1 if it may have ended before."""
    c = attempts.history.columns
    for row in attempts.lives.proof.get(z, ()):
        kind, fate, at = (int(c[name][row]) for name in ("f", "outcome", "inv"))
        if kind == F.SESSION_CLOSE and at <= end[0] and closed == at:
            yield (*end, -1, _RELEASED, row)
        elif fate == Outcome.FAIL or (kind == F.SESSION_CLOSE and fate == Outcome.OK):
            yield (max(at, end[0]), _LAST, -1, _REFUSED, row)
        elif fate == Outcome.OK:
            yield (at, -1, -1, _ACQUIRED, row)
