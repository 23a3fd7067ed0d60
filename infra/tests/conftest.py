from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.environment import Environment


@pytest.fixture(scope="session")
def environment() -> Iterator[Environment]:
    """The one environment of this test process; backends come with `ensure`, and who applies a fault heals it."""
    environment = Environment.start()
    yield environment
    environment.close()
