"""`honest-renewal`: what the service says about a lease when it is asked to prolong it is true.

Source: checkers/CONDITIONS.md, section 11. An unanswered renewal proves nothing, and expiry may come late, never early:
so an acknowledged renewal of an expired lease is no lie as long as nobody else was granted the lock. Where locks live
in a session its keep-alives are their renewals.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from checkers.history.finding import Finding
from checkers.history.holds_and_leases import IN_SESSIONS, Hold, effective, exclude
from checkers.history.order_of_grants import superseded
from checkers.history.view import View
from checkers.properties.property import HANGS, Examined, Need, Property
from checkers.properties.shared_counters import Exercise, fault_missed
from checkers.row_format import INFINITY, F, Outcome, Reason

RENEWED: Final = "renewals acknowledged"
REFUSED: Final = "renewals refused"


class RenewedLease(NamedTuple):
    """What is renewed: one grant, or a session with all its grants. Times in ns.

    begun    earliest instant of the lease; ttl: the shortest that it can last.
    renewed  rows of acknowledged renewals; refused: rows of those to which the service said that the lease is over.
    closed   from here on its client may have ended it; `INFINITY` for never.
    touched  what prolonged it besides, as (earliest instant, known since).
    session  whether it outlives its grants.
    """

    begun: int
    ttl: int
    holds: tuple[Hold, ...]
    renewed: tuple[int, ...]
    refused: tuple[int, ...]
    closed: int
    touched: tuple[tuple[int, int], ...] = ()
    session: bool = False


def _examine(view: View) -> Examined:
    """Whether no renewal was acknowledged that was sent after a certainly later grant had returned, none refused that
    returned while the lease was certainly in force, and no lock granted on a lease after that was said to be over (etcd
    #11456). All definite.
    """
    inv, ret = view.column("inv"), view.column("ret")
    following = superseded(view)
    findings: list[Finding] = []
    for lease in view.once(_leases):
        for hold in lease.holds:
            given, later = following[hold.row]
            over = hold.released if lease.session else INFINITY  # a session goes on without what was released
            if given < over:
                rows = (hold.row, later)
                findings += (
                    Finding("renewed-though-lost", inv[row], (*rows, row), rows)
                    for row in lease.renewed
                    if given < inv[row] < over
                )
        for row in lease.refused:
            # What was answered before this was sent had prolonged it by then.
            known = [inv[other] for other in lease.renewed if ret[other] <= inv[row]]
            known += [moment for moment, since in lease.touched if since <= inv[row]]
            if ret[row] < min(_worth(lease, known, view.facts.grain) + lease.ttl, lease.closed):
                holders = tuple(hold.row for hold in lease.holds if hold.ret <= inv[row] < hold.released)
                proof = max((other for other in lease.renewed if ret[other] <= inv[row]), default=None)
                rows = (*holders, *(() if proof is None else (proof,)), row)
                findings.append(Finding("refused-though-held", ret[row], rows, holders))
        findings += _granted_though_over(lease, view)
    return Examined(findings)


def _exercise(view: View) -> Exercise:
    leases = view.once(_leases)
    renewed, refused = sum(len(lease.renewed) for lease in leases), sum(len(lease.refused) for lease in leases)
    missing = fault_missed(view) if renewed or refused else "no renewal was answered"
    return Exercise(missing, {RENEWED: renewed, REFUSED: refused})


def _granted_though_over(lease: RenewedLease, view: View) -> Iterator[Finding]:
    """Grants that cannot have come before the service said that their lease is over.

    Another client certainly held until the service said so. The grant cannot have come before that hold either: it had
    not been asked for yet, or its lease was certainly in force, so that the other grant would have come inside its
    hold.
    """
    ret = view.column("ret")
    refusal = min(lease.refused, key=lambda row: ret[row], default=None)
    if refusal is None or not lease.session or view.facts.permits > 1:
        return
    for hold in lease.holds:
        first = max(hold.inv, hold.core_end)
        others = [other for other in view.holds.by_key[hold.key] if exclude(other, hold) and other is not hold]
        held = next((other for other in others if other.ret <= first and other.core_end > ret[refusal]), None)
        if held is not None and hold.ret > ret[refusal]:
            rows = (held.row, refusal, *((held.release,) if held.release >= 0 else ()), hold.row)
            yield Finding("granted-though-over", hold.ret, rows, (held.row, hold.row))


def _worth(lease: RenewedLease, known: list[int], grain: int) -> int:
    """ns; the moment from which the lease certainly lasts its TTL once more.

    Servers that declare a grain tell each other only now and then who is alive, so that the last sign of life may be
    unknown: it counts for no more than the one before it and the grain. A sign that follows another within half of the
    grain adds nothing.
    """
    if not (lease.session and grain):
        return max([lease.begun, *known])
    signs = sorted([lease.begun, *known])
    before = [max([lease.begun, *(other for other in signs if other <= sign - grain // 2)]) for sign in signs]
    return max(map(min, signs, (sign + grain for sign in before)))


def _leases(view: View) -> list[RenewedLease]:
    """All leases that somebody tried to renew. One without a TTL is never refused too early."""
    owner, session = view.column("owner"), view.column("session")
    in_sessions = view.facts.lease in IN_SESSIONS
    by_grant: dict[int, list[int]] = {}
    by_session: dict[int, list[int]] = {}
    for row in view.rows(F.RENEW, F.KEEP_ALIVE):
        if session[row] and (in_sessions or not owner[row]):
            by_session.setdefault(session[row], []).append(row)
        else:
            by_grant.setdefault(owner[row], []).append(row)
    leases = []
    for who, rows in by_grant.items():
        hold = view.holds.by_owner.get(who)
        if hold is not None:
            ttl = 0 if view.facts.lease == "none" else hold.length
            renewed, refused = _answered(view, rows)
            leases.append(RenewedLease(hold.start, ttl, (hold,), renewed, refused, hold.free))
    return [*leases, *_sessions(view, by_session)]


def _sessions(view: View, by_session: dict[int, list[int]]) -> Iterator[RenewedLease]:
    facts, inv, ttl, session = view.facts, view.column("inv"), view.column("ttl"), view.column("session")
    holds: dict[int, list[Hold]] = {}
    for hold in view.holds:
        holds.setdefault(hold.session, []).append(hold)
    opened = {session[row]: row for row in reversed(view.rows(F.SESSION_OPEN, outcomes=(Outcome.OK,)))}
    closed = {
        session[row]: inv[row] for row in reversed(view.rows(F.SESSION_CLOSE, outcomes=(Outcome.OK, Outcome.INFO)))
    }
    for number, rows in by_session.items():
        held, opening = holds.get(number, []), opened.get(number)
        shortest = min([(ttl[opening] if opening is not None else 0) or facts.ttl, *(hold.ttl for hold in held)])
        renewed, refused = _answered(view, rows)
        yield RenewedLease(
            begun=inv[opening] if opening is not None else 0,
            ttl=0 if facts.lease == "none" else effective(shortest, facts),
            holds=tuple(held),
            renewed=renewed,
            refused=refused,
            closed=closed.get(number, INFINITY),
            touched=tuple(_touched(held)) if facts.lease == "touch" else (),
            session=True,
        )


def _touched(held: list[Hold]) -> Iterator[tuple[int, int]]:
    """What the grants of a session and their releases prove, if every request prolongs the session."""
    for hold in held:
        yield hold.start, hold.ret
        if hold.freed < INFINITY:
            yield hold.freeing, hold.freed


def _answered(view: View, rows: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Those that were acknowledged, and those that were told that the lease is over."""
    outcome, reason = view.column("outcome"), view.column("reason")
    renewed = tuple(row for row in rows if outcome[row] == Outcome.OK)
    refused = tuple(row for row in rows if outcome[row] == Outcome.FAIL and reason[row] == Reason.NOT_OWNER)
    return renewed, refused


HONEST_RENEWAL: Final = Property(
    "honest-renewal",
    _examine,
    _exercise,
    needs=frozenset({Need.RENEWED}),
    optional=True,
    under=(*HANGS, "stall-renewal", "stall-waiter", "freeze-in-renewal", "freeze-holder"),
)
"""Under these somebody certainly renews, and some of them when it is too late."""
