"""How long a worker waits for a lock, and a trial for its workers. All values are in seconds."""

from typing import Final

from infra.faults.all_faults import FAULTS
from suites.lanes.lane import Lane
from suites.selection.trial import Trial

START_WITHIN: Final = 60.0  # for one more worker to connect; on a cold machine all together take a few seconds
WARM_UP: Final = 5.0  # within this time every lane should have granted once, before the first fault
EXERCISED_WITHIN: Final = 20.0  # more, for what cannot be exercised after the first fault: a busy machine needs some
LINGER: Final = 3.0  # after each cycle (or a third of it, if longer) a trial waits for what needs no strike
DEADLINE: Final = 60.0  # after this time a trial whose workers have their full pace begins no further cycle
STORM_DEADLINE: Final = 15.0  # the same for a trial of random faults, of which one may mask another for good
STORE_TIMEOUT: Final = 0.5  # a worker waits so long for an answer of the store
_BEYOND_HOLD: Final = 1.0  # an acquire waits so much longer than a holder stays: then a dead one's lock is free
_BEYOND_BOUND: Final = 0.5  # a trial waits so much longer than a recovery bound for the lock to be granted again


def acquire_timeout(trial: Trial, lane: Lane) -> float:
    """For this time an acquire waits in the lane: as long as a holder stays, and longer."""
    longer = max((FAULTS[name].waits for name in trial.faults if name in FAULTS), default=0.0)
    return lane.ttl * lane.workload.holds + _BEYOND_HOLD + longer


def workers_end_within(trial: Trial) -> float:
    """Within this time the workers end after they were asked to."""
    return max(acquire_timeout(trial, lane) + lane.workload.waits for lane in trial.lanes) + _BEYOND_HOLD


def granted_again_within(lane: Lane) -> float:
    """Within this time after a heal the lane's lock should have been granted again."""
    workload = lane.workload
    # If the workload wants it (`returns`), all workers have held in turn by then, each for longer than a TTL.
    in_turn = lane.workers / len(workload.order) * 1.5 * lane.ttl if workload.returns else 0.0
    return lane.bounds.get("recovery", 0.0) + _BEYOND_BOUND + in_turn
