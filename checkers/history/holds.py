"""Who held what, and when: every hold of a history in one table, made once.

A hold is an acquire that succeeded, with all that befell it, and the time in which its lock was in force at the server,
as far as the history proves it (mode *told*).

Source: checkers/CONDITIONS.md, section 3: a start window [start, latest] and a monotone function E(a) >= a, the
earliest moment at which the next grant is legal when this one began at a. Every acknowledged renewal is believed, and
counted from its invocation; an unanswered renewal extends nothing; an unanswered release may have happened when it was
invoked; expiry may come late, never early.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from checkers.history.counting import Flags, Ints
from checkers.history.history import Facts
from checkers.history.lists import Lists
from checkers.wire import INFINITY, SHARED, F, Outcome


class Hold(NamedTuple):
    """One acquire that succeeded. Times in ns, rows as row numbers of the history, -1 for none.

    start     earliest instant at which the server can have granted it: ``sent``, else the invocation.
    ret       when the acquire returned.
    shared    a reader's: beside other readers, but no writer.
    renewals  invocation and return of its acknowledged renewals.
    release   row of its first release, however that ended.
    lost      row of its client's first notice that the lock is gone.
    released  invocation of the first release that succeeded or may have; `INFINITY` for none. The closing of its
              session counts, and so does a later acquire of the same name in the same session.
    freed     (invocation, return) of the release that returned first among those that succeeded, or `INFINITY` twice.
    believed  when its client was due to notice the loss that it noticed: its belief had ended; `INFINITY` for none.
    left      when the client was no longer inside: invocation of the release or notice of the loss, else the
              last thing that was recorded of this grant, since a killed worker holds nothing.

    As a scheduling problem:

    latest    latest server instant: the acquire's return, or an acknowledged renewal's, whichever came first.
    length    what the grant itself adds to the lease: the TTL, or 0 where only the session is extended.
    fixed     the lease cannot end before this, whenever it began: renewals, keep-alives, creation.
    renewed   invocation of the last acknowledged renewal of this grant, 0 for none: it was in force then.
    free      from here on it may have been released, or be gone with its client where no lease ends it.
    floor     nobody else may have it before that in any case: its client believed that it holds.
    """

    row: int
    key: int
    owner: int
    process: int
    token: int
    session: int
    inv: int
    start: int
    ret: int
    ttl: int
    shared: bool = False
    renewals: tuple[tuple[int, int], ...] = ()
    release: int = -1
    lost: int = -1
    released: int = INFINITY
    freed: tuple[int, int] = (INFINITY, INFINITY)
    believed: int = INFINITY
    left: int = INFINITY
    latest: int = 0
    length: int = 0
    fixed: int = 0
    renewed: int = 0
    free: int = INFINITY
    floor: int = 0

    @property
    def expiry(self) -> int:
        """The earliest end of the lease, release aside."""
        return self.expires(self.start)

    @property
    def core_end(self) -> int:
        """The earliest moment at which the next grant is legal, whenever this one began."""
        return self.end(self.start)

    def expires(self, a: int) -> int:
        """The earliest end of the lease, release aside, of a grant that began at `a`."""
        return max(a + self.length, self.fixed)

    def end(self, a: int) -> int:
        """E(a): the earliest moment at which the next grant is legal."""
        return max(min(max(self.free, a, self.renewed), self.expires(a)), self.floor)


@dataclass(frozen=True, slots=True)
class HoldColumns:
    """The fields of holds of the same names as arrays, one element for each hold; and what follows from them.

    expiry    the earliest end of the lease, release aside; `INFINITY` for a lock without leases.
    core_end  the end of its core [latest, core_end], in which it was certainly in force.
    freed     return of the release, `INFINITY` for none.
    over      when the hold was over, as far as the history knows: the return of its release, else the end of its core.
    """

    row: Ints
    owner: Ints
    key: Ints
    process: Ints
    token: Ints
    inv: Ints
    start: Ints
    ret: Ints
    left: Ints
    latest: Ints
    free: Ints
    shared: Flags
    open: Flags
    expiry: Ints
    core_end: Ints
    freed: Ints
    over: Ints

    def __len__(self) -> int:
        return len(self.row)


class Holds:
    """The holds of a history in the order in which their acquires returned."""

    def __init__(self, lists: Lists) -> None:
        found = sorted(_granted(lists), key=lambda hold: (hold.ret, hold.row))
        self._all = tuple(_in_force(lists, found))

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Hold]:
        return iter(self._all)

    @cached_property
    def by_row(self) -> dict[int, Hold]:
        """Acquire row → its hold."""
        return {hold.row: hold for hold in self._all}

    @cached_property
    def by_owner(self) -> dict[int, Hold]:
        """Owner → its hold."""
        return {hold.owner: hold for hold in self._all}

    @cached_property
    def by_key(self) -> dict[int, list[Hold]]:
        """Holds of each key that has any, in the order in which their acquires returned."""
        result: defaultdict[int, list[Hold]] = defaultdict(list)
        for hold in self._all:
            result[hold.key].append(hold)
        return dict(sorted(result.items()))

    @cached_property
    def columns(self) -> HoldColumns:
        """All of them as arrays."""

        def column(name: str) -> Ints:
            return np.array([getattr(hold, name) for hold in self._all], np.int64)

        core_end, ret = column("core_end"), column("ret")
        freed = np.array([hold.freed[1] for hold in self._all], np.int64)
        return HoldColumns(
            row=column("row"),
            owner=column("owner"),
            key=column("key"),
            process=column("process"),
            token=column("token"),
            inv=column("inv"),
            start=column("start"),
            ret=ret,
            left=column("left"),
            latest=column("latest"),
            free=column("free"),
            shared=column("shared") != 0,
            open=(column("release") < 0) & (column("lost") < 0),
            expiry=np.minimum(column("expiry"), INFINITY),
            core_end=core_end,
            freed=freed,
            over=np.maximum(np.maximum(core_end, ret), np.where(freed < INFINITY, freed, 0)),
        )


def exclude(first: Hold, second: Hold) -> bool:
    """Whether the two may not hold together: all but two readers."""
    return not (first.shared and second.shared)


def effective(ttl: int, facts: Facts) -> int:
    """ns; the shortest that a lease of this TTL can last at the server."""
    return shortest(ttl, facts.drift, facts.grain)


def shortest(ttl: int, drift: float, grain: int) -> int:
    """ns; the shortest that a lease can last, by our clock: the server's may run fast, and has a grain."""
    return max((int(ttl / (1 + drift)) if drift else ttl) - grain, 0)


def _granted(lists: Lists) -> Iterator[Hold]:
    """What clients were told: without the time in which a hold was in force."""
    inv, ret, outcome = lists.column("inv"), lists.column("ret"), lists.column("outcome")
    sent, ttl, token, owner = (lists.column(name) for name in ("sent", "ttl", "token", "owner"))
    key, session, process = lists.column("key"), lists.column("session"), lists.column("process")
    renewals, releases, lost = (_rows_by_owner(lists, kind) for kind in (F.RENEW, F.RELEASE, F.LOST))
    flags = lists.column("flags")
    last, closed, asked = _last_events(lists), _closings(lists), next_asked(lists)
    for row in lists.whole(F.ACQUIRE, F.TRY_ACQUIRE, outcomes=(Outcome.OK,)):
        who = owner[row]
        tries, losses = releases.get(who, []), lost.get(who, [])
        released = min((inv[r] for r in tries if outcome[r] != Outcome.FAIL), default=INFINITY)
        if session[row]:
            released = min(released, closed.get(session[row], INFINITY), asked.get(row, INFINITY))
        done = [(ret[r], inv[r]) for r in tries if outcome[r] == Outcome.OK]
        believed = min((sent[r] or inv[r] for r in losses), default=INFINITY)
        left = min((inv[r] for r in (*tries, *losses)), default=last[who])
        freed, freeing = min(done, default=(INFINITY, INFINITY))
        yield Hold(
            row=row,
            key=key[row],
            owner=who,
            process=process[row],
            token=token[row],
            session=session[row],
            inv=inv[row],
            start=sent[row] or inv[row],
            ret=ret[row],
            ttl=ttl[row] or lists.facts.ttl,
            shared=bool(flags[row] & SHARED),
            renewals=tuple((inv[r], ret[r]) for r in renewals.get(who, []) if outcome[r] == Outcome.OK),
            release=tries[0] if tries else -1,
            lost=losses[0] if losses else -1,
            released=released,
            freed=(freeing, freed),
            believed=believed,
            # A grant that is over when its answer arrives is never believed.
            left=max(left, ret[row]) if believed > ret[row] else ret[row],
        )


def _in_force(lists: Lists, granted: Sequence[Hold]) -> Iterator[Hold]:
    """The same with the time in which each was in force. Kinds of leases: see `checkers.history.history.Facts`.

    What any grant or release of a session proves about its life is used as a constant, from the earliest instant
    possible: nothing else couples two locks of one session.
    """
    facts = lists.facts
    alive = _session_proofs(lists, granted) if facts.lease in ("touch", "session") else {}
    for hold in granted:
        length = effective(hold.ttl, facts)
        renewed = max((inv for inv, _ in hold.renewals), default=0)
        fixed = renewed + length if renewed else 0
        free = hold.released
        if facts.lease == "none":
            length, fixed = INFINITY, 0
            # Nobody released it: a killed worker's connection is gone, and with it such a lock.
            free = min(free, hold.left)
        elif facts.lease in ("touch", "session"):
            extended, seen = alive.get(hold.session, (0, 0))
            fixed = max(fixed, extended + length if extended else 0, seen)
            length = 0 if facts.lease == "session" else length
        latest = min((ret for _, ret in hold.renewals), default=hold.ret)
        latest = max(min(latest, hold.ret), hold.start)
        yield hold._replace(latest=latest, length=length, fixed=fixed, renewed=renewed, free=free)


def _session_proofs(lists: Lists, granted: Sequence[Hold]) -> dict[int, tuple[int, int]]:
    """Session → (latest moment that certainly prolonged it, latest moment at which it certainly lived)."""
    signs = _extremes(lists, Outcome.OK, F.SESSION_OPEN, F.KEEP_ALIVE)
    result = {session: (latest, latest) for session, (_, latest) in signs.items() if session}
    for hold in granted:
        if hold.session:
            extended, seen = result.get(hold.session, (0, 0))
            if lists.facts.lease == "touch":
                extended = max(extended, hold.start, hold.freed[0] if hold.freed[0] < INFINITY else 0)
            result[hold.session] = (extended, max(seen, hold.start))
    return result


def _rows_by_owner(lists: Lists, kind: F) -> Mapping[int, Sequence[int]]:
    result: defaultdict[int, list[int]] = defaultdict(list)
    owner = lists.column("owner")
    for row in lists.whole(kind):
        result[owner[row]].append(row)
    return result


def _closings(lists: Lists) -> dict[int, int]:
    """Session → ns from which it may have been closed."""
    closed = _extremes(lists, Outcome.OK, F.SESSION_CLOSE)
    for session, (first, _) in _extremes(lists, Outcome.INFO, F.SESSION_CLOSE).items():
        closed[session] = (min(first, closed.get(session, (first, first))[0]), 0)
    return {session: first for session, (first, _) in closed.items()}


def _extremes(lists: Lists, outcome: Outcome, *kinds: F) -> dict[int, tuple[int, int]]:
    """Session → first and last invocation of such operations on it."""
    result: dict[int, tuple[int, int]] = {}
    inv, session = lists.column("inv"), lists.column("session")
    for row in lists.rows(*kinds, outcomes=(outcome,)):
        first, _ = result.get(session[row], (inv[row], 0))
        result[session[row]] = (first, inv[row])
    return result


def next_asked(lists: Lists) -> dict[int, int]:
    """Acquire row → ns at which the same session asked for the same name again: it had given up what it held.

    An adapter may then remove what an unanswered or impossible release left behind.
    """
    result: dict[int, int] = {}
    inv, session, key = lists.column("inv"), lists.column("session"), lists.column("key")
    latest: dict[tuple[int, int], int] = {}
    for row in lists.whole(F.ACQUIRE, F.TRY_ACQUIRE):
        name = (session[row], key[row])
        if session[row] and name in latest:
            result[latest[name]] = inv[row]
        latest[name] = row
    return result


def _last_events(lists: Lists) -> dict[int, int]:
    """Owner → ns of the last thing that was recorded of it."""
    owners, place = np.unique(lists.array("owner"), return_inverse=True)
    last = np.zeros(len(owners), np.int64)
    np.maximum.at(last, place, np.maximum(lists.array("inv"), lists.array("ret")))
    return dict(zip(owners.tolist(), last.tolist(), strict=True))
