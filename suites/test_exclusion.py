"""Does the service ever grant the lock twice, and are two clients ever inside at once?"""

import pytest

from suites.trial.case_answer import CaseAnswer


@pytest.mark.property("server-exclusion")
def test_server_exclusion(answer: CaseAnswer) -> None:
    """The service grants nothing while an earlier grant is in force."""
    answer.must_hold()


@pytest.mark.property("holder-exclusion")
def test_holder_exclusion(answer: CaseAnswer) -> None:
    """No two clients are inside at once. Every lease lock breaks this under a holder frozen past its TTL."""
    answer.must_hold()
