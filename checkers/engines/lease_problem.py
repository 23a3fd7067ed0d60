"""What is asked about the attempts of a history in one mode: grants to be put in order, and the likeliest order.

Grants whose core [latest, E(start)) is not empty can follow one another in one order only; the others are floats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from checkers.engines.kernel import kernel
from checkers.engines.lease_attempts import Attempts
from checkers.engines.lease_kernels import (
    BLIND,
    CERTAIN,
    FULL,
    PARTS,
    TOLD,
    TOUCHES,
    UNREFUSED,
    Ints,
    narrow,
    prolonged,
    settle,
    soonest,
)
from checkers.engines.sorting import by_number, sorted_within
from checkers.history.holds import Hold
from checkers.models.engine import Rows
from checkers.wire import INFINITY, NONE

SECONDS: Final = 20.0
"""What all keys that need a search may take together."""

_prolonged = prolonged.plain_form()

PATIENCE: Final = 10_000
"""Rounds of the fixpoint over sessions that prolong one another, before it is given up."""


class _Doubted(Hold):
    """A hold whose renewals extended it only where they were answered in time: the other answers were lies."""

    __slots__ = ()

    def expires(self, a: int) -> int:
        invs, rets = zip(*self.renewals, strict=True)
        end: int = _prolonged(a, super().expires(a), 0, len(invs), self.length, invs, rets)
        return end


@dataclass(frozen=True, slots=True)
class Problem:
    """Grants to be put in order, in one mode; arrays with an element for each. Names as in `lease_kernels.settle`.

    who      attempt of each grant.
    bits     of the grant in its session; `optional`: an unanswered release that would prolong the session. Without
             that, the grant was given up when its session `asked` again.
    ordered  keys whose grants come in the order of their tokens.
    """

    who: Ints
    key: Ints
    start: Ints
    latest: Ints
    lasts: Ints
    fixed: Ints
    held: Ints
    free: Ints
    over: Ints
    floor: Ints
    first: Ints
    last: Ints
    inv: Ints
    ret: Ints
    session: Ints
    bits: Ints
    parts: Ints
    asked: Ints
    optional: Ints
    token: Ints
    alive: Ints
    until: Ints
    shut: Ints
    closings: Ints
    closing_inv: Ints
    closing_ret: Ints
    dead: Ints
    ordered: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.who)

    def part(self, chosen: Ints) -> Problem:
        """The same with these grants only, in this order."""
        return replace(
            self,
            **{
                name: getattr(self, name)[chosen]
                for name in (
                    *("who", "key", "start", "latest", "lasts", "fixed", "held", "free", "over", "floor", "first"),
                    *("last", "session", "bits", "parts", "asked", "optional", "token"),
                )
            },
        )

    def settled(self, patience: int = PATIENCE) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, bool]:
        """See `lease_kernels.settle`."""
        return settle(
            self.key,
            self.start,
            self.latest,
            self.lasts,
            self.fixed,
            self.held,
            self.free,
            self.over,
            self.floor,
            self.first,
            self.last,
            self.inv,
            self.ret,
            self.session,
            self.bits,
            self.parts,
            self.alive,
            self.until,
            self.closings,
            self.closing_inv,
            self.closing_ret,
            self.dead,
            patience,
        )

    def hold(self, n: int) -> Hold:
        """One grant as the scheduler takes it; its row is `n`."""
        renewals = range(int(self.first[n]), int(self.last[n]))
        start = int(self.start[n])
        return (_Doubted if renewals else Hold)(
            row=n,
            key=int(self.key[n]),
            owner=n + 1,
            process=0,
            token=int(self.token[n]),
            session=0,
            inv=start,
            start=start,
            ret=int(self.latest[n]),
            ttl=0,
            latest=int(self.latest[n]),
            length=int(self.lasts[n]),
            fixed=int(self.fixed[n]),
            renewed=int(self.held[n]),
            free=int(self.free[n]),
            floor=int(self.floor[n]),
            renewals=tuple((int(self.inv[place]), int(self.ret[place])) for place in renewals),
        )


@dataclass(frozen=True, slots=True)
class Solution:
    """What became of a problem.

    conflicts  key → numbers of grants that have no room together.
    undecided  key → why.
    order      numbers of all grants, those of each key together; where the key fits, in an order that does.
    begun      for each of `order` its earliest start; meaningless where there are conflicts.
    executed   numbers of the grants whose unanswered release is taken to have happened, though it prolonged a session.
    """

    conflicts: Mapping[int, tuple[int, ...]]
    undecided: Mapping[int, str]
    order: Ints
    begun: Ints
    executed: frozenset[int] = field(default_factory=frozenset)


def pose(
    attempts: Attempts,
    mode: int,
    *,
    keys: Iterable[int] | None = None,
    bound: int | None = None,
    ordered: frozenset[int] | None = None,
) -> Problem:
    """What is asked in one mode.

    keys: only these. bound: ns for which a client may believe what is not so. ordered: keys whose order is that of
    their tokens, found from the attempts where it is not given.
    """
    in_session = (attempts.session >= 0).astype(np.int64)
    who, latest, lasts, fixed, held, free, over = narrow(
        mode,
        attempts.answered,
        attempts.start,
        attempts.ret,
        attempts.length,
        attempts.renewed,
        attempts.proven,
        np.minimum(attempts.released, attempts.asked),
        attempts.freeing,
        attempts.freed,
        attempts.frees,
        attempts.refused,
        in_session,
    )
    sessions = attempts.sessions
    blind = mode == BLIND
    alive, until = (sessions.opened, sessions.trusted) if blind else (sessions.lived, sessions.until)
    if mode == TOLD and len(beside := attempts.prolonging()):
        alive, until, z, at = alive.copy(), until.copy(), attempts.session[beside], attempts.freeing[beside]
        np.maximum.at(alive, z, at)
        np.maximum.at(until, z, at + attempts.length[beside])
    session, frees = attempts.session[who], attempts.frees[who]
    bits = np.zeros(len(who), np.int64)
    optional = np.zeros(len(who), np.int64)
    if in_session.any():
        if attempts.touch:
            bits |= np.where(session >= 0, TOUCHES, 0)
            bits |= np.where((session >= 0) & (frees > 0) & (mode != BLIND), PARTS, 0)
            own = (session >= 0) & (frees == 0) & (attempts.released[who] < INFINITY)
            lasting = until[session]
            optional = (own & (attempts.released[who] + lasts > lasting)).astype(np.int64)
        if mode >= UNREFUSED:
            bits |= np.where((session >= 0) & (frees > 0), CERTAIN, 0)
    dead = np.full(len(sessions.dead), INFINITY, np.int64)
    if mode >= UNREFUSED:
        dead = np.minimum(dead, sessions.closed)
    if mode == FULL:
        dead = np.minimum(dead, sessions.dead)
    problem = Problem(
        who=who,
        key=attempts.key[who],
        start=attempts.start[who],
        latest=latest,
        lasts=lasts,
        fixed=fixed,
        held=held,
        free=free,
        over=over,
        floor=np.zeros(len(who), np.int64) if bound is None else np.maximum(attempts.believed[who] - bound, 0),
        first=attempts.first[who] if blind else np.zeros(len(who), np.int64),
        last=attempts.last[who] if blind else np.zeros(len(who), np.int64),
        inv=attempts.renewal_inv,
        ret=attempts.renewal_ret,
        session=session,
        bits=bits,
        parts=np.where(frees > 0, attempts.freeing[who], attempts.released[who]),
        asked=attempts.asked[who],
        optional=optional,
        token=attempts.token[who],
        alive=alive,
        until=until,
        shut=sessions.shut,
        closings=sessions.closings,
        closing_inv=sessions.closing_inv,
        closing_ret=sessions.closing_ret,
        dead=dead,
    )
    problem = replace(problem, ordered=in_order_of_tokens(attempts) if ordered is None else ordered)
    return problem if keys is None else problem.part(np.flatnonzero(np.isin(problem.key, list(keys))))


def likely(problem: Problem, until: Ints, alive: Ints) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """All grants key by key in the order that is forced where any is, and for each whether it is a float.

    until, alive: of the sessions.
    """
    lasts, fixed = problem.lasts, problem.fixed
    if len(alive):
        end_of = np.maximum(np.minimum(until, problem.shut), alive)
        some = problem.session >= 0
        certain = (problem.bits & CERTAIN) != 0
        lasts = np.where(some, np.where(certain, INFINITY, 0), lasts)
        fixed = np.where(some, end_of[problem.session], fixed)
    end = soonest(
        problem.start,
        lasts,
        fixed,
        problem.held,
        problem.free,
        problem.floor,
        problem.first,
        problem.last,
        problem.inv,
        problem.ret,
    )
    first = problem.latest
    if problem.ordered:
        known = np.isin(problem.key, list(problem.ordered))
        first = np.where(known, problem.token, first)
    return sorted_within(by_number(problem.key), problem.key, first, end), end <= problem.latest


def in_order_of_tokens(attempts: Attempts) -> frozenset[int]:
    """Keys whose grants all carry tokens that do not contradict real time: they come in the order of their tokens."""
    counts = (attempts.answered == 1) | (attempts.frees > 0) | ((attempts.answered < 0) & (attempts.renewed >= 0))
    some = np.flatnonzero(counts & (attempts.token != NONE))
    if not len(some):
        return frozenset()
    by = some[np.lexsort((attempts.token[some], attempts.key[some]))]
    clear = in_token_order(attempts.key[by], attempts.token[by], attempts.start[by], attempts.ret[by])
    bare = np.unique(attempts.key[counts & (attempts.token == NONE)])
    return frozenset(np.setdiff1d(np.unique(attempts.key[by][clear != 0]), bare).tolist())


@kernel
def in_token_order(key: Ints, token: Ints, start: Ints, ret: Ints) -> Ints:
    """For each grant, sorted by key and token: 1 if the tokens of its key differ and agree with real time."""
    n = len(key)
    clear = np.full(n, 1, np.int64)
    first = 0
    highest = np.int64(0)
    fine = True
    for i in range(n):
        if i == 0 or key[i] != key[i - 1]:
            first, highest, fine = i, np.int64(0), True
        elif token[i] == token[i - 1]:
            fine = False
        if ret[i] < highest:
            fine = False
        highest = max(highest, np.int64(start[i]))
        if not fine and (i + 1 == n or key[i + 1] != key[i]):
            for j in range(first, i + 1):
                clear[j] = 0
    return clear
