"""Is the lock granted again soon after the fault is healed, after its holder died, or after it was released?"""

import pytest

from suites.trial.case_answer import CaseAnswer


@pytest.mark.property("recovery")
def test_recovery(answer: CaseAnswer) -> None:
    """Within the lock's declared bound after the last heal somebody gets it."""
    answer.must_hold()


@pytest.mark.property("crash-release")
def test_crash_release(answer: CaseAnswer) -> None:
    """What a dead holder held is free within the TTL and a bound; so is, where that is promised, a hung one's."""
    answer.must_hold()


@pytest.mark.property("hand-over")
def test_hand_over(answer: CaseAnswer) -> None:
    """Away from faults a released lock is granted to somebody who waits within the lock's declared bound."""
    answer.must_hold()
