"""When a grant was in force at the server, as far as the history proves it (mode *told*).

Source: checkers/CONDITIONS.md, section 3: a start window [start, latest] and a monotone function E(a) >= a, the
earliest moment at which the next grant is legal when this one began at a. Every acknowledged renewal is believed, and
counted from its invocation; an unanswered renewal extends nothing; an unanswered release may have happened when it was
invoked; expiry may come late, never early.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from checkers.engines.lease_kernels import INFINITY as INFINITY
from checkers.engines.lease_kernels import lease_end, prolonged
from checkers.history import Facts

_lease_end, _prolonged = lease_end.plain_form(), prolonged.plain_form()


class Grant(NamedTuple):
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


class Window(NamedTuple):
    """One grant as a scheduling problem; all in ns.

    start     earliest server instant of the grant.
    latest    latest server instant: the acquire's return, or an acknowledged renewal's, whichever came first.
    length    what the grant itself adds to the lease: the TTL, or 0 where only the session is extended.
    fixed     the lease cannot end before this, whenever it began: renewals, keep-alives, creation.
    renewed   invocation of the last acknowledged renewal of this grant, 0 for none: it was in force then.
    released  from here on it may have been released.
    floor     nobody else may have it before that in any case: its client believed that it holds.
    trusting  renewals, as (invocation, return), of which only those extended it that came in time: the others lied.
    """

    grant: Grant
    start: int
    latest: int
    length: int
    fixed: int
    renewed: int
    released: int
    floor: int = 0
    trusting: tuple[tuple[int, int], ...] = ()

    def expiry(self, a: int) -> int:
        """The earliest end of the lease, release aside, of a grant that began at `a`."""
        return max(a + self.length, self.fixed)

    def end(self, a: int) -> int:
        """E(a): the earliest moment at which the next grant is legal."""
        end: int
        if self.trusting:
            invs, rets = zip(*self.trusting, strict=True)
            lease = _prolonged(a, self.expiry(a), 0, len(invs), self.length, invs, rets)
            end = min(max(self.released, a), lease)
        else:
            end = _lease_end(a, self.length, self.fixed, self.renewed, self.released)
        return max(end, self.floor)


def exclude(one: Grant, other: Grant) -> bool:
    """Whether the two may not hold together: all but two readers."""
    return not (one.shared and other.shared)


def effective(ttl: int, facts: Facts) -> int:
    """ns; the shortest that a lease of this TTL can last at the server."""
    return shortest(ttl, facts.drift, facts.grain)


def shortest(ttl: int, drift: float, grain: int) -> int:
    """ns; the shortest that a lease can last, by our clock: the server's may run fast, and has a grain."""
    return max((int(ttl / (1 + drift)) if drift else ttl) - grain, 0)


def windows(facts: Facts, grants: Sequence[Grant], extensions: Mapping[int, int]) -> dict[int, Window]:
    """The window of each grant by its row. Kinds of leases: see `checkers.history.Facts`.

    extensions: session → ns of the latest acknowledged creation or keep-alive. What any grant or release of a session
    proves about its life is used as a constant, from the earliest instant possible: nothing else couples two locks
    of one session.
    """
    alive = _session_proofs(facts, grants, extensions) if facts.lease in ("touch", "session") else {}
    result = {}
    for grant in grants:
        length = effective(grant.ttl, facts)
        renewed = max((inv for inv, _ in grant.renewals), default=0)
        fixed = renewed + length if renewed else 0
        released = grant.released
        if facts.lease == "none":
            length, fixed = INFINITY, 0
            # Nobody released it: a killed worker's connection is gone, and with it such a lock.
            released = min(released, grant.left)
        elif facts.lease in ("touch", "session"):
            extended, seen = alive.get(grant.session, (0, 0))
            fixed = max(fixed, extended + length if extended else 0, seen)
            length = 0 if facts.lease == "session" else length
        latest = min((ret for _, ret in grant.renewals), default=grant.ret)
        latest = max(min(latest, grant.ret), grant.start)
        result[grant.row] = Window(grant, grant.start, latest, length, fixed, renewed, released)
    return result


def _session_proofs(facts: Facts, grants: Sequence[Grant], extensions: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Session → (latest moment that certainly prolonged it, latest moment at which it certainly lived)."""
    result = {session: (at, at) for session, at in extensions.items() if session}
    for grant in grants:
        if grant.session:
            extended, seen = result.get(grant.session, (0, 0))
            if facts.lease == "touch":
                extended = max(extended, grant.start, grant.freed[0] if grant.freed[0] < INFINITY else 0)
            result[grant.session] = (extended, max(seen, grant.start))
    return result
