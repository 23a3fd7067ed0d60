"""Mechanisms: what a fault can do to a lock, as exact predicates on a violation's witness and the fault's intervals.

A hazard names a mechanism, and the mechanism excuses only what it explains: as a rule, the fault must have hit the
earlier holder of the witness while its lease was in force, before anything went wrong. No mechanism excuses what a
lying service or store could have done as well. A busy machine may do what a fault does, without a fault
(`BY_THE_MACHINE`). Mechanisms of locks that are broken by design are in `checkers.judging.excuses_by_design`.
"""

import re
from collections.abc import Mapping, Sequence
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
    RENEWED,
    Incident,
    Mechanism,
    by_name,
    cut_short,
    losers,
)
from checkers.judging.excuses_by_design import DESIGNS, answer_past_ttl
from checkers.properties.shared_counters import unanswered
from checkers.row_format import ACQUIRES, INFINITY, F, Outcome, Reason

_NODE: Final = re.compile(r"[a-z]+[0-9]+")


def nodes_of(hit: FaultInterval) -> frozenset[str]:
    """The nodes that a hit names: ``redis1`` and ``redis4`` of "redis1 and redis4 (+61 s)"."""
    return frozenset(_NODE.findall(hit.target))


# A holder that did not run


def frozen_past_ttl(incident: Incident) -> bool:
    """An earlier holder was frozen when its lease, or its belief in the lease, ended before the violation."""
    return incident.kind in BY_A_STALE_HOLDER and any(
        hit.owner == hold.owner and hit.applied <= end <= min(hit.over, incident.at)
        for hold in incident.earlier
        for end in (hold.expiry, hold.believed)
        for hit in incident.hits_of("freeze")
    )


def stalled_past_ttl(incident: Incident) -> bool:
    """An earlier holder's belief had ended before the violation, and it noticed late, as the machine did not run it.

    No fault asked for that, but a busy machine freezes processes, too. If a fault had frozen the holder then, a hazard
    must explain it. A holder of which one thread was stalled counts: its client looks at the clock in another thread.

    A client with a belief of its own may trust a lease for less than its TTL, and nobody is told for how long. Unless
    it said later that it holds, its belief may have ended when the lease could have ended.
    """

    def stalled(hold: Hold) -> bool:
        ended = min(hold.believed, max(hold.sure, hold.expiry))
        return ended <= incident.at and not any(
            fault.kind == "freeze" and fault.owner == hold.owner and 0 < fault.applied <= ended <= fault.over
            for fault in incident.view.history.faults
        )

    earlier = (*incident.earlier, *incident.by_answer[:-1])  # if the service lost its data, tokens do not tell
    return incident.kind in BY_A_STALE_HOLDER and any(stalled(hold) for hold in earlier)


# A lease that ended early


def expired_by_jump(incident: Incident) -> bool:
    """The clock of a server was set while an earlier holder's lease was in force."""
    return cut_short(incident, [(hit.begun, hit.applied) for hit in incident.hits_of("clock")])


def expired_by_return(incident: Incident) -> bool:
    """A clock that had been set back was set right, which is a jump ahead for every lease that began in between."""
    return cut_short(incident, [(hit.healing, hit.over) for hit in incident.hits_of("clock") if hit.healing])


def expired_by_drift(incident: Incident) -> bool:
    """The clock of a server ran too fast or too slow, or was set to and fro, during an earlier holder's lease."""
    return cut_short(incident, [(hit.begun, hit.over) for hit in incident.hits_of("clock")])


def state_lost(incident: Incident) -> bool:
    """The server lost what it knew of an earlier grant (its lease or its token)."""
    losses = incident.hits_of("wipe", "failover")
    if incident.kind in BY_A_LOST_COUNTER:
        pairs = list(permutations(incident.holds, 2))
        return any(a.start <= loss.applied and loss.begun <= b.ret for loss in losses for a, b in pairs)
    return cut_short(incident, [(loss.begun, loss.applied) for loss in losses], by_token=False)


def revoked_early(incident: Incident) -> bool:
    """A server that had stood still came back, and the service said that a prolonged lease was over: etcd's old leader
    revokes leases that it did not see kept alive (etcd #15247).

    A server stands still while it is frozen, and while its disk does not answer, from which it may come back any time.
    If a holder asked for nothing until its lease had run out, the first answer after the server came back told it so.
    Until it is back, the old leader itself prolongs leases that its successor lets end.
    """
    if incident.kind == RENEWED:
        (_, later), renewal = incident.by_answer, incident.rows[-1]
        stood_still = incident.hits_of("pause", "disk")
        if any(hit.begun <= later.ret and incident.view.inv[renewal] <= hit.over for hit in stood_still):
            return True
    backs = [hit.healing for hit in incident.hits_of("pause") if 0 < hit.healing <= incident.at]
    if not backs and not any(hit.begun <= incident.at for hit in incident.hits_of("disk")):
        return False
    return incident.kind == REFUSED or any(_told_gone(hold, backs, incident.view) for hold in losers(incident))


def revoked_in_silence(incident: Incident) -> bool:
    """As `revoked_early`, but the machine did not run the leader: keep-alives got no answer until there was another.

    The old leader has seen nothing that was acknowledged since the first of these keep-alives. When it comes back, it
    revokes what could have ended by then without that.
    """
    view = incident.view
    if incident.kind == REFUSED:
        return _revoked(view.session[incident.rows[-1]], view)
    return any(_revoked(hold.session, view) for hold in losers(incident))


def _revoked(number: int, view: View) -> bool:
    """Whether a session was called over before its acknowledged end, but not before that known when a silence began."""
    length = effective(view.facts.ttl, view.facts)
    refused = view.whole(F.RELEASE, F.KEEP_ALIVE, *ACQUIRES, outcomes=(Outcome.FAIL,))
    over = (row for row in refused if view.session[row] == number and view.reason[row] == Reason.NOT_OWNER)
    called_over = [view.ret[row] for row in over]
    prolonged = view.rows(F.SESSION_OPEN, F.KEEP_ALIVE, outcomes=(Outcome.OK,))
    signs = [view.inv[row] for row in prolonged if view.session[row] == number != 0]

    def known(until: int) -> int:
        """ns; when the session could end by what had prolonged it before a moment; `INFINITY` if nothing had."""
        return max((sign + length for sign in signs if sign < until), default=INFINITY)

    silent = [begun for begun, _ in view.once(unanswered)]
    return any(known(begun) <= at < known(at) for at in called_over for begun in silent if begun < at)


def _told_gone(hold: Hold, backs: Sequence[int], view: View) -> bool:
    """Whether a release, keep-alive or the session's next acquire was refused as not the owner's: before the
    acknowledged end of the lease, or as the first answer after a moment of `backs`.
    """
    answered = view.whole(F.RELEASE, F.RENEW, F.KEEP_ALIVE, outcomes=(Outcome.OK, Outcome.FAIL))
    answered += [row for row in view.attempts(Outcome.FAIL) if view.reason[row] == Reason.NOT_OWNER]
    answers = sorted((view.ret[row], view.reason[row] == Reason.NOT_OWNER) for row in view.of_lease(hold, answered))
    if any(gone and at < hold.expiry for at, gone in answers):
        return True
    return any(next((gone for at, gone in answers if at > back), False) for back in backs)


# A write that came late


def late_delivery(incident: Incident) -> bool:
    """A write was sent in time, was held up on its way to the store, got no answer, and came after a successor's write.

    It is the write of the fork that was sent first: a stale holder's write would have been sent second.
    """
    if incident.kind not in ("lost-update", "sold-twice"):
        return False
    view = incident.view
    held = [row for row in incident.rows if view.f[row] == F.WRITE and view.outcome[row] == Outcome.INFO]
    sent = [view.inv[row] for row in held if view.inv[row] < incident.at]
    return any(hit.begun <= moment <= hit.over for hit in incident.hits_of("cut") for moment in sent)


def delivered_late(incident: Incident) -> bool:
    """As `late_delivery`, but without a fault: the machine did not run the store, or the way to it.

    A holder that was inside and in its lease sent the first write of the fork. It had let go of the lock when the other
    holder was granted it, so nobody was inside beside the other. But the write had no answer yet.
    """
    view = incident.view
    writes = sorted((row for row in incident.rows if view.f[row] == F.WRITE), key=view.inv.__getitem__)
    if incident.kind != "lost-update" or len(writes) != 2:
        return False
    first, (its, others) = writes[0], (view.hold_of(row) for row in writes)
    if its is None or others is None:
        return False
    in_time = its.ret <= view.inv[first] <= min(its.left, its.expiry)
    return in_time and its.left <= others.ret < view.ret[first]


BY_THE_MACHINE: Final[Mapping[str, tuple[Mechanism, str]]] = {
    FROZEN: (stalled_past_ttl, "the machine itself stalled the holder"),
    "revoked-early": (revoked_in_silence, "the machine itself stalled the leader"),
    "late-delivery": (delivered_late, "the machine itself held a write up"),
}
"""What a busy machine does without a fault: mechanism → (the predicate that recognizes it, the reason in words)."""
OF_A_VERSION: Final = ("revoked-early",)
"""Mechanisms by which one version of a service may break a promise that another keeps, under the same fault."""
BY_STRIKE: Final = by_name(
    *(frozen_past_ttl, expired_by_jump, expired_by_return, expired_by_drift),
    *(state_lost, late_delivery, answer_past_ttl),
)
"""Mechanisms that as a rule show before the lock is granted again after the heal, or not at all."""
MECHANISMS: Final = {**BY_STRIKE, **by_name(revoked_early), **DESIGNS}
