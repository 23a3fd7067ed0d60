"""All measures: what a lock history tells beyond valid and invalid.

Models and properties say whether a history is right. Measures count how near it came to being wrong, what was sent and
turned away, who waited for whom and for how long. Each measure is a function of a `MeasuredHistory` and is defined in
its docstring. If nothing stressed what it measures, a measure says why it is silent.
"""

from typing import Final

from checkers.history.history import History
from checkers.measures import availability, fairness, holders, latency, stale, unanswered_grants
from checkers.measures.measure_result import Gauge, Measure
from checkers.measures.measured_history import MeasuredHistory
from checkers.models.model import Settings

MEASURES: Final[tuple[Gauge, ...]] = (
    holders.definite_overlap,
    holders.possible_overlap,
    holders.clock_jump,
    holders.belief_versus_truth,
    holders.release_by_non_owner,
    stale.stale_write,
    stale.unfenced_stale_write,
    stale.needless_rejection,
    stale.lost_update,
    stale.dirty_value,
    unanswered_grants.phantom_success,
    unanswered_grants.token_gap,
    holders.hold_versus_ttl,
    availability.deadlock,
    availability.availability_gap,
    availability.recovery_after_heal,
    fairness.bypass,
    fairness.starvation,
    latency.acquire_latency,
    latency.release_latency,
)


def measures(history: History, settings: Settings | None = None) -> tuple[Measure, ...]:
    """In the order of `MEASURES`. settings: what a history from elsewhere does not say of itself: permits, TTL ..."""
    measured = MeasuredHistory(history, settings or Settings())
    return tuple(gauge(measured) for gauge in MEASURES)
