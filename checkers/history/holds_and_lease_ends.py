"""Who held what, and when: every hold of a history in one table, made once.

A hold is an acquire that succeeded, with all that happened to it afterwards, and when its lock was in force at the
server, as far as the history proves that (mode *told*). Source: checkers/CONDITIONS.md, section 3.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from checkers.history.counting import Array, any_of, grouped
from checkers.history.history import Facts
from checkers.history.rows import Rows
from checkers.row_format import ACQUIRES, INFINITY, NONE, SHARED, F, Outcome

IN_SESSIONS: Final = ("touch", "session")
"""Kinds of leases that belong to a session and not to a grant: see `checkers.history.history.Facts`."""
_NO_DEEDS: Final = (F.RENEW, F.RELEASE, F.LOST)
"""Kinds of operations that a worker records for a grant without first asking for the client's belief."""


class Hold(NamedTuple):
    """One acquire that succeeded. Times are in ns, rows are row numbers of the history, -1 for none.

    The fields from `latest` on describe the hold for the scheduling problem.
    """

    row: int
    key: int
    owner: int
    process: int
    token: int
    session: int
    inv: int
    start: int  # earliest instant at which the server can have granted the lock: ``sent``, else the invocation
    ret: int  # when the acquire returned
    ttl: int
    shared: bool = False  # whether it is a reader's, which may hold beside other readers, but beside no writer
    # (invocation, return) of its acknowledged renewals, but for those that overtook its downgrade (section 3).
    renewals: tuple[tuple[int, int], ...] = ()
    release: int = -1  # row of its first release, whatever the outcome
    lost: int = -1  # row of its client's first notice that the lock is gone
    # The earliest invocation of: a release that succeeded or may have, the closing of its session, a later acquire of
    # the same name in the same session. `INFINITY` for none.
    released: int = INFINITY
    # Of the releases that succeeded, the invocation of the one that returned first; `INFINITY` for none.
    freeing: int = INFINITY
    freed: int = INFINITY  # return of that release
    believed: int = INFINITY  # when its client was due to notice its loss; `INFINITY` if it noticed none
    # When its client last said that it holds, before it noticed a loss without having asked for a release. Its belief
    # ended at some time after that. `INFINITY` if there was no such loss, or the client is not asked.
    sure: int = INFINITY
    left: int = INFINITY  # when the client was no longer inside: checkers/CONDITIONS.md, section 1
    latest: int = 0  # latest server instant: the first return of the acquire and its acknowledged renewals
    length: int = 0  # what the grant itself adds to the lease: the TTL, or 0 where only the session is extended
    fixed: int = 0  # whenever the grant began, its lease cannot end before this: by renewals, keep-alives, creation
    renewed: int = 0  # invocation of its last acknowledged renewal, 0 for none: the grant was in force then
    free: int = INFINITY  # since when it may have been released or, without a lease, may have ended with its client

    @property
    def expiry(self) -> int:
        """The earliest end of the lease, release aside; `INFINITY` for a lock without leases."""
        return min(self.expires(self.start), INFINITY)

    @property
    def core_end(self) -> int:
        """The end of its core [latest, core_end): the earliest moment at which the next grant is legal."""
        return self.end(self.start)

    @property
    def over(self) -> int:
        """When it was over, as far as the history knows: the return of its release, else the end of its core."""
        return max(self.core_end, self.ret, self.freed if self.freed < INFINITY else 0)

    @property
    def open(self) -> bool:
        """Whether its client neither released it nor noticed its loss."""
        return self.release < 0 and self.lost < 0

    def expires(self, a: int) -> int:
        """The earliest end of the lease, release aside, of a grant that began at `a`."""
        return max(a + self.length, self.fixed)

    def end(self, a: int) -> int:
        """E(a): the earliest moment at which the next grant is legal."""
        return min(max(self.free, a, self.renewed), self.expires(a))


class HoldColumns:
    """Fields and properties of holds as arrays of the same names, with one element for each hold: `columns.latest`."""

    def __init__(self, holds: Sequence[Hold]) -> None:
        self._holds = holds

    def __len__(self) -> int:
        return len(self._holds)

    def __getattr__(self, name: str) -> Array:
        kind: type = bool if name in ("shared", "open") else np.int64
        column: Array = np.array([getattr(hold, name) for hold in self._holds], kind)
        setattr(self, name, column)  # the next access finds the attribute without this method
        return column


class Holds(list[Hold]):
    """The holds of a history in the order in which their acquires returned."""

    def __init__(self, view: Rows) -> None:
        granted = sorted(_granted(view), key=lambda hold: (hold.ret, hold.row))
        super().__init__(_in_force(view, granted))

    @cached_property
    def by_row(self) -> dict[int, Hold]:
        return {hold.row: hold for hold in self}

    @cached_property
    def by_owner(self) -> dict[int, Hold]:
        return {hold.owner: hold for hold in self}

    @cached_property
    def by_key(self) -> dict[int, list[Hold]]:
        """Holds of each key that has any, in the order in which their acquires returned."""
        return dict(sorted(grouped(self, lambda hold: hold.key).items()))

    @cached_property
    def columns(self) -> HoldColumns:
        return HoldColumns(self)


def exclude(first: Hold, second: Hold) -> bool:
    """Whether the two holds exclude each other: any two do, except two readers."""
    return not (first.shared and second.shared)


def effective(ttl: int, facts: Facts, drift: float = 0.0) -> int:
    """ns; the shortest time that a lease of this TTL can last by our clock. The server's clock may run fast, and has a
    grain. drift: how fast, if not as the facts say.
    """
    drift = drift or facts.drift
    return max((int(ttl / (1 + drift)) if drift else ttl) - facts.grain, 0)


def _granted(view: Rows) -> Iterator[Hold]:
    """The holds as the clients know them, still without the times in which they were in force."""
    inv, ret, sent, outcome, owner, base = view.inv, view.ret, view.sent, view.outcome, view.owner, view.base
    key, session, flags = view.key, view.session, view.flags
    renewals, releases, lost = (grouped(view.whole(kind), owner.__getitem__) for kind in (F.RENEW, F.RELEASE, F.LOST))
    last, closed, again = _last_deeds(view), closings(view), next_asked(view)
    granted = view.whole(*ACQUIRES, outcomes=(Outcome.OK,))
    whose = {row: (view.worker(row), key[row]) for row in granted}
    readers = {(*whose[row], sent[row] or inv[row]) for row in granted if flags[row] & SHARED}
    for row in granted:
        who = owner[row]
        tries, losses = releases.get(who, []), lost.get(who, [])
        released = min((inv[r] for r in tries if outcome[r] != Outcome.FAIL), default=INFINITY)
        if session[row]:
            released = min(released, closed.get(session[row], INFINITY), again.get(row, INFINITY))
        done = [(ret[r], inv[r]) for r in tries if outcome[r] == Outcome.OK]
        believed = min((sent[r] or inv[r] for r in losses), default=INFINITY)
        released_first = min((inv[r] for r in tries), default=INFINITY)
        sure = min((base[r] for r in losses if base[r] != NONE and inv[r] < released_first), default=INFINITY)
        freed, freeing = min(done, default=(INFINITY, INFINITY))
        renewed = tuple((inv[r], ret[r]) for r in renewals.get(who, []) if outcome[r] == Outcome.OK)
        if not flags[row] & SHARED and (*whose[row], released) in readers:
            renewed = tuple(span for span in renewed if not released < span[0] <= freed)
        left = min((inv[r] for r in (*tries, *losses)), default=max([last[who], *(sent for sent, _ in renewed)]))
        if view.facts.lease == "none":
            left = min(left, max(sure, last[who]))
        yield Hold(
            row=row,
            key=key[row],
            owner=who,
            process=view.process[row],
            token=view.token[row],
            session=session[row],
            inv=inv[row],
            start=sent[row] or inv[row],
            ret=ret[row],
            ttl=view.ttl[row] or view.facts.ttl,
            shared=bool(flags[row] & SHARED),
            renewals=renewed,
            release=tries[0] if tries else -1,
            lost=losses[0] if losses else -1,
            released=released,
            freeing=freeing,
            freed=freed,
            believed=believed,
            sure=sure,
            # If the grant is over when its answer arrives, the client never believes in it.
            left=max(left, ret[row]) if believed > ret[row] else ret[row],
        )


def _in_force(view: Rows, granted: Sequence[Hold]) -> Iterator[Hold]:
    """The holds with the time in which each was in force: checkers/CONDITIONS.md, section 3.

    That a grant or release of a session proves that the session lived is used as a constant, from the earliest possible
    instant, because nothing else couples two locks of one session.
    """
    facts = view.facts
    alive = _session_proofs(view, granted) if facts.lease in IN_SESSIONS else {}
    for hold in granted:
        length = effective(hold.ttl, facts)
        renewed = max((inv for inv, _ in hold.renewals), default=0)
        fixed = renewed + length if renewed else 0
        free = hold.released
        if facts.lease == "none":
            length, fixed = INFINITY, 0
            # If nobody released the lock: with a killed worker its connection is gone, and with that the lock. A client
            # may also give up its connection by itself, at any time after `sure`.
            free = min(free, hold.left, hold.sure)
        elif facts.lease in IN_SESSIONS:
            extended, seen = alive.get(hold.session, (0, 0))
            fixed = max(fixed, extended + length if extended else 0, seen)
            length = 0 if facts.lease == "session" else length
        latest = min((ret for _, ret in hold.renewals), default=hold.ret)
        latest = max(min(latest, hold.ret), hold.start)
        yield hold._replace(latest=latest, length=length, fixed=fixed, renewed=renewed, free=free)


def _session_proofs(view: Rows, granted: Sequence[Hold]) -> dict[int, tuple[int, int]]:
    """Session → (latest moment that certainly prolonged the session, latest moment at which it certainly lived)."""
    prolonged = view.rows(F.SESSION_OPEN, F.KEEP_ALIVE, outcomes=(Outcome.OK,))
    signs = {view.session[row]: view.inv[row] for row in prolonged}
    result = {session: (latest, latest) for session, latest in signs.items() if session}
    for hold in granted:
        if hold.session:
            extended, seen = result.get(hold.session, (0, 0))
            if view.facts.lease == "touch":
                extended = max(extended, hold.start, hold.freeing if hold.freeing < INFINITY else 0)
            result[hold.session] = (extended, max(seen, hold.start))
    return result


def closings(view: Rows) -> dict[int, int]:
    """Session → ns; since when the session may have been closed."""
    closed = reversed(view.rows(F.SESSION_CLOSE, outcomes=(Outcome.OK, Outcome.INFO)))  # reversed: the first counts
    return {view.session[row]: view.inv[row] for row in closed}


def next_asked(view: Rows) -> dict[int, int]:
    """Acquire row → ns at which the same session asked for the same name again, having given up what it held: the
    adapter may then remove what an unanswered or impossible release left behind.
    """
    result: dict[int, int] = {}
    latest: dict[tuple[int, int], int] = {}
    for row in view.whole(*ACQUIRES):
        name = (view.session[row], view.key[row])
        if view.session[row] and name in latest:
            result[latest[name]] = view.inv[row]
        latest[name] = row
    return result


def _last_deeds(view: Rows) -> dict[int, int]:
    """Owner → ns at which the holder sent its last operation under the grant. Before that it had looked at its belief.

    Answers and renewals do not count: they may come late, when nobody believes in the grant any more.
    """
    done = ~any_of(view.array("f"), _NO_DEEDS)
    owners, place = np.unique(view.array("owner")[done], return_inverse=True)
    last = np.zeros(len(owners), np.int64)
    np.maximum.at(last, place, view.array("inv")[done])
    return dict(zip(owners.tolist(), last.tolist(), strict=True))
