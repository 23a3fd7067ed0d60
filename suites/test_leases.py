"""Does a client know when its lease is over, and does the service tell the truth about it?"""

import pytest

from suites.trial.case_answer import CaseAnswer


@pytest.mark.property("honest-belief")
def test_honest_belief(answer: CaseAnswer) -> None:
    """No client thinks, beyond a bound that the lock declares, that it holds what the service has given to another."""
    answer.must_hold()


@pytest.mark.property("honest-renewal")
def test_honest_renewal(answer: CaseAnswer) -> None:
    """A renewal is acknowledged only to a client that still holds, and refused only to one that does not."""
    answer.must_hold()
