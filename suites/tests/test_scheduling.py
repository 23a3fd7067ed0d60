"""Which process of pytest-xdist runs which tests."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from results.stages import BASELINE, CANDIDATE
from suites.scheduling import ByBackend
from suites.selection.selection import Selection, case_id
from suites.selection.upgrade_stages import in_turn
from suites.tests.selections import asked, upgrading


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
