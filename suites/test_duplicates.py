"""Is a job done twice, is an item sold twice?"""

import pytest

from suites.trial.case_answer import CaseAnswer


@pytest.mark.property("no-duplicate")
def test_no_duplicate(answer: CaseAnswer) -> None:
    """What an efficiency lock is for: each job is done once."""
    answer.must_hold()
