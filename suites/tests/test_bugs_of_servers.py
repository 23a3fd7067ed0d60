"""The catalogue's bugs in servers: one for each server that breaks a promise, and a lane that asks for it."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkers.judging.judgement import declared
from checkers.tests.build import FACTS
from infra.docker.servers_with_bugs import PLANTS
from suites import mutants
from suites.lanes.lane import Lane, lane_named, runnable_lanes
from suites.selection.options import EVERY_FAULT

ENTRIES: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    Path(mutants.__file__ or "").with_name("servers.toml").read_text(encoding="utf-8")
)


def lanes(entry: Mapping[str, Any]) -> list[Lane]:
    return [lane_named(f"{entry['lock']}/{where}") for where in entry["where"]]


def test_each_server_that_breaks_a_promise_is_tried() -> None:
    assert sorted(entry["server"] for entry in ENTRIES.values()) == sorted(
        str(plant) for plant in PLANTS if plant.name != "slow"
    )


@pytest.mark.parametrize("name", ENTRIES)
class TestEntry:
    def test_its_lock_is_on_its_server(self, name: str) -> None:
        entry = ENTRIES[name]
        assert {lane.backend for lane in lanes(entry)} == {entry["server"].partition(":")[0]}

    def test_it_says_what_the_server_is_said_to_do(self, name: str) -> None:
        entry = ENTRIES[name]
        (plant,) = (plant for plant in PLANTS if str(plant) == entry["server"])
        assert entry["bug"] == f"{plant.bug[0].upper()}{plant.bug[1:]}."

    def test_a_general_run_tries_its_lanes(self, name: str) -> None:
        assert set(lanes(ENTRIES[name])) <= set(runnable_lanes(ENTRIES[name]["lock"]))

    def test_its_lane_asks_for_what_must_find_it_and_its_lock_promises_it(self, name: str) -> None:
        entry = ENTRIES[name]
        fault = entry["fault"]
        assert fault in EVERY_FAULT
        for lane in lanes(entry):
            facts = replace(FACTS, workload=lane.workload.name, store=lane.store, fault_names=(fault,))
            facts = replace(facts, claims=lane.lock.claims, hazards=lane.lock.hazards)
            for found_by in entry["found_by"]:
                assert lane.asks(found_by, (fault,))
                assert declared(found_by, facts).answered
