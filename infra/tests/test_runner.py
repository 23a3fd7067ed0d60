"""The runner: what is done when, what overlaps, and that all is healed whatever happens. In a simulated world."""

from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from infra.faults.plan import Plan, Step
from infra.faults.runner import Record, Runner
from infra.faults.target import Stopped
from infra.machine import Failed
from infra.tests.simulated import MS, World, a_lane, nobody


def _freezing(for_: float) -> Plan:
    return Plan("p", "etcd", 1, (Step("freeze-holder", 0.5, for_, {}),))


def _times(runner: Runner) -> list[tuple[str, float, float]]:
    """Fault, and the seconds at which it was applied and healed, of each record; the world begins at second 1."""
    return [(record.name, record.applied / 1e9 - 1, record.healed / 1e9 - 1) for record in runner.records]


def test_steps_come_one_after_the_other() -> None:
    world = World([a_lane("a", 0, 0)])
    step = Step("kill-holder", 0.5, 0.2, {})
    runner = Runner(Plan("p", "etcd", 1, (Step("freeze-holder", 0.5, 0.2, {}), step)), world.target())
    runner.cycle()
    (_, _, healed), (_, applied, _) = _times(runner)
    assert applied >= healed + 0.5


def test_a_step_beside_another_overlaps_it() -> None:
    world = World([a_lane("a", 0, 0, 0)])
    steps = (Step("freeze-holder", 0.5, 3.0, {}), Step("kill-holder", 1.0, 0.2, {}, beside=True))
    runner = Runner(Plan("p", "etcd", 1, steps), world.target())
    runner.cycle()
    (inner, killed, inner_healed), (outer, frozen, outer_healed) = _times(runner)
    assert (inner, outer) == ("kill-holder", "freeze-holder")  # in the order in which they were healed
    assert frozen + 1.0 <= killed < inner_healed < outer_healed
    assert world.healed.count("cluster") == 1  # only when nothing was on any more


def test_the_time_of_a_fault_stands_still_while_another_is_applied() -> None:
    world = World([a_lane("a", 0, 0)])
    steps = (Step("freeze-holder", 0.5, 1.5, {}), Step("kill-holder", 0.0, 0.2, {}, beside=True))
    runner = Runner(Plan("p", "etcd", 1, steps), world.target())
    runner.cycle()
    (_, killed, _), (_, frozen, thawed) = _times(runner)
    assert killed > frozen + 0.9  # nobody holds before the lease of the frozen one is over
    assert thawed >= killed + 1.5


def test_a_role_that_nobody_has_while_another_fault_is_on_is_no_error() -> None:
    world = World([a_lane("a", 0, 0)])
    steps = (Step("freeze-holder", 0.5, 3.0, {}), Step("isolate-leader-drop", 0.0, 1.0, {}, beside=True))
    target = world.target()
    cast("Any", target.cluster).leader = lambda: None
    runner = Runner(Plan("p", "etcd", 1, steps), replace(target, links=cast("Any", SimpleNamespace(lift=str))))
    runner.cycle()
    assert [record.name for record in runner.records] == ["freeze-holder"]


def test_a_fault_that_fails_heals_everything() -> None:
    world = World([a_lane("a", 0, 0)])
    steps = (Step("freeze-holder", 0.0, 0.1, {}), Step("isolate-leader-drop", 0.0, 1.0, {}))
    runner = Runner(Plan("p", "etcd", 1, steps), world.target())
    with pytest.raises(Failed, match="nobody leads"):
        runner.cycle()
    assert world.healed[-3:] == ["workers", "environment", "cluster"]
    assert [record.name for record in runner.records] == ["freeze-holder"]


def test_it_says_what_happens_while_it_happens() -> None:
    world = World([a_lane("a", 0, 0)])
    said: list[tuple[str, bool]] = []
    Runner(_freezing(1.0), world.target(), lambda line: said.append((line, world.at_rest()))).cycle()
    (applied, first), (healing, second), (healed, third) = said
    assert applied.startswith("freeze-holder: applied after 0.0 s: worker 9")
    assert healing == "freeze-holder: healing"
    assert healed.startswith("freeze-holder: healed in 0.")
    assert (first, second, third) == (False, False, True)


def test_a_stop_while_somebody_is_frozen_lets_him_go_on_and_tells() -> None:
    world = World([a_lane("a", 0, 0)], stop_at=2000 * MS)
    said: list[str] = []
    runner = Runner(_freezing(60.0), world.target(), said.append)
    with pytest.raises(Stopped):
        runner.cycle()
    assert said[1:] == ["broken off, healing everything", "healed in 0.0 s"]
    assert world.at_rest()
    [record] = runner.records
    assert record.healed < 2100 * MS


def test_the_final_heal_does_all_even_if_one_part_fails() -> None:
    world = World([a_lane("a", 0, 0)])
    target = world.target()
    cast("Any", target.environment).heal = nobody
    with pytest.raises(Failed):
        Runner(_freezing(1.0), target).final_heal()
    assert world.healed == ["workers", "cluster"]


def test_records_have_the_fields_of_a_fault_interval() -> None:
    """The suites hand them to `checkers.history.FaultInterval`, which infra may not import: the contract's names."""
    assert [field.name for field in fields(Record)] == [
        "name", "kind", "target", "begun", "applied", "healing", "healed", "owner", "process",
    ]  # fmt: skip
