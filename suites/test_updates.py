"""Is an acknowledged update ever lost?"""

import pytest

from suites.trial.case_answer import CaseAnswer


@pytest.mark.property("no-lost-update")
def test_no_lost_update(answer: CaseAnswer) -> None:
    """Every acknowledged element is in the final set."""
    answer.must_hold()
