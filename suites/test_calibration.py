"""Is what is broken on purpose found out? Asked where an upgrade is certified: it tells what could have been seen."""

import pytest

from suites.trial.case_answer import CaseAnswer


@pytest.mark.planted
def test_planted_bug(answer: CaseAnswer) -> None:
    """The property that names the bug is violated, with a witness."""
    answer.must_be_caught()
