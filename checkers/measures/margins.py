"""How long locks were held, against how long their leases last."""

from typing import Final

import numpy as np

from checkers.history.counting import Ints, apart, quantile
from checkers.history.holds import effective
from checkers.measures.measured_history import MeasuredHistory
from checkers.measures.record import Reading, count, measure, ns, witnesses
from checkers.wire import INFINITY, F, Outcome

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
    twice = len(long)
    ordered = np.sort(margin)
    return Reading(
        (
            count("holds", len(holds)),
            ns("ttl", int(ttl.min())),
            ns("margin_min", int(ordered[0])),
            ns("margin_p1", quantile(ordered, 10)),
            ns("margin_p10", quantile(ordered, 100)),
            ns("margin_p50", quantile(ordered, 500)),
            ns("margin_p90", quantile(ordered, 900)),
            ns("longest_hold", int(lasted.max())),
            count("outlived", int(outlived.sum())),
            count("met_another", int((outlived & (measured.superseded < holds.left)).sum())),
            count("beyond_twice_ttl", twice),
        ),
        None,
        witnesses(holds.row[long]),
        f"{twice} of {len(holds)} holds lasted longer than {TWICE} TTLs" if twice else None,
    )


def _prolonged(measured: MeasuredHistory) -> Ints:
    """ns, for each grant; the last moment, before its client left, from which its lease certainly lasted its TTL."""
    holds, lease = measured.holds.columns, measured.facts.lease
    renewed = [max((inv for inv, _ in hold.renewals if inv < hold.left), default=0) for hold in measured.holds]
    own = np.maximum(np.array(renewed, np.int64), 0 if lease == "session" else holds.start)
    if lease not in ("touch", "session"):
        return own
    session = np.array([hold.session for hold in measured.holds], np.int64)
    signs = measured.rows(F.SESSION_OPEN, F.KEEP_ALIVE, outcomes=(Outcome.OK,))
    signed = [(measured.column("session")[row], measured.column("inv")[row]) for row in signs]
    if lease == "touch":
        signed += [(hold.session, hold.start) for hold in measured.holds]
        signed += [(hold.session, hold.freeing) for hold in measured.holds if hold.freeing < INFINITY]
    whose, when = np.array(signed, np.int64).reshape(-1, 2).T
    _, names = np.unique(np.concatenate((whose, session)), return_inverse=True)
    moments = apart((names[: len(whose)], when), (names[len(whose) :], holds.left))
    known = np.append(np.sort(moments.places[0]), -1)
    last = known[np.searchsorted(known[:-1], moments.places[1], "left") - 1]
    mine = (moments.key(last) == moments.key(moments.places[1])) & (session != 0)
    return np.maximum(own, np.where(mine, moments.time(np.where(mine, last, moments.places[1])), 0))
