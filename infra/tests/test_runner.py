"""The runner: what is done when, what overlaps, and that all is healed whatever happens. In a simulated world."""

from dataclasses import fields
from typing import Any, cast

import pytest

from infra.errors import Failed
from infra.faults.plan import Step
from infra.faults.runner import Record
from infra.tests.simulated import MS, Interrupted, World, a_lane, nobody, run, runner


def _freezing(for_: float) -> Step:
    return Step("freeze-holder", 0.5, for_, {})


def _times(records: list[Record]) -> list[tuple[str, float, float]]:
    """Fault, and the seconds at which it was applied and healed, of each record; the world begins at second 1."""
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
    assert world.healed.count("cluster") == 1  # only when nothing was on any more


def test_the_time_of_a_fault_stands_still_while_another_is_applied() -> None:
    records = run(World([a_lane("a", 0, 0)]), _freezing(1.5), Step("kill-holder", 0.0, 0.2, {}, beside=True))
    (_, killed, _), (_, frozen, thawed) = _times(records)
    assert killed > frozen + 0.9  # nobody holds before the lease of the frozen one is over
    assert thawed >= killed + 1.5


def test_a_role_that_nobody_has_while_another_fault_is_on_is_no_error() -> None:
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
    assert [record.name for record in running.records] == ["freeze-holder"]


def test_it_says_what_happens_while_it_happens() -> None:
    world = World([a_lane("a", 0, 0)])
    said: list[tuple[str, bool]] = []
    run(world, _freezing(1.0), say=lambda line: said.append((line, world.at_rest())))
    (applied, first), (healing, second), (healed, third) = said
    assert applied.startswith("freeze-holder: applied after 0.0 s: worker 9")
    assert healing == "freeze-holder: healing"
    assert healed.startswith("freeze-holder: healed in 0.")
    assert (first, second, third) == (False, False, True)


def test_a_stop_while_somebody_is_frozen_lets_him_go_on_and_tells() -> None:
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
    """The suites hand them to `checkers.history.history.FaultInterval`, which infra may not import: the contract's
    names.
    """
    assert [field.name for field in fields(Record)] == [
        "name", "kind", "target", "begun", "applied", "healing", "healed", "owner", "process", "lane",
    ]  # fmt: skip
