"""Are planted bugs found? Asked when an upgrade is certified: the answer tells what the run could have seen."""

import pytest

from suites.trial.case_answer import CaseAnswer


@pytest.mark.planted
def test_planted_bug(answer: CaseAnswer) -> None:
    """The property that must find the bug is violated, with a witness."""
    answer.must_be_caught()
