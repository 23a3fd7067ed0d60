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
    Hits,
    by_answer,
    by_name,
    cut_short,
    holds_of,
    in_order,
    last_deed,
)
from checkers.properties.check_result import Violation
from checkers.row_format import ACQUIRES, F, Outcome

NEVER_FREED: Final = frozenset({"never-freed", "freed-late", "kept-by-a-hung-holder"})
"""Kinds of violations of a lock whose holder crashed or hangs."""

SESSION_KINDS: Final = frozenset(
    {"failover", "kill", "restart", "wipe", "cut", "pause", "reset", "slow", "disk", "version"}
)
"""Kinds of faults that may end a session at the server, or a connection on which it rests."""
NOTICED: Final = 100_000_000
"""ns within which a worker notices that its client no longer believes: the worker looks 50 times a second."""
SLEW: Final = 100_000_000
"""ns by which two clocks of one machine may drift apart during a trial."""


def no_exclusion(violation: Violation, _view: View, _hits: Hits) -> bool:
    """There is no lock, or its answer is ignored: this explains all that follows from several clients being inside."""
    return violation.kind in BY_A_LOST_LEASE and len(violation.holders) > 1


# Somebody else's hold was touched


def released_by_another(violation: Violation, view: View, _hits: Hits) -> bool:
    """Between the two grants, a release was under way by a third owner whose own hold was over.

    That hold was certainly over if the earlier grant had been answered before the release was sent. It may have been if
    its lease could end before the release was answered (between look and deletion), or if another release had freed it.
    """
    if violation.kind == "released-anothers":
        return True
    if violation.kind not in BY_A_LOST_LEASE:
        return False
    pairs = permutations(holds_of(violation, view), 2)
    return any(_freed_by_another(a, b, view, frozenset()) for a, b in pairs if a.start <= b.latest)


def _freed_by_another(earlier: Hold, later: Hold, view: View, seen: frozenset[int]) -> bool:
    """seen: rows of releases that already explain a later pair of grants."""
    key, inv, ret = view.column("key"), view.column("inv"), view.column("ret")
    for row in view.rows(F.RELEASE, outcomes=(Outcome.OK, Outcome.INFO)):
        if key[row] != earlier.key or row in seen or not (inv[row] <= later.latest and ret[row] >= earlier.start):
            continue
        hold = view.hold_of(row)
        if hold is None or hold.owner in (earlier.owner, later.owner) or hold.start >= earlier.latest:
            continue
        over = inv[row] > earlier.latest or hold.expiry < ret[row]
        if over or _freed_by_another(hold, earlier, view, seen | {row}):
            return True
    return False


def renewed_anothers(violation: Violation, view: View, _hits: Hits) -> bool:
    """A renewal of the earlier holder was acknowledged after its lease could have ended, or after its release.

    So a client that lost the lock is told that it has it, and the present holder keeps it longer than it asked for.
    """
    if violation.kind in ("renewed-though-lost", "renewed-after-release"):
        return True
    if violation.kind == "refused-though-held":  # a late renewal had told the holder that it still held
        return any(map(_renewed_late, holds_of(violation, view)))
    return violation.kind in BY_A_LOST_LEASE and any(_renewed_late(hold) for hold in in_order(violation, view)[:-1])


def _renewed_late(hold: Hold) -> bool:
    length = hold.length or hold.ttl
    end = hold.start + length
    for sent, answered in sorted(hold.renewals):
        if answered > min(end, hold.freed):
            return True
        end = max(end, sent + length)
    return False


# A holder that crashed, or hangs


def never_expires(violation: Violation, view: View, hits: Hits) -> bool:
    """Nothing at the server ends a dead or hung holder's hold: none of its later renewals was acknowledged."""
    return violation.kind in NEVER_FREED and any(
        hit.owner == hold.owner and all(sent <= hit.applied for sent, _ in hold.renewals)
        for hit in hits
        for hold in holds_of(violation, view)
    )


def hung_but_renewed(violation: Violation, view: View, hits: Hits) -> bool:
    """While a holder of the witness hung, renewals of its lease were acknowledged."""
    if violation.kind not in NEVER_FREED:
        return False
    inv, renewals = view.column("inv"), view.rows(F.RENEW, F.KEEP_ALIVE, outcomes=(Outcome.OK,))
    return any(
        hit.kind in ("stall", "call")
        and hit.owner == hold.owner
        and any(hit.applied <= inv[row] <= hit.over for row in view.of_lease(hold, renewals))
        for hit in hits
        for hold in holds_of(violation, view)
    )


def gave_up(violation: Violation, view: View, _hits: Hits) -> bool:
    """The holder's own client refused the inner acquire: it had noticed by then that it may have lost the lock."""
    return violation.kind == "nested-refused" and any(
        hold.believed <= violation.at + NOTICED for hold in holds_of(violation, view)
    )


def left_behind(violation: Violation, view: View, hits: Hits) -> bool:
    """A release of the key got no answer and its session lives on, or a wait for it during the fault got no grant."""
    key, inv, ret, session = (view.column(name) for name in ("key", "inv", "ret", "session"))
    keys = {key[row] for row in violation.rows}
    prolonged = {session[row]: inv[row] for row in view.rows(F.KEEP_ALIVE, outcomes=(Outcome.OK,))}
    released = view.rows(F.RELEASE, outcomes=(Outcome.INFO,))
    waited = view.rows(*ACQUIRES, outcomes=(Outcome.INFO, Outcome.FAIL))
    left = [row for row in released if session[row] and prolonged.get(session[row], 0) > inv[row]]
    left += [row for row in waited for hit in hits if inv[row] <= hit.over and max(ret[row], inv[row]) >= hit.begun]
    return violation.kind == "not-recovered" and any(inv[row] < violation.at and key[row] in keys for row in left)


# A client that does not look at the clock


def outlived_ttl(violation: Violation, view: View, _hits: Hits) -> bool:
    """A holder's lease could have ended, unnoticed, before its work was done. A slow answer hides who was earlier."""
    return violation.kind in BY_A_STALE_HOLDER and any(
        _outlived(hold, violation, view) for hold in holds_of(violation, view)
    )


def keepalive_died(violation: Violation, view: View, _hits: Hits) -> bool:
    """An earlier holder outlived its lease, and for a whole TTL nobody had asked to prolong the lease."""
    if violation.kind not in BY_A_STALE_HOLDER:
        return False
    inv, requests = view.column("inv"), view.rows(F.SESSION_OPEN, F.RENEW, F.KEEP_ALIVE)

    def silent(hold: Hold) -> bool:
        sent = [inv[row] for row in view.of_lease(hold, requests) if inv[row] <= violation.at]
        return max(sent, default=hold.start) + hold.ttl <= violation.at

    return any(_outlived(hold, violation, view) and silent(hold) for hold in in_order(violation, view)[:-1])


def answer_past_ttl(violation: Violation, view: View, _hits: Hits) -> bool:
    """An earlier holder's lease could have ended before its acquire returned, and the holder went in all the same."""
    return violation.kind in BY_A_LOST_LEASE and any(
        hold.start + hold.length <= hold.ret and hold.left > hold.ret for hold in in_order(violation, view)[:-1]
    )


def _outlived(hold: Hold, violation: Violation, view: View) -> bool:
    sent, done = last_deed(violation, hold, view)  # the holder may have noticed before another overwrote its write
    return hold.expiry <= done and sent < hold.believed


# A service that was not asked, or not the same one


def went_ahead(violation: Violation, view: View, _hits: Hits) -> bool:
    """A client gave itself a grant when it could not ask the service: no server gave a grant of the witness a TTL."""
    ttl = view.column("ttl")
    leased = view.facts.lease in ("grant", "quorum")
    return violation.kind in BY_A_LOST_LEASE and leased and any(ttl[row] == 0 for row in violation.holders)


def session_lost(violation: Violation, view: View, hits: Hits) -> bool:
    """A fault that may end sessions was active while an earlier holder counted on its session.

    An acquire in flight in the fault may have been granted before it, in a session that was over when the answer came.
    """
    moments = [(hit.begun, hit.over) for hit in hits if hit.kind in SESSION_KINDS]
    if cut_short(violation, view, moments):
        return True
    if violation.kind not in BY_A_LOST_LEASE or len(violation.holders) < 2:
        return False
    last = by_answer(holds_of(violation, view))[-1]
    return any(last.start <= end and begin <= last.ret for begin, end in moments)


def not_the_session(violation: Violation, _view: View, _hits: Hits) -> bool:
    """A pool between client and server may give each statement another session.

    A lock taken in one session is locked for whoever gets that session next, and stays if its release runs in another.
    """
    kinds = BY_A_LOST_LEASE | NEVER_FREED | {"released-anothers"}
    return violation.kind in kinds and bool(violation.holders)


# Numbers, order and waking


def client_clock(violation: Violation, view: View, hits: Hits) -> bool:
    """Tokens are the clients' clocks: each token of the key is what one clock, which may differ from ours, showed
    during the acquire, except for grants of a worker whose clock a fault had moved.
    """
    if violation.kind not in BY_A_LOST_COUNTER or len(violation.holders) < 2:
        return False
    skews = [(view.facts.worker_of(hit.process), hit) for hit in hits if hit.kind == "skew"]

    def moved(hold: Hold) -> bool:
        worker = view.worker(hold.row)
        return any(whose == worker and hit.begun <= hold.ret and hold.inv <= hit.over for whose, hit in skews)

    if any(map(moved, holds_of(violation, view))):
        return True
    holds = [hold for hold in view.holds.by_key[view.holds.by_row[violation.holders[0]].key] if not moved(hold)]
    return max(hold.token - hold.ret for hold in holds) <= min(hold.token - hold.inv for hold in holds) + SLEW


def opposite_order(violation: Violation, _view: View, _hits: Hits) -> bool:
    """Two clients took the same two locks in opposite order: that is what a circle of waiting is."""
    return violation.kind == "deadlock"


def woken_all(violation: Violation, _view: View, _hits: Hits) -> bool:
    """Everybody who waits watches the same thing: the kind says that more were woken than could get in."""
    return violation.kind == "herd"


def timers_set_back(violation: Violation, view: View, hits: Hits) -> bool:
    """The service ends waits by its wall clock, and a client was waiting, without an answer, when that was set.

    The service may wait on in the client's place, and hold what it held, until a clock set back has caught up.
    """
    if violation.kind != "not-recovered":
        return False
    inv, given_up = view.column("inv"), view.array("ret")
    unanswered = view.rows(F.ACQUIRE, outcomes=(Outcome.INFO,))
    moments = [span for hit in hits for span in ((hit.begun, hit.applied), (hit.healing, hit.healed)) if all(span)]
    return any(inv[row] <= end and begin <= given_up[row] for row in unanswered for begin, end in moments)


def hash_collision(violation: Violation, view: View, _hits: Hits) -> bool:
    """The service tells locks apart by a hash of their names, and another lock was held when this one was asked for."""
    if violation.kind == "kept-by-another-name":
        return bool(violation.holders)
    if violation.kind not in NEVER_FREED | {"not-recovered"} or not violation.rows:
        return False
    key, since = (view.column(name)[violation.rows[-1]] for name in ("key", "inv"))
    return any(hold.key != key and hold.ret <= violation.at and since < hold.left for hold in view.holds)


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
