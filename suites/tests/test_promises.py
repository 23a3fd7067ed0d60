"""Every lock says something about every fault, and what it says names faults that exist."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkers.claims import NO_FAULT, matches
from checkers.judgement import Standing, declared
from checkers.tests.build import FACTS
from infra.faults.register import FAULTS
from suites import registry
from suites.lane import lanes_of
from suites.locks import promises

GROUPS = (
    promises.LINKS,
    promises.SERVERS,
    promises.STORE,
    promises.RUNNING,
    promises.FROZEN_INSIDE,
    promises.CLOCKS,
    promises.LOSSES,
)


def applicable(backend: str) -> list[str]:
    return [name for name, fault in FAULTS.items() if fault.applies(backend) is None]


CASES = [(lock, fault) for lock in registry.LOCKS for fault in applicable(registry.lock(lock).backend)]


def standing(lock: str, name: str, *faults: str, store: str = "unfenced") -> Standing:
    cls = registry.lock(lock)
    return declared(name, replace(FACTS, fault_names=faults, store=store, claims=cls.claims, hazards=cls.hazards))


@pytest.mark.parametrize("group", GROUPS)
def test_no_group_names_a_fault_that_does_not_exist(group: tuple[str, ...]) -> None:
    assert [pattern for pattern in group if not any(matches(name, (pattern,)) for name in FAULTS)] == []


def test_no_fault_is_in_two_groups() -> None:
    for name in FAULTS:
        assert sum(matches(name, group) for group in GROUPS) <= 1, name


@pytest.mark.parametrize(("lock", "fault"), CASES)
@pytest.mark.parametrize("name", ["server-exclusion", "holder-exclusion"])
def test_every_fault_is_decided_on(lock: str, fault: str, name: str) -> None:
    """Whoever adds a fault says what locks make of it."""
    said = standing(lock, name, fault)
    assert said.claimed or said.hazards


@pytest.mark.parametrize("lock", registry.LOCKS)
def test_nothing_but_the_lock_itself_is_needed_where_there_is_no_fault(lock: str) -> None:
    for name in ("server-exclusion", "holder-exclusion", *(("token-order",) if registry.lock(lock).tokens else ())):
        assert standing(lock, name, NO_FAULT).claimed


@pytest.mark.parametrize("lock", registry.LOCKS)
@pytest.mark.parametrize("fault", FAULTS)
def test_where_the_fence_is_whole_no_update_is_lost(lock: str, fault: str) -> None:
    """Whatever happens to the lock, as long as its tokens are in order."""
    if not registry.lock(lock).tokens or FAULTS[fault].applies(registry.lock(lock).backend) is not None:
        return
    assert standing(lock, "fenced-store", fault, store="fence-reads-and-writes").claimed
    if not standing(lock, "token-order", fault).hazards:
        assert standing(lock, "no-lost-update", fault, store="fence-reads-and-writes").claimed


@pytest.mark.parametrize(
    ("lock", "fault", "certain"),
    [
        ("redis", "clock-jump-forward", True),
        ("redis", "clock-jump-back", True),
        ("redis", "clock-strobe", True),
        ("redis", "clock-drift", False),
        ("redlock", "clock-jump-forward", False),
        ("redlock", "wipe-server", False),
        ("etcd", "pause-server", False),
    ],
)
def test_what_breaks_exclusion_at_the_server(lock: str, fault: str, certain: bool) -> None:
    said = standing(lock, "server-exclusion", fault)
    assert said.hazards
    assert not said.claimed
    assert (said.certain is not None) == certain


@pytest.mark.parametrize("lock", registry.LOCKS)
def test_a_frozen_holder_breaks_every_lease(lock: str) -> None:
    for fault in ("freeze-holder", "freeze-after-acquire", "freeze-before-release", "late-write"):
        assert standing(lock, "holder-exclusion", fault).certain
        assert standing(lock, "server-exclusion", fault).claimed


def test_another_fault_beside_it_takes_the_certainty_and_not_the_excuse() -> None:
    said = standing("redis", "holder-exclusion", "freeze-holder", "cut-client-drop")
    assert said.hazards
    assert said.answered
    assert said.certain is None


def test_hazards_are_about_properties_that_lanes_ask_for() -> None:
    for lock in registry.LOCKS:
        cls = registry.lock(lock)
        asked = {name for lane in lanes_of(lock, cls) for name in lane.properties}
        assert {claim.property for claim in cls.claims} | {hazard.property for hazard in cls.hazards} <= asked
