"""Do tokens increase with every grant, and does the store refuse what comes too late?"""

import pytest

from suites.trial.case_answer import CaseAnswer


@pytest.mark.property("token-order")
def test_token_order(answer: CaseAnswer) -> None:
    """Each grant has a larger token than every grant before it."""
    answer.must_hold()


@pytest.mark.property("fenced-store")
def test_fenced_store(answer: CaseAnswer) -> None:
    """The store accepts no access that a later holder's access has overtaken, and refuses no other."""
    answer.must_hold()
