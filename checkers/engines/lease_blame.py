"""Which operations a contradiction between leases rests on: as few as possible.

Source: checkers/CONDITIONS.md, section 16. Fewer grants, renewals, refusals and keep-alives never contradict each other
more, so that what still does without one of them rests on the others; releases stay with their grants. A solution for
each attempt at that: O(n log n) of them for n grants, each of what is left.
"""

import time
from collections.abc import Sequence
from typing import Final

import numpy as np

from checkers.engines.lease_attempts import Attempts, restrict
from checkers.engines.lease_modes import FULL, TOLD, pose
from checkers.engines.lease_problem import fewest
from checkers.engines.lease_solve import solve
from checkers.models.model import Settings
from checkers.row_format import F, Outcome

SMALL: Final = 400
"""Operations of a conflict that is made smaller one operation at a time."""


def least(
    attempts: Attempts, settings: Settings, mode: int, grants: Sequence[int], ordered: frozenset[int], deadline: float
) -> tuple[int, ...]:
    """Rows that contradict each other in this mode, given attempts that do; none can be left out, if time allows.

    deadline: as `time.monotonic` tells; past it, what is left is returned.
    """
    if mode == TOLD:
        grants = [*grants, *_beside(attempts, grants)]
    units = [_rows(attempts, mode, attempt) for attempt in dict.fromkeys(grants)]
    proofs = _proofs(attempts, mode, grants)

    def contradict(chosen: Sequence[Sequence[int]], beside: Sequence[int]) -> bool:
        if time.monotonic() > deadline:
            return False
        rows = {row for unit in chosen for row in unit} | set(beside)
        part = restrict(attempts, settings, rows)
        return bool(solve(pose(part, mode, ordered=ordered)[0]).conflicts)

    units = fewest(units, lambda rest: contradict(rest, proofs), len(units) // 2)
    if sum(map(len, units)) + len(proofs) <= SMALL:
        for proof in list(proofs):
            fewer = [row for row in proofs if row != proof]
            if not _stays(attempts, proof) and contradict(units, fewer):
                proofs = fewer
        for place, unit in enumerate(units):
            for row in unit[1:]:
                fewer_rows = [other for other in units[place] if other != row]
                changed = [*units[:place], fewer_rows, *units[place + 1 :]]
                if not _stays(attempts, row) and contradict(changed, proofs):
                    units = changed
    used = {int(session) for unit in units for session in attempts.history.columns["session"][unit[:1]]}
    proofs = [row for row in proofs if int(attempts.history.columns["session"][row]) in used]
    return tuple(sorted({row for unit in units for row in unit} | set(proofs)))


def _rows(attempts: Attempts, mode: int, attempt: int) -> list[int]:
    """What this mode believes of an attempt."""
    refused = set(attempts.refusals(attempt)) if mode == FULL else set()
    c = attempts.history.columns
    believed = []
    for row in attempts.operations(attempt):
        fate = c["outcome"][row]
        done = fate == Outcome.OK or (fate == Outcome.INFO and c["f"][row] == F.RELEASE)
        if row == attempts.rows[attempt] or row in refused or done:
            believed.append(row)
    return believed


def _beside(attempts: Attempts, grants: Sequence[int]) -> list[int]:
    """What may have prolonged the sessions of grants without being one."""
    others = attempts.prolonging()
    sessions = np.unique(attempts.session[list(grants)])
    beside: list[int] = others[np.isin(attempts.session[others], sessions)].tolist()
    return beside


def _proofs(attempts: Attempts, mode: int, grants: Sequence[int]) -> list[int]:
    """What was said about the sessions of grants."""
    outcome = attempts.history.columns["outcome"]
    sessions = np.unique(attempts.session[list(grants)])
    rows = [row for z in sessions.tolist() if z >= 0 for row in attempts.lives[z].proof]
    return [row for row in rows if mode == FULL or outcome[row] != Outcome.FAIL]


def _stays(attempts: Attempts, row: int) -> bool:
    """Whether leaving it out would take away what ends a hold."""
    return bool(attempts.history.columns["f"][row] in (F.RELEASE, F.SESSION_CLOSE)) and bool(
        attempts.history.columns["outcome"][row] != Outcome.FAIL
    )
