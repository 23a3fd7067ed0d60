"""`honest-belief`: no client believes for long that it holds what the service has given to another, or may have.

When a belief must end follows from what the client was told: it is judged whether another was given the lock or not.
"""

from typing import Final

from checkers.claims import matches
from checkers.history.finding import Finding
from checkers.history.history import Facts
from checkers.history.holds_and_leases import Hold
from checkers.history.interval_sets import Span, length, moment, united, without
from checkers.history.order_of_grants import superseded
from checkers.history.view import View
from checkers.properties.property import Examined, Need, Property
from checkers.properties.shared_counters import Exercise, lock_unexercised, stalls_by_worker, unless

ENDED: Final = ("freeze-*", "late-write", "stall-renewal", "kill-renewal")
"""Faults under which the leases of some holders end."""
ALL_KNOWN: Final = ("grant", "quorum")
"""Kinds of leases that nothing prolongs but what is recorded: a session may be kept alive by pings that are not."""
NOTICED: Final = "losses noticed"
LONGEST: Final = "longest false belief (ms)"


def _examine(view: View) -> Examined:
    """Whether every belief ended within the bound after the lease could have ended, and after another was certainly
    given the lock: checkers/CONDITIONS.md, section 11.

    A client that did not run when it was due to notice its loss is not blamed for noticing late: whatever it does first
    is to look at its clock. Where there is no lease it learns of its loss by asking.
    """
    bound, known = view.facts.bounds.get(BELIEF.id), view.facts.lease in ALL_KNOWN
    following = superseded(view)
    findings: list[Finding] = []
    longest = 0
    for hold in view.holds:
        given, later = following[hold.row]
        ended = belief_end(hold)
        lasted = without([(given, ended)], _stalls(view, hold)) if ended > max(given, hold.ret) else []
        if lasted:
            longest = max(longest, ended - max(given, hold.ret))
        if bound is not None and length(lasted) > bound:
            at = max(moment(lasted, bound), hold.ret)
            findings.append(Finding("believed-too-long", at, (hold.row, later), (hold.row, later)))
        elif bound is not None and known and not hold.open and ended > (due := max(hold.expiry + bound, hold.ret)):
            findings.append(Finding("believed-past-lease", due, (hold.row,), (hold.row,)))
    return Examined(findings, {LONGEST: -(-longest // 1_000_000)})


def _exercise(view: View) -> Exercise:
    noticed = sum(hold.lost >= 0 for hold in view.holds)
    missing = lock_unexercised(view) or unless(noticed, "no client held on until its lease could have ended")
    return Exercise(missing, {NOTICED: noticed})


def _unexpected(facts: Facts) -> str | None:
    ends = facts.lease != "none" and any(matches(fault, ENDED) for fault in facts.fault_names)
    return unless(ends, "nothing makes a holder outlive its lease")


def _stalls(view: View, hold: Hold) -> list[Span]:
    if view.facts.lease != "none":
        return []
    return united(view.once(stalls_by_worker).get(view.worker(hold.row), ()))


def belief_end(hold: Hold) -> int:
    """ns; the latest moment at which the client can have believed that it holds."""
    return min(hold.left, hold.believed)


BELIEF: Final = Property(
    "honest-belief",
    _examine,
    _exercise,
    needs=frozenset({Need.EXCLUDES, Need.ONE_PERMIT}),
    bounded=True,
    unexpected=_unexpected,
)
