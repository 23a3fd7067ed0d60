"""What can happen to a worker at each of its gates, seen in the recordings of real processes."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import pytest

from checkers import row_format
from checkers.history.history import read_recording
from checkers.row_format import F
from checkers.tests.build import there
from infra.faults.target import Action, Aim, Gate, Victim
from suites.lock import now
from suites.tests.bench import MODULE, SOON, specs, started, worked
from suites.trial.worker_control import WorkerControl, action_called, gate_called
from suites.worker import gates
from suites.worker.pool import ForkServer, Handle
from suites.worker.process_spec import Spec

LANE = "lane"
TTL = 0.3
MAIN: tuple[Gate, ...] = ("after-acquire", "between-read-and-write", "before-release")
OF_EACH_THREAD: tuple[Gate, ...] = ("between-read-and-write", "in-renewal")
NEXT = dict(zip(MAIN, (F.READ, F.WRITE, F.RELEASE), strict=True))  # gate → what the main thread does next


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suites.trial.worker_control.SIGNALLED_WITHIN", SOON)


def test_gates_and_actions_of_infra_are_those_of_the_wire() -> None:
    assert [gate_called(name) for name in get_args(Gate)] == list(row_format.Gate)
    assert [action_called(name) for name in get_args(Action)] == list(row_format.Action)


@dataclass
class Team:
    server: ForkServer
    handles: list[Handle]
    control: WorkerControl

    def catch(self, gate: Gate, action: Action, **aim: Any) -> tuple[Victim, Handle]:
        """The first worker that the action hits. Others that were caught are let go."""
        self.control.arm(LANE, Aim(gate, action, **aim))
        assert self.await_(lambda: bool(self.control.caught(LANE)))
        self.control.disarm(LANE)
        victim, *others = self.control.caught(LANE)
        for other in others:
            self.control.thaw(other)
        handle = self.handles[victim.process % len(self.handles)]
        assert victim.group == handle.spec.group
        return victim, handle

    def await_(self, condition: Callable[[], bool], seconds: float = SOON) -> bool:
        return self.server.await_condition(condition, seconds)

    def pause(self, seconds: float) -> None:
        self.server.await_condition(lambda: False, seconds)


@contextmanager
def at_work(given: Sequence[Spec]) -> Iterator[Team]:
    with closing(ForkServer([f"{MODULE}:Free"])) as server:
        handles = started(server, given)
        team = Team(server, handles, WorkerControl(server, {LANE: handles}, TTL))
        assert team.await_(lambda: all(worked(handle) for handle in handles))
        yield team
        team.control.release_all()
        if all(handle.exited is None for handle in handles):
            assert server.finish(handles, SOON) == []


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    with at_work(specs(str(tmp_path), "Lasting")) as team:
        yield team


def test_a_worker_that_the_harness_kills_under_an_armed_gate_breaks_no_trial(team: Team) -> None:
    team.control.arm(LANE, Aim("before-release", "kill", key=99))
    for handle in team.handles:
        team.server.kill(handle)
    team.control.release_all()
    assert team.await_(lambda: all(handle.exited is not None for handle in team.handles))


def rows(handle: Handle, *, main: bool | None = None, since: int = 0, until: int = 1 << 62) -> Any:
    """What the worker, or one of its threads, began between two times (ns), but no STALL, which the machine does."""
    told = read_recording(handle.spec.recording)
    told = told[(told["inv"] > since) & (told["inv"] < until) & (told["f"] != F.STALL)]
    return told if main is None else told[(told["process"] // handle.spec.count % 2 == 0) == main]


def renewals(handle: Handle, **when: int) -> Any:
    told = rows(handle, main=False, **when)
    return told[told["f"] == F.RENEW]


def test_two_wall_clocks_of_a_lane_are_moved_apart_until_they_are_let_go(team: Team) -> None:
    victims = team.control.skew((-50.0, 50.0), "one")
    clocks = [f"the clock of worker {number} of {LANE}: 50 s {way}" for number, way in ((0, "behind"), (1, "ahead"))]
    assert [victim.target for victim in victims] == clocks
    assert [victim.process for victim in victims] == [0, 1]
    [both] = team.control.skew((20.0,), "another")
    assert both.process == 0
    for ahead in ([-30, 50, 0], [20, 0, 0]):
        assert [round(row_format.word(each.page, row_format.CLOCK_IS) / 1e9) for each in team.handles] == ahead
        team.control.let_go("one")


@pytest.mark.parametrize("gate", OF_EACH_THREAD)
def test_a_frozen_process_does_nothing_at_all_and_then_goes_on(team: Team, gate: Gate) -> None:
    victim, handle = team.catch(gate, "freeze")
    assert handle.frozen()
    frozen = now()
    team.pause(2 * TTL)
    thawing = now()
    assert rows(handle, main=gate in MAIN, since=victim.at, until=thawing).size == 0
    assert rows(handle, since=frozen, until=thawing).size == 0  # until then the other thread went on
    assert not team.control.settled(victim)
    team.control.fill_up()
    assert len(team.handles) == 3, "it lives"
    team.control.thaw(victim)
    assert team.await_(lambda: team.control.settled(victim))
    assert not handle.frozen()
    after = rows(handle, since=thawing)
    if gate == "in-renewal":
        assert after[after["f"] == F.RENEW][0]["owner"] == victim.owner
    else:
        mine = after[after["owner"] == victim.owner]
        main = mine[mine["process"] == victim.process]
        assert F(main[0]["f"]) is NEXT[gate]
        assert F.RELEASE in set(main["f"].tolist())


@pytest.mark.parametrize(("gate", "action"), [*((gate, "stall") for gate in MAIN), ("after-acquire", "call")])
def test_the_lock_of_a_hung_job_is_renewed_all_the_while(team: Team, gate: Gate, action: Action) -> None:
    victim, handle = team.catch(gate, action, seconds=3600.0)
    assert victim.target == f"worker {handle.spec.number} of {LANE}"
    team.pause(2 * TTL)
    assert team.await_(lambda: len(renewals(handle, since=victim.at)) >= 4)
    thawing = now()
    assert rows(handle, main=True, since=victim.at, until=thawing).size == 0
    _, *owners = renewals(handle, since=victim.at, until=thawing)["owner"]  # the first may be of the grant before
    assert set(owners) == {victim.owner}
    team.control.thaw(victim)
    assert team.await_(lambda: team.control.settled(victim))
    assert F(rows(handle, main=True, since=thawing)[0]["f"]) is NEXT[gate]


@pytest.mark.parametrize("action", ["stall", "die"])
def test_the_lease_of_a_job_that_takes_long_ends_without_its_renewal(tmp_path: Path, action: Action) -> None:
    losing = tmp_path / "lost"
    given = [replace(spec, endpoints=(str(losing),)) for spec in specs(str(tmp_path), "Losable")]
    with at_work(given) as team:
        job, handle = team.catch("after-acquire", "stall")
        # Now no renewal of the grant before is under way.
        assert team.await_(lambda: job.owner in renewals(handle, since=job.at)["owner"].tolist())
        renewal, other = team.catch("in-renewal", action, worker=job)
        assert other is handle
        assert renewal.owner == job.owner
        assert renewal.target == f"the renewal of worker {handle.spec.number} of {LANE}"
        team.pause(TTL)  # in which it would be renewed three times
        losing.touch()
        assert team.await_(lambda: F.LOST in set(rows(handle, since=job.at)["f"].tolist()))
        thawing = now()
        lost = rows(handle, since=renewal.at, until=thawing)
        assert (set(lost["f"].tolist()), lost[0]["owner"]) == ({F.LOST}, job.owner)
        team.control.let_go("hand")
        assert team.await_(lambda: team.control.settled(job))
        assert F(rows(handle, main=True, since=thawing)[0]["f"]) is F.RELEASE  # the job touches nothing any more
        if action == "stall":
            assert team.await_(lambda: len(renewals(handle, since=thawing)) > 0)
            assert renewals(handle, since=thawing)[0]["owner"] == job.owner


def test_a_call_ends_by_itself_after_its_time(team: Team) -> None:
    victim, handle = team.catch("after-acquire", "call", seconds=3 * TTL)
    assert team.await_(lambda: rows(handle, main=True, since=victim.at).size > 0)
    (first, *_) = rows(handle, main=True, since=victim.at)
    assert first["inv"] >= victim.at + 3 * TTL * 1e9
    assert F(first["f"]) is F.READ


@pytest.mark.parametrize("gate", [*OF_EACH_THREAD, "after-renewal"])
def test_a_killed_process_ends_where_it_was(team: Team, gate: Gate) -> None:
    victim, handle = team.catch(gate, "kill")
    assert handle.exited == -signal.SIGKILL
    assert victim.process // handle.spec.count % 2 == 0, "the job is named and not its renewal"
    assert gates.killed_at(handle.page) == victim.at < handle.ended <= now()
    assert rows(handle, main=gate in MAIN, since=victim.at).size == 0
    team.control.let_go("hand")
    team.control.release_all()
    team.pause(0.1)  # its death breaks no trial, however often all are let go
    team.control.fill_up()
    dead = [handle.spec.number for handle in team.handles if handle.exited is not None]  # two may have come at once
    assert [(handle.spec.number, handle.spec.generation) for handle in team.handles[3:]] == [(n, 1) for n in dead]


class TestTheAim:
    def test_an_aim_at_a_group_or_a_key_hits_only_that(self, team: Team) -> None:
        for name, aimed in (("group", "c1"), ("group", "c2"), ("group", "c3"), ("key", 0), ("key", 1)):
            victim, _ = team.catch("after-acquire", "stall", **{name: aimed})
            assert getattr(victim, name) == aimed
            team.control.thaw(victim)

    def test_an_aim_hits_no_worker_that_is_held_already(self, team: Team) -> None:
        assert len({team.catch("after-acquire", "stall")[1].pid for _ in range(3)}) == 3
        team.control.arm(LANE, Aim("before-release", "kill"))
        team.pause(0.1)
        assert team.control.caught(LANE) == []

    def test_a_step_lets_go_only_the_workers_that_it_caught(self, team: Team) -> None:
        first, one = team.catch("after-acquire", "freeze", by="step1")
        second, two = team.catch("after-acquire", "freeze", by="step2")
        team.control.let_go("step1")
        assert team.await_(lambda: team.control.settled(first))
        assert not one.frozen()
        assert two.frozen()
        team.control.let_go("step2")
        assert team.await_(lambda: team.control.settled(second))

    def test_a_caught_worker_that_no_fault_asked_for_is_let_go_as_well(self, team: Team) -> None:
        team.control.arm(LANE, Aim("after-acquire", "freeze", by="step1"))
        assert team.await_(lambda: any(handle.frozen() for handle in team.handles))
        team.control.let_go("step1")
        assert team.await_(lambda: not any(handle.frozen() for handle in team.handles))


def test_the_first_of_the_waiting_workers_is_killed_and_replaced(tmp_path: Path) -> None:
    with closing(ForkServer([f"{MODULE}:Held"])) as server:
        waits = [replace(spec, keys=("a",), acquire_timeout=3600) for spec in specs(str(tmp_path), "Held")]
        handles = started(server, waits)
        control = WorkerControl(server, {LANE: handles}, TTL)
        assert server.await_condition(lambda: all(len(rows(handle, main=True)) for handle in handles), SOON)
        assert control.kill_waiter(LANE, 1) is None, "nobody asks for that key"
        since = {handle.spec.number: rows(handle, main=True)[0]["inv"] for handle in handles}
        victim = there(control.kill_waiter(LANE, 0))
        first = min(since, key=since.__getitem__)
        assert (victim.process, victim.owner, victim.target) == (first, 0, f"worker {first} of {LANE}, waiting")
        assert handles[first].exited
        control.fill_up()
        assert [handle.spec.generation for handle in handles] == [0, 0, 0, 1]
        for handle in handles:
            server.kill(handle)
