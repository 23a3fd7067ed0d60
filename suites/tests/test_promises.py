"""Every lock says something about every fault, what it says names faults that exist, and lanes ask accordingly."""

from dataclasses import replace
from itertools import product
from typing import ClassVar

import pytest

from checkers.claims import NO_FAULT, matches
from checkers.judging.judgement import Standing, declared
from checkers.tests.build import FACTS, cases
from infra.faults.all_faults import FAULTS
from suites.lanes.lane import Lane, lanes_of
from suites.lock import LockClient
from suites.locks import lease_claims, registry
from suites.locks.antipatterns.tutorial import SetnxNoTtl
from suites.locks.redis_single import RedisLock
from suites.locks.zookeeper import ZooKeeperLock

NAMES = ("LINKS", "SERVERS", "STORE", "RUNNING", "FROZEN_INSIDE", "CLOCKS", "LOSSES", "BOUNDARIES", "FROZEN_BETWEEN")
GROUPS = [getattr(lease_claims, name) for name in NAMES]
EXCLUDING = [lock for lock in registry.LOCKS if registry.load(lock).excludes]
BY_DESIGN = {lock for family in registry.BY_DESIGN for lock in registry.FAMILIES[family]}
LEASES = [lock for lock in EXCLUDING if registry.load(lock).lease != "none" and lock not in BY_DESIGN]


def applicable(backend: str) -> list[str]:
    return [name for name, fault in FAULTS.items() if fault.applies(backend) is None]


def asked(lock: str) -> set[str]:
    return {name for lane in lanes_of(lock, registry.load(lock)) for name in lane.properties}


def standing(lock: str, name: str, *faults: str, store: str = "unfenced", workload: str = "register") -> Standing:
    """What a lock declares. For a semaphore, `permits` stands in for `server-exclusion`."""
    cls = registry.load(lock)
    if name == "server-exclusion" and cls.permits > 1:
        name = "permits"
    facts = replace(FACTS, fault_names=faults, store=store, workload=workload)
    return declared(name, replace(facts, claims=cls.claims, hazards=cls.hazards))


def test_groups_name_faults_that_exist_and_no_fault_is_in_two() -> None:
    patterns = [pattern for group in GROUPS for pattern in group]
    assert [pattern for pattern in patterns if not any(matches(name, (pattern,)) for name in FAULTS)] == []
    assert [name for name in FAULTS if sum(matches(name, group) for group in GROUPS) > 1] == []


@pytest.mark.parametrize("lock", EXCLUDING)
def test_every_lock_has_a_claim_or_a_hazard_under_every_fault(lock: str) -> None:
    asked_of = product(("server-exclusion", "holder-exclusion"), applicable(registry.load(lock).backend))
    said = {each: standing(lock, *each) for each in asked_of}
    assert [each for each, one in said.items() if not (one.claimed or one.hazards)] == []


@pytest.mark.parametrize("lock", EXCLUDING)
def test_without_a_fault_a_lock_claims_exclusion_or_has_a_hazard_that_needs_none(lock: str) -> None:
    """A lock whose own page says that more is needed has a hazard that needs no fault, or is so by design."""
    for name in ("server-exclusion", "holder-exclusion", *(("token-order",) if registry.load(lock).tokens else ())):
        said = standing(lock, name, NO_FAULT)
        assert said.claimed or any(hazard.unprovoked() for hazard in said.hazards)
    known = BY_DESIGN | {"postgres-bouncer", "postgres-hashtext"}
    assert lock in known or not standing(lock, "server-exclusion", NO_FAULT).hazards


@pytest.mark.parametrize("lock", sorted(BY_DESIGN - {"single-writer"}))  # it has no lock, and is not broken
def test_what_is_broken_by_design_must_show(lock: str) -> None:
    cls = registry.load(lock)
    assert any(
        standing(lock, name, fault, store=lane.store, workload=lane.workload.name).certain
        for lane in lanes_of(lock, cls)
        for fault in (NO_FAULT, *applicable(cls.backend))
        for name in lane.properties
        if lane.asks(name, (fault,))
    )


@pytest.mark.parametrize("lock", [lock for lock in registry.LOCKS if registry.load(lock).tokens])
def test_where_the_fence_is_whole_no_update_is_lost(lock: str) -> None:
    properties, store = asked(lock), "fence-reads-and-writes"
    for fault in applicable(registry.load(lock).backend):
        if "fenced-store" in properties:
            assert standing(lock, "fenced-store", fault, store=store).claimed
        if "no-lost-update" in properties and not standing(lock, "token-order", fault).hazards:
            assert standing(lock, "no-lost-update", fault, store=store).claimed


@cases(
    "lock, fault, certain",
    *((how, "redis", f"clock-{how}", how != "drift") for how in ("jump-forward", "jump-back", "strobe", "drift")),
    ("redlock, time", "redlock", "clock-jump-forward", False),
    ("redlock, memory", "redlock", "wipe-server", False),
    ("etcd", "etcd", "pause-server", False),
)
def test_a_fault_that_breaks_exclusion_at_the_server_is_a_hazard(lock: str, fault: str, certain: bool) -> None:
    said = standing(lock, "server-exclusion", fault)
    assert said.hazards
    assert not said.claimed
    assert (said.certain is not None) == certain


@pytest.mark.parametrize("lock", LEASES)
def test_a_frozen_holder_breaks_every_lease(lock: str) -> None:
    for fault in ("freeze-holder", "freeze-after-acquire", "freeze-before-release", "late-write"):
        said = standing(lock, "holder-exclusion", fault)
        assert said.hazards
        assert said.certain or (fault == "late-write" and registry.load(lock).permits > 1)
        assert standing(lock, "server-exclusion", fault).claimed


def test_a_second_fault_makes_a_hazard_uncertain_but_keeps_it_as_an_excuse() -> None:
    said = standing("redis", "holder-exclusion", "freeze-holder", "cut-client-drop")
    assert said.hazards
    assert said.answered
    assert said.certain is None


@pytest.mark.parametrize("lock", registry.LOCKS)
def test_hazards_that_must_show_are_of_properties_that_lanes_ask(lock: str) -> None:
    assert {hazard.property for hazard in registry.load(lock).hazards if hazard.certain} - asked(lock) == set()


class Permits(RedisLock):
    permits: ClassVar[int] = 2


def lane(lock: type[LockClient]) -> Lane:
    return next(lanes_of("it", lock))


@cases(
    "name, fault, asking",
    ("hung holders, where locks name them", "crash-release", "stall-holder", [RedisLock]),
    ("a late release, by one that was frozen", "owner-release", "freeze-holder", [RedisLock, ZooKeeperLock]),
    ("killed at any message", "crash-release", "at-every-request-kill", [RedisLock, ZooKeeperLock]),
    ("of several permits nobody knows whose was given on", "crash-release", "kill-holder", [RedisLock, ZooKeeperLock]),
    ("nor who believed so", "honest-belief", "freeze-holder", [RedisLock, ZooKeeperLock]),
    ("without a fault nobody died", "crash-release", "none", []),
    ("nobody was frozen", "owner-release", "clock-jump-forward", []),
    ("whatever it is", "fail-fast", "freeze-holder", [RedisLock, ZooKeeperLock, Permits]),
)
def test_lanes_ask_what_the_fault_can_show(name: str, fault: str, asking: list[type[LockClient]]) -> None:
    assert [lock for lock in (RedisLock, ZooKeeperLock, Permits) if lane(lock).asks(name, (fault,))] == asking


def test_a_guarded_lane_does_not_ask_for_lost_updates_under_faults_of_the_store() -> None:
    lanes = {lane.store: lane for lane in lanes_of("it", ZooKeeperLock) if lane.workload.name == "set"}
    for fault, asked in (("delayed-write", False), ("store-reply-lost", False), ("late-write", True)):
        assert lanes["guarded"].asks("no-lost-update", (fault,)) is asked
        assert lanes["unfenced"].asks("no-lost-update", (fault,))
        assert lanes["guarded"].asks("server-exclusion", (fault,))


def test_a_lock_that_may_be_held_for_ever_is_exercised_before_the_fault() -> None:
    asked = {*lane(SetnxNoTtl).before_the_fault(("kill-holder",))}
    assert asked == {"server-exclusion", "holder-exclusion", "no-lost-update"}, "not crash-release"
    assert lane(SetnxNoTtl).before_the_fault(("delayed-write",)) == ()
    assert lane(RedisLock).before_the_fault(("kill-holder",)) == ()
