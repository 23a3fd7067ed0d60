"""Is the lock granted again soon after the fault is healed, after its holder died, or after it was released?"""

import pytest

from suites.trial.case_answer import CaseAnswer


@pytest.mark.property("recovery")
def test_recovery(answer: CaseAnswer) -> None:
    """Within the lock's declared bound after the last heal, clients get all of the lock, and each has an answer."""
    answer.must_hold()


@pytest.mark.property("crash-release")
def test_crash_release(answer: CaseAnswer) -> None:
    """A dead holder's lock is free within the TTL and a bound; so is a hung holder's, if that is promised."""
    answer.must_hold()


@pytest.mark.property("hand-over")
def test_hand_over(answer: CaseAnswer) -> None:
    """Away from faults, a released lock is granted within its declared bound to a client that waits, or tries."""
    answer.must_hold()
