"""Mechanisms: what a fault can do to a lock, as exact predicates on a violation's witness and the fault's intervals.

A hazard names a mechanism, and the mechanism excuses only what it explains: as a rule, the fault must have hit the
earlier holder of the witness while its lease was in force, before anything went wrong. No mechanism excuses what a
lying service or store could have done as well. A busy machine may do what a fault does, without a fault
(`BY_THE_MACHINE`). Mechanisms of locks that are broken by design are in `checkers.judging.excuses_by_design`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from typing import Final

from checkers.claims import FROZEN
from checkers.history.history import FaultInterval
from checkers.history.holds_and_lease_ends import Hold, effective
from checkers.history.view import View
from checkers.judging.excuse_parts import (
    BY_A_LOST_COUNTER,
    BY_A_STALE_HOLDER,
    REFUSED,
    Hits,
    by_answer,
    by_name,
    cut_short,
    holds_of,
    in_order,
    losers,
)
from checkers.judging.excuses_by_design import DESIGNS
from checkers.properties.check_result import Violation
from checkers.properties.shared_counters import unanswered
from checkers.row_format import INFINITY, F, Outcome, Reason

_NODE: Final = re.compile(r"[a-z]+[0-9]+")


def nodes_of(hit: FaultInterval) -> frozenset[str]:
    """The nodes that a hit names: ``redis1`` and ``redis4`` of "redis1 and redis4 (+61 s)"."""
    return frozenset(_NODE.findall(hit.target))


# A holder that did not run


def frozen_past_ttl(violation: Violation, view: View, hits: Hits) -> bool:
    """An earlier holder was frozen when its lease, or its belief in the lease, ended before the violation."""
    return violation.kind in BY_A_STALE_HOLDER and any(
        hit.kind == "freeze" and hit.owner == hold.owner and hit.applied <= end <= min(hit.over, violation.at)
        for hold in in_order(violation, view)[:-1]
        for end in (hold.expiry, hold.believed)
        for hit in hits
    )


def stalled_past_ttl(violation: Violation, view: View) -> bool:
    """An earlier holder's belief had ended before the violation, and it noticed late, as the machine did not run it.

    No fault asked for that, but a busy machine freezes processes, too. If a fault had frozen the holder then, a hazard
    must explain it. A holder of which one thread was stalled counts: its client looks at the clock in another thread.

    A client with a belief of its own may trust a lease for less than its TTL, and nobody is told for how long. Unless
    it said later that it holds, its belief may have ended when the lease could have ended.
    """

    def stalled(hold: Hold) -> bool:
        ended = min(hold.believed, max(hold.sure, hold.expiry))
        return ended <= violation.at and not any(
            fault.kind == "freeze" and fault.owner == hold.owner and 0 < fault.applied <= ended <= fault.over
            for fault in view.history.faults
        )

    by_token = in_order(violation, view)
    earlier = (*by_token[:-1], *by_answer(by_token)[:-1])  # if the service lost its data, tokens do not tell
    return violation.kind in BY_A_STALE_HOLDER and any(stalled(hold) for hold in earlier)


# A lease that ended early


def expired_by_jump(violation: Violation, view: View, hits: Hits) -> bool:
    """The clock of a server was set while an earlier holder's lease was in force."""
    return cut_short(violation, view, [(hit.begun, hit.applied) for hit in hits if hit.kind == "clock"])


def expired_by_return(violation: Violation, view: View, hits: Hits) -> bool:
    """A clock that had been set back was set right, which is a jump ahead for every lease that began in between."""
    moments = [(hit.healing, hit.over) for hit in hits if hit.kind == "clock" and hit.healing]
    return cut_short(violation, view, moments)


def expired_by_drift(violation: Violation, view: View, hits: Hits) -> bool:
    """The clock of a server ran too fast or too slow, or was set to and fro, during an earlier holder's lease."""
    return cut_short(violation, view, [(hit.begun, hit.over) for hit in hits if hit.kind == "clock"])


def state_lost(violation: Violation, view: View, hits: Hits) -> bool:
    """The server lost what it knew of an earlier grant (its lease or its token) before the later grant."""
    losses = [hit for hit in hits if hit.kind in ("wipe", "failover")]
    if violation.kind in BY_A_LOST_COUNTER:
        holds = holds_of(violation, view)
        pairs = list(permutations(holds, 2))
        return any(a.start <= loss.applied and loss.begun <= b.ret for loss in losses for a, b in pairs)
    return cut_short(violation, view, [(loss.begun, loss.applied) for loss in losses], by_token=False)


def revoked_early(violation: Violation, view: View, hits: Hits) -> bool:
    """A server that had stood still came back, and the service said that a prolonged lease was over: etcd's old leader
    revokes leases that it did not see kept alive (etcd #15247).

    A server stands still while it is frozen, and while its disk does not answer, from which it may come back any time.
    If a holder asked for nothing until its lease had run out, the first answer after the server came back told it so.
    """
    backs = [hit.healing for hit in hits if hit.kind == "pause" and 0 < hit.healing <= violation.at]
    if not backs and not any(hit.kind == "disk" and hit.begun <= violation.at for hit in hits):
        return False
    return violation.kind == REFUSED or any(_told_gone(hold, backs, view) for hold in losers(violation, view))


def revoked_in_silence(violation: Violation, view: View) -> bool:
    """As `revoked_early`, but the machine did not run the leader: keep-alives got no answer until there was another.

    The old leader has seen nothing that was acknowledged since the first of these keep-alives. When it comes back, it
    revokes what could have ended by then without that.
    """
    session = view.column("session")
    if violation.kind == REFUSED:
        return _revoked(session[violation.rows[-1]], view)
    return any(_revoked(hold.session, view) for hold in losers(violation, view))


def _revoked(number: int, view: View) -> bool:
    """Whether a session was called over before its acknowledged end, but not before that known when a silence began."""
    inv, ret, session, reason = (view.column(name) for name in ("inv", "ret", "session", "reason"))
    length = effective(view.facts.ttl, view.facts)
    refused = view.rows(F.RELEASE, F.KEEP_ALIVE, F.ACQUIRE, F.TRY_ACQUIRE, outcomes=(Outcome.FAIL,))
    called_over = [ret[row] for row in refused if session[row] == number and reason[row] == Reason.NOT_OWNER]
    prolonged = view.rows(F.SESSION_OPEN, F.KEEP_ALIVE, outcomes=(Outcome.OK,))
    signs = [inv[row] for row in prolonged if session[row] == number != 0]

    def known(until: int) -> int:
        """ns; when the session could end by what had prolonged it before a moment; `INFINITY` if nothing had."""
        return max((sign + length for sign in signs if sign < until), default=INFINITY)

    silent = [begun for begun, _ in view.once(unanswered)]
    return any(known(begun) <= at < known(at) for at in called_over for begun in silent if begun < at)


def _told_gone(hold: Hold, backs: Sequence[int], view: View) -> bool:
    """Whether a release, keep-alive or the session's next acquire was refused as not the owner's: before the
    acknowledged end of the lease, or as the first answer after a moment of `backs`.
    """
    ret, reason = view.column("ret"), view.column("reason")
    answered = view.rows(F.RELEASE, F.RENEW, F.KEEP_ALIVE, outcomes=(Outcome.OK, Outcome.FAIL))
    answered += [row for row in view.attempts(Outcome.FAIL) if reason[row] == Reason.NOT_OWNER]
    answers = sorted((ret[row], reason[row] == Reason.NOT_OWNER) for row in view.of_lease(hold, answered))
    if any(gone and at < hold.expiry for at, gone in answers):
        return True
    return any(next((gone for at, gone in answers if at > back), False) for back in backs)


# A write that came late


def late_delivery(violation: Violation, view: View, hits: Hits) -> bool:
    """A write was sent in time, was held up on its way to the store, got no answer, and came after a successor's write.

    It is the write of the fork that was sent first: a stale holder's write would have been sent second.
    """
    if violation.kind not in ("lost-update", "sold-twice"):
        return False
    kind, inv, outcome = (view.column(name) for name in ("f", "inv", "outcome"))
    held = [row for row in violation.rows if kind[row] == F.WRITE and outcome[row] == Outcome.INFO]
    cuts = [hit for hit in hits if hit.kind == "cut"]
    return any(hit.begun <= inv[row] <= hit.over and inv[row] < violation.at for row in held for hit in cuts)


def delivered_late(violation: Violation, view: View) -> bool:
    """As `late_delivery`, but without a fault: the machine did not run the store, or the way to it.

    A holder that was inside and in its lease sent the first write of the fork. It had let go of the lock when the other
    holder was granted it, so nobody was inside beside the other. But the write had no answer yet.
    """
    kind, inv, ret = (view.column(name) for name in ("f", "inv", "ret"))
    writes = sorted((row for row in violation.rows if kind[row] == F.WRITE), key=inv.__getitem__)
    if violation.kind != "lost-update" or len(writes) != 2:
        return False
    first, (its, others) = writes[0], (view.hold_of(row) for row in writes)
    if its is None or others is None:
        return False
    in_time = its.ret <= inv[first] <= min(its.left, its.expiry)
    return in_time and its.left <= others.ret < ret[first]


BY_THE_MACHINE: Final[Mapping[str, tuple[Callable[[Violation, View], bool], str]]] = {
    FROZEN: (stalled_past_ttl, "the machine itself stalled the holder"),
    "revoked-early": (revoked_in_silence, "the machine itself stalled the leader"),
    "late-delivery": (delivered_late, "the machine itself held a write up"),
}
"""What a busy machine does without a fault: mechanism → (the predicate that recognizes it, the reason in words)."""
OF_A_VERSION: Final = ("revoked-early",)
"""Mechanisms by which one version of a service may break a promise that another keeps, under the same fault."""
MECHANISMS: Final = {
    **by_name(
        frozen_past_ttl, expired_by_jump, expired_by_return, expired_by_drift, state_lost, revoked_early, late_delivery
    ),
    **DESIGNS,
}
