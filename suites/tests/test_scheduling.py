"""What pytest collects, without starting anything, and which of its processes and which shard runs which part of it."""

import os
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pytest

from checkers.properties.all_properties import PROPERTIES
from infra.backends import BACKENDS
from infra.faults.plan import Plan, Step
from results.stages import BASELINE, CANDIDATE
from suites.locks import registry
from suites.plugin import ByBackend
from suites.selection.bad_option import BadOption
from suites.selection.selection import Selection, case_id
from suites.selection.shards import LASTS, OWN, Shard, cut, expected, parse
from suites.selection.upgrade_stages import in_turn
from suites.tests.bench import ENDS
from suites.tests.selections import USAGE, asked, collected, refused, upgrading
from suites.worker.pool import ROOT


def process(number: int) -> Mock:
    """A process of pytest as xdist sees it: it takes the numbers of tests."""
    made = Mock(gateway=SimpleNamespace(id=f"gw{number}"), todo=[], shutting_down=False)
    made.send_runtest_some.side_effect = made.todo.extend
    made.shutdown.side_effect = lambda: made.configure_mock(shutting_down=True)
    return made


def ran(run: Selection, processes: int) -> list[list[tuple[str, str, str]]]:
    """For each process its trials (backend, column, stage) in order, if all trials take equally long."""
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
    nodes = [process(number) for number in range(processes)]
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


def test_the_trials_of_the_shared_backend_begin_with_the_longest() -> None:
    run = asked(lock=["etcd"], faults=["none", "kill-holder", "at-every-request-freeze", "pause-server"])
    seconds = {trial.column: trial.seconds for trial in run.trials()}
    for mine in ran(run, 2):
        lengths = [seconds[column] for _, column, _ in mine]
        assert len(lengths) == 2
        assert lengths[0] >= lengths[1]
    assert max(seconds, key=lambda column: seconds[column]) == "at-every-request-freeze"


def test_two_processes_try_a_version_each_and_columns_in_step() -> None:
    faults = ["none", "kill-holder", "freeze-holder", "late-write"]
    old, new = ran(upgrading(faults=faults), 2)
    assert old == [("redis", fault, BASELINE) for fault in faults]
    assert new == [("redis", fault, CANDIDATE) for fault in faults]


def test_a_process_tries_one_version_and_then_other_stages_and_none_of_three_is_idle() -> None:
    for mine in ran(upgrading(), 2):
        stages = [stage for _, _, stage in mine]
        alone = [stage for stage in stages if stage in (BASELINE, CANDIDATE)]
        assert len(set(alone)) == 1
        assert stages[: len(alone)] == alone
        assert len(stages) > len(alone)
    lengths = [len(mine) for mine in ran(upgrading(), 3)]
    assert max(lengths) - min(lengths) <= 2


class TestCollecting:
    def test_collecting_starts_nothing_and_writes_nothing(self, tmp_path: Path) -> None:
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
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=ENDS)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        assert "redis/register/unfenced-freeze-holder" in done.stdout
        assert not runs.exists()

    def test_the_tests_of_one_trial_stand_together(self) -> None:
        done = collected("--lock", "redis", "--lock", "etcd", "--faults", "none,freeze-holder")
        assert done.stderr == "", "not a word of the client libraries"
        assert "suites/tests" not in done.stdout, "the project's own tests are not the product"
        tests = (line for line in done.stdout.splitlines() if "[" in line and "NOTSET" not in line)
        trials = [(test.partition("[")[2].partition("/")[0], test.rstrip("]").endswith("-none")) for test in tests]
        assert len(trials) > 20
        assert len([1 for one, other in pairwise(trials) if one != other]) == 3

    def test_a_word_too_many_is_said_before_anything_begins(self, tmp_path: Path) -> None:
        done = collected("--faults", "none", "freeze-holder", "--results", str(tmp_path))
        assert done.returncode == USAGE
        assert "not found: freeze-holder (an option takes one value: --faults a,b" in done.stderr


def test_the_help_of_an_option_names_what_there_is() -> None:
    text = " ".join(collected("--help").stdout.split())
    assert ", ".join(registry.LOCKS) in text
    assert ", ".join(BACKENDS) in text
    assert "results/runs" in text


@cache
def whole(profile: str) -> Selection:
    return asked(profile=profile)


def questions(run: Selection) -> list[tuple[str, str, str]]:
    """(property, lane, fault) of every test, those that cannot be asked included."""
    return [(name, case.lane.name, case.fault) for name in PROPERTIES for case in run.cases(name)]


def needed(run: Selection) -> list[str]:
    """The trials that the shard's tests rest on."""
    asked_of = {(case.lane, case.fault) for name in PROPERTIES for case in run.cases(name) if case.because is None}
    return sorted(trial.name for trial in run.trials() if not asked_of.isdisjoint(trial.places))


@pytest.mark.parametrize("profile", ["smoke", "default", "nightly"])
@pytest.mark.parametrize("n", [1, 7, 61])
def test_shards_divide_all_tests_without_overlap_into_equally_long_parts(profile: str, n: int) -> None:
    run = whole(profile)
    places = run.places(n)
    assert places.keys() == {(lane, fault) for lane in run.lanes for fault in run.faults}
    assert set(places.values()) <= set(range(1, n + 1))
    trials = run.trials()
    assert {len({places[lane, trial.column] for lane in trial.lanes}) for trial in trials} == {1}
    i = (n + 1) // 2
    assert run.only(Shard(i, n)).elsewhere == {where for where, number in places.items() if number != i}
    seconds = [trial.seconds for trial in trials]
    numbers = cut(seconds, n)
    loads = [sum(each for each, number in zip(seconds, numbers, strict=True) if number == i) for i in range(1, n + 1)]
    assert sum(seconds) / n - max(seconds) <= min(loads) <= max(loads) <= sum(seconds) / n + max(seconds)
    booted = set(zip((trial.backend for trial in trials), numbers, strict=True))
    assert len(booted) <= len(run.backends) + n - 1, "few boot a backend"


@pytest.mark.parametrize(("options", "n"), [({"profile": "smoke"}, 5), ({"lock": ["redis", "etcd"]}, 2)])
def test_shards_together_ask_exactly_what_the_whole_run_asks(options: dict[str, object], n: int) -> None:
    run = asked(**options)
    parts = [run.only(Shard(i, n)) for i in range(1, n + 1)]
    assert sorted(question for part in parts for question in questions(part)) == sorted(questions(run))
    assert Counter(item for part in parts for item in part.not_run()) == Counter(run.not_run())
    assert sorted(trial for part in parts for trial in needed(part)) == needed(run), "no trial is run by two"


def test_each_shard_boots_only_the_backends_that_it_runs() -> None:
    run = whole("default")
    first, last = run.only(Shard(1, 8)), run.only(Shard(8, 8))
    assert (first.booted, last.booted) == (("redis",), ("postgres",))
    assert first.backends == run.backends, "and its trials are those of the whole, with the same parts"
    assert run.booted == run.backends


def test_more_shards_than_trials_leave_some_with_nothing_and_what_cannot_be_asked_is_reported_once() -> None:
    run = asked(lock=["redis", "etcd"], faults=["none", "clock-jump-forward"])
    reported = [{(item.backend, item.fault) for item in run.only(Shard(i, 2)).not_run()} for i in (1, 2)]
    assert reported in ([{("redis", run.faults[1])}, {("etcd", run.faults[1])}], [set(), {("etcd", run.faults[1])}])
    run = asked(lock=["redis"], faults=["none"])
    assert sorted(len(questions(run.only(Shard(i, 5)))) for i in range(1, 6)) == [0, 0, 0, 0, len(questions(run))]
    nothing = asked(lock=["etcd"], faults=["clock-jump-forward"])
    assert nothing.trials() == []
    assert [len(nothing.only(Shard(i, 2)).not_run()) > 0 for i in (1, 2)] == [True, False], "the first tells of it"


def test_the_cut_is_the_same_every_time_and_keeps_the_order() -> None:
    costs = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]
    assert cut(costs, 3) == cut(list(costs), 3) == [1, 1, 1, 1, 2, 2, 3, 3]
    assert (cut(costs, 1), cut([], 3), cut([1.0], 3)) == ([1] * 8, [], [2])


def test_expected_time_counts_the_longest_overlapping_step_and_a_new_environment() -> None:
    long, short, last = "kill-server", "pause-server", "lose-replies"
    steps = (Step(long, 1.0, 5.0, {}), Step(short, 0.5, 1.0, {}, beside=True), Step(last, 1.0, 2.0, {}))
    plan, calm = Plan("p", "redis", 1, steps), Plan("none", "redis", 1, ())
    assert expected(plan, 1.0, 4) - expected(calm, 1.0, 4) == pytest.approx(9.0)
    assert expected(calm, 1.0, 8) > expected(calm, 1.0, 4)
    once, twice = (Plan("p", "redis", 1, (Step("roll-version", 1.0, 1.0, {}),) * times) for times in (1, 2))
    killed = Plan("p", "redis", 1, (Step("kill-server", 1.0, 1.0, {}),))
    assert expected(once, 1.0, 4) - expected(killed, 1.0, 4) == pytest.approx(LASTS + OWN)
    assert expected(twice, 1.0, 4) - expected(once, 1.0, 4) == pytest.approx(LASTS + 2.0)


@pytest.mark.parametrize(
    "text", ["", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1/1001", "01/2", " 1/2", "1/2\n", "1.0/2", "²/3"]
)
def test_an_invalid_shard_is_refused_with_the_expected_form(text: str) -> None:
    good = ["1/1", "1/2", "2/2", "1000/1000"]
    assert [str(parse(each)) for each in good] == good
    with pytest.raises(BadOption, match="expected I/N"):
        parse(text)
    assert "--shard" in refused(lock=["redis"], shard=text)


def test_pytest_collects_a_shard() -> None:
    words = ("-v", "--lock", "redis", "--faults", "none,freeze-holder", "--shard")
    lists = [collected(*words, f"{i}/2").stdout.splitlines() for i in (1, 2)]
    columns = [{line.rpartition("-")[2] for line in lines if "redis/" in line} for lines in lists]
    assert columns == [{"none]>"}, {"holder]>"}]
    begins = [line.partition(", about")[0] for lines in lists for line in lines if line.startswith("to come: ")]
    assert begins == [f"to come: 11 lanes of redis {what} in 1 trial" for what in ("without a fault", "under 1 fault")]
