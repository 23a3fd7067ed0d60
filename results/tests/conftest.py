"""Fixtures of all tests: `python -m results` as a function, and a stored run of each format."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from results.__main__ import main
from results.run import Run
from results.tests.test_damage import RUNS

settings.register_profile("shared-machine", deadline=None)  # on a busy machine, an example may take long
settings.load_profile("shared-machine")

Results = Callable[..., tuple[int, str, str]]
"""Calls `python -m results` with these words. Returns its exit status and both outputs."""


@pytest.fixture
def results(capsys: pytest.CaptureFixture[str]) -> Results:
    def asked(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        return main([*map(str, words)]), *capsys.readouterr()

    return asked


@pytest.fixture(params=sorted(RUNS))
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    return Run(shutil.copytree(RUNS[request.param], tmp_path / "runs" / RUNS[request.param].name))
