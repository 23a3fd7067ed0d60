"""Faults on real clusters, as plans run them: seen from outside to do what they say and to leave nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.faults.plan import Plan, Step, compile_plan
from infra.faults.probe import Answer
from infra.faults.runner import Runner
from infra.tests.environments import on
from infra.tests.live.hurting import BACKENDS, ask, done

if TYPE_CHECKING:
    from infra.environment import Environment
    from infra.faults.target import Target


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
    runner.cycle()
    runner.cycle()
    assert len(runner.records) >= 4
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
