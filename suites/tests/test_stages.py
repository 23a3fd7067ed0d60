"""`--from` and `--to`: every trial on both versions, in turn, each on an environment of its own."""

from dataclasses import replace
from itertools import groupby
from types import SimpleNamespace
from typing import cast

import pytest

from checkers.claims import Verdict
from infra.backends import BACKENDS
from results.stages import BASELINE, CANDIDATE
from results.terminal.progress import Key, Progress
from suites.selection.selection import Selection
from suites.selection.upgrade_stages import ONLY, Stage, in_turn, upgrade_lines
from suites.terminal import plans
from suites.tests.selections import NEW, OLD, asked, collected, upgrading
from suites.tests.world import World, case_of, every_case, key_of
from suites.trial.trial_events import column_in

COLUMNS = ["none", "freeze-holder"]


@pytest.fixture
def upgrade() -> Selection:
    return upgrading(faults=COLUMNS)


def test_what_is_certified_is_told_at_once() -> None:
    other = asked(lock=["redis", "etcd"], from_=["redis=8.0", "etcd=3.5"], to=["redis=8.0", "etcd=3.6"])
    same, differs = upgrade_lines(other.stages)
    both = "both are fencepost/redis:trixie, so a version is held against itself"
    assert same == f"upgrade: redis from 8.0 to 8.0: {both}"
    assert differs == "upgrade: etcd from 3.5 to 3.6"
    assert upgrade_lines(ONLY) == []


def test_every_case_is_asked_on_both_versions(upgrade: Selection) -> None:
    cases = upgrade.cases("server-exclusion")
    told = [(case.lane, case.fault) for case in cases if case.stage == BASELINE]
    assert told == [(case.lane, case.fault) for case in cases if case.stage == CANDIDATE]
    assert len({case.id for case in cases}) == len(cases) == 2 * len(told)
    alone = asked(lock=["redis"], faults=COLUMNS).cases("server-exclusion")
    assert told == [(case.lane, case.fault) for case in alone]
    assert {case.stage for case in alone} == {""}


def test_only_the_backends_of_the_upgrade_are_tried() -> None:
    made = asked(from_=["etcd=3.4", "redis=7.0"], to=["redis=8.0", "etcd=3.5"])
    assert set(made.backends) == {"etcd", "redis"}
    assert set(asked().backends) == set(BACKENDS)


def test_both_are_tried_in_turn() -> None:
    stages = (Stage("a"), Stage("b"))
    turns = ["".join(stage.name for stage in in_turn(stages, column)) for column in range(3)]
    assert turns == ["ab", "ba", "ab"]


def test_pytest_runs_them_in_turn() -> None:
    versions = ("--from", f"redis={OLD}", "--to", f"redis={NEW}")
    done = collected("--lock", "redis", "--faults", ",".join(COLUMNS), *versions)
    assert done.returncode == 0, done.stdout + done.stderr
    pairs = [(column, stage) for column in COLUMNS for stage in (BASELINE, CANDIDATE)]
    ran = [pair for line in done.stdout.splitlines() for pair in pairs if line.endswith("-{}-{}]".format(*pair))]
    assert [pair for pair, _ in groupby(ran)] == [pairs[0], pairs[1], pairs[3], pairs[2]]


def test_progress_counts_the_trials_of_both_and_tells_the_time_left(upgrade: Selection) -> None:
    items = [
        SimpleNamespace(callspec=SimpleNamespace(params={"answer": case}))
        for column in COLUMNS
        for case in every_case(upgrade, column)
    ]
    progress = Progress()
    for event in plans(upgrade, cast("list[pytest.Item]", items)):
        progress.take(event)
    trials = [replace(trial, seconds=round(trial.seconds, 1)) for trial in upgrade.trials()]
    assert progress.planned == {
        Key("redis", column_in(trial.fault, stage), 1): trial.seconds
        for trial in trials
        for stage in (BASELINE, CANDIDATE)
    }
    assert progress.left(0) == pytest.approx(2 * sum(trial.seconds for trial in trials))
    assert progress.standing(0).startswith("0 of 4 trials, about ")


def test_each_stage_has_an_environment_of_its_own_and_the_same_trials(world: World, upgrade: Selection) -> None:
    session = world.session(upgrade)
    for stage in (BASELINE, CANDIDATE):
        for column in COLUMNS:
            session.answer(case_of(upgrade, "server-exclusion", column, stage=stage))
    old, new = world.environments
    assert (old.backends, new.backends) == ([("redis", OLD)] * 2, [("redis", NEW)] * 2)
    names = [f"redis-{column}-1-{stage}" for stage in (BASELINE, CANDIDATE) for column in COLUMNS]
    assert [trial.name for trial in world.trials] == names
    assert world.trials[0].lanes == world.trials[2].lanes
    session.close()
    assert old.closed
    assert new.closed


def test_what_one_stage_broke_the_other_may_keep(world: World, upgrade: Selection) -> None:
    old, new = (case_of(upgrade, "server-exclusion", "none", stage=stage) for stage in (BASELINE, CANDIDATE))
    world.script = lambda trial: {key_of(old): Verdict.VIOLATED} if trial.stage == BASELINE else {}
    session = world.session(upgrade)
    assert session.answer(old).judgement.word is Verdict.VIOLATED
    assert session.answer(new).judgement.word is Verdict.UPHELD


@pytest.mark.parametrize(
    ("argv", "processes"),
    [
        (("--faults", "none,freeze-holder"), ["2*popen"]),
        (("--faults", "none,freeze-holder", "-n", "3"), ["popen"] * 3),
        (("--faults", "none,freeze-holder", "-n", "0"), []),
        (("--faults", "none,freeze-holder", "--pdb"), []),
        (("--faults", "none"), []),
    ],
    ids=["unsaid", "three", "none", "debugged", "nothing-to-share"],
)
def test_two_trials_go_on_at_a_time(argv: tuple[str, ...], processes: list[str]) -> None:
    class Teller:
        def pytest_collection_finish(self, session: pytest.Session) -> None:
            asked_for.append(session.config.option.tx)

    asked_for: list[list[str]] = []
    collected("--lock", "redis", "--from", "redis=7.0", "--to", "redis=8.0", *argv, plugins=[Teller()])
    assert asked_for == [processes]
