"""Members that become another version for good: nothing brings them back but another such step, and not always that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from infra import images, members
from infra.environment import Environment
from infra.faults import versions
from infra.faults.plan import BadPlan, Plan, Step
from infra.faults.process import OneProcess
from infra.faults.register import FAULTS
from infra.faults.runner import Runner
from infra.faults.target import MonotonicClock, Target
from infra.star import MEMBERS, PRIMARY, REPLICA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infra.faults.runner import Record

OLD = {"etcd": "3.4", "redis": "7.0"}


@pytest.fixture(scope="module")
def old() -> Iterator[Environment]:
    environment = Environment.start()
    environment.boot(OLD)
    yield environment
    environment.close()


def roll(environment: Environment, backend: str, *steps: tuple[str, str, int]) -> list[Record]:
    """steps: version, who goes first, how many members. Everything is healed when it returns."""
    told = [
        Step("roll-version", 0.0, 0.0, {"version": version, "first": first, "members": count})
        for version, first, count in steps
    ]
    target = Target.of(environment, backend, OneProcess(None, 1.0), MonotonicClock())
    runner = Runner(Plan("p", backend, 1, tuple(told)), target)
    runner.cycle()
    runner.final_heal()
    assert environment.unclean() == []
    return list(runner.records)


def series(environment: Environment, *nodes: str) -> list[str]:
    return [environment.node(node).version().rpartition(".")[0] for node in nodes]


@pytest.mark.docker
def test_etcd_goes_back_from_half_way_and_not_from_the_end(old: Environment) -> None:
    leader = old.cluster("etcd").leader()
    assert leader
    (first,) = roll(old, "etcd", ("3.5", "leader", 1))
    assert first.target.startswith(f"{leader.name} (leader) from 3.4.")
    assert series(old, leader.name) == ["3.5"]
    records = roll(old, "etcd", ("3.4", "follower", 3), ("3.5", "follower", 3))
    assert [record.kind for record in records] == ["version"] * 4
    assert records[-1].target.split()[1] == "(leader)"
    assert series(old, *MEMBERS["etcd"]) == ["3.5"] * 3
    assert members.agreed(old.node("etcd1").address).startswith("3.5.")
    (refused,) = roll(old, "etcd", ("3.4", "follower", 3))
    assert refused.kind == "restart"
    assert " stays 3.5." in refused.target
    assert "cannot be downgraded" in refused.target
    assert series(old, *MEMBERS["etcd"]) == ["3.5"] * 3


@pytest.mark.docker
def test_a_primary_and_its_replica_go_together_both_ways(old: Environment) -> None:
    for version in ("8.0", "7.0"):
        (record,) = roll(old, "redis", (version, "leader", 1))
        assert record.target.startswith(f"{PRIMARY} from ")
        assert record.target.endswith(f", and so {REPLICA}")
        assert series(old, PRIMARY, REPLICA, "redis2") == [version, version, "7.0"]
    assert roll(old, "redis", ("7.0", "leader", 5)) == []


class Server:
    """A node of whose images each has the same version in it."""

    name, runs = "postgres", "mine:17"

    def image(self) -> str:
        return self.runs

    def version(self) -> str:
        return "17.11"

    def wanted(self) -> str:
        return "running"

    def remake(self, image: str) -> str:
        self.runs = image
        return ""


def test_of_one_version_there_and_back_the_images_tell_which_is_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "resolve", lambda backend, version: images.Image(backend, f"mine:{version}"))
    monkeypatch.setattr(images, "ensure", lambda _: None)
    monkeypatch.setattr(versions, "remake", lambda node, image, *_: node.remake(image))
    target = SimpleNamespace(
        backend="postgres",
        environment=SimpleNamespace(booted=lambda _: "mine:17", keep_version=lambda _: None),
        cluster=SimpleNamespace(nodes=[Server()], ready=lambda: True),
        links=None,
        clock=MonotonicClock(),
        alone=True,
    )
    hits = [
        hit.target
        for version in ("17.11", "17")
        for hit in Step("roll-version", 0.0, 0.0, {"version": version, "first": "follower", "members": 1})
        .injury("postgres")
        .apply(cast("Any", target))
    ]
    assert hits == [
        "postgres from 17.11 (mine:17) to 17.11 (mine:17.11)",
        "postgres from 17.11 (mine:17.11) to 17.11 (mine:17)",
    ]


def test_what_it_must_be_told() -> None:
    def plan(**options: object) -> Plan:
        step = {"fault": "roll-version", "after": 0.0, "for": 1.0, "options": options}
        return Plan.from_json({"name": "p", "backend": "etcd", "seed": 1, "steps": [step]})

    made = plan(version="3.5", first="leader", members=2)
    assert made.lasting
    assert made.describe() == [
        "after 0.0 s: replace 2 members, one after another, by version 3.5, the leader first, then wait 1.0 s"
    ]
    for wrong, why in (
        ({"version": "", "first": "leader", "members": 1}, "version: must be a text"),
        ({"version": "3.5", "first": "etcd1", "members": 1}, "first: must be leader or follower"),
        ({"version": "3.5", "first": "leader", "members": 4}, "members: must be a number from 1 to 3"),
        ({"version": "3.5", "first": "leader", "members": True}, "members: must be a number from 1 to 3"),
    ):
        with pytest.raises(BadPlan, match=why):
            plan(**wrong)
    assert [name for name, fault in FAULTS.items() if fault.lasting] == ["roll-version"]
