"""An upgrade: trials on both versions in turn, columns that begin with the old version, and planted bugs."""

import sys
from dataclasses import replace
from itertools import groupby
from types import SimpleNamespace
from typing import cast

import pytest

from checkers.claims import Verdict
from checkers.tests.build import cases
from infra.backends import BACKENDS, SHAPES, shaped
from infra.faults.plan import Plan
from results.stages import BASELINE, BROKEN_SERVER, CALIBRATION, CANDIDATE, CLIENTS, COLUMNS, MIXED, ROLLBACK
from results.terminal.progress import Key, Progress
from suites.mutants.catalogue import catalogue
from suites.selection import bugs_of_certification, upgrade_stages
from suites.selection.selection import Selection
from suites.selection.trial import column_in
from suites.selection.upgrade_stages import END, LEADER_FIRST, LEADER_LAST, ONLY, ROLLING, upgrade_lines
from suites.terminal import plans
from suites.tests.bench import await_
from suites.tests.selections import NEW, OLD, asked, collected, refused, upgrading
from suites.tests.world import World, case_of, every_case, key_of
from suites.worker import python_environment
from suites.worker.python_environment import Interpreter

TRIED = ["none", "freeze-holder"]


@pytest.fixture
def upgrade() -> Selection:
    return upgrading(faults=TRIED)


def test_the_first_lines_name_the_upgrade_and_only_its_backends_are_tried() -> None:
    other = asked(lock=["redis", "etcd"], from_=["redis=8.0", "etcd=3.5"], to=["redis=8.0", "etcd=3.6"])
    both = "both are fencepost/redis:trixie, so a version is held against itself"
    lines = [f"upgrade: redis from 8.0 to 8.0: {both}", "upgrade: etcd from 3.5 to 3.6"]
    assert (upgrade_lines(other.stages, {}), upgrade_lines(ONLY, {})) == (lines, [])
    assert set(asked(from_=["etcd=3.4", "redis=7.0"], to=["redis=8.0", "etcd=3.5"]).backends) == {"etcd", "redis"}
    assert set(asked().backends) == set(BACKENDS)


def test_every_case_is_asked_on_both_versions(upgrade: Selection) -> None:
    cases = upgrade.cases("server-exclusion")
    told = [(case.lane, case.fault) for case in cases if case.stage == BASELINE]
    assert told == [(case.lane, case.fault) for case in cases if case.stage == CANDIDATE]
    assert len({case.id for case in cases}) == len(cases) == 2 * len(told)
    alone = asked(lock=["redis"], faults=TRIED).cases("server-exclusion")
    assert [(*each, "") for each in told] == [(case.lane, case.fault, case.stage) for case in alone]


def test_pytest_runs_the_trials_of_both_versions_in_turn() -> None:
    versions = ("--from", f"redis={OLD}", "--to", f"redis={NEW}")
    columns = [*TRIED, "kill-holder"]
    done = collected("--lock", "redis", "--faults", ",".join(columns), *versions)
    pairs = [(column, stage) for column in columns for stage in (BASELINE, CANDIDATE)]
    ran = [pair for line in done.stdout.splitlines() for pair in pairs if line.endswith("-{}-{}]".format(*pair))]
    assert [pair for pair, _ in groupby(ran)] == [pairs[number] for number in (0, 1, 3, 2, 4, 5)]


def test_progress_counts_the_trials_of_both_and_tells_the_time_left(upgrade: Selection) -> None:
    cases = (case for column in TRIED for case in every_case(upgrade, column))
    items = [SimpleNamespace(callspec=SimpleNamespace(params={"answer": case})) for case in cases]
    progress = Progress()
    for event in plans(upgrade, cast("list[pytest.Item]", items)):
        progress.take(event)
    assert progress.planned == {
        Key("redis", column_in(trial.column, trial.stage), 1): round(trial.seconds, 1) for trial in upgrade.trials()
    }
    assert progress.left(0) == pytest.approx(sum(progress.planned.values()))
    assert progress.standing(0).startswith("0 of 4 trials, about ")


def test_each_stage_has_its_own_environment_and_verdicts_and_the_same_trials(world: World, upgrade: Selection) -> None:
    places = [(stage, column) for stage in (BASELINE, CANDIDATE) for column in TRIED]
    asked_about = [case_of(upgrade, "server-exclusion", column, stage=stage) for stage, column in places]
    broken, session = {key_of(asked_about[0]): Verdict.VIOLATED}, world.session(upgrade)
    world.script = lambda trial: broken if trial.stage == BASELINE else {}
    words = [session.answer(case).judgement.word for case in asked_about]
    assert words == [Verdict.VIOLATED] * 2 + [Verdict.UPHELD] * 2
    old, new = world.environments
    assert (old.backends, new.backends) == ([("redis", OLD)], [("redis", NEW)])
    assert [trial.name for trial in world.trials] == [f"redis-{column}-1-{stage}" for stage, column in places]
    assert world.trials[0].lanes == world.trials[2].lanes
    session.close()
    assert (old.closed, new.closed) == (True, True)


@cases(
    "argv, processes",
    ("unsaid", ("--faults", "none,freeze-holder"), ["2*popen"]),
    ("three", ("--faults", "none,freeze-holder", "-n", "3"), ["popen"] * 3),
    ("none", ("--faults", "none,freeze-holder", "-n", "0"), []),
    ("debugged", ("--faults", "none,freeze-holder", "--pdb"), []),
    ("nothing to share", ("--faults", "none"), []),
)
def test_two_trials_go_on_at_a_time(argv: tuple[str, ...], processes: list[str]) -> None:
    class Teller:
        def pytest_collection_finish(self, session: pytest.Session) -> None:
            asked_for.append(session.config.option.tx)

    asked_for: list[list[str]] = []
    collected("--lock", "redis", "--from", "redis=7.0", "--to", "redis=8.0", *argv, plugins=[Teller()])
    assert asked_for == [processes]


def plan(column: str, backend: str, shape: str = "") -> Plan:
    return upgrade_stages.rolling_plan(column, backend, 7, 2.0, OLD, NEW, shaped({backend: shape})[backend].members)


@pytest.mark.parametrize("column", ROLLING)
@pytest.mark.parametrize(("backend", "shape"), [*SHAPES.values(), ("redis", ""), ("postgres", "")])
def test_a_plan_moves_every_member_that_there_is(backend: str, shape: str, column: str) -> None:
    if because := upgrade_stages.impossible(column, backend, OLD, NEW):
        assert (because, len(BACKENDS[backend].members)) == ("a single server has no mixed state", 1)
        assert column != END
        return
    made = plan(column, backend, shape)
    assert (Plan.from_json(made.to_json(), made.members), made.lasting) == (made, True)
    moved = dict.fromkeys((OLD, NEW), 0)
    for step in made.steps:
        if step.fault == "roll-version":
            moved[step.options["version"]] += step.options["members"]
    everybody = len(made.members)
    if column in COLUMNS[MIXED]:
        assert moved == {NEW: everybody, OLD: 0}
    else:
        assert moved[NEW] == moved[OLD]
        assert moved[NEW] == everybody or (column != END and everybody / 2 < moved[NEW] < everybody)


@pytest.mark.parametrize("column", ROLLING)
def test_rolling_columns_are_not_run_if_both_versions_are_the_same_image(column: str) -> None:
    same = asked(lock=["etcd"], from_=["etcd=3.4"], to=["etcd=3.4"])
    assert not same.runnable("etcd", column)
    (whole,) = [item for item in same.not_run() if item.fault == column]
    because = "both versions are the same image: nothing becomes another"
    assert (whole.lock, whole.backend, whole.because) == ("", "etcd", because)
    assert {case.because for case in same.cases("recovery") if case.fault == column} == {because}


@pytest.mark.parametrize("column", [LEADER_LAST, LEADER_FIRST])
@pytest.mark.parametrize("backend", ["redis", "zookeeper", "etcd"])
def test_servers_links_and_holders_fail_in_the_mixed_state(backend: str, column: str) -> None:
    steps = plan(column, backend).steps
    rolls = [number for number, step in enumerate(steps) if step.fault == "roll-version"]
    inside = {step.fault for step in steps[rolls[0] + 1 : rolls[-1]]}
    assert "kill-server" in inside
    assert any(name.startswith("cut-") for name in inside)
    assert {steps[number].options["first"] for number in rolls} == {"leader" if column == LEADER_FIRST else "follower"}
    across = [number for number in rolls if steps[number].beside]
    assert [steps[number - 1].fault for number in across] == ["freeze-holder"]


def test_members_under_load_are_asked_on_both_versions_with_the_plainest_lock() -> None:
    ordinary, made = asked(backend=["etcd"]), asked(backend=["etcd"], from_=["etcd=3.4"], to=["etcd=3.5"])
    assert not any(case.fault == "kill-under-load" for case in ordinary.cases("members-agree"))
    assert len({lane.lock_name for lane in made.runnable("etcd", "slow-links+maintenance")}) > 1
    for column in ("kill-under-load", "cascade", "rejoin-then-lead", "kill-in-maintenance", "fill-disk"):
        mine = [case for case in made.cases("members-agree") if case.fault == column]
        assert {(case.lane.lock_name, case.stage) for case in mine} == {("etcd", BASELINE), ("etcd", CANDIDATE)}
        assert len(made.parts("etcd", column)) == 1


def test_each_stage_has_its_own_columns_and_named_faults_select_the_stages() -> None:
    made = asked(backend=["etcd"], from_=["etcd=3.4"], to=["etcd=3.5"], profile="smoke")
    told = {(case.stage, case.fault) for name in ("server-exclusion", "recovery") for case in made.cases(name)}
    for stage, columns in COLUMNS.items():
        assert {fault for where, fault in told if where == stage} == set(columns)
    for stage in (BASELINE, CANDIDATE):
        faults = {fault for where, fault in told if where == stage}
        assert faults == {"none", "freeze-holder", "late-write", "kill-server"}
    for column, stages in (("none", {BASELINE, CANDIDATE}), (END, {ROLLBACK})):
        made = asked(lock=["etcd"], faults=[column], from_=["etcd=3.4"], to=["etcd=3.5"])
        assert {case.stage for case in made.cases("server-exclusion")} == stages
    assert "--faults rollback-end: between which versions" in refused(lock=["etcd"], faults=[END])


@pytest.fixture
def kazoo(monkeypatch: pytest.MonkeyPatch) -> Interpreter:
    """The suite's own Python, which stands in for interpreters with these releases, so that nothing is installed."""
    ours = Interpreter(sys.executable, tuple(sys.path))
    monkeypatch.setattr(python_environment, "ask", lambda _: ours)
    monkeypatch.setattr(
        python_environment, "with_libraries", lambda python, wanted: replace(python, path="".join(wanted.values()))
    )
    return ours


def test_client_libraries_are_upgraded_for_the_locks_that_import_them(world: World, kazoo: Interpreter) -> None:
    made = asked(from_=["kazoo=2.8"], to=["kazoo=2.11"], version_of=["zookeeper=3.8"])
    assert {lane.backend for lane in made.lanes} == {"zookeeper"}
    assert {"zookeeper", "kazoo-lock", "zookeeper-parent-watch"} <= {lane.lock_name for lane in made.lanes}
    release = kazoo.release("kazoo")
    line = f"upgrade: client library kazoo from {release} to {release}: a release is held against itself"
    assert upgrade_lines(made.stages, made.libraries) == [line]
    assert {"kill-under-load", "skew-workers", *ROLLING} & {*made.faults} == {"skew-workers"}
    session = world.session(one_lock := asked(lock=["redis"], from_=["kazoo=2.8"], to=["kazoo=2.11"]))
    for stage, column in ((BASELINE, "none"), (CANDIDATE, "none"), (MIXED, CLIENTS)):
        session.answer(case_of(one_lock, "server-exclusion", column, stage=stage))
    assert [trial.pythons for trial in world.trials] == [("2.8",), ("2.11",), ("2.8", "2.11")]
    steps = upgrade_stages.clients_plan("redis", 1, 2.0).steps
    assert [step.fault for step in steps] == ["freeze-holder", "kill-holder"]
    assert one_lock.version("redis", MIXED) is None


@cases(
    "given, said",
    ("both", (["kazoo=2.8", "redis=7.0"], ["kazoo=2.11", "redis=8.0"]), "servers or client libraries are upgraded"),
    ("misspelled", (["kazo=2.8"], ["kazo=2.11"]), "client library that is installed here, 'kazo'; there are: redis,"),
    ("one release", (["kazoo=2.8"], []), "an upgrade has --to kazoo=VERSION, too"),
    ("two of one", (["kazoo=2.8", "kazoo=2.9"], ["kazoo=2.11"]), "kazoo=2.8 is asked for as well"),
    ("no lock has it", (["pytest=9.1"], ["pytest=9.2"]), "no lock of ours imports pytest: name yours with --lock"),
)
@pytest.mark.usefixtures("kazoo")
def test_an_impossible_upgrade_of_a_client_library_is_refused(given: tuple[list[str], list[str]], said: str) -> None:
    assert said in refused(from_=given[0], to=given[1])


def test_an_upgraded_cluster_is_closed_and_not_reused(world: World) -> None:
    made = upgrading(faults=[LEADER_FIRST, LEADER_LAST])
    session = world.session(made)
    for case in made.cases("server-exclusion"):
        assert session.answer(case).judgement.word is Verdict.UPHELD
    await_(lambda: [environment.closed for environment in world.environments] == [True, True])  # a thread closes them
    assert {backend for one in world.environments for backend in one.backends} == {("redis", OLD)}
    assert [trial.plan for trial in world.trials] == [made.plan(column, "redis") for column in made.faults]


BROKEN = "image:fencepost/planted-redis:lost-token"
SERVER = "mutant:server-does-not-count/register/unfenced"
BUGS = [catalogue()[name] for name in bugs_of_certification.BUGS]
CAUGHT = {bug.lanes[0]: bug.found_by[0] for bug in BUGS}


@pytest.fixture
def whole() -> Selection:
    """All is certified, so bugs are planted."""
    return upgrading()


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_has_bugs_without_a_fault_and_under_one(backend: str) -> None:
    some = bugs_of_certification.lanes((backend,))
    columns = bugs_of_certification.columns(some)
    faultless, *others = (column for column in columns if column != bugs_of_certification.SERVER)
    assert (faultless, bool(others)) == ("planted-none", True)
    faults = {column: bugs_of_certification.plan(column, backend, 3).fault_names for column in columns}
    there = [(column, lane) for column in columns for lane in some if bugs_of_certification.belongs(lane, column)]
    assert {(column, (bugs_of_certification.tried()[lane].fault,)) for column, lane in there} == set(faults.items())


def test_a_planted_bug_is_tried_once_and_asked_for_the_property_that_names_it(whole: Selection) -> None:
    """A bug in a lock is tried on the new version; a bug in a server has a version of its own."""
    cases = whole.planted_cases()
    lanes = bugs_of_certification.lanes(("redis",))
    assert dict(map(key_of, cases)) == {lane.name: CAUGHT[lane.name] for lane in lanes}
    assert len({case.id for case in cases}) == len(cases)
    for case in cases:
        version = whole.version("redis", case.stage)
        assert version == (BROKEN if case.lane.name == SERVER else whole.version("redis", CANDIDATE))
        assert case.lane in whole.runnable("redis", case.fault)
    for trial in whole.trials():  # these lanes share no trial with others
        assert {lane in whole.planted for lane in trial.lanes} == {trial.column in bugs_of_certification.COLUMNS}
    assert not any(case.lane in whole.planted for name in CAUGHT.values() for case in whole.cases(name))


def test_bugs_are_planted_only_in_a_whole_certification_or_if_their_column_is_named() -> None:
    assert asked(lock=["redis"]).planted_cases() == upgrading(faults=["none"]).planted_cases() == []
    assert {case.fault for case in upgrading(faults=["planted-none"]).planted_cases()} == {"planted-none"}
    assert "planted-none: between which versions" in refused(lock=["redis"], faults=["planted-none"])
    run = upgrading(lock=["mutant:steals-early"])
    assert "mutant:steals-early" not in {lane.lock_name for lane in run.planted}
    assert run.cases("server-exclusion")


def test_what_is_caught_passes_and_what_is_not_fails(world: World, whole: Selection) -> None:
    cases = {case.lane.lock_name.partition(":")[2]: case for case in whole.planted_cases()}
    caught, missed = cases["steals-early"], cases["releases-always"]
    assert caught.fault == missed.fault
    world.script = lambda trial: {key_of(caught): Verdict.VIOLATED, key_of(missed): Verdict.WEAKNESS_NOT_SHOWN}
    session = world.session(whole)
    session.answer(caught).must_be_caught()
    with pytest.raises(pytest.fail.Exception, match="planted is not caught: known weakness did not show"):
        session.answer(missed).must_be_caught()
    (trial,) = world.trials  # once: no bug gets a second chance
    assert (trial.stage, trial.planted) == (CALIBRATION, dict(map(key_of, (caught, missed))))


def test_a_server_with_a_bug_has_an_environment_of_its_own(world: World, whole: Selection) -> None:
    session = world.session(whole)
    new = next(case for case in whole.cases("server-exclusion") if case.stage == CANDIDATE)
    for case in (new, *whole.planted_cases()):
        assert session.answer(case).attempts == 1
    assert [{version for _, version in one.backends} for one in world.environments] == [{NEW}, {BROKEN}]


@pytest.mark.parametrize("backend", BACKENDS)
def test_only_redis_and_etcd_have_a_server_with_a_planted_bug(backend: str) -> None:
    stages = asked(from_=[f"{backend}={OLD}"], to=[f"{backend}={NEW}"]).stages
    versions = {stage.name: stage.versions for stage in stages}
    there_is = backend in ("redis", "etcd")
    columns = bugs_of_certification.columns(bugs_of_certification.lanes((backend,)))
    assert (versions[BROKEN_SERVER][backend] != NEW) == (bugs_of_certification.SERVER in columns) == there_is


def test_pytest_runs_planted_bugs_last() -> None:
    done = collected("--lock", "redis", "--from", f"redis={OLD}", "--to", f"redis={NEW}")
    names = [line for line in done.stdout.splitlines() if line.startswith("suites/")]
    last = [name for name in names if name.endswith((f"-{CALIBRATION}]", f"-{BROKEN_SERVER}]"))]
    assert (len({name.rpartition("-")[2] for name in last}), names[-len(last) :]) == (2, last)
