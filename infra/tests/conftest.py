from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from infra.environment import Environment
from infra.faults.process import OneProcess
from infra.faults.target import MonotonicClock, Target

settings.register_profile("shared-machine", deadline=None)  # how long an example takes says nothing on a busy one
settings.load_profile("shared-machine")


@pytest.fixture(scope="session")
def environment() -> Iterator[Environment]:
    """The one environment of this test process; backends come with `ensure`, and who applies a fault heals it."""
    environment = Environment.start()
    yield environment
    environment.close()


@pytest.fixture
def target(environment: Environment, request: pytest.FixtureRequest) -> Iterator[Target]:
    """What faults are done to, without workers: `infra.tests.hurting.on` names the backends. Clean before and after."""
    environment.ensure(request.param)
    target = Target.of(environment, request.param, OneProcess(None, 1.0), MonotonicClock())
    assert environment.unclean() == []
    yield target
    left = environment.unclean()
    if left:
        environment.heal()  # the tests that follow are not to blame
    assert left == []
