"""The order in which the operations of leases can have happened, from the earliest starts of their grants.

Source: checkers/CONDITIONS.md, sections 3 and 5: each operation stands at the earliest instant that the starts allow,
and no grant begins before the end of the one before it. O(n log n); asked for only as a proof.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from checkers.engines.lease_attempts import Attempts
from checkers.engines.lease_kernels import CERTAIN, Ints
from checkers.engines.lease_problem import Problem, Solution
from checkers.engines.lease_sessions import chosen
from checkers.models.engine_answer import Rows
from checkers.row_format import INFINITY, F, Outcome

_ACQUIRED, _RENEWED, _RELEASED, _REFUSED = range(4)
_LAST: Final = INFINITY


_Point = tuple[int, int, int, int, int]
"""(ns, rank, place of its grant in their order, or -1 for what is about a session, what it is, row): as sorted."""


def points(attempts: Attempts, problem: Problem, who: Ints, solution: Solution) -> Rows:
    """Rows in an order of linearization points; meaningless where there are conflicts or undecided keys.

    who: the attempt of each grant.
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
    attempts: Attempts,
    part: Problem,
    who: Ints,
    starts: Sequence[tuple[int, int]],
    ends: Sequence[tuple[int, int]],
) -> Iterator[_Point]:
    """starts: instant and rank of each grant; ends: of each session."""
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
    """closed: when its client closed it, -1 if it may have ended before."""
    c = attempts.history.columns
    for row in attempts.lives[z].proof:
        kind, fate, at = (int(c[name][row]) for name in ("f", "outcome", "inv"))
        if kind == F.SESSION_CLOSE and at <= end[0] and closed == at:
            yield (*end, -1, _RELEASED, row)
        elif fate == Outcome.FAIL or (kind == F.SESSION_CLOSE and fate == Outcome.OK):
            yield (max(at, end[0]), _LAST, -1, _REFUSED, row)
        elif fate == Outcome.OK:
            yield (at, -1, -1, _ACQUIRED, row)
