"""Do the members of a service hold the same?"""

import pytest

from suites.trial.case_answer import CaseAnswer


@pytest.mark.property("members-agree")
def test_members_agree(answer: CaseAnswer) -> None:
    """After the heal all members hold the same of the locks, and hold what the clients were told."""
    answer.must_hold()
