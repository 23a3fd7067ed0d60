"""Plans as data, their draws from the seed, and the errors for bad files; runs of plans in a simulated world."""

import json
import re
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.tests.build import cases
from infra.backends import BACKENDS
from infra.docker.compose import ROOT
from infra.errors import Failed
from infra.faults.all_faults import FAULTS
from infra.faults.fault import SPANS
from infra.faults.plan import BadPlan, Plan, Step, compile_plan, parse, random_plan
from infra.faults.runner import Record
from infra.tests.simulated import MS, Interrupted, World, a_lane, nobody, run, runner

DRAWN = [fault for fault in FAULTS.values() if not fault.planned]
CELLS = [(fault.name, backend) for fault in DRAWN for backend in BACKENDS if fault.applies(backend) is None]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FLAP, LEADER = {"node": "etcd1", "how": "drop", "times": 4}, {"nodes": ["leader"]}
ORDER = {"nodes": ["etcd1", "etcd3", "etcd2"]}
FIELDS = ["fault", "after", "for", "options", *["each option"] * 4]


def test_the_register_has_the_faults_of_the_readme() -> None:
    catalogue = (ROOT / "infra/README.md").read_text().partition("### The catalogue")[2]
    assert list(FAULTS) == re.findall(r"^\| `([a-z][a-z-]+)` \|", catalogue, re.MULTILINE)
    assert all(name == fault.name and fault.summary for name, fault in FAULTS.items())
    assert all(fault.how and fault.sees for fault in FAULTS.values())


def test_faults_are_grouped_by_what_they_are_done_to() -> None:
    groups = {
        "links": ("cut-client-drop", "split-ring", "reset-connections", "lose-replies"),
        "servers": ("kill-server", "fill-disk", "change-leader", "refuse-writes", "cascade", "maintenance"),
        "clocks": ("clock-drift", "skew-workers"),
        "workers": ("freeze-holder", "cut-holder", "crash-after-acquire", "at-every-request-lose"),
        "store": ("delayed-write", "store-reply-lost"),
    }
    assert all({FAULTS[name].group for name in names} == {group} for group, names in groups.items())
    assert {fault.group for fault in FAULTS.values()} == groups.keys()


@pytest.mark.parametrize(("name", "backend"), CELLS)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**63))
def test_a_plan_read_back_does_the_same(name: str, backend: str, seed: int) -> None:
    plan = compile_plan([name], seed, backend, ttl=2.0)
    assert parse(json.dumps(plan.to_json())) == plan == compile_plan([name], seed, backend, ttl=2.0)
    assert plan.fault_names == (name,)
    first, *others = plan.describe()
    assert first.startswith("after ")
    assert all(line.startswith("meanwhile, after ") for line in others)
    assert len(others) == ("group" in plan.steps[0].options)


@given(seed=st.integers(0, 1000), backend=st.sampled_from(["redis", "postgres"]))
def test_one_group_of_clients_is_cut_for_less_than_a_lease_and_another_for_longer(seed: int, backend: str) -> None:
    first, second = compile_plan(["cut-client-drop"], seed, backend, ttl=2.0).steps
    assert first.options["group"] != second.options["group"]
    assert sorted([first.for_ < 2.0, second.for_ < 2.0]) == [False, True]
    assert second.beside
    assert len(compile_plan(["cut-client-drop", "kill-server"], seed, backend, ttl=2.0).steps) == 2


@given(seed=st.integers(0, 1000), name=st.sampled_from(["pause-server", "kill-server", "cut-minority-drop"]))
def test_a_fault_on_a_minority_of_redis_hits_the_first_server(seed: int, name: str) -> None:
    nodes = compile_plan([name], seed, "redis", 1.0).steps[0].options["nodes"]
    assert nodes[0] == "redis1"
    assert len(nodes) <= 2


def test_a_plan_describes_its_steps_in_plain_words() -> None:
    plan = compile_plan(["isolate-leader-drop", "freeze-holder"], 7, "etcd", ttl=2.0)
    first, second = plan.describe()
    after, for_ = plan.steps[0].after, plan.steps[0].for_
    isolated = "isolate the leader from its peers (drop) until they notice"
    assert first == f"after {after:.1f} s: {isolated}, and for {for_:.1f} s"
    frozen = f"after {plan.steps[1].after:.1f} s: freeze a holder of every lane, about to write, for 3.2 s"
    assert second == f"meanwhile, {frozen}"
    later = Plan("p", "etcd", 7, (plan.steps[0], replace(plan.steps[1], beside=False)))
    assert later.describe()[1] == f"then, {frozen}"
    nothing = compile_plan(["none"], 7, "etcd", 2.0)
    assert (nothing.describe(), nothing.fault_names) == (["no fault"], ("none",))
    assert parse(json.dumps(nothing.to_json())) == nothing  # as the suite writes it beside a trial without faults


@given(seed=st.integers(0, 2**63), backend=st.sampled_from(sorted(BACKENDS)))
def test_a_random_plan_is_a_plan_of_overlapping_faults(seed: int, backend: str) -> None:
    plan = random_plan(seed, backend, ttl=1.0)
    assert 1 <= len(plan.fault_names) <= len(plan.steps) <= 3
    assert [step.beside for step in plan.steps] == [False, True, True][: len(plan.steps)]
    assert parse(json.dumps(plan.to_json())) == plan == random_plan(seed, backend, ttl=1.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_plan_with_an_inapplicable_fault_is_refused_with_the_reason(backend: str) -> None:
    for name, fault in FAULTS.items():
        if reason := fault.applies(backend):
            with pytest.raises(BadPlan, match=f"{name} does not apply to {backend}: {reason}"):
                compile_plan([name], 1, backend, 1.0)


def _at(step: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda plan: plan["steps"][0].__setitem__(step, value)


@cases(
    "spoil, message",
    (lambda plan: plan.pop("seed"), "plan.seed: is missing"),
    (lambda plan: plan.update(speed=1), "plan.speed: there is no such field"),
    (lambda plan: plan.update(seed="1"), "seed: must be a whole number"),
    (lambda plan: plan.update(name=""), "name: must be a text"),
    (lambda plan: plan.update(name="none"), "name: none is the plan without steps, and this one has 1"),
    (lambda plan: plan.update(backend="etc"), "backend: must be one of redis, zookeeper"),
    (lambda plan: plan.update(backend="etcd"), r"steps\[0\].options.nodes: must be a list of leader, etcd1"),
    (lambda plan: plan.update(steps={}), "steps: must be a list"),
    (lambda plan: plan.update(steps=[]), "steps: must not be empty"),
    (_at("fault", "kill-sever"), r"steps\[0\].fault: there is no 'kill-sever'; did you mean kill-server.*\?$"),
    (lambda plan: plan.update(steps=[1]), r"steps\[0\]: must be an object"),
    (_at("fault", "kill"), r"steps\[0\].fault: there is no 'kill'; there are cut-client-refuse"),
    (_at("fault", "isolate-leader-drop"), "five independent servers have no leader"),
    (_at("after", -1), r"steps\[0\].after: must be seconds from 0 to 3600, not -1"),
    (_at("for", True), r"steps\[0\].for: must be seconds"),
    (_at("for", float("nan")), r"steps\[0\].for: must be seconds"),
    (_at("beside", True), r"steps\[0\].beside: there is no step before the first"),
    (_at("beside", 1), r"steps\[0\].beside: must be true or false, not 1"),
    (_at("options", []), r"steps\[0\].options: must be an object"),
    (_at("options", {}), r"steps\[0\].options.nodes: is missing"),
    (_at("options", {"nodes": ["redis1", "redis1"]}), r"steps\[0\].options.nodes: must be at most 2 different"),
    (_at("options", {"nodes": ["redis1"], "x": 1}), r"steps\[0\].options.x: there is no such option"),
)
def test_a_bad_plan_names_its_field(spoil: Callable[[dict[str, Any]], object], message: str) -> None:
    data = compile_plan(["kill-server"], 1, "redis", 1.0).to_json()
    spoil(data)
    with pytest.raises(BadPlan, match=message) as caught:
        parse(json.dumps(data))
    assert "\n" not in str(caught.value)


@cases(
    "step, said",
    (Step("flap-links", 0.0, 12.0, FLAP), "let all links of etcd1 flap (drop), 4 times, then wait 12.0 s"),
    (Step("flap-links", 0.0, 0.0, FLAP), "let all links of etcd1 flap (drop), 4 times"),
    (Step("restart-rolling", 0.0, 1.0, ORDER), "restart etcd1, etcd3, etcd2 one after another, then wait 1.0 s"),
    (Step("pause-server", 0.0, 1.0, LEADER), "pause the leader until another leads, and for 1.0 s"),
    (Step("pause-server", 0.0, 0.0, LEADER), "pause the leader until another leads"),
)
def test_a_step_describes_its_duration_correctly(step: Step, said: str) -> None:
    assert step.describe("etcd") == said


@settings(max_examples=200)
@given(cell=st.sampled_from(CELLS), field=st.sampled_from(FIELDS), value=JSON)
def test_any_value_in_a_field_is_accepted_or_makes_a_bad_plan(cell: tuple[str, str], field: str, value: object) -> None:
    data = compile_plan([cell[0]], 1, cell[1], 1.0).to_json()
    step = data["steps"][0]
    step |= {"options": dict.fromkeys(step["options"], value)} if field == "each option" else {field: value}
    try:
        plan = Plan.from_json(data)
    except BadPlan:
        return
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.describe()


@pytest.mark.parametrize(("backend", "unit"), [("etcd", 1.0), ("zookeeper", 2.5), ("redis", 2.0)])
def test_server_faults_last_for_elections_or_for_leases_in_backends_without_leaders(backend: str, unit: float) -> None:
    drawn = {compile_plan(["kill-server"], seed, backend, ttl=2.0).steps[0].for_ for seed in range(60)}
    assert drawn == {span * unit for span in SPANS}


def test_the_duration_of_a_fault_differs_between_backends() -> None:
    spans = [{compile_plan(["lose-replies"], seed, name, 1.0).steps[0].for_ for name in BACKENDS} for seed in range(9)]
    assert max(map(len, spans)) > 1


def _freezing(for_: float) -> Step:
    return Step("freeze-holder", 0.5, for_, {})


def _times(records: list[Record]) -> list[tuple[str, float, float]]:
    """(fault, applied, healed) of each record, in seconds since the start of the world, whose clock starts at 1 s."""
    return [(record.name, record.applied / 1e9 - 1, record.healed / 1e9 - 1) for record in records]


def test_steps_come_one_after_the_other() -> None:
    records = run(World([a_lane("a", 0, 0)]), _freezing(0.2), Step("kill-holder", 0.5, 0.2, {}))
    (_, _, healed), (_, applied, _) = _times(records)
    assert applied >= healed + 0.5


def test_a_step_beside_another_overlaps_it() -> None:
    world = World([a_lane("a", 0, 0, 0)])
    records = run(world, _freezing(3.0), Step("kill-holder", 1.0, 0.2, {}, beside=True))
    (inner, killed, inner_healed), (outer, frozen, outer_healed) = _times(records)
    assert (inner, outer) == ("kill-holder", "freeze-holder")  # in the order in which they were healed
    assert frozen + 1.0 <= killed < inner_healed < outer_healed
    assert world.healed.count("cluster") == 1  # only when no fault was on any more


def test_the_time_of_a_fault_stands_still_while_another_is_applied() -> None:
    records = run(World([a_lane("a", 0, 0)]), _freezing(1.5), Step("kill-holder", 0.0, 0.2, {}, beside=True))
    (_, killed, _), (_, frozen, thawed) = _times(records)
    assert killed > frozen + 0.9  # no worker holds before the lease of the frozen worker ends
    assert thawed >= killed + 1.5


def test_a_missing_leader_is_no_error_while_another_fault_is_on() -> None:
    world = World([a_lane("a", 0, 0)])
    target = world.target()
    cast("Any", target.cluster).leader = lambda: None
    records = run(world, _freezing(3.0), Step("isolate-leader-drop", 0.0, 1.0, {}, beside=True), target=target)
    assert [record.name for record in records] == ["freeze-holder"]


def test_a_fault_that_fails_heals_everything() -> None:
    world = World([a_lane("a", 0, 0)])
    running = runner(world, _freezing(0.1), Step("isolate-leader-drop", 0.0, 1.0, {}))
    with pytest.raises(Failed, match="nobody leads"):
        running.cycle()
    assert world.healed[-3:] == ["workers", "environment", "cluster"]
    assert [record.name for record in running.records] == ["freeze-holder", "isolate-leader-drop"]
    assert [record.applied > 0 for record in running.records] == [True, False]


def test_the_runner_reports_each_event_as_it_happens() -> None:
    world = World([a_lane("a", 0, 0)])
    said: list[tuple[str, bool]] = []
    run(world, _freezing(1.0), say=lambda line: said.append((line, world.at_rest())))
    (applied, first), (healing, second), (healed, third) = said
    assert applied.startswith("freeze-holder: applied after 0.0 s: worker 9")
    assert healing == "freeze-holder: healing"
    assert healed.startswith("freeze-holder: healed in 0.")
    assert (first, second, third) == (False, False, True)


def test_an_interrupted_run_thaws_the_frozen_worker_and_records_it() -> None:
    world = World([a_lane("a", 0, 0)], stop_at=2000 * MS)
    said: list[str] = []
    running = runner(world, _freezing(60.0), say=said.append)
    with pytest.raises(Interrupted):
        running.cycle()
    assert said[1:] == ["broken off, healing everything", "healed in 0.0 s"]
    assert world.at_rest()
    [record] = running.records
    assert record.healed < 2100 * MS


def test_the_final_heal_does_all_even_if_one_part_fails() -> None:
    world = World([a_lane("a", 0, 0)])
    target = world.target()
    cast("Any", target.environment).heal = nobody
    with pytest.raises(Failed):
        runner(world, _freezing(1.0), target=target).final_heal()
    assert world.healed == ["workers", "cluster"]


def test_records_have_the_fields_of_a_fault_interval() -> None:
    names = "kind target begun applied healing healed owner process lane silent name"
    assert [field.name for field in fields(Record)] == names.split()
