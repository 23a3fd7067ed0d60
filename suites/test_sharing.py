"""Do read/write locks, semaphores and reentrant locks do what their names say?"""

import pytest

from suites.trial.session import Answer


@pytest.mark.property("sharing")
def test_sharing(answer: Answer) -> None:
    """Readers exclude no reader; that they and writers exclude each other is asked by `test_exclusion`."""
    answer.must_hold()


@pytest.mark.property("permits")
def test_permits(answer: Answer) -> None:
    """Never more than N hold at once, and N can."""
    answer.must_hold()


@pytest.mark.property("reentrancy")
def test_reentrancy(answer: Answer) -> None:
    """Who holds may acquire again, gets the same grant, and an inner release frees nothing."""
    answer.must_hold()
