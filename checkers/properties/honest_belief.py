"""`honest-belief`: no client believes for long that it holds what the service has given to another.

An expired lease alone breaks nothing: the belief does no harm while nobody else has the lock.
"""

from typing import Final

from checkers.history.finding import Finding
from checkers.history.holds_and_leases import Hold
from checkers.history.interval_sets import Span, length, moment, united, without
from checkers.history.order_of_grants import superseded
from checkers.history.view import View
from checkers.properties.property import Examined, Need, Property
from checkers.properties.shared_counters import Exercise, lock_unexercised, stalls_by_worker

NOTICED: Final = "losses noticed"
LONGEST: Final = "longest false belief (ms)"


def _examine(view: View) -> Examined:
    """Whether every belief ended within the bound after another was certainly given the lock: checkers/CONDITIONS.md,
    section 11.

    A client that did not run when it was due to notice its loss is not blamed for noticing late: whatever it does first
    is to look at its clock. Where there is no lease it learns of its loss by asking.
    """
    bound = view.facts.bounds.get(BELIEF.id)
    following = superseded(view)
    findings: list[Finding] = []
    longest = 0
    for hold in view.holds:
        given, later = following[hold.row]
        ended = belief_end(hold)
        if ended > hold.ret and ended > given:
            longest = max(longest, ended - max(given, hold.ret))
            lasted = without([(given, ended)], _stalls(view, hold))
            if bound is not None and length(lasted) > bound:
                at = max(moment(lasted, bound), hold.ret)
                findings.append(Finding("believed-too-long", at, (hold.row, later), (hold.row, later)))
    return Examined(findings, {LONGEST: -(-longest // 1_000_000)})


def _exercise(view: View) -> Exercise:
    return Exercise(lock_unexercised(view), {NOTICED: sum(hold.lost >= 0 for hold in view.holds)})


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
)
