"""What is asked about the attempts of a history in each mode: start windows, and what ends them.

Source: checkers/CONDITIONS.md, section 16, where each mode and its windows stand in a table. A mode believes more of
what clients were told than the one before it, so that its windows are narrower or its ends later; each term is the
smallest E(a) that what is believed allows. O(n).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from checkers.engines.kernel import kernel
from checkers.engines.lease_attempts import Attempts
from checkers.engines.lease_fold import Answers
from checkers.engines.lease_kernels import CERTAIN, PARTS, TOUCHES, Grants, Ints, Sessions, in_token_order
from checkers.engines.lease_problem import Problem
from checkers.wire import INFINITY, NONE

BLIND: Final = 0
TOLD: Final = 1
UNREFUSED: Final = 2
FULL: Final = 3
"""Modes; see `checkers.engines.leases`."""


class Asked(NamedTuple):
    """Of each attempt; times in ns."""

    start: Ints  # its earliest instant
    ret: Ints  # when it was answered
    length: Ints  # the least that its lease adds to it
    gone: Ints  # from then on it may have been released, or given up by its session
    in_session: Ints  # 1 if it is in one


class Windows(NamedTuple):
    """Of those attempts that count; names as in `Grants`."""

    who: Ints  # the attempt
    latest: Ints
    lasts: Ints
    fixed: Ints
    held: Ints
    free: Ints
    over: Ints


@kernel
def narrow(mode: int, asked: Asked, answers: Answers) -> Windows:
    """Start windows in one mode."""
    ret, length, gone, in_session = asked.ret, asked.length, asked.gone, asked.in_session
    answered, renewed, proven = answers.answered, answers.renewed, answers.proven
    freeing, freed, frees, refused = answers.freeing, answers.freed, answers.frees, answers.refused
    n = len(ret)
    who = np.zeros(n, np.int64)
    latest = np.zeros(n, np.int64)
    lasts = np.zeros(n, np.int64)
    fixed = np.zeros(n, np.int64)
    held = np.zeros(n, np.int64)
    free = np.zeros(n, np.int64)
    over = np.zeros(n, np.int64)
    count = 0
    for i in range(n):
        certain = mode >= UNREFUSED and frees[i] > 0
        if answered[i] != 1 and not certain and (mode == BLIND or renewed[i] < 0):
            continue  # an acquire without an answer, which may never have happened
        last = ret[i] if answered[i] == 1 else INFINITY
        lease, until, known, parting, end = length[i], -1, -1, gone[i], INFINITY
        if mode != BLIND:
            known = renewed[i]
            until = -1 if known < 0 else known + lease
            last = min(last, proven[i])
            if answered[i] < 0 or known > freed[i]:
                last = -1  # renewed or released what was never granted; renewed after its release had returned
        if mode == FULL:
            end = refused[i]
        if certain:
            parting = freeing[i]
            if in_session[i] == 0:
                lease = INFINITY
            end = min(end, freed[i])
            last = min(last, freed[i])
            if frees[i] > 1:
                last = -1
        if end < INFINITY:
            possible = -1
            if max(parting, known) <= end or in_session[i] != 0:
                possible = end
            elif lease < INFINITY and until <= end:
                possible = end - lease
            last = min(last, possible)
        who[count] = i
        latest[count] = last
        lasts[count] = lease
        fixed[count] = until
        held[count] = known
        free[count] = parting
        over[count] = end
        count += 1
    who, latest, lasts, fixed = who[:count], latest[:count], lasts[:count], fixed[:count]
    return Windows(who, latest, lasts, fixed, held[:count], free[:count], over[:count])


def pose(
    attempts: Attempts,
    mode: int,
    *,
    keys: Iterable[int] | None = None,
    bound: int | None = None,
    ordered: frozenset[int] | None = None,
) -> tuple[Problem, Ints]:
    """What is asked in one mode, and the attempt of each grant in it.

    keys: only these. bound: ns for which a client may believe what is not so. ordered: keys whose order is that of
    their tokens, found from the attempts where it is not given.
    """
    answers, gone = attempts.answers, np.minimum(attempts.answers.released, attempts.asked)
    in_session = (attempts.session >= 0).astype(np.int64)
    narrowed = narrow(mode, Asked(attempts.start, attempts.ret, attempts.length, gone, in_session), answers)
    who, latest, lasts, fixed, held, free, over = narrowed
    sessions = _sessions(attempts, mode)
    session, frees = attempts.session[who], answers.frees[who]
    nothing = np.zeros(len(who), np.int64)
    bits, optional = nothing, nothing
    if in_session.any():
        some = session >= 0
        if attempts.touch:
            bits = np.where(some, TOUCHES, 0) + np.where(some & (frees > 0) & (mode != BLIND), PARTS, 0)
            unanswered = some & (frees == 0) & (answers.released[who] < INFINITY)
            optional = (unanswered & (answers.released[who] + lasts > sessions.until[session])).astype(np.int64)
        if mode >= UNREFUSED:
            bits = bits + np.where(some & (frees > 0), CERTAIN, 0)
    grants = Grants(
        key=attempts.key[who],
        token=attempts.token[who],
        start=attempts.start[who],
        latest=latest,
        lasts=lasts,
        fixed=fixed,
        held=held,
        free=free,
        over=over,
        floor=nothing if bound is None else np.maximum(answers.believed[who] - bound, 0),
        first=answers.first[who] if mode == BLIND else nothing,
        last=answers.last[who] if mode == BLIND else nothing,
        session=session,
        bits=bits,
        parts=np.where(frees > 0, answers.freeing[who], answers.released[who]),
        asked=attempts.asked[who],
        optional=optional,
    )
    ordered = in_order_of_tokens(attempts) if ordered is None else ordered
    problem = Problem(grants, attempts.renewals, sessions, ordered)
    if keys is None:
        return problem, who
    chosen = np.flatnonzero(np.isin(grants.key, list(keys)))
    return problem.part(chosen), who[chosen]


def _sessions(attempts: Attempts, mode: int) -> Sessions:
    """What this mode believes of sessions."""
    lives = attempts.lives
    alive, until = (lives.opened, lives.trusted) if mode == BLIND else (lives.lived, lives.until)
    if mode == TOLD and len(others := attempts.prolonging()):
        alive, until, z, at = alive.copy(), until.copy(), attempts.session[others], attempts.answers.freeing[others]
        np.maximum.at(alive, z, at)
        np.maximum.at(until, z, at + attempts.length[others])
    dead = np.full(len(lives.dead), INFINITY, np.int64)
    if mode >= UNREFUSED:
        dead = lives.closed
    if mode == FULL:
        dead = np.minimum(dead, lives.dead)
    return Sessions(alive, until, lives.shut, dead, lives.closings, lives.closing_inv, lives.closing_ret)


def in_order_of_tokens(attempts: Attempts) -> frozenset[int]:
    """Keys whose grants all carry tokens that do not contradict real time: they come in the order of their tokens."""
    answered, frees, renewed = attempts.answers.answered, attempts.answers.frees, attempts.answers.renewed
    counts = (answered == 1) | (frees > 0) | ((answered < 0) & (renewed >= 0))
    some = np.flatnonzero(counts & (attempts.token != NONE))
    if not len(some):
        return frozenset()
    by = some[np.lexsort((attempts.token[some], attempts.key[some]))]
    clear = in_token_order(attempts.key[by], attempts.token[by], attempts.start[by], attempts.ret[by])
    bare = np.unique(attempts.key[counts & (attempts.token == NONE)])
    return frozenset(np.setdiff1d(np.unique(attempts.key[by][clear != 0]), bare).tolist())
