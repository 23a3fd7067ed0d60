"""The calibration of a certification: which bugs are tried in it, where, and what a run makes of them."""

import pytest

from checkers.claims import Verdict
from infra.backends import BACKENDS
from results.stages import BROKEN_SERVER, CALIBRATION, CANDIDATE
from suites.mutants.catalogue import catalogue
from suites.selection import bugs_of_certification
from suites.selection.selection import Selection
from suites.tests.selections import NEW, OLD, asked, collected, refused, upgrading
from suites.tests.world import World, key_of

BROKEN = "image:fencepost/planted-redis:lost-token"
SERVER = "suites.locks.redis_single:RedisLock/register/unfenced"
BUGS = [catalogue()[name] for name in bugs_of_certification.BUGS]
CAUGHT = {bug.lanes[0]: bug.found_by[0] for bug in BUGS} | {SERVER: "token-order"}


@pytest.fixture
def upgrade() -> Selection:
    return upgrading()


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_has_bugs_without_a_fault_and_under_one(backend: str) -> None:
    some = bugs_of_certification.lanes((backend,))
    columns = bugs_of_certification.columns(some)
    faultless, *others = (column for column in columns if column != bugs_of_certification.SERVER)
    assert faultless == "planted-none"
    assert others
    faults = {column: bugs_of_certification.plan(column, backend, 3).fault_names for column in columns}
    tried = bugs_of_certification.tried()
    assert {(tried[lane].column, (tried[lane].fault,)) for lane in some} == set(faults.items())


def test_a_bug_is_tried_once_and_asked_for_what_must_name_it(upgrade: Selection) -> None:
    """In a lock on the new version, in a server on its own."""
    cases = upgrade.planted_cases()
    lanes = bugs_of_certification.lanes(("redis",))
    assert dict(map(key_of, cases)) == {lane.name: CAUGHT[lane.name] for lane in lanes}
    assert len({case.id for case in cases}) == len(cases)
    for case in cases:
        version = upgrade.version("redis", case.stage)
        assert version == (BROKEN if case.lane.name == SERVER else upgrade.version("redis", CANDIDATE))
        assert case.lane in upgrade.runnable("redis", case.fault)


def test_its_lanes_are_in_no_other_trial_and_no_other_lane_is_in_its_own(upgrade: Selection) -> None:
    for trial in upgrade.trials():
        assert {lane in upgrade.planted for lane in trial.lanes} == {trial.fault in bugs_of_certification.COLUMNS}
    assert not any(case.lane in upgrade.planted for name in CAUGHT.values() for case in upgrade.cases(name))


def test_only_where_all_is_certified_or_it_is_asked_for_by_its_column_something_is_planted() -> None:
    assert asked(lock=["redis"]).planted_cases() == upgrading(faults=["none"]).planted_cases() == []
    run = upgrading(faults=["planted-none"])
    assert {case.fault for case in run.planted_cases()} == {"planted-none"}
    assert "planted-none: between which versions" in refused(lock=["redis"], faults=["planted-none"])


def test_a_lock_that_was_asked_for_is_no_control() -> None:
    name = "mutant:steals-early"
    run = upgrading(lock=[name])
    assert name not in {lane.lock_name for lane in run.planted}
    assert run.cases("server-exclusion")


def test_what_is_caught_passes_and_what_is_not_fails(world: World, upgrade: Selection) -> None:
    cases = {case.lane.lock_name.partition(":")[2]: case for case in upgrade.planted_cases()}
    caught, missed = cases["steals-early"], cases["releases-always"]
    assert caught.fault == missed.fault
    world.script = lambda trial: {key_of(caught): Verdict.VIOLATED, key_of(missed): Verdict.HAZARD_NOT_SHOWN}
    session = world.session(upgrade)
    session.answer(caught).must_be_caught()
    with pytest.raises(pytest.fail.Exception, match="a bug that was planted is not caught: hazard not shown"):
        session.answer(missed).must_be_caught()
    (trial,) = world.trials  # once: no bug gets a second chance
    assert trial.stage == CALIBRATION
    assert trial.planted == dict(map(key_of, (caught, missed)))


def test_a_server_with_a_bug_has_an_environment_of_its_own(world: World, upgrade: Selection) -> None:
    session = world.session(upgrade)
    new = next(case for case in upgrade.cases("server-exclusion") if case.stage == CANDIDATE)
    for case in (new, *upgrade.planted_cases()):
        assert session.answer(case).attempts == 1
    assert [{version for _, version in one.backends} for one in world.environments] == [{NEW}, {BROKEN}]


@pytest.mark.parametrize("backend", BACKENDS)
def test_servers_with_a_bug(backend: str) -> None:
    stages = asked(from_=[f"{backend}={OLD}"], to=[f"{backend}={NEW}"]).stages
    versions = {stage.name: stage.versions for stage in stages}
    there_is = backend in ("redis", "etcd")
    columns = bugs_of_certification.columns(bugs_of_certification.lanes((backend,)))
    assert (versions[BROKEN_SERVER][backend] != NEW) == (bugs_of_certification.SERVER in columns) == there_is


def test_pytest_runs_them_last() -> None:
    done = collected("--lock", "redis", "--from", f"redis={OLD}", "--to", f"redis={NEW}")
    assert done.returncode == 0, done.stdout + done.stderr
    names = [line for line in done.stdout.splitlines() if line.startswith("suites/")]
    last = [name for name in names if name.endswith((f"-{CALIBRATION}]", f"-{BROKEN_SERVER}]"))]
    assert len({name.rpartition("-")[2] for name in last}) == 2
    assert names[-len(last) :] == last
