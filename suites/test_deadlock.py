"""Do two locks, taken together, wait for each other?"""

import pytest

from suites.trial.case_answer import CaseAnswer


@pytest.mark.property("deadlock-free")
def test_deadlock_free(answer: CaseAnswer) -> None:
    """No cycle of holders that wait for each other lasts longer than a TTL."""
    answer.must_hold()
