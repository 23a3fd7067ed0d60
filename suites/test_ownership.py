"""Can a release hit somebody else's lock?"""

import pytest

from suites.trial.case_answer import CaseAnswer


@pytest.mark.property("owner-release")
def test_owner_release(answer: CaseAnswer) -> None:
    """Who no longer holds is not told that it has released: a late release takes nothing from a later holder."""
    answer.must_hold()
