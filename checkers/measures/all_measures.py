"""All measures: what a lock history tells beyond valid and invalid.

Models and properties say whether a history is right. Measures count how near it came to being wrong, what was sent and
turned away, who waited for whom and for how long. Each measure is a function of a `MeasuredHistory` and is defined in
its docstring. If nothing stressed what it measures, a measure says why it is silent.
"""

from typing import Final

from checkers.history.history import History
from checkers.measures.availability import availability_gap, deadlock, recovery_after_heal
from checkers.measures.fairness import bypass, starvation
from checkers.measures.holders import (
    belief_versus_truth,
    clock_jump,
    definite_overlap,
    hold_versus_ttl,
    possible_overlap,
    release_by_non_owner,
)
from checkers.measures.latency import acquire_latency, release_latency
from checkers.measures.measure import Gauge, Measure
from checkers.measures.measured_history import MeasuredHistory
from checkers.measures.stale import dirty_value, lost_update, needless_rejection, stale_write, unfenced_stale_write
from checkers.measures.unanswered_grants import phantom_success, token_gap
from checkers.models.model import Settings

MEASURES: Final[tuple[Gauge, ...]] = (
    definite_overlap,
    possible_overlap,
    clock_jump,
    belief_versus_truth,
    release_by_non_owner,
    stale_write,
    unfenced_stale_write,
    needless_rejection,
    lost_update,
    dirty_value,
    phantom_success,
    token_gap,
    hold_versus_ttl,
    deadlock,
    availability_gap,
    recovery_after_heal,
    bypass,
    starvation,
    acquire_latency,
    release_latency,
)


def measures(history: History, settings: Settings | None = None) -> tuple[Measure, ...]:
    """In the order of `MEASURES`. settings: what a history from elsewhere does not say of itself: permits, TTL ..."""
    measured = MeasuredHistory(history, settings or Settings())
    return tuple(gauge(measured) for gauge in MEASURES)
