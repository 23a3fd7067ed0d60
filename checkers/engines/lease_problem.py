"""What the solver of leases takes and returns: grants of any number of keys to be put in order, and the result.

Source: checkers/CONDITIONS.md, sections 3 to 5; section 4 says which grants are forced and which are movable.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self, TypeVar

import numpy as np

from checkers.engines import lease_kernels
from checkers.engines.lease_kernels import CERTAIN, PARTS, READER, TOUCHES, Grants, Renewals, Sessions, Settled
from checkers.history.counting import Flags, Ints
from checkers.history.holds_and_lease_ends import Hold
from checkers.row_format import INFINITY

PATIENCE: Final = 10_000  # rounds of the fixpoint over sessions that prolong one another, before it is given up

Unit = TypeVar("Unit")


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem about leases, in one mode."""

    grants: Grants
    renewals: Renewals  # which `grants` refer to
    sessions: Sessions
    ordered: frozenset[int] = frozenset()  # keys whose grants come in the order of their tokens
    quorum: bool = False  # whether a majority of servers gives each grant, at no single instant: only pairs are judged

    def __len__(self) -> int:
        return len(self.grants.key)

    def part(self, chosen: Ints) -> Self:
        """The problem with these grants only, in this order."""
        return replace(self, grants=Grants(*[column[chosen] for column in self.grants]))

    def settled(self) -> Settled:
        """The earliest starts of all grants in this order."""
        return lease_kernels.settle(self.grants, self.renewals, self.sessions, PATIENCE)


class Windows:
    """The grants of one key as lists, for walks that look at one after another; a grant is known by its number."""

    def __init__(self, problem: Problem) -> None:
        first, last = problem.grants.first, problem.grants.last
        ends = np.cumsum(last - first)
        spans = zip(first[last > first].tolist(), last[last > first].tolist(), strict=True)
        rows = np.concatenate([np.empty(0, np.int64), *(np.arange(*span) for span in spans)])
        grants = problem.grants._replace(first=ends - (last - first), last=ends)
        self._grants = Grants(*[column.tolist() for column in grants])
        self._renewals = Renewals(*[column[rows].tolist() for column in problem.renewals])
        self.start: list[int] = self._grants.start  # type: ignore[assignment]
        self.latest: list[int] = self._grants.latest  # type: ignore[assignment]
        self.token: list[int] = self._grants.token  # type: ignore[assignment]
        self.over: list[int] = self._grants.over  # type: ignore[assignment]
        self._end = lease_kernels.earliest_end.plain_form
        self.reader = [bits & READER > 0 for bits in self._grants.bits]
        self.core_end: list[int] = lease_kernels.core_ends(problem.grants, problem.renewals).tolist()

    def end(self, n: int, a: int) -> int:
        """E(a) of one grant."""
        end: int = self._end(self._grants, self._renewals, n, a)
        return end

    def exclude(self, n: int, m: int) -> bool:
        """Whether two grants may not hold together: true unless both are readers."""
        return not (self.reader[n] and self.reader[m])


class Solution(NamedTuple):
    """The solution of a problem; grants are given by their numbers."""

    conflicts: Mapping[int, tuple[int, ...]]  # key → grants that have no room together
    undecided: Mapping[int, str]  # key → why
    order: Ints  # all grants, those of each key together, in an order that fits if the key has one
    executed: Collection[int] = ()  # grants whose unanswered release is taken to have happened, prolonging a session


def likely(problem: Problem) -> tuple[Ints, Flags]:
    """All grants key by key, in the forced order if there is one, and for each whether it is movable.

    Of sessions it uses only what is certain wherever their grants stand in their windows.
    """
    grants = problem.grants
    if len(problem.sessions.alive):
        sessions, in_session = problem.sessions, grants.session >= 0
        alive, until = sessions.alive.copy(), sessions.until.copy()
        certain, touches = (grants.bits & CERTAIN) != 0, in_session & ((grants.bits & TOUCHES) != 0)
        np.maximum.at(alive, grants.session[in_session], np.where(certain, grants.free, grants.start)[in_session])
        np.maximum.at(until, grants.session[touches], (grants.start + grants.lasts)[touches])
        end_of = np.maximum(np.minimum(until, sessions.shut), alive)
        lasts = np.where(in_session, np.where(certain, INFINITY, 0), grants.lasts)
        grants = grants._replace(lasts=lasts, fixed=np.where(in_session, end_of[grants.session], grants.fixed))
    ends = lease_kernels.core_ends(grants, problem.renewals)
    first = grants.latest
    if problem.ordered:
        first = np.where(np.isin(grants.key, list(problem.ordered)), grants.token, first)
    return np.lexsort((ends, first, grants.key)), ends <= grants.latest


def posed(holds: Sequence[Hold], lease: str, ordered: frozenset[int]) -> Problem:
    """The holds of a recording, mode *told*, as one problem over all their keys; grant n is `holds[n]`.

    lease: the kind, as in `Facts.lease`. ordered: as in `Problem`. What a hold says of its session is used as it
    stands; unanswered releases happened, and prolonged nothing. So conflicts across keys are certain, but incomplete.
    """
    fields = dict(zip(Hold._fields, zip(*holds, strict=True), strict=True)) if holds else {}

    def column(name: str) -> Ints:
        return np.array(fields.get(name, ()), np.int64)

    def capped(name: str) -> Ints:
        """Sums of times and TTLs, which may be too large: `INFINITY` at most."""
        return np.array([min(value, INFINITY) for value in fields.get(name, ())], np.int64)

    session = column("session")
    names = np.unique(session[session != 0])
    session = np.where(session != 0, np.searchsorted(names, session), -1)
    parts = column("freeing")
    bits = column("shared") * READER
    if lease == "touch":
        bits += np.where(session >= 0, TOUCHES + PARTS * (parts < INFINITY), 0)
    nothing, ever = np.zeros(len(holds), np.int64), np.full(len(holds), INFINITY, np.int64)
    grants = Grants(
        key=column("key"),
        token=column("token"),
        start=column("start"),
        latest=column("latest"),
        lasts=capped("length"),
        fixed=capped("fixed"),
        held=column("renewed"),
        free=column("free"),
        over=ever,
        first=nothing,
        last=nothing,
        session=session,
        bits=bits,
        parts=parts,
        again=ever,
        optional=nothing,
    )
    none, ever = np.zeros(len(names), np.int64), np.full(len(names), INFINITY, np.int64)
    sessions = Sessions(none, none, ever, ever, np.zeros(len(names) + 1, np.int64), nothing[:0], nothing[:0])
    return Problem(grants, Renewals(nothing[:0], nothing[:0]), sessions, ordered, quorum=lease == "quorum")


def fewest(units: list[Unit], conflict: Callable[[list[Unit]], bool], size: int) -> list[Unit]:
    """Units that remain in conflict, so few that none can be left out: tried `size` at a time, then half that, ..."""
    while size:
        place = 0
        while place < len(units):
            rest = units[:place] + units[place + size :]
            if conflict(rest):
                units = rest
            else:
                place += size
        size //= 2
    return units
