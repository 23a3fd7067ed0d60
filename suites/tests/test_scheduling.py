"""What pytest collects, which starts nothing, in which order, and which of its processes runs it."""

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from infra.backends import BACKENDS
from results.stages import BASELINE, CANDIDATE
from suites.locks import registry
from suites.scheduling import ByBackend
from suites.selection.selection import Selection, case_id
from suites.selection.upgrade_stages import in_turn
from suites.tests.selections import USAGE, asked, collected, upgrading
from suites.worker.pool import ROOT


@dataclass(eq=False)
class Node:
    """A process, as xdist sees it: takes the numbers of tests."""

    gateway: Any
    todo: list[int] = field(default_factory=list)
    shutting_down: bool = False

    def send_runtest_some(self, numbers: Iterable[int]) -> None:
        self.todo += numbers

    def shutdown(self) -> None:
        self.shutting_down = True


def ran(run: Selection, processes: int) -> list[list[tuple[str, str, str]]]:
    """For each process the trials that it runs, in order, where all take as long: backend, column and stage."""
    where = {}
    for backend in run.backends:
        for number, fault in enumerate(run.faults):
            for stage in in_turn(run.stages, number):
                for lane in (*run.lanes, *run.planted):
                    if lane.backend == backend and run.tries(lane, fault) and stage.tries(fault):
                        for name in ("one", "another", "a third"):
                            where[f"{name}[{case_id(lane, fault, stage.name)}]"] = (backend, fault, stage.name)
    tests = list(where)
    option = SimpleNamespace(tx=["popen"] * processes, loadscopereorder=True)
    config = SimpleNamespace(option=option, getvalue=vars(option).get)
    scheduler = ByBackend(run, cast(pytest.Config, config), SimpleNamespace(loadscopesched=lambda *_: None))
    nodes = [Node(SimpleNamespace(id=f"gw{number}")) for number in range(processes)]
    for node in nodes:
        scheduler.add_node(node)
        scheduler.add_node_collection(node, tests)
    scheduler.schedule()
    done: list[list[tuple[str, str, str]]] = [[] for _ in nodes]
    while any(node.todo for node in nodes):
        for node, mine in zip(nodes, done, strict=True):
            if node.todo:
                trial = where[tests[node.todo[0]]]
                while node.todo and where[tests[node.todo[0]]] == trial:
                    scheduler.mark_test_complete(node, node.todo.pop(0))
                mine.append(trial)
    assert sum(map(len, done)) == len(set(where.values()))
    return done


def test_each_backend_is_booted_once_and_the_last_one_is_shared() -> None:
    run = asked(lock=["redis", "zookeeper", "etcd"], faults=["none", "kill-holder", "freeze-holder"])
    assert run.backends == ("redis", "zookeeper", "etcd")
    first, second = ran(run, 2)
    booted = [{backend for backend, _, _ in mine} for mine in (first, second)]
    assert [one - {"etcd"} for one in booted] == [{"redis"}, {"zookeeper"}]
    assert booted[0] | booted[1] == {"redis", "zookeeper", "etcd"}


def test_two_processes_try_a_version_each_and_columns_in_step() -> None:
    faults = ["none", "kill-holder", "freeze-holder", "late-write"]
    old, new = ran(upgrading(faults=faults), 2)
    assert old == [("redis", fault, BASELINE) for fault in faults]
    assert new == [("redis", fault, CANDIDATE) for fault in faults]


def test_what_has_an_environment_of_its_own_comes_before_the_other_version() -> None:
    for mine in ran(upgrading(), 2):
        stages = [stage for _, _, stage in mine]
        alone = [stage for stage in stages if stage in (BASELINE, CANDIDATE)]
        assert len(set(alone)) == 1
        assert stages[: len(alone)] == alone
        assert len(stages) > len(alone)


def test_of_three_nobody_is_idle() -> None:
    lengths = [len(mine) for mine in ran(upgrading(), 3)]
    assert max(lengths) - min(lengths) <= 2


class TestCollecting:
    def test_starts_nothing_and_writes_nothing(self, tmp_path: Path) -> None:
        """Without an engine to be had, without a folder for results, and without a subprocess."""
        runs = tmp_path / "runs"
        program = (
            "import sys, pytest\n"
            "def forbidden(event, args):\n"
            "    if event in ('subprocess.Popen', 'socket.connect', 'os.fork', 'os.mkdir'):\n"
            "        sys.exit(f'{event} {args}')\n"
            "sys.addaudithook(forbidden)\n"
            "sys.exit(pytest.main(sys.argv[1:]))"
        )
        argv = ["suites/", "--collect-only", "-q", "-p", "no:cacheprovider", "--results", str(runs), "--profile=smoke"]
        command = [sys.executable, "-B", "-c", program, *argv]
        env = {**os.environ, "DOCKER_HOST": "tcp://127.0.0.1:9"}
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        assert "redis/register/unfenced-freeze-holder" in done.stdout
        assert not runs.exists()

    def test_the_tests_of_one_trial_stand_together(self) -> None:
        done = collected("--lock", "redis", "--lock", "etcd", "--faults", "none,freeze-holder")
        assert done.stderr == "", "not a word of the client libraries"
        assert "suites/tests" not in done.stdout, "the project's own tests are not the product"
        trials = [
            (line.partition("[")[2].partition("/")[0], line.rstrip("]").endswith("-none"))
            for line in done.stdout.splitlines()
            if "[" in line and "NOTSET" not in line
        ]
        assert len(trials) > 20
        assert len([1 for one, other in pairwise(trials) if one != other]) == 3

    def test_a_word_too_many_is_said_before_anything_begins(self, tmp_path: Path) -> None:
        """That is what `--faults none freeze-holder` is; pytest by itself would say so when the run has its folder."""
        done = collected("--faults", "none", "freeze-holder", "--results", str(tmp_path))
        assert done.returncode == USAGE
        assert "not found: freeze-holder (an option takes one value: --faults a,b" in done.stderr


def test_the_help_of_an_option_names_what_there_is() -> None:
    text = " ".join(collected("--help").stdout.split())
    assert ", ".join(registry.LOCKS) in text
    assert ", ".join(BACKENDS) in text
    assert "results/runs" in text
