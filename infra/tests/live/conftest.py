"""Tests on real servers."""

import pytest

from infra.tests.environments import (
    environment,
    pytest_collection_finish,
    pytest_itemcollected,
    pytest_sessionfinish,
    target,
)
from infra.tests.live.hurting import be_patient

__all__ = ["environment", "pytest_collection_finish", "pytest_itemcollected", "pytest_sessionfinish", "target"]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch.setattr)
