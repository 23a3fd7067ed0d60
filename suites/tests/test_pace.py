"""Workers work more slowly where there are more of them than the machine carries, whoever else of the run has some."""

import os
import time

import pytest

from suites.trial import pace


@pytest.mark.parametrize(
    ("cores", "processes", "workers"),
    [(2, None, 120), (2, 1, 120), (2, 2, 60), (4, 2, 120), (16, 2, 120), (1, 1, 60), (None, 1, 120)],
)
def test_as_many_as_the_cores_carry(
    monkeypatch: pytest.MonkeyPatch, cores: int | None, processes: int | None, workers: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
    if processes is not None:
        monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", str(processes))
    assert pace.fit() == workers
    assert pace.fit(0.5) == workers / 2


def test_the_share_of_a_core_is_what_was_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that runs twice as fast as the time that we are given."""
    real = time.thread_time
    monkeypatch.setattr(time, "perf_counter", lambda: 2 * real())
    assert pace.share_of_a_core() == pytest.approx(0.5, abs=0.02)
