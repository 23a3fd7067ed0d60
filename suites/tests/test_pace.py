"""Workers work more slowly where there are more of them than the machine carries, whoever else of the run has some."""

import os

import pytest

from suites.trial import run_trial


@pytest.mark.parametrize(
    ("cores", "processes", "workers"),
    [(2, None, 20), (2, 1, 20), (2, 2, 10), (4, 2, 20), (16, 2, 20), (1, 1, 10), (None, 1, 20)],
)
def test_as_many_as_the_cores_carry(
    monkeypatch: pytest.MonkeyPatch, cores: int | None, processes: int | None, workers: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
    if processes is not None:
        monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", str(processes))
    assert run_trial.fit() == workers
