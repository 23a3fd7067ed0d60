"""What all tests have in common: `python -m results`, as a test asks it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from results.__main__ import main
from results.run import Run
from results.tests.test_damage import RUNS

settings.register_profile("shared-machine", deadline=None)  # how long an example takes says nothing on a busy one
settings.load_profile("shared-machine")

Results = Callable[..., tuple[int, str, str]]
"""Status and both outputs of `python -m results` with these words."""


@pytest.fixture
def results(capsys: pytest.CaptureFixture[str]) -> Results:
    def asked(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        return main([*map(str, words)]), *capsys.readouterr()

    return asked


@pytest.fixture(params=sorted(RUNS))
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    return Run(shutil.copytree(RUNS[request.param], tmp_path / "runs" / RUNS[request.param].name))
