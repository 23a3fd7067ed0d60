"""Is the lock granted again soon after the fault is healed?"""

from __future__ import annotations

import pytest

from suites.session import Answer


@pytest.mark.property("recovery")
def test_recovery(answer: Answer) -> None:
    """Within the lock's declared bound after the last heal somebody gets it."""
    answer.must_hold()
