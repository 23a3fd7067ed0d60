"""Mechanisms of locks that are broken by design. Each looks in a witness for what the lock's own docstring admits.

As in `checkers.judging.excuses_by_fault`, each is an exact predicate if the history can tell. Some explain every
violation of certain kinds: those of a lock that excludes nobody, and those that the kind of the violation itself names.
"""

from itertools import permutations
from typing import Final

from checkers.history.holds_and_lease_ends import Hold
from checkers.history.view import View
from checkers.judging.excuse_parts import (
    BY_A_LOST_COUNTER,
    BY_A_LOST_LEASE,
    BY_A_STALE_HOLDER,
    Incident,
    by_name,
    cut_short,
    last_deed,
)
from checkers.row_format import ACQUIRES, F, Outcome

NEVER_FREED: Final = frozenset({"never-freed", "freed-late", "kept-by-a-hung-holder"})
"""Kinds of violations of a lock whose holder crashed or hangs."""

SESSION_KINDS: Final = frozenset(
    {"failover", "kill", "restart", "wipe", "cut", "pause", "reset", "slow", "disk", "version"}
)
"""Kinds of faults that may end a session at the server, or a connection on which it rests."""
NOTICED: Final = 100_000_000
"""ns within which a worker notices that its client no longer believes: the worker looks 50 times a second."""
SLEW: Final = 100_000_000  # ns by which two clocks of one machine may drift apart during a trial


def no_exclusion(incident: Incident) -> bool:
    """There is no lock, or its answer is ignored: this explains all that follows from several clients being inside."""
    return incident.kind in BY_A_LOST_LEASE and len(incident.holds) > 1


# Somebody else's hold was touched


def released_by_another(incident: Incident) -> bool:
    """A release was under way by an owner whose own hold was over, and it can have freed the lock of the holder.

    The release was between two grants, and by a third owner. That owner's hold was certainly over if the earlier grant
    had been answered before the release was sent. It may have been if its lease could end before the release was
    answered (between look and deletion), if it had been released before, or if another release had freed it.
    """
    if incident.kind == "released-anothers":
        return True
    if incident.kind not in BY_A_LOST_LEASE:
        return False
    pairs = permutations(incident.holds, 2)
    return any(_freed_by_another(a, b, incident.view, frozenset()) for a, b in pairs if a.start <= b.latest)


def _freed_by_another(earlier: Hold, later: Hold, view: View, seen: frozenset[int]) -> bool:
    """seen: rows of releases that already explain a later pair of grants."""
    for row in view.rows(F.RELEASE, outcomes=(Outcome.OK, Outcome.INFO)):
        sent, answered, hold = view.inv[row], view.ret[row], view.hold_of(row)
        if view.key[row] != earlier.key or row in seen or not (sent <= later.latest and answered >= earlier.start):
            continue
        if hold is None or hold.owner in (earlier.owner, later.owner) or hold.start >= earlier.latest:
            continue
        over = sent > earlier.latest or hold.expiry < answered or hold.released < sent
        if over or _freed_by_another(hold, earlier, view, seen | {row}):
            return True
    return False


def renewed_anothers(incident: Incident) -> bool:
    """A renewal of the earlier holder was acknowledged after its lease could have ended, or after its release.

    So a client that lost the lock is told that it has it, and the present holder keeps it longer than it asked for.
    """
    if incident.kind in ("renewed-though-lost", "renewed-after-release"):
        return True
    if incident.kind == "refused-though-held":  # a late renewal had told the holder that it still held
        return any(map(_renewed_late, incident.holds))
    return incident.kind in BY_A_LOST_LEASE and any(_renewed_late(hold) for hold in incident.earlier)


def _renewed_late(hold: Hold) -> bool:
    length = hold.length or hold.ttl
    end = hold.start + length
    for sent, answered in sorted(hold.renewals):
        if answered > min(end, hold.freed):
            return True
        end = max(end, sent + length)
    return False


# A holder that crashed, or hangs


def never_expires(incident: Incident) -> bool:
    """Nothing at the server ends a dead or hung holder's hold: none of its later renewals was acknowledged."""
    return incident.kind in NEVER_FREED and any(
        hit.owner == hold.owner and all(sent <= hit.applied for sent, _ in hold.renewals)
        for hit in incident.hits
        for hold in incident.holds
    )


def hung_but_renewed(incident: Incident) -> bool:
    """While the holder hung, renewals of its lease were acknowledged."""
    if incident.kind not in NEVER_FREED:
        return False
    view = incident.view
    renewals = view.rows(F.RENEW, F.KEEP_ALIVE, outcomes=(Outcome.OK,))
    return any(
        hit.owner == hold.owner
        and any(hit.applied <= view.inv[row] <= hit.over for row in view.of_lease(hold, renewals))
        for hit in incident.hits_of("stall", "call")
        for hold in incident.holds
    )


def gave_up(incident: Incident) -> bool:
    """The holder's own client refused the inner acquire: it had noticed by then that it may have lost the lock."""
    return incident.kind == "nested-refused" and any(hold.believed <= incident.at + NOTICED for hold in incident.holds)


def left_behind(incident: Incident) -> bool:
    """A release of the key got no answer and its session lives on, or a wait for it during the fault got no grant."""
    if incident.kind != "not-recovered":
        return False
    view, keys = incident.view, {incident.view.key[row] for row in incident.rows}
    prolonged = {view.session[row]: view.inv[row] for row in view.rows(F.KEEP_ALIVE, outcomes=(Outcome.OK,))}
    released = view.whole(F.RELEASE, outcomes=(Outcome.INFO,))
    waited = view.rows(*ACQUIRES, outcomes=(Outcome.INFO, Outcome.FAIL))
    left = [row for row in released if view.session[row] and prolonged.get(view.session[row], 0) > view.inv[row]]
    left += [row for row in waited for hit in incident.hits if view.inv[row] <= hit.over and view.ret[row] >= hit.begun]
    return any(view.inv[row] < incident.at and view.key[row] in keys for row in left)


# A client that does not look at the clock


def outlived_ttl(incident: Incident) -> bool:
    """A holder's lease could have ended, unnoticed, before its work was done. A slow answer hides who was earlier."""
    return incident.kind in BY_A_STALE_HOLDER and any(_outlived(hold, incident) for hold in incident.holds)


def keepalive_died(incident: Incident) -> bool:
    """An earlier holder outlived its lease, and for a whole TTL nobody had asked to prolong the lease."""
    if incident.kind not in BY_A_STALE_HOLDER:
        return False
    view = incident.view
    requests = view.rows(F.SESSION_OPEN, F.RENEW, F.KEEP_ALIVE)

    def silent(hold: Hold) -> bool:
        sent = [view.inv[row] for row in view.of_lease(hold, requests) if view.inv[row] <= incident.at]
        return max(sent, default=hold.start) + hold.ttl <= incident.at

    return any(_outlived(hold, incident) and silent(hold) for hold in incident.earlier)


def answer_past_ttl(incident: Incident) -> bool:
    """An earlier holder's lease could have ended before its acquire returned, and the holder went in all the same."""
    return incident.kind in BY_A_LOST_LEASE and any(
        hold.start + hold.length <= hold.ret and hold.left > hold.ret for hold in incident.earlier
    )


def _outlived(hold: Hold, incident: Incident) -> bool:
    sent, done = last_deed(incident, hold)  # the holder may have noticed before another overwrote its write
    return hold.expiry <= done and sent < hold.believed


# A service that was not asked, or not the same one


def went_ahead(incident: Incident) -> bool:
    """A client gave itself a grant when it could not ask the service: no server gave a grant of the witness a TTL."""
    return incident.kind in BY_A_LOST_LEASE and any(incident.view.gave_itself(hold.row) for hold in incident.holds)


def session_lost(incident: Incident) -> bool:
    """A fault that may end sessions was active while an earlier holder counted on its session.

    An acquire in flight in the fault may have been granted before it, in a session that was over when the answer came.
    """
    moments = [(hit.begun, hit.over) for hit in incident.hits_of(*SESSION_KINDS)]
    if cut_short(incident, moments):
        return True
    if incident.kind not in BY_A_LOST_LEASE or len(incident.holds) < 2:
        return False
    last = incident.by_answer[-1]
    return any(last.start <= end and begin <= last.ret for begin, end in moments)


def not_the_session(incident: Incident) -> bool:
    """A pool between client and server may give each statement another session.

    A lock taken in one session is locked for whoever gets that session next, and stays if its release runs in another.
    """
    return incident.kind in BY_A_LOST_LEASE | NEVER_FREED | {"released-anothers"} and bool(incident.holds)


# Numbers, order and waking


def client_clock(incident: Incident) -> bool:
    """Tokens are the clients' clocks: each token of the key is what one clock, which may differ from ours, showed
    during the acquire, except for grants of a worker whose clock a fault had moved.
    """
    if incident.kind not in BY_A_LOST_COUNTER or len(incident.holds) < 2:
        return False
    view = incident.view

    def moved(hold: Hold) -> bool:
        hits = (hit for hit in incident.hits_of("skew") if hit.begun <= hold.ret and hold.inv <= hit.over)
        return any(view.facts.worker_of(hit.process) == view.worker(hold.row) for hit in hits)

    if any(map(moved, incident.holds)):
        return True
    holds = [hold for hold in view.holds.by_key[incident.holds[0].key] if not moved(hold)]
    return max(hold.token - hold.ret for hold in holds) <= min(hold.token - hold.inv for hold in holds) + SLEW


def opposite_order(incident: Incident) -> bool:
    """Two clients took the same two locks in opposite order: that is what a circle of waiting is."""
    return incident.kind == "deadlock"


def woken_all(incident: Incident) -> bool:
    """Everybody who waits watches the same thing: the kind says that more were woken than could get in."""
    return incident.kind == "herd"


def timers_set_back(incident: Incident) -> bool:
    """The service ends waits by its wall clock, and a client was waiting, without an answer, when that was set.

    The service may wait on in the client's place, and hold what it held, until a clock set back has caught up.
    """
    if incident.kind != "not-recovered":
        return False
    view = incident.view
    unanswered = view.rows(F.ACQUIRE, outcomes=(Outcome.INFO,))
    spans = [span for hit in incident.hits for span in ((hit.begun, hit.applied), (hit.healing, hit.healed))]
    moments = [span for span in spans if all(span)]
    return any(view.inv[row] <= end and begin <= view.stopped[row] for row in unanswered for begin, end in moments)


def hash_collision(incident: Incident) -> bool:
    """The service tells locks apart by a hash of their names, and another lock was held while this one was awaited."""
    if incident.kind == "kept-by-another-name":
        return bool(incident.holds)
    if incident.kind not in NEVER_FREED | {"not-recovered"} or not incident.rows:
        return False
    view, last = incident.view, incident.rows[-1]
    held = (hold for hold in view.holds if hold.ret <= incident.at and view.inv[last] < hold.left)
    return any(hold.key != view.key[last] for hold in held)


DESIGNS: Final = by_name(
    no_exclusion,
    released_by_another,
    renewed_anothers,
    never_expires,
    hung_but_renewed,
    gave_up,
    left_behind,
    outlived_ttl,
    keepalive_died,
    answer_past_ttl,
    went_ahead,
    session_lost,
    not_the_session,
    client_clock,
    opposite_order,
    woken_all,
    timers_set_back,
    hash_collision,
)
