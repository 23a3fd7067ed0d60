"""Is a job done twice, is an item sold twice?"""

import pytest

from suites.trial.case_answer import CaseAnswer


@pytest.mark.property("no-duplicate")
def test_no_duplicate(answer: CaseAnswer) -> None:
    """Each job is done once: that is what an efficiency lock is for."""
    answer.must_hold()
