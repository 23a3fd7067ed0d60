"""`--from` and `--to`: every trial on both versions, in turn, each on an environment of its own."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from checkers.claims import Word
from infra.environment import BACKENDS
from results.certificate.stages import BASELINE, CANDIDATE
from results.terminal.progress import Key, Progress
from suites.asked import Asked
from suites.options import BadOption
from suites.stages import ONLY, Stage, in_turn, told
from suites.telling import column_in
from suites.terminal import plans
from suites.tests.test_collecting import collected
from suites.tests.test_options import asked
from suites.tests.test_session import World, every_case, world

__all__ = ["world"]

OLD, NEW = "image:old:1", "image:new:2"
COLUMNS = ["none", "freeze-holder"]


@pytest.fixture
def upgrade() -> Asked:
    return asked(lock=["redis"], faults=COLUMNS, from_=[f"redis={OLD}"], to=[f"redis={NEW}"])


def test_what_is_certified_is_told_at_once() -> None:
    other = asked(lock=["redis", "etcd"], from_=["redis=8.0", "etcd=3.5"], to=["redis=8.0", "etcd=3.6"])
    same, differs = told(other.stages)
    assert same == (
        "upgrade: redis from 8.0 to 8.0: both are fencepost/redis:trixie, so a version is held against itself"
    )
    assert differs == "upgrade: etcd from 3.5 to 3.6"
    assert told(ONLY) == []


def test_every_case_is_asked_on_both_versions(upgrade: Asked) -> None:
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


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"from_": ["etcd=3.4"]}, "--from etcd=3.4: an upgrade has --to etcd=VERSION, too"),
        ({"to": ["etcd=3.5"]}, "--to etcd=3.5: an upgrade has --from etcd=VERSION, too"),
        ({"from_": ["etcd=3.4"], "to": ["redis=8.0"]}, "--from etcd=3.4: an upgrade has --to etcd=VERSION, too"),
        ({"from_": ["etcd"], "to": ["etcd=3.5"]}, "--from etcd: expected BACKEND=VERSION"),
        ({"from_": ["etcd=3.4"], "to": ["etcd=3.4", "etcd=3.5"]}, "--to etcd=3.5: etcd=3.4 is asked for as well"),
        ({"from_": ["etcd=3.4"], "to": ["etcd=9.9"]}, "--to etcd=9.9: etcd 9.9 is not to be had"),
        ({"from_": ["etcd=3.4"], "to": ["etcd=3.5"], "version_of": ["etcd=3.4"]}, "--version-of does not go with"),
        ({"from_": ["etcd=3.4"], "to": ["etcd=3.5"], "shard": "1/2"}, "--shard does not go with"),
        ({"from_": ["etcd=3.4"], "to": ["etcd=3.5"], "lock": ["redis"]}, "no lock runs on etcd that --from names; "),
    ],
    ids=["no-to", "no-from", "another", "no-version", "two", "unknown", "version-of", "shard", "no-lock"],
)
def test_what_is_no_upgrade_is_told_in_a_line(given: dict[str, object], why: str) -> None:
    with pytest.raises(BadOption) as told:
        asked(**given)
    assert str(told.value).startswith(why)


def test_both_are_tried_in_turn() -> None:
    stages = (Stage("a"), Stage("b"))
    assert [[stage.name for stage in in_turn(stages, column)] for column in range(3)] == [
        ["a", "b"],
        ["b", "a"],
        ["a", "b"],
    ]


def test_pytest_runs_them_in_turn() -> None:
    done = collected(
        "--lock", "redis", "--faults", ",".join(COLUMNS), "--from", f"redis={OLD}", "--to", f"redis={NEW}"
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (line for line in done.stdout.splitlines() if line.endswith((f"-{BASELINE}]", f"-{CANDIDATE}]")))
    assert list(_runs(lines)) == [
        ("none", BASELINE), ("none", CANDIDATE), ("freeze-holder", CANDIDATE), ("freeze-holder", BASELINE),
    ]  # fmt: skip


def _runs(names: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Each (fault, stage) once for all its tests that stand together."""
    before = None
    for name in names:
        stage = next(stage for stage in (BASELINE, CANDIDATE) if name.endswith(f"-{stage}]"))
        now = next(column for column in COLUMNS if name.endswith(f"-{column}-{stage}]")), stage
        if now != before:
            yield now
        before = now


def test_progress_counts_the_trials_of_both_and_tells_the_time_left(upgrade: Asked) -> None:
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


def test_each_stage_has_an_environment_of_its_own_and_the_same_trials(world: World, upgrade: Asked) -> None:
    session = world.session(upgrade)
    for stage in (BASELINE, CANDIDATE):
        for column in COLUMNS:
            (case,) = [
                case
                for case in upgrade.cases("server-exclusion")
                if (case.stage, case.fault, case.lane.name) == (stage, column, "redis/register/unfenced")
            ]
            session.answer(case)
    old, new = world.environments
    assert (old.backends, new.backends) == ([("redis", OLD)] * 2, [("redis", NEW)] * 2)
    assert [trial.name for trial in world.trials] == [
        f"redis-{column}-1-{stage}" for stage in (BASELINE, CANDIDATE) for column in COLUMNS
    ]
    assert world.trials[0].lanes == world.trials[2].lanes
    session.close()
    assert old.closed
    assert new.closed


def test_what_one_stage_broke_the_other_may_keep(world: World, upgrade: Asked) -> None:
    cases = {
        case.stage: case
        for case in upgrade.cases("server-exclusion")
        if (case.fault, case.lane.name) == ("none", "redis/register/unfenced")
    }
    lane = cases[BASELINE].lane.name
    world.script = lambda trial: {(lane, "server-exclusion"): Word.VIOLATED} if trial.stage == BASELINE else {}
    session = world.session(upgrade)
    assert session.answer(cases[BASELINE]).judgement.word is Word.VIOLATED
    assert session.answer(cases[CANDIDATE]).judgement.word is Word.UPHELD


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
