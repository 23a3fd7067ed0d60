"""Who comes first, is it served first; does a release wake one waiter, or all; does a lock stand in others' way?"""

import pytest

from suites.trial.case_answer import CaseAnswer


@pytest.mark.property("fifo")
def test_fifo(answer: CaseAnswer) -> None:
    """Nobody overtakes who was in the queue before it asked."""
    answer.must_hold()


@pytest.mark.property("herd-free")
def test_herd_free(answer: CaseAnswer) -> None:
    """Each release wakes one waiter at most: O(1) and not O(n)."""
    answer.must_hold()


@pytest.mark.property("independence")
def test_independence(answer: CaseAnswer) -> None:
    """Who asks for a lock that nobody holds gets it, whoever holds one of another name."""
    answer.must_hold()
