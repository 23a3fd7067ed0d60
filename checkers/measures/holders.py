"""How long locks were held, who thought that it held what another had, and who released it."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import Final

import numpy as np

from checkers.history.counting import Ints, quantile
from checkers.history.holds_and_leases import IN_SESSIONS, Hold, effective
from checkers.history.order_of_grants import superseded
from checkers.measures.measure import WITNESSES, Reading, count, measure, ns, witnesses
from checkers.measures.measured_history import MeasuredHistory
from checkers.properties.honesty import BELIEF, belief_end
from checkers.properties.releases import OWNER_RELEASE, STALE_RELEASES
from checkers.row_format import INFINITY, F, Outcome

TWICE: Final = 2
"""TTLs after which a hold is told: its job is longer than its lease was made for, or its holder hangs."""


@measure("hold-versus-ttl", "no_lock", "endless", "untimed")
def hold_versus_ttl(measured: MeasuredHistory) -> Reading:
    """What was left of each lease when its holder left: the margins, and the holds that outlived their lease or lasted
    longer than twice its TTL.

    A hold lasts from the request that won it to when the client left (asked for the release, or noticed the loss; else
    the last thing recorded of it). Its margin is the earliest expiry, as far as it had been put off by then, less that
    moment: negative where the holder was there when its lease can have been over. Acknowledged renewals, and what
    prolongs the session that a lease belongs to, count from their invocation. Of the holds that `outlived` their lease
    so many `met_another`: were there when somebody else had certainly been given the lock. Quantiles: p1 is the value
    that one hundredth of the margins do not exceed. See checkers/CONDITIONS.md, section 22.
    """
    holds = measured.holds.columns
    ttl = np.array([effective(hold.ttl, measured.facts) for hold in measured.holds], np.int64)
    margin = _prolonged(measured) + ttl - holds.left
    lasted = holds.left - holds.start
    outlived = margin < 0
    long = np.flatnonzero((lasted > TWICE * ttl) & (ttl > 0))
    long = long[np.argsort(-lasted[long], kind="stable")]
    ordered = np.sort(margin)
    return Reading(
        (
            count("holds", len(holds)),
            ns("ttl", int(ttl.min())),
            ns("margin_min", int(ordered[0])),
            *(ns(f"margin_p{percent}", quantile(ordered, 10 * percent)) for percent in (1, 10, 50, 90)),
            ns("longest_hold", int(lasted.max())),
            count("outlived", int(outlived.sum())),
            count("met_another", int((outlived & (measured.superseded < holds.left)).sum())),
            count("beyond_twice_ttl", len(long)),
        ),
        None,
        witnesses(holds.row[long]),
        f"{len(long)} of {len(holds)} holds lasted longer than {TWICE} TTLs" if len(long) else None,
    )


def _prolonged(measured: MeasuredHistory) -> Ints:
    """ns, for each grant; the last moment, before its client left, from which its lease certainly lasted its TTL."""
    lease, signs = measured.facts.lease, defaultdict[int, list[int]](list)
    for row in measured.rows(F.SESSION_OPEN, F.KEEP_ALIVE, outcomes=(Outcome.OK,)) if lease in IN_SESSIONS else ():
        signs[measured.column("session")[row]].append(measured.column("inv")[row])
    for hold in measured.holds if lease == "touch" else ():
        signs[hold.session] += [hold.start, *([hold.freeing] if hold.freeing < INFINITY else [])]
    ordered = {session: sorted(moments) for session, moments in signs.items() if session}

    def last(hold: Hold) -> int:
        own = [inv for inv, _ in hold.renewals if inv < hold.left]
        its = ordered.get(hold.session, [])
        return max(0 if lease == "session" else hold.start, *own, *its[: bisect_left(its, hold.left)][-1:], 0)

    return np.array([last(hold) for hold in measured.holds], np.int64)


@measure("release-by-non-owner", "unreleased", judged_by=OWNER_RELEASE.id)
def release_by_non_owner(measured: MeasuredHistory) -> Reading:
    """Releases that were acknowledged although whoever sent them certainly did not hold the lock.

    `superseded`: sent after another had been given the lock for certain, which `owner-release` judges; `attempted`
    counts these however they ended. `stranger`, in histories from elsewhere, which name holders: of one holder and key,
    more releases were acknowledged by then than acquires can have been granted. A service that answers so to everybody
    (a delete that finds nothing) is wrong about nothing but the word.
    """
    result = measured.result(OWNER_RELEASE)
    strangers = _strangers(measured) if measured.foreign else []
    rows = [*(violation.rows for violation in result.violations[:WITNESSES]), *((row,) for row in strangers)]
    return Reading(
        (
            count("superseded", len(result.violations)),
            count("attempted", result.counters[STALE_RELEASES]),
            count("stranger", len(strangers)),
        ),
        None if strangers else result.unexercised,
        tuple(rows[:WITNESSES]),
        "a release by somebody else was acknowledged" if rows else None,
    )


@measure("belief-versus-truth", "no_lock", "crowded", judged_by=BELIEF.id)
def belief_versus_truth(measured: MeasuredHistory) -> Reading:
    """How often, and for how long, a client thought that it held what another had certainly been given.

    False from the return of the acquire that certainly came later (its own acquire's return, if that was later), to
    when the client asked for the release or was due to notice its loss. `probed` counts the times at which a client was
    asked in between, and said that it holds. `honest-belief` judges it against the lock's bound.
    """
    following = superseded(measured)
    spans = [
        (belief_end(hold) - max(given, hold.ret), hold.row, later)
        for hold in measured.holds
        for given, later in [following[hold.row]]
        if belief_end(hold) > max(given, hold.ret)
    ]
    lasted = [span[0] for span in spans]
    inv = measured.column("inv")
    probed = sum(
        inv[row] > following[hold.row][0]
        for row in measured.rows(F.BELIEF, outcomes=(Outcome.OK,))
        for hold in [measured.hold_of(row)]
        if hold is not None
    )
    spans.sort(key=lambda span: (-span[0], span[1]))
    known = measured.in_ns
    return Reading(
        (
            count("false", len(spans)),
            count("probed", probed),
            ns("longest", max(lasted, default=0) if known else None),
            ns("total", sum(lasted) if known else None),
            ns("bound", measured.facts.bounds.get(BELIEF.id)),
        ),
        measured.idle,
        tuple((row, later) for _, row, later in spans[:WITNESSES]),
        "a client believed what was no longer true" if spans or probed else None,
    )


def _strangers(measured: MeasuredHistory) -> list[int]:
    """Rows of acknowledged releases by holders of whom more were acknowledged than can have been granted.

    Each release that was acknowledged before took one of the acquires that can have been granted by the end of this.
    """
    key, owner, inv, ret = (measured.recorded.columns[name].tolist() for name in ("key", "owner", "inv", "ret"))
    released = measured.whole(F.RELEASE, outcomes=(Outcome.OK,))
    came, done = defaultdict[tuple[int, int], list[int]](list), defaultdict[tuple[int, int], list[int]](list)
    for row in measured.attempts(Outcome.OK, Outcome.INFO):
        came[key[row], owner[row]].append(inv[row])
    for row in sorted(released, key=ret.__getitem__):
        done[key[row], owner[row]].append(ret[row])
    return [
        row
        for row in released
        for whose in [(key[row], owner[row])]
        if bisect_left(done[whose], inv[row]) >= bisect_right(came[whose], ret[row])
    ]
