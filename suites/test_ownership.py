"""Can a release hit somebody else's lock?"""

import pytest

from suites.trial.case_answer import CaseAnswer


@pytest.mark.property("owner-release")
def test_owner_release(answer: CaseAnswer) -> None:
    """A client that no longer holds is not told that it has released: a late release frees no later holder's lock."""
    answer.must_hold()
