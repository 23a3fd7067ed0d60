"""Link and server faults on real clusters: each is seen from outside to do what it says and to leave nothing behind."""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from infra.faults import probe
from infra.faults.plan import Plan, Step, compile_plan
from infra.faults.probe import QUESTIONS, Answer
from infra.faults.register import FAULTS
from infra.faults.runner import Runner
from infra.faults.target import MonotonicClock, Target, Victim

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from infra.environment import Environment
    from infra.faults.target import Action, Gate, Hit
    from infra.nodes import Node

pytestmark = pytest.mark.docker

BACKENDS = ("redis", "etcd", "zookeeper")
ELECTING = ("etcd", "zookeeper")


class Nobody:
    """A trial without workers."""

    ttl = 1.0

    def lanes(self) -> Sequence[str]:
        return ()

    def arm(self, lane: str, gate: Gate, action: Action, exclude: Sequence[int] = ()) -> None:
        raise AssertionError(lane)

    def caught(self, lane: str) -> Sequence[Victim]:
        raise AssertionError(lane)

    def disarm(self, lane: str) -> None:
        raise AssertionError(lane)

    def thaw(self, victim: Victim) -> None:
        raise AssertionError(victim)

    def settled(self, victim: Victim) -> bool:
        raise AssertionError(victim)

    def release_all(self) -> None:
        """There is nobody."""


@pytest.fixture
def target(environment: Environment, request: pytest.FixtureRequest) -> Iterator[Target]:
    environment.ensure(request.param)
    target = Target.of(environment, request.param, Nobody(), MonotonicClock())
    assert environment.unclean() == []
    yield target
    assert environment.unclean() == []


def on(*backends: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("target", backends, indirect=True)


@contextmanager
def done(target: Target, fault: str, **options: object) -> Iterator[Hit]:
    """The one hit of a fault, as long as it lasts."""
    step = compile_plan([fault], 1, target.backend, ttl=1.0).steps[0]
    injury = Step(fault, 0.0, 0.0, {**step.options, **options}).injury(target.backend)
    try:
        hits = injury.apply(target)
        assert hits[0].kind == FAULTS[fault].kind
        assert hits[0].begun < hits[0].applied
        yield hits[0]
    finally:
        injury.heal(target)
        injury.heal(target)  # idempotent


def ask(target: Target, group: str, node: str) -> Answer:
    return probe.ask(target.backend, target.endpoints[group, node])


def past(target: Target, node: Node) -> Answer:
    return probe.ask(target.backend, "{}:{}".format(*node.address))


def live(target: Target, group: str, node: str) -> socket.socket:
    """A connection through the link, proven to be up at both ends."""
    host, _, port = target.endpoints[group, node].rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=0.5)
    time.sleep(0.05)  # Toxiproxy dials on after it has accepted, and says nothing about it
    return connection


def answer(connection: socket.socket) -> Answer:
    try:
        return Answer.ANSWERED if connection.recv(1) else Answer.CLOSED
    except TimeoutError:
        return Answer.SILENT
    except ConnectionError:
        return Answer.CLOSED


@on(*BACKENDS)
@pytest.mark.parametrize(
    ("how", "during", "afterwards"),
    [
        ("refuse", Answer.CLOSED, Answer.CLOSED),  # everybody knows
        ("drop", Answer.SILENT, Answer.CLOSED),  # what was sent never arrives
        ("hold", Answer.SILENT, Answer.ANSWERED),  # it arrives late, and is answered
    ],
)
def test_a_group_of_clients_is_cut(target: Target, how: str, during: Answer, afterwards: Answer) -> None:
    node = target.cluster.nodes[0]
    with live(target, "c2", node.name) as connection, live(target, "c1", node.name) as other:
        with done(target, f"cut-client-{how}", group="c2") as hit:
            assert hit.target == f"clients c2 from {', '.join(node.name for node in target.cluster.nodes)}"
            if how != "refuse":
                connection.sendall(QUESTIONS[target.backend])
            assert answer(connection) is during
            assert {ask(target, "c2", node.name) for node in target.cluster.nodes} == {during}
            assert {ask(target, "c3", node.name) for node in target.cluster.nodes} == {Answer.ANSWERED}
            assert past(target, node) is Answer.ANSWERED
        if how != "refuse":
            assert answer(connection) is afterwards
        other.sendall(QUESTIONS[target.backend])
        assert answer(other) is Answer.ANSWERED  # the links of others never felt it


@on("redis")
def test_a_held_write_lands_after_the_heal_and_a_dropped_one_never(environment: Environment, target: Target) -> None:
    def on_server(key: str) -> bytes:
        host, _, port = environment.direct("redis")[0].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=1.0) as connection:
            connection.sendall(f"GET {key}\r\n".encode())
            return connection.recv(100)

    for how, expected in (("hold", b"$4\r\nlate\r\n"), ("drop", b"$-1\r\n")):
        with live(target, "c1", "redis1") as connection:
            with done(target, f"cut-client-{how}", group="c1"):
                connection.sendall(f"SET test-{how} late\r\n".encode())
                assert answer(connection) is Answer.SILENT
                assert on_server(f"test-{how}") == b"$-1\r\n"
            answer(connection)
        assert on_server(f"test-{how}") == expected


@on(*BACKENDS)
def test_a_minority_is_cut_from_all_clients(target: Target) -> None:
    lost = target.cluster.nodes[0].name
    with done(target, "cut-minority-drop", nodes=[lost]):
        for group in target.groups:
            answers = [ask(target, group, node.name) for node in target.cluster.nodes]
            assert answers == [Answer.SILENT] + [Answer.ANSWERED] * (len(answers) - 1)
        assert target.cluster.ready()


@on(*ELECTING)
@pytest.mark.parametrize("how", ["refuse", "drop", "hold"])
def test_an_isolated_leader_is_succeeded_and_still_reached(target: Target, how: str) -> None:
    old = target.cluster.leader()
    assert old is not None
    with done(target, f"isolate-leader-{how}") as hit:
        peers = [node.name for node in target.cluster.nodes if node is not old]
        assert hit.target == f"{old.name} (leader) from {', '.join(peers)}"
        new = target.cluster.leader()
        assert new is not None
        assert new is not old
        assert {ask(target, group, old.name) for group in target.groups} == {Answer.ANSWERED}
    assert target.cluster.ready()


@on(*ELECTING)
@pytest.mark.parametrize("how", ["refuse", "drop", "hold"])
def test_an_isolated_follower_stops_serving_and_the_others_go_on(target: Target, how: str) -> None:
    leader = target.cluster.leader()
    with done(target, f"cut-nodes-{how}", follower=1) as hit:
        victim = target.node(hit.target.split()[0])
        assert victim is [node for node in target.cluster.nodes if node is not leader][1]
        assert "(follower)" in hit.target
        assert victim.health() is None
        assert target.cluster.leader() is leader
    assert target.cluster.ready()


@on(*BACKENDS)
def test_links_are_slow(target: Target) -> None:
    def seconds(endpoint: str) -> float:
        asked = time.monotonic()
        assert probe.ask(target.backend, endpoint, patience=5.0) is Answer.ANSWERED
        return time.monotonic() - asked

    with done(target, "slow-links", latency_ms=60, jitter_ms=5):
        assert len([line for line in target.links.active() if "slow by 60 ± 5 ms" in line]) == len(target.endpoints) + (
            3 if target.backend in ELECTING else 0
        )
        for endpoint in target.endpoints.values():
            assert seconds(endpoint) >= 0.11
        assert target.cluster.ready()
    assert min(seconds(endpoint) for endpoint in target.endpoints.values()) < 0.11


@on(*BACKENDS)
@pytest.mark.parametrize(("kind", "state", "answered"), [("pause", "paused", Answer.SILENT), ("kill", "stopped", None)])
def test_a_server_goes_down_and_comes_back(target: Target, kind: str, state: str, answered: Answer | None) -> None:
    old = target.cluster.leader()
    options = {} if old else {"nodes": ["redis1"]}
    with done(target, f"{kind}-server", **options) as hit:
        victim = old or target.node("redis1")
        assert hit.target == (f"{victim.name} (leader)" if old else victim.name)
        assert victim.state() == state
        assert {node.state() for node in target.cluster.nodes if node is not victim} == {"running"}
        assert ask(target, "c1", victim.name) is (answered or Answer.CLOSED)
        if old:
            assert target.cluster.leader() not in (old, None)
    assert victim.state() == "running"
    assert target.cluster.ready()


@on("redis")
def test_a_plan_runs_in_cycles_and_records(environment: Environment, target: Target) -> None:
    names = ["cut-client-refuse", "pause-server"]
    steps = tuple(Step(step.fault, 0.0, 0.2, step.options) for step in compile_plan(names, 3, "redis", 1.0).steps)
    runner = Runner(Plan("both", "redis", 3, steps), target)
    assert runner.run(lambda: len(runner.records) >= 4, seconds=30.0) == 2
    runner.final_heal()
    assert {record.kind for record in runner.records} == {"cut", "pause"}
    for earlier, later in zip(runner.records, runner.records[1:], strict=False):
        assert earlier.begun < earlier.applied < earlier.healing <= earlier.healed
        assert earlier.name == later.name or earlier.healed <= later.begun  # never two faults at once
    assert all(record.healing - record.applied >= 0.2e9 for record in runner.records)


@on("redis")
def test_the_final_heal_undoes_everything_at_once(environment: Environment, target: Target) -> None:
    for name in ("cut-client-drop", "pause-server", "kill-server"):
        step = compile_plan([name], 1, "redis", 1.0).steps[0]
        options = {"nodes": ["redis2"]} if name == "kill-server" else step.options
        Step(name, 0.0, 0.0, options).injury("redis").apply(target)
    assert len(environment.unclean()) > 2
    Runner(Plan("none", "redis", 1, ()), target).final_heal()
