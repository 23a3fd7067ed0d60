"""Do read/write locks, semaphores and reentrant locks do what their names say?"""

import pytest

from suites.trial.case_answer import CaseAnswer


@pytest.mark.property("sharing")
def test_sharing(answer: CaseAnswer) -> None:
    """Readers exclude no reader. `test_exclusion` asks whether readers and writers exclude each other."""
    answer.must_hold()


@pytest.mark.property("permits")
def test_permits(answer: CaseAnswer) -> None:
    """Never more than N hold at once, and N can."""
    answer.must_hold()


@pytest.mark.property("reentrancy")
def test_reentrancy(answer: CaseAnswer) -> None:
    """A holder may acquire again and gets the same grant; an inner release frees nothing."""
    answer.must_hold()
