"""Members replaced by another version on the same data, and what a version says that does not start on them."""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient
from redis import Redis

from infra import commands, members, star
from infra.environment import Environment
from infra.faults.plan import BadPlan, Plan, Step, compile_plan
from infra.faults.process import OneProcess
from infra.faults.register import FAULTS
from infra.faults.target import MonotonicClock, Target
from infra.recovery import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infra.faults.fault import Injury
    from infra.faults.target import Hit

OLD = {"etcd": "3.4", "zookeeper": "3.8", "redis": "7.0"}
WITHIN = 30.0
"""Seconds for what takes one or two."""


@pytest.fixture(scope="module")
def old() -> Iterator[Environment]:
    """An environment of the older versions."""
    environment = Environment.start()
    environment.boot(OLD)
    yield environment
    environment.close()


def target_of(environment: Environment, backend: str) -> Target:
    return Target.of(environment, backend, OneProcess(None, 1.0), MonotonicClock())


def injury_of(backend: str, node: str, version: str) -> Injury:
    return Step("replace-version", 0.0, 0.0, {"node": node, "version": version}).injury(backend)


def applied(target: Target, injury: Injury) -> Hit:
    (hit,) = injury.apply(target)
    assert hit.kind == "version"
    assert hit.begun < hit.applied
    return hit


def await_(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def etcd(address: tuple[str, int], verb: str, **texts: str) -> dict[str, list[dict[str, str]]]:
    body = json.dumps({name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}).encode()
    with urllib.request.urlopen("http://{}:{}/v3/kv/{}".format(*address, verb), body, timeout=10) as answer:
        told: dict[str, list[dict[str, str]]] = json.load(answer)
    return told


def redis(target: Target, node: str) -> Redis:
    host, port = target.environment.node(node).address
    return Redis(host=host, port=port, socket_timeout=5, decode_responses=True)


@pytest.mark.docker
class TestReplaceVersion:
    def test_etcd_member_by_member_and_never_back(self, old: Environment, capsys: pytest.CaptureFixture[str]) -> None:
        target = target_of(old, "etcd")
        nodes = target.cluster.nodes
        etcd(nodes[0].address, "put", key="kept", value="yes")
        leader = target.cluster.leader()
        assert leader

        first = injury_of("etcd", "leader", "3.5")
        hit = applied(target, first)
        assert hit.target.startswith(f"{leader.name} from 3.4.")
        assert " to 3.5." in hit.target
        told = {node.name: node.version()[:3] for node in nodes}
        assert told == {node.name: "3.5" if node is leader else "3.4" for node in nodes}
        await_(target.cluster.ready)
        assert old.unclean() == [f"{leader.name} runs fencepost/etcd:trixie, not fencepost/etcd:bookworm"]
        other = Environment.attach(old.name)
        assert {name: version[:3] for name, version in other.cluster("etcd").versions().items()} == told
        assert other.unclean() == old.unclean()
        commands.status(["--env", old.name])
        said = capsys.readouterr().out
        assert said.count("running, 3.4.") == 2
        assert said.count("running, 3.5.") == 1
        first.heal(target)  # as long as one is old the others may go back
        first.heal(target)
        assert {node.version()[:3] for node in nodes} == {"3.4"}
        await_(lambda: old.unclean() == [])

        injuries = [injury_of("etcd", node.name, "3.5") for node in nodes]
        for injury in injuries:
            applied(target, injury)
            await_(target.cluster.ready)
            for node in nodes:
                assert etcd(node.address, "range", key="kept")["kvs"][0]["value"] == base64.b64encode(b"yes").decode()
        assert {node.version()[:3] for node in nodes} == {"3.5"}
        await_(lambda: members.agreed(nodes[0].address).startswith("3.5"))
        back = injury_of("etcd", "etcd2", "3.4")
        with pytest.raises(Refused, match=r"etcd2 does not start as fencepost/etcd:bookworm .*cannot be downgraded"):
            back.apply(target)
        back.heal(target)
        assert nodes[1].version().startswith("3.5")
        injuries[2].heal(target)
        assert nodes[2].version().startswith("3.5")
        await_(target.cluster.ready)
        assert old.unclean() == [f"etcd{i} runs fencepost/etcd:trixie, not fencepost/etcd:bookworm" for i in (1, 2, 3)]
        assert etcd(nodes[1].address, "range", key="kept")["kvs"]

    def test_zookeepers_leader_there_and_back(self, old: Environment) -> None:
        target = target_of(old, "zookeeper")
        leader = target.cluster.leader()
        assert leader
        client = KazooClient(hosts="{}:{}".format(*leader.address), timeout=4)
        client.start()
        client.create("/kept", b"yes")
        client.stop()
        client.close()
        injury = injury_of("zookeeper", "leader", "3.9")
        applied(target, injury)
        for version in ("3.9", "3.8"):
            await_(target.cluster.ready)
            assert leader.version().startswith(version)
            client = KazooClient(hosts="{}:{}".format(*leader.address), timeout=4)
            client.start()
            client.sync("/kept")
            assert client.get("/kept")[0] == b"yes"
            client.stop()
            client.close()
            injury.heal(target)

    def test_redis_there_and_back_until_it_rewrote_its_file(self, old: Environment) -> None:
        target = target_of(old, "redis")
        redis(target, "redis2").set("kept", "yes")
        injury = injury_of("redis", "redis2", "8.0")
        applied(target, injury)
        assert target.node("redis2").version().startswith("8.0.")
        assert redis(target, "redis2").get("kept") == "yes"
        injury.heal(target)
        assert target.node("redis2").version().startswith("7.0.")
        assert redis(target, "redis2").get("kept") == "yes"

        applied(target, injury)
        redis(target, "redis2").bgrewriteaof()
        await_(lambda: redis(target, "redis2").info("persistence")["aof_rewrites"] > 0)
        await_(lambda: not redis(target, "redis2").info("persistence")["aof_rewrite_in_progress"])
        injury.heal(target)
        assert target.node("redis2").version().startswith("8.0.")
        assert redis(target, "redis2").get("kept") == "yes"
        assert "redis2 runs fencepost/redis:trixie, not fencepost/redis:bookworm" in old.unclean()

    def test_redis1_and_its_replica_go_together(self, old: Environment) -> None:
        target, pair = target_of(old, "redis"), old.failover()
        assert pair
        redis(target, star.PRIMARY).set("kept", "yes")
        injury = injury_of("redis", star.PRIMARY, "8.0")
        assert applied(target, injury).target.endswith(f", and so {star.REPLICA}")
        for version in ("8.0.", "7.0."):
            await_(pair.follows)
            for node in (star.PRIMARY, star.REPLICA):
                assert old.node(node).version().startswith(version)
                await_(lambda node=node: redis(target, node).get("kept") == "yes")  # type: ignore[misc]
            injury.heal(target)

    def test_who_is_down_is_not_replaced(self, old: Environment) -> None:
        target = target_of(old, "redis")
        target.node("redis3").pause("another")
        assert injury_of("redis", "redis3", "8.0").apply(target) == []
        target.node("redis3").let_go("another")


def test_it_needs_a_plan_that_names_a_version() -> None:
    assert FAULTS["replace-version"].choose is None
    with pytest.raises(BadPlan, match="needs a version: name it in a plan"):
        compile_plan(["replace-version"], 1, "etcd", ttl=1.0)
    step = {"fault": "replace-version", "after": 0.0, "for": 1.0}
    plan = {"name": "p", "backend": "etcd", "seed": 1}

    def read(**options: object) -> Plan:
        return Plan.from_json({**plan, "steps": [{**step, "options": options, "beside": False}]})

    assert read(node="leader", version="3.5").describe() == [
        "after 0.0 s: replace leader by version 3.5, and for 1.0 s"
    ]
    with pytest.raises(BadPlan, match=r"steps\[0\].options.node: must be one of leader, etcd1"):
        read(node="zk1", version="3.5")
    with pytest.raises(BadPlan, match=r"steps\[0\].options.version: must be a text"):
        read(node="etcd1", version=3.5)
