"""`honest-belief` and `honest-renewal`: clients soon know of a loss, and the service tells the truth about leases.

`honest-belief`: no client believes for long that it holds a lock that the service has given to another, or may have.
When a belief must end, `honest-belief` judges by what the client was told, whether another got the lock or not.

`honest-renewal`: what the service says about a lease when it is asked to prolong or to end it is true, and it is the
service that says it. A lease may expire late, never early: so for `honest-renewal` an acknowledged renewal of an
expired lease is no lie as long as nobody else was granted the lock. An unanswered renewal proves nothing. If locks live
in a session, its keep-alives are their renewals. Source: checkers/CONDITIONS.md, section 11.
"""

from collections.abc import Iterator
from operator import itemgetter
from typing import Final, NamedTuple

from checkers.claims import matches
from checkers.history.counting import grouped
from checkers.history.finding import Finding
from checkers.history.history import Facts
from checkers.history.holds_and_lease_ends import IN_SESSIONS, Hold, closings, effective, exclude
from checkers.history.interval_sets import Span, length, moment, united, without
from checkers.history.order_of_grants import superseded
from checkers.history.view import View
from checkers.properties.property import HANGS, ONE_HOLDER, Examined, Need, Property
from checkers.properties.releases import holder, whose
from checkers.properties.shared_counters import Exercise, fault_missed, lock_unexercised, stalls_by_worker, unless
from checkers.row_format import INFINITY, F, Outcome, Reason

ENDED: Final = ("freeze-*", "late-write", "stall-renewal", "kill-renewal")
"""Faults under which the leases of some holders end."""
ALL_KNOWN: Final = ("grant", "quorum")
"""Kinds of leases that only recorded operations prolong. A session may be kept alive by pings that are not recorded."""
NOTICED: Final = "losses noticed"
LONGEST: Final = "longest false belief (ms)"

EXERCISED: Final = (*HANGS, "stall-renewal", "stall-waiter", "freeze-in-renewal", "freeze-holder")
"""Faults under which a client certainly renews, and sometimes too late."""
RENEWED: Final = "renewals acknowledged"
REFUSED: Final = "renewals and releases refused"


def _examine_belief(view: View) -> Examined:
    """Definite: checkers/CONDITIONS.md, section 11. A client that did not run when it was due to notice its loss is not
    blamed for noticing late: the first thing that it does is to look at its clock. Without a lease, a client learns of
    its loss by asking.
    """
    bound, known = view.facts.bounds.get(BELIEF.id), view.facts.lease in ALL_KNOWN
    following, asleep = superseded(view), view.once(stalls_by_worker) if view.facts.lease == "none" else {}
    findings: list[Finding] = []
    longest = 0
    for hold in view.holds:
        given, later = following[hold.row]
        ended, lasted = belief_end(hold), list[Span]()
        if ended > max(given, hold.ret):
            lasted = without([(given, ended)], united(asleep.get(view.worker(hold.row), ())))
        if lasted:
            longest = max(longest, ended - max(given, hold.ret))
        if bound is not None and length(lasted) > bound:
            findings.append(_false_belief(view, hold, max(moment(lasted, bound), hold.ret), bound, later))
        elif bound is not None and known and not hold.open and ended > (due := max(hold.expiry + bound, hold.ret)):
            findings.append(_false_belief(view, hold, due, bound))
    return Examined(findings, {LONGEST: -(-longest // 1_000_000)})


def _false_belief(view: View, hold: Hold, at: int, bound: int, later: int | None = None) -> Finding:
    """later: the acquire row of the grant that the client did not know of; None if its lease can have been over."""
    believed = f"So {view.who(hold.process)} believed until {view.clock(belief_end(hold))} that it held the lock"
    allowed = f"the lock promises that such a belief ends within {bound / 1e9:g} s"
    if later is None:
        why = f"{believed}, though its lease was due to end at {view.clock(hold.expiry)}; {allowed}."
        return Finding("believed-past-lease", at, (hold.row,), (hold.row,), why)
    why = f"{believed}, which {view.who(view.process[later])} had since {view.clock(view.ret[later])}; {allowed}."
    return Finding("believed-too-long", at, (hold.row, later), (hold.row, later), why)


def _exercise_belief(view: View) -> Exercise:
    noticed = sum(hold.lost >= 0 for hold in view.holds)
    missing = lock_unexercised(view) or unless(noticed, "no client held on until its lease could have ended")
    return Exercise(missing, {NOTICED: noticed})


def _no_lease_ends(facts: Facts) -> str | None:
    ends = facts.lease != "none" and any(matches(fault, ENDED) for fault in facts.fault_names)
    return unless(ends, "nothing makes a holder outlive its lease")


def belief_end(hold: Hold) -> int:
    """ns; the latest moment at which the client can have believed that it holds."""
    return min(hold.left, hold.believed)


class RenewedLease(NamedTuple):
    """What is renewed: one grant, or a session with all its grants. Times in ns."""

    begun: int  # earliest instant of the lease
    ttl: int  # the shortest that it can last
    holds: tuple[Hold, ...]
    renewed: tuple[int, ...]  # rows of acknowledged renewals
    refused: tuple[int, ...]  # rows of renewals that the service refused because the lease is over
    closed: int  # since when its client may have ended the lease; `INFINITY` for never
    touched: tuple[tuple[int, int], ...] = ()  # what else prolonged the lease, as (earliest instant, known since)
    session: bool = False  # whether the lease outlives its grants


def _examine_renewal(view: View) -> Examined:
    """Definite: checkers/CONDITIONS.md, section 11. etcd #11456 granted a lock on a lease that it had called over."""
    following = superseded(view)
    findings = [*_renewed_by_nobody(view)]
    for lease in view.once(_leases):
        for hold in lease.holds:
            given, later = following[hold.row]
            over = hold.released if lease.session else INFINITY  # a session outlives a grant that was released
            if given < over:
                rows = (hold.row, later)
                for row in (row for row in lease.renewed if given < view.inv[row] < over):
                    why = whose(view, hold, holder(view, hold, later, view.inv[row]), row)
                    findings.append(Finding("renewed-though-lost", view.inv[row], (*rows, row), rows, why))
        refusals = [
            (row, tuple(hold.row for hold in lease.holds if hold.ret <= view.inv[row] < hold.released))
            for row in lease.refused
        ]
        kept = (hold for hold in lease.holds if _release_refused(view, hold))
        refusals += ((hold.release, (hold.row,)) for hold in kept if view.ret[hold.release] < hold.released)
        for row, holders in refusals:
            if view.ret[row] < (until := _lasts_until(view, lease, view.inv[row])):
                proof = max((other for other in lease.renewed if view.ret[other] <= view.inv[row]), default=None)
                rows = (*holders, *(() if proof is None else (proof,)), row)
                why = f"So {view.who(view.process[row])} was told that its lease was over, though it should have"
                why += f" lasted until {view.clock(until)}."
                findings.append(Finding("refused-though-held", view.ret[row], rows, holders, why))
        findings += _granted_though_over(lease, view)
    return Examined(findings)


def _renewed_by_nobody(view: View) -> Iterator[Finding]:
    """Renewals that were sent and acknowledged while no server could answer their client."""
    unreached = grouped(view.facts.unreached, itemgetter(0))
    for row in view.rows(F.RENEW, F.KEEP_ALIVE, outcomes=(Outcome.OK,)) if unreached else ():
        spans = unreached.get(view.worker(row), ())
        span = next((span for span in spans if span[1] <= view.inv[row] and view.ret[row] <= span[2]), None)
        if span is not None:
            hold = view.holds.by_owner.get(view.owner[row])
            holders = () if hold is None else (hold.row,)
            nobody = f"from {view.clock(span[1])} to {view.clock(span[2])} no server could have answered it"
            why = f"So {view.who(view.process[row])}'s client took its renewal for acknowledged although {nobody}."
            yield Finding("renewed-by-nobody", view.ret[row], (*holders, row), holders, why)


def _lasts_until(view: View, lease: RenewedLease, answered_by: int) -> int:
    """ns; until when a lease is certainly in force if what was answered before `answered_by` (ns) prolonged it.

    Servers with a grain tell each other only now and then who is alive: a sign of life counts for no more than the
    grain after the last one that came half a grain or more before it.
    """
    grain = view.facts.grain
    signs = [lease.begun, *(view.inv[other] for other in lease.renewed if view.ret[other] <= answered_by)]
    signs += [moment for moment, since in lease.touched if since <= answered_by]
    if lease.session and grain:
        before = [max([lease.begun, *(other for other in signs if other <= sign - grain // 2)]) for sign in signs]
        signs = [min(sign, earlier + grain) for sign, earlier in zip(signs, before, strict=True)]
    return min(max(signs) + lease.ttl, lease.closed)


def _exercise_renewal(view: View) -> Exercise:
    leases = view.once(_leases)
    renewed, refused = sum(len(lease.renewed) for lease in leases), sum(len(lease.refused) for lease in leases)
    refused += sum(_release_refused(view, hold) for hold in view.holds)
    missing = fault_missed(view) if renewed or refused else "no renewal was answered, and no release refused"
    return Exercise(missing, {RENEWED: renewed, REFUSED: refused})


def _nobody_renews(facts: Facts) -> str | None:
    exercised = any(matches(fault, EXERCISED) for fault in facts.fault_names)
    return unless(exercised, "nothing makes a holder renew, or release too late")


def _granted_though_over(lease: RenewedLease, view: View) -> Iterator[Finding]:
    """Grants that cannot have come before the service said that their lease is over.

    Another client certainly held until then. The grant cannot have come before that hold: it had not been requested
    yet, or its own lease was certainly in force, so that the other client would have got the lock inside its hold.
    """
    refusal = min(lease.refused, key=lambda row: view.ret[row], default=None)
    if refusal is None or not lease.session or view.facts.permits > 1:
        return
    for hold in lease.holds:
        first = max(hold.inv, hold.core_end)
        others = [other for other in view.holds.by_key[hold.key] if exclude(other, hold) and other is not hold]
        held = next((other for other in others if other.ret <= first and other.core_end > view.ret[refusal]), None)
        if held is not None and hold.ret > view.ret[refusal]:
            rows = (held.row, refusal, *((held.release,) if held.release >= 0 else ()), hold.row)
            yield Finding("granted-though-over", hold.ret, rows, (held.row, hold.row))


def _leases(view: View) -> list[RenewedLease]:
    """Leases that somebody tried to renew, or could not release. A lease without a TTL is never refused too early."""
    in_sessions = view.facts.lease in IN_SESSIONS
    kept = [hold for hold in view.holds if _release_refused(view, hold)]
    by_grant: dict[int, list[int]] = {hold.owner: [] for hold in kept if not in_sessions}
    by_session: dict[int, list[int]] = {hold.session: [] for hold in kept if in_sessions}
    for row in view.rows(F.RENEW, F.KEEP_ALIVE):
        if view.session[row] and (in_sessions or not view.owner[row]):
            by_session.setdefault(view.session[row], []).append(row)
        else:
            by_grant.setdefault(view.owner[row], []).append(row)
    leases = []
    for who, rows in by_grant.items():
        hold = view.holds.by_owner.get(who)
        if hold is not None:
            ttl, true = 0 if view.facts.lease == "none" else hold.length, dict(hold.renewals)
            renewed, refused = _answered(view, rows)
            renewed = tuple(row for row in renewed if view.inv[row] in true)
            leases.append(RenewedLease(hold.start, ttl, (hold,), renewed, refused, hold.free))
    return [*leases, *_sessions(view, by_session)]


def _sessions(view: View, by_session: dict[int, list[int]]) -> Iterator[RenewedLease]:
    facts = view.facts
    holds = grouped(view.holds, lambda hold: hold.session)
    openings = reversed(view.rows(F.SESSION_OPEN, outcomes=(Outcome.OK,)))
    opened = {view.session[row]: (view.inv[row], view.ttl[row]) for row in openings}
    closed = closings(view)
    for number, rows in by_session.items():
        held, (begun, granted_ttl) = holds.get(number, []), opened.get(number, (0, 0))
        shortest = min([granted_ttl or facts.ttl, *(hold.ttl for hold in held)])
        lasts = 0 if facts.lease == "none" else effective(shortest, facts)
        touched: list[tuple[int, int]] = []
        for hold in held if facts.lease == "touch" else ():  # every request prolongs the session
            touched += [(hold.start, hold.ret), *([(hold.freeing, hold.freed)] if hold.freed < INFINITY else [])]
        ends = closed.get(number, INFINITY)
        yield RenewedLease(begun, lasts, tuple(held), *_answered(view, rows), ends, tuple(touched), session=True)


def _answered(view: View, rows: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The rows that were acknowledged, and the rows that were told that the lease is over."""
    renewed = tuple(row for row in rows if view.outcome[row] == Outcome.OK)
    return renewed, tuple(row for row in rows if _refused(view, row))


def _refused(view: View, row: int) -> bool:
    return view.outcome[row] == Outcome.FAIL and view.reason[row] == Reason.NOT_OWNER


def _release_refused(view: View, hold: Hold) -> bool:
    """Whether its client was told, when it released, that the lease was over."""
    return hold.release >= 0 and _refused(view, hold.release)


HONEST_RENEWAL: Final = Property(
    "honest-renewal",
    _examine_renewal,
    _exercise_renewal,
    needs=frozenset({Need.RENEWED}),
    optional=True,
    unexpected=_nobody_renews,
)
BELIEF: Final = Property(
    "honest-belief", _examine_belief, _exercise_belief, needs=ONE_HOLDER, bounded=True, unexpected=_no_lease_ends
)
