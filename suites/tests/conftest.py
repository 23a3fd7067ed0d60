"""Fixtures that several modules share."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from results.run import Run
from suites.selection.selection import Selection
from suites.tests import bench
from suites.tests.bench import Bench, Fake, FakeSession, MakeWorker, Rich, a_spec
from suites.tests.selections import asked
from suites.tests.world import SEED, World
from suites.worker.process_spec import Spec
from suites.worker.worker import Worker
from suites.workloads.workload import Workload


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(Run.create(tmp_path, {}))
    monkeypatch.setattr("suites.trial.run_trials.OwnEnvironment", SimpleNamespace(start=world.start))
    monkeypatch.setattr("suites.trial.run_trials.run_trial", world.run_trial)
    return world


@pytest.fixture
def fences() -> Selection:
    """Two faults on seven lanes."""
    return asked(lock=["redis"], faults=["none", "freeze-holder"], seed=SEED)


@pytest.fixture
def both() -> Selection:
    """Two locks that share a trial."""
    return asked(lock=["redis", "redlock"], faults=["none"], seed=SEED)


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return a_spec(tmp_path)


@pytest.fixture(name="bench")
def keeper(spec: Spec) -> Iterator[Bench[Fake]]:
    with bench.at_work(spec, Fake()) as at_work:
        yield at_work


@pytest.fixture
def in_session(spec: Spec) -> Iterator[Bench[FakeSession]]:
    with bench.at_work(spec, FakeSession()) as at_work:
        yield at_work


@pytest.fixture
def a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeWorker:
    def make(workload: type[Workload], rounds: int = 0, **changes: Any) -> Worker:
        spelling = f"{workload.__module__}:{workload.__qualname__}"
        keys = ("a", "b", *map(str, range(workload.keys)))[: workload.keys]
        spec = replace(a_spec(tmp_path), workload=spelling, store_mode="unfenced", keys=keys, ttl=0.06)
        worker = bench.a_worker(replace(spec, **changes), Rich, monkeypatch)
        for _ in range(rounds):
            worker._round()
        return worker

    return make
