"""Is the first client served first? Does a release wake one waiter or all? Does a lock stand in the way of others?"""

import pytest

from suites.trial.case_answer import CaseAnswer


@pytest.mark.property("fifo")
def test_fifo(answer: CaseAnswer) -> None:
    """No client overtakes another that was in the queue before it asked."""
    answer.must_hold()


@pytest.mark.property("herd-free")
def test_herd_free(answer: CaseAnswer) -> None:
    """Each release wakes one waiter at most: O(1) and not O(n)."""
    answer.must_hold()


@pytest.mark.property("independence")
def test_independence(answer: CaseAnswer) -> None:
    """A client that asks for a lock that nobody holds gets it, whoever holds a lock of another name."""
    answer.must_hold()
