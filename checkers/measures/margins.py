"""How long locks were held, against how long their leases last."""

from bisect import bisect_left
from collections import defaultdict
from typing import Final

import numpy as np

from checkers.history.counting import Ints, quantile
from checkers.history.holds_and_leases import IN_SESSIONS, Hold, effective
from checkers.measures.measure import Reading, count, measure, ns, witnesses
from checkers.measures.measured_history import MeasuredHistory
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
