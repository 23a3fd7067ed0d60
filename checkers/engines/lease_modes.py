"""The problem that each mode poses about the attempts of a history: start windows, and what ends the grants. O(n).

Source: checkers/CONDITIONS.md, section 16, where each mode and its windows stand in a table.
"""

from collections.abc import Iterable

import numpy as np

from checkers.engines.lease_attempts import Attempts
from checkers.engines.lease_kernels import CERTAIN, PARTS, TOUCHES, Grants, Sessions
from checkers.engines.lease_problem import Problem
from checkers.history.counting import Ints, apart
from checkers.row_format import INFINITY, NONE

BLIND, TOLD, UNREFUSED, FULL = range(4)  # modes; see `checkers.engines.leases`


def pose(
    attempts: Attempts, mode: int, *, ordered: frozenset[int], keys: Iterable[int] | None = None
) -> tuple[Problem, Ints]:
    """The problem in one mode, of these `keys` only, and the attempt of each grant. ordered: as in `Problem`."""
    answered, frees = attempts.answers.answered, attempts.answers.frees
    counts = answered == 1  # an acquire without an answer may never have happened
    if mode != BLIND:
        counts |= attempts.answers.renewed >= 0
    if mode >= UNREFUSED:
        counts |= frees > 0
    if keys is not None:
        counts &= np.isin(attempts.key, list(keys))
    who = np.flatnonzero(counts)
    sessions = _sessions(attempts, mode)
    grants = _grants(attempts, mode, who)
    if len(attempts.lives):
        grants = _in_sessions(attempts, mode, who, grants, sessions)
    return Problem(grants, attempts.renewals, sessions, ordered), who


def _grants(attempts: Attempts, mode: int, who: Ints) -> Grants:
    """The grants of the attempts that count, without what their sessions add."""
    answers = attempts.answers
    nothing = np.zeros(len(who), np.int64)
    again, session, length = attempts.again[who], attempts.session[who], attempts.length[who]
    released, freed, frees = answers.released[who], answers.freed[who], answers.frees[who]
    answered = answers.answered[who]
    latest = np.where(answered == 1, attempts.ret[who], INFINITY)
    lasts, free, over = length, np.minimum(released, again), np.full(len(who), INFINITY, np.int64)
    held = fixed = nothing - 1
    if mode != BLIND:
        held = answers.renewed[who]
        fixed = np.where(held < 0, -1, held + length)
        latest = np.minimum(latest, answers.proven[who])
        # A contradiction in itself: renewed or released without a grant, or renewed after the release had returned.
        latest[(answered < 0) | (held > freed)] = -1
    if mode == FULL:
        over = answers.refused[who]
    if mode >= UNREFUSED:
        certain = frees > 0
        free = np.where(certain, answers.freeing[who], free)
        lasts = np.where(certain & (session < 0), INFINITY, lasts)
        over, latest = np.minimum(over, freed), np.minimum(latest, freed)
        latest[frees > 1] = -1
        expired = np.where((lasts < INFINITY) & (fixed <= over), over - lasts, -1)
        possible = np.where((np.maximum(free, held) <= over) | (session >= 0), over, expired)
        latest = np.minimum(latest, possible)
    return Grants(
        key=attempts.key[who],
        token=attempts.token[who],
        start=attempts.start[who],
        latest=latest,
        lasts=lasts,
        fixed=fixed,
        held=held,
        free=free,
        over=over,
        first=answers.first[who] if mode == BLIND else nothing,
        last=answers.last[who] if mode == BLIND else nothing,
        session=session,
        bits=nothing,
        parts=nothing,
        again=again,
        optional=nothing,
    )


def _in_sessions(attempts: Attempts, mode: int, who: Ints, grants: Grants, sessions: Sessions) -> Grants:
    """The grants with what they and their releases do to their sessions."""
    released, frees = attempts.answers.released[who], attempts.answers.frees[who]
    in_session, freed = grants.session >= 0, frees > 0
    bits = np.where(in_session & freed & (mode >= UNREFUSED), CERTAIN, 0)
    optional = grants.optional
    if attempts.touch:
        bits += np.where(in_session, TOUCHES, 0) + np.where(in_session & freed & (mode != BLIND), PARTS, 0)
        unanswered = in_session & ~freed & (released < INFINITY)
        optional = (unanswered & (released + grants.lasts > sessions.until[grants.session])).astype(np.int64)
    parts = np.where(freed, attempts.answers.freeing[who], released)
    return grants._replace(bits=bits, parts=parts, optional=optional)


def _sessions(attempts: Attempts, mode: int) -> Sessions:
    """What this mode believes of sessions."""
    lives, blind = attempts.lives, mode == BLIND
    alive, until = (lives.opened.copy(), lives.trusted) if blind else (lives.lived.copy(), lives.until)
    if mode == TOLD and len(others := attempts.prolonging()):
        z, at = attempts.session[others], attempts.answers.freeing[others]
        np.maximum.at(alive, z, at)
        np.maximum.at(until, z, at + attempts.length[others])
    dead = lives.closed if mode >= UNREFUSED else np.full(len(lives), INFINITY, np.int64)
    if mode == FULL:
        dead = np.minimum(dead, lives.dead)
    return Sessions(alive, until, lives.shut, dead, lives.begins, *lives.closings)


def in_order_of_tokens(attempts: Attempts) -> frozenset[int]:
    """Keys whose grants all carry tokens that do not contradict real time: they come in the order of their tokens."""
    answered, frees, renewed = attempts.answers.answered, attempts.answers.frees, attempts.answers.renewed
    counts = (answered == 1) | (frees > 0) | ((answered < 0) & (renewed >= 0))
    tokened = np.flatnonzero(counts & (attempts.token != NONE))
    if not len(tokened):
        return frozenset()
    by = tokened[np.lexsort((attempts.token[tokened], attempts.key[tokened]))]
    key, token = attempts.key[by], attempts.token[by]
    starts, returns = apart((key, attempts.start[by]), (key, attempts.ret[by])).places
    wrong = (key[1:] == key[:-1]) & (token[1:] == token[:-1])
    wrong |= returns[1:] < np.maximum.accumulate(starts)[:-1]
    bare = attempts.key[counts & (attempts.token == NONE)]
    return frozenset(np.setdiff1d(key, np.concatenate((key[1:][wrong], bare))).tolist())
