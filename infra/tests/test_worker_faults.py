"""Faults on workers, and the runner, in a simulated world: lanes of workers that take turns at locks with a TTL."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from infra.faults.plan import Plan, Step, compile_plan
from infra.faults.runner import Record, Runner
from infra.faults.target import Stopped, Target, Victim
from infra.machine import Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infra.faults.target import Action, Gate

MS = 1_000_000
TICK = 5 * MS
TTL = 1.0
PHASE = 10 * MS
"""How long a worker takes from one gate to the next."""


@dataclass(slots=True)
class Worker:
    process: int
    key: int
    phase: str = "idle"
    due: int = 0
    caught: str = ""
    settled: bool = True


@dataclass(slots=True)
class Lane:
    """Workers of one lane. A lock ends at its lease's end, unless `expires` is False."""

    name: str
    workers: list[Worker]
    expires: bool = True
    leases: dict[int, tuple[int, int]] = field(default_factory=dict)
    armed: tuple[str, str, tuple[int, ...]] | None = None
    caught: list[Victim] = field(default_factory=list)
    story: list[tuple[int, str, int, int]] = field(default_factory=list)
    """(ns, what, process, key)"""

    def tick(self, now: int) -> None:
        for worker in self.workers:
            if worker.caught == "stall":
                self.leases[worker.key] = (worker.process, now + int(TTL * 1e9))
            elif not worker.caught and now >= worker.due:
                worker.due = now + PHASE
                self.step(worker, now)

    def step(self, worker: Worker, now: int) -> None:
        if worker.phase == "idle":
            holder = self.leases.get(worker.key)
            if holder is None or (self.expires and holder[1] <= now):
                self.leases[worker.key] = (worker.process, now + int(TTL * 1e9))
                self.reach(worker, "acquired", "after-acquire", now)
        elif worker.phase == "acquired":
            self.reach(worker, "read", "between-read-and-write", now)
        elif worker.phase == "read":
            worker.settled = True
            self.reach(worker, "written", "before-release", now)
        else:
            if self.leases.get(worker.key, (0, 0))[0] == worker.process:
                del self.leases[worker.key]
            worker.phase = "idle"

    def reach(self, worker: Worker, phase: str, gate: str, now: int) -> None:
        worker.phase = phase
        self.story.append((now, phase, worker.process, worker.key))
        if self.armed and self.armed[0] == gate and worker.process not in self.armed[2]:
            worker.caught = self.armed[1]
            self.caught.append(
                Victim(self.name, worker.process, 1000 + worker.process, now, f"worker {worker.process}", worker.key)
            )


@dataclass(slots=True)
class World:
    """Actors, clock and target of a trial."""

    all_lanes: list[Lane]
    time: int = 1000 * MS
    ttl: float = TTL
    stop_at: int = 1 << 62
    mute: bool = False
    """The store never answers."""
    healed: list[str] = field(default_factory=list)

    def now(self) -> int:
        return self.time

    def wait(self, seconds: float, until: Callable[[], bool] | None = None, every: float = 0.005) -> bool:
        deadline = self.time + int(seconds * 1e9)
        while True:
            if until is not None and until():
                return True
            if self.time >= deadline:
                return False
            if self.time >= self.stop_at:
                raise Stopped
            self.time += TICK  # whatever was asked for: more often does no harm
            for lane in self.all_lanes:
                lane.tick(self.time)

    def lanes(self) -> Sequence[str]:
        return [lane.name for lane in self.all_lanes]

    def lane(self, name: str) -> Lane:
        return next(lane for lane in self.all_lanes if lane.name == name)

    def worker(self, victim: Victim) -> Worker:
        return next(worker for worker in self.lane(victim.lane).workers if worker.process == victim.process)

    def arm(self, lane: str, gate: Gate, action: Action, exclude: Sequence[int] = ()) -> None:
        self.lane(lane).armed = (gate, action, tuple(exclude))
        self.lane(lane).caught = []

    def caught(self, lane: str) -> Sequence[Victim]:
        return tuple(self.lane(lane).caught)

    def disarm(self, lane: str) -> None:
        self.lane(lane).armed = None

    def thaw(self, victim: Victim) -> None:
        worker = self.worker(victim)
        worker.caught, worker.settled, worker.due = "", False, self.time + PHASE

    def settled(self, victim: Victim) -> bool:
        return self.worker(victim).settled and not self.mute

    def release_all(self) -> None:
        self.healed.append("workers")
        for lane in self.all_lanes:
            lane.armed = None
            for worker in lane.workers:
                worker.caught = "dead" if worker.caught == "kill" else ""

    def target(self) -> Target:
        def ready() -> bool:
            self.healed.append("cluster")
            return True

        cluster = SimpleNamespace(nodes=(), ready=ready, leader=_nobody)
        links = SimpleNamespace(heal_all=lambda: self.healed.append("links"))
        return Target("etcd", cast("Any", cluster), cast("Any", links), (), {}, self, self)

    def at_rest(self) -> bool:
        """Nobody is caught and nothing is armed."""
        return not any(
            lane.armed or any(worker.caught not in ("", "dead") for worker in lane.workers) for lane in self.all_lanes
        )


def _nobody() -> None:
    raise Failed("nobody leads")


def _lane(name: str, *keys: int, expires: bool = True) -> Lane:
    """One worker per given key."""
    base = 10 * sum(name.encode())
    return Lane(name, [Worker(base + number, key) for number, key in enumerate(keys)], expires)


def _run(world: World, fault: str) -> list[Record]:
    runner = Runner(compile_plan([fault], 1, "etcd", TTL), world.target())
    runner.cycle()
    assert world.at_rest()
    return list(runner.records)


def test_a_holder_of_every_lane_is_frozen_past_its_ttl() -> None:
    world = World([_lane("a", 0, 0, 0), _lane("b", 0, 0)])
    # The worker of b that starts first is late: a is frozen for as long.
    for worker in world.lane("b").workers:
        worker.due = world.time + 2500 * MS
    records = _run(world, "freeze-holder")
    assert len(records) == len(world.all_lanes)
    last = max(record.applied for record in records)
    assert last >= 3500 * MS
    for record in records:
        assert (record.name, record.kind) == ("freeze-holder", "freeze")
        assert record.owner == 1000 + record.process
        assert record.begun <= record.applied <= record.healing <= record.healed
        assert record.healing >= last + 1.6 * TTL * 1e9
    for lane in world.all_lanes:
        [frozen] = [record for record in records if record.process in {worker.process for worker in lane.workers}]
        # About to write: had it been caught before its last look at the lock, it would not write at all.
        assert (frozen.applied, "read", frozen.process, 0) in lane.story
        others = [now for now, what, process, _ in lane.story if what == "acquired" and process != frozen.process]
        assert any(frozen.applied + TTL * 1e9 <= now < frozen.healing for now in others)  # the successor got in


def test_a_lane_in_which_nobody_holds_is_left_alone() -> None:
    world = World([_lane("a", 0, 0), _lane("empty")])
    [record] = _run(world, "freeze-holder")
    assert record.process in {worker.process for worker in world.lane("a").workers}


def test_two_workers_caught_at_once_are_both_told() -> None:
    """Two keys, so two holders reach the gate between two looks: neither may stay frozen unrecorded."""
    world = World([_lane("a", 0, 1)])
    assert len(_run(world, "freeze-holder")) == 2


def test_a_holder_of_every_lane_is_killed() -> None:
    world = World([_lane("a", 0, 0), _lane("b", 0, 0)])
    records = _run(world, "kill-holder")
    assert [record.kind for record in records] == ["kill", "kill"]
    assert [worker.caught for lane in world.all_lanes for worker in lane.workers] == ["dead", "", "dead", ""]


@pytest.mark.parametrize("keys", [(0, 0), (0, 0, 0, 0), (0, 1, 2, 0, 1, 2)])
def test_a_late_write_lands_between_its_successors_read_and_write(keys: tuple[int, ...]) -> None:
    world = World([_lane("a", *keys), _lane("b", *keys)])
    records = _run(world, "late-write")
    world.wait(0.1)  # the successors write
    for lane in world.all_lanes:
        mine = [record for record in records if record.process in {worker.process for worker in lane.workers}]
        stalled = [record for record in mine if record.kind == "stall"][-1]
        stale = max((record for record in mine if record.kind == "freeze"), key=lambda record: record.healed)
        assert stale.process != stalled.process
        assert stale.healed - stale.applied >= TTL * 1e9
        [key] = {key for _, _, process, key in lane.story if process == stalled.process}
        on_key = [(what, process) for now, what, process, at in lane.story if at == key and now >= stale.applied]
        assert on_key[:5] == [
            ("read", stale.process),
            ("acquired", stalled.process),
            ("read", stalled.process),
            ("written", stale.process),
            ("written", stalled.process),
        ]
        assert stalled.healing >= stale.healed


def test_a_late_write_whose_successor_never_comes_gives_up() -> None:
    world = World([_lane("a", 0, 0, expires=False), _lane("b", 0, 0)])
    before = world.time
    records = _run(world, "late-write")
    assert len(records) == 3
    assert all(0 < record.begun <= record.applied <= record.healing <= record.healed for record in records)
    assert world.time - before < 12e9


def test_a_late_write_that_is_never_answered_gives_up() -> None:
    world = World([_lane("a", 0, 0)])
    world.mute = True
    assert [record.kind for record in _run(world, "late-write")] == ["freeze", "stall"]


# The runner


def _freezing(for_: float) -> Plan:
    return Plan("p", "etcd", 1, (Step("freeze-holder", 0.5, for_, {}),))


def test_cycles_go_on_until_the_trial_has_what_it_needs() -> None:
    world = World([_lane("a", 0, 0)])
    runner = Runner(_freezing(0.2), world.target())
    assert runner.run(lambda: len(runner.records) >= 3, seconds=60.0) == 3


def test_cycles_end_with_the_time() -> None:
    world = World([_lane("a", 0, 0)])
    before = world.time
    assert Runner(_freezing(0.2), world.target()).run(lambda: False, seconds=5.0) > 1
    assert 5e9 <= world.time - before < 7e9


def test_a_plan_without_steps_waits_for_the_condition() -> None:
    world = World([])
    before = world.time
    runner = Runner(compile_plan(["none"], 1, "etcd", TTL), world.target())
    assert runner.run(lambda: world.time > before + 2e9, seconds=60.0) == 1
    assert world.time < before + 3e9
    assert runner.records == ()


def test_a_fault_that_fails_heals_everything() -> None:
    world = World([_lane("a", 0, 0)])
    steps = (Step("freeze-holder", 0.0, 0.1, {}), Step("isolate-leader-drop", 0.0, 1.0, {}))
    runner = Runner(Plan("p", "etcd", 1, steps), world.target())
    with pytest.raises(Failed, match="nobody leads"):
        runner.run(lambda: False, seconds=60.0)
    assert world.healed[-3:] == ["workers", "links", "cluster"]
    assert [record.name for record in runner.records] == ["freeze-holder"]


def test_a_stop_while_somebody_is_frozen_lets_him_go_on_and_tells() -> None:
    world = World([_lane("a", 0, 0)], stop_at=2000 * MS)
    runner = Runner(_freezing(60.0), world.target())
    with pytest.raises(Stopped):
        runner.run(lambda: False, seconds=600.0)
    assert world.at_rest()
    [record] = runner.records
    assert record.healed < 2100 * MS


def test_the_final_heal_does_all_even_if_one_part_fails() -> None:
    world = World([_lane("a", 0, 0)])
    target = world.target()
    cast("Any", target.links).heal_all = _nobody
    with pytest.raises(Failed):
        Runner(_freezing(1.0), target).final_heal()
    assert world.healed == ["workers", "cluster"]


def test_records_have_the_fields_of_a_fault_interval() -> None:
    """The suites hand them to `checkers.history.FaultInterval`, which infra may not import: the contract's names."""
    assert [field.name for field in fields(Record)] == [
        "name", "kind", "target", "begun", "applied", "healing", "healed", "owner", "process",
    ]  # fmt: skip
