"""The order in which the operations of leases can have happened, from the earliest starts of their grants."""

from __future__ import annotations

import numpy as np

from checkers.engines.lease_attempts import Attempts
from checkers.engines.lease_kernels import CERTAIN
from checkers.engines.lease_problem import Problem, Solution
from checkers.models.engine import Rows
from checkers.wire import INFINITY, F, Outcome

_ACQUIRED, _RENEWED, _RELEASED, _REFUSED = range(4)
_LAST = INFINITY


def points(attempts: Attempts, problem: Problem, solution: Solution) -> Rows:
    """Rows in an order of linearization points; meaningless where there are conflicts or undecided keys.

    What happens at one instant stands in the order of (rank, place of the grant, what it is).
    """
    if len(problem.alive):
        from checkers.engines.lease_sessions import chosen

        problem = chosen(problem, set(solution.executed))
    part = problem.part(solution.order)
    begun, rank, _, lived, lived_rank, lasting, _, _ = part.settled()
    c = attempts.history.columns
    f, outcome, inv = c["f"].tolist(), c["outcome"].tolist(), c["inv"].tolist()
    told: list[tuple[int, int, int, int, int]] = []
    ends = [
        max((int(lived[z]), int(lived_rank[z])), (min(int(lasting[z]), int(problem.shut[z])), 1))
        for z in range(len(lived))
    ]
    for place, attempt in enumerate(part.who.tolist()):
        a, level, z = int(begun[place]), int(rank[place]), int(part.session[place])
        parting = max(int(part.free[place]), a, int(part.held[place]))
        lease = ends[z][0] if z >= 0 else max(a + int(part.lasts[place]), int(part.fixed[place]))
        certain = bool(part.bits[place] & CERTAIN) or (z < 0 and part.lasts[place] >= INFINITY)
        over = parting if certain else min(parting, lease)
        happened = False
        for row in attempts.operations(attempt):
            kind, fate, at = f[row], outcome[row], inv[row]
            if kind in (F.ACQUIRE, F.TRY_ACQUIRE):
                told += [(a, level, place, _ACQUIRED, row)] if row == attempts.rows[attempt] else []
            elif fate == Outcome.FAIL:
                refusal = row in attempts.refusals(attempt)
                told += [(max(at, over), _LAST, place, _REFUSED, row)] if refusal else []
            elif kind == F.RENEW and fate == Outcome.OK:
                told.append((max(at, a), level if at <= a else 0, place, _RENEWED, row))
            elif kind == F.RELEASE and (fate == Outcome.OK or (not happened and over == parting and at <= parting)):
                if fate == Outcome.INFO and (certain or part.free[place] != at):
                    continue
                happened = True
                told.append((parting, level if parting == a else 0, place, _RELEASED, row))
    for z, rows in enumerate(attempts.sessions.proof):
        if z not in part.session:
            continue
        for row in rows:
            kind, fate, at = f[row], outcome[row], inv[row]
            if kind == F.SESSION_CLOSE:
                if at <= ends[z][0] and problem.shut[z] == at and problem.shut[z] <= lasting[z]:
                    told.append((*ends[z], -1, _RELEASED, row))
                elif fate == Outcome.OK:
                    told.append((max(at, ends[z][0]), _LAST, -1, _REFUSED, row))
            elif fate == Outcome.FAIL:
                told.append((max(at, ends[z][0]), _LAST, -1, _REFUSED, row))
            elif fate == Outcome.OK:
                told.append((at, -1, -1, _ACQUIRED, row))
    return np.array([row for *_, row in sorted(told)], np.int64)
