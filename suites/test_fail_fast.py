"""Does a call end in time, whatever the service does?"""

import pytest

from suites.trial.case_answer import CaseAnswer


@pytest.mark.property("fail-fast")
def test_fail_fast(answer: CaseAnswer) -> None:
    """No call takes longer than its timeout and the margin that the lock states, however dead the backend is.

    No acquire gives up before its timeout by more than that margin.
    """
    answer.must_hold()
