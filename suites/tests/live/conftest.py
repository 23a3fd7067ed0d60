"""Tests on real servers."""

from collections.abc import Iterator

import pytest

from infra.own_environment import OwnEnvironment
from infra.tests.environments import environment, pytest_collection_finish, pytest_itemcollected, pytest_sessionfinish
from suites.tests.live.lanes import Lanes
from suites.tests.live.patience import wait_for_answers

__all__ = ["environment", "pytest_collection_finish", "pytest_itemcollected", "pytest_sessionfinish"]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of locks in this process wait for answers while the machine stalls. Workers are other processes."""
    wait_for_answers(monkeypatch)


@pytest.fixture
def lanes(
    request: pytest.FixtureRequest, environment: OwnEnvironment, subtests: pytest.Subtests, patient: None
) -> Iterator[Lanes]:
    lanes = Lanes(environment, subtests, request.node.name)
    yield lanes
    lanes.close()
