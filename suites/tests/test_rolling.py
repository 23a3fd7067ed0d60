"""The columns of an upgrade: which plans they are, of which backends, and that each begins with the old version."""

import pytest

from checkers.claims import Verdict
from infra.backends import BACKENDS
from infra.faults.plan import Plan
from results.stages import BASELINE, CANDIDATE, COLUMNS, MIXED, ROLLBACK
from suites.selection import rolling
from suites.selection.rolling import END, LEADER_FIRST, LEADER_LAST, ROLLING
from suites.tests.bench import await_
from suites.tests.selections import NEW, OLD, asked, refused, upgrading
from suites.tests.world import World


def plan(column: str, backend: str) -> Plan:
    return rolling.plan(column, backend, 7, 2.0, OLD, NEW)


@pytest.mark.parametrize("column", ROLLING)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_plan_moves_every_member_that_there_is(backend: str, column: str) -> None:
    if because := rolling.impossible(column, backend, OLD, NEW):
        assert because == "a single server has no mixed state"
        assert len(BACKENDS[backend].members) == 1
        return
    made = plan(column, backend)
    assert made.lasting
    assert Plan.from_json(made.to_json()) == made
    moved = dict.fromkeys((OLD, NEW), 0)
    for step in made.steps:
        if step.fault == "roll-version":
            moved[step.options["version"]] += step.options["members"]
    everybody = len(BACKENDS[backend].members)
    if column in COLUMNS[MIXED]:
        assert moved == {NEW: everybody, OLD: 0}
    else:
        assert moved[NEW] == moved[OLD]
        assert moved[NEW] == everybody or (column != END and everybody / 2 < moved[NEW] < everybody)


@pytest.mark.parametrize("column", ROLLING)
def test_nothing_becomes_another_where_both_are_the_same_image(column: str) -> None:
    same = asked(lock=["etcd"], from_=["etcd=3.4"], to=["etcd=3.4"])
    assert not same.runnable("etcd", column)
    (whole,) = [item for item in same.not_run() if item.fault == column]
    because = "both versions are the same image: nothing becomes another"
    assert (whole.lock, whole.backend, whole.because) == ("", "etcd", because)


@pytest.mark.parametrize("column", [LEADER_LAST, LEADER_FIRST])
@pytest.mark.parametrize("backend", ["redis", "zookeeper", "etcd"])
def test_in_the_mixed_state_all_goes_wrong(backend: str, column: str) -> None:
    steps = plan(column, backend).steps
    rolls = [number for number, step in enumerate(steps) if step.fault == "roll-version"]
    inside = {step.fault for step in steps[rolls[0] + 1 : rolls[-1]]}
    assert "kill-server" in inside
    assert any(name.startswith("cut-") for name in inside)
    first = {steps[number].options["first"] for number in rolls}
    assert first == {"leader" if column == LEADER_FIRST else "follower"}
    across = [number for number in rolls if steps[number].beside]
    assert [steps[number - 1].fault for number in across] == ["freeze-holder"]


def test_each_stage_has_its_columns() -> None:
    made = asked(backend=["etcd"], from_=["etcd=3.4"], to=["etcd=3.5"], profile="smoke")
    told = {(case.stage, case.fault) for name in ("server-exclusion", "recovery") for case in made.cases(name)}
    for stage, columns in COLUMNS.items():
        assert {fault for where, fault in told if where == stage} == set(columns)
    for stage in (BASELINE, CANDIDATE):
        faults = {fault for where, fault in told if where == stage}
        assert faults == {"none", "freeze-holder", "late-write", "kill-server"}


def test_who_names_faults_gets_those() -> None:
    for column, stages in (("none", {BASELINE, CANDIDATE}), (END, {ROLLBACK})):
        made = asked(lock=["etcd"], faults=[column], from_=["etcd=3.4"], to=["etcd=3.5"])
        assert {case.stage for case in made.cases("server-exclusion")} == stages
    assert "--faults rollback-end: between which versions" in refused(lock=["etcd"], faults=[END])


def test_a_single_server_has_no_mixed_state() -> None:
    made = asked(lock=["postgres-session"], from_=["postgres=15"], to=["postgres=17"])
    because = {case.fault: case.because for case in made.cases("recovery") if case.stage in COLUMNS}
    assert because == dict.fromkeys(ROLLING, "a single server has no mixed state") | {END: None}


def test_what_was_upgraded_is_another_cluster(world: World) -> None:
    made = upgrading(faults=[LEADER_FIRST, LEADER_LAST])
    session = world.session(made)
    for case in made.cases("server-exclusion"):
        assert session.answer(case).judgement.word is Verdict.UPHELD
    await_(lambda: [environment.closed for environment in world.environments] == [True, True])  # it is closed aside
    assert {backend for one in world.environments for backend in one.backends} == {("redis", OLD)}
    plans = [made.plan(column, "redis") for column in (LEADER_FIRST, LEADER_LAST)]
    assert [trial.plan for trial in world.trials] == plans
