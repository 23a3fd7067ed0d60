"""A trial: one fault plan on one backend under one seed, with many lanes side by side.

It goes one way: plan → environment → workers → history → verdict → record. A trial ends when every property that it
judges was exercised, or at its deadline; then it heals, settles and reads everything once more.
"""

import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from checkers.check import check
from checkers.check import missing as not_exercised
from checkers.history import History
from checkers.judgement import judge_all
from checkers.wire import Run, State
from infra import store
from infra.backends import BACKENDS
from infra.environment import Environment
from infra.faults.plan import Plan, compile_plan, fault_names
from infra.faults.register import FAULTS
from infra.faults.runner import Runner
from infra.faults.target import MonotonicClock, Target
from infra.recovery import Refused as VersionRefused
from results.record import LaneRecord, TrialRecord
from results.terminal.events import Tell, says, step, waits
from suites import guest, registry, telling
from suites.about import about, rolled, servers, stalled
from suites.actors import Crew
from suites.lane import Lane, longest_ttl
from suites.recorded import Running, so_far, whole
from suites.spec import Spec, group_of
from suites.workers import ForkServer, Handle, TrialBroke

START_WITHIN: Final = 60.0
"""Seconds for all workers of a trial to connect; a cold machine needs a few, an overloaded one more than twenty."""
WARM_UP: Final = 5.0
"""Seconds within which every lane must have granted once, before the first fault."""
CALM: Final = 2.0
"""Seconds of a cycle of a plan without faults."""
LINGER: Final = 3.0
"""Seconds for which a trial goes on after its first cycle where something was not exercised yet: as a rule somebody
need only come by, which takes less than another cycle."""
LOOK_EVERY: Final = 0.5
"""Seconds between two looks at the counters meanwhile."""
ACQUIRE_BEYOND_TTL: Final = 1.0
"""Seconds that an acquire waits beyond the TTL: a crashed holder's lock is freed within one wait."""
BEYOND_BOUND: Final = 0.5
"""Seconds by which a lock must have missed its bound of recovery before nobody waits for it any more."""
STORE_TIMEOUT: Final = 0.5
FIT: Final = 20
"""Workers that do at once, on two cores: where a trial has more each works more slowly, as where several go on."""


class NoWayThere(TrialBroke):
    """The version that is to come does not start on the data of the old one. The text: its last words."""


class Unclean(TrialBroke):
    """The environment was not clean before or after the trial; the text lists what was not."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What is to be tried.

    column   the name of what is done, as in the matrix.
    part     of the lanes that are tried under it; each part is a trial of its own.
    attempt  counts the trials of one positive control.
    stage    of an upgrade, empty where there is none.
    version  the one that was asked for.
    plan     the user's own, or a storm; None: one is drawn from the seed.
    profile  which chose the lanes; None: somebody named locks or faults.
    planted  lane → the property that must name its bug, where it has one on purpose.
    """

    backend: str
    column: str
    seed: int
    lanes: tuple[Lane, ...]
    part: int = 1
    attempt: int = 1
    stage: str = ""
    version: str | None = None
    plan: Plan | None = None
    profile: str | None = None
    planted: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        part = f"part{self.part}" if self.part > 1 else ""
        return "-".join(filter(None, (self.backend, self.column, str(self.seed), part, self.stage)))

    @property
    def faults(self) -> tuple[str, ...]:
        """Of what the column consists, each once."""
        return self.plan.fault_names if self.plan else fault_names(self.column)

    @property
    def beyond_ttl(self) -> float:
        """Seconds that an acquire waits beyond the TTL."""
        return ACQUIRE_BEYOND_TTL + max((FAULTS[name].waits for name in self.faults if name in FAULTS), default=0.0)

    def plan_to_run(self) -> Plan:
        """The one that it was given, or that its seed draws."""
        return self.plan or compile_plan(self.faults, self.seed, self.backend, longest_ttl(self.lanes))


def run_trial(
    trial: Trial,
    environment: Environment,
    server: ForkServer,
    folder: Path,
    deadline: float,
    tell: Tell,
) -> TrialRecord:
    """Runs a trial to its end, whatever happens in between; the environment is clean afterwards.

    folder takes the recordings. deadline in seconds. Raises TrialBroke, or `infra.machine.Trouble` when a fault could
    not be applied or healed.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    _must_be_clean(environment, "before")
    ttl = longest_ttl(trial.lanes)
    plan = trial.plan_to_run()
    tell(telling.begins(trial, plan))
    store.prepare(environment.store_dsn(None))
    lanes = _launch(trial, environment, server, folder)
    crew = Crew(server, {lane.lane.name: lane.handles for lane in lanes}, ttl)
    runner = Runner(plan, Target.of(environment, trial.backend, crew, MonotonicClock()), lambda line: tell(step(line)))
    try:
        missing, stuck = _run(trial, plan, runner, crew, server, lanes, deadline, clock, environment, tell)
        _must_be_clean(environment, "after")
        versions = environment.cluster(trial.backend).versions()
        histories = [whole(trial, lane, versions, runner.records, environment) for lane in lanes]
    finally:
        if not environment.ours:
            guest.await_ends([handle.pid for handle in _all(lanes)])
            traces = ((lane.lane.lock, lane.keys) for lane in lanes)
            guest.sweep(environment, trial.backend, traces, lambda line: tell(says(line)))
    return TrialRecord(
        name=trial.name,
        about={
            **about(trial),
            "plan": plan.to_json(),
            "plan_lines": plan.describe(),
            **servers(environment, trial.backend),
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - clock, 2),
            "missing_after_each_cycle": missing,
            "rolled": rolled(runner.records, histories),
            "stalled": stalled(histories),
            "killed_at_the_end": [handle.spec.name for handle in stuck],
            "error": None,
        },
        lanes=_judged(histories, tell),
        logs={node.name: logs for node in environment.cluster(trial.backend).nodes if (logs := node.logs())},
    )


def _run(
    trial: Trial,
    plan: Plan,
    runner: Runner,
    crew: Crew,
    server: ForkServer,
    lanes: Sequence[Running],
    deadline: float,
    clock: float,
    environment: Environment,
    tell: Tell,
) -> tuple[list[dict[str, dict[str, str]]], list[Handle]]:
    """The plan, cycle by cycle, until all was exercised or `deadline` seconds after `clock`; then all is healed.

    Returns what was not exercised yet after each cycle, lane → property → reason, and the workers that had to be killed
    at the end.
    """
    missing: list[dict[str, dict[str, str]]] = []
    try:
        tell(waits("the workers to connect", START_WITHIN))
        server.await_state(_all(lanes), State.READY, START_WITHIN)
        for handle in _all(lanes):
            handle.ask(Run.GO)
        tell(waits("every lane to be granted once", WARM_UP))
        server.await_condition(lambda: all(_warm(trial, lane) for lane in lanes), WARM_UP)
        while True:
            _cycle(plan, runner, crew, server, lanes, tell)
            patience = LINGER if deadline and not missing else 0.0
            missing.append(_missing_in_the_end(trial, lanes, environment, runner, server, patience, tell))
            if plan.lasting or not missing[-1] or time.monotonic() - clock > deadline:
                break
            tell(telling.once_more(missing[-1]))
    except BaseException:
        # It comes to no verdict, so nobody need end in order; Ctrl-C leaves little time (xdist: ten seconds in all).
        for handle in _all(lanes):
            server.kill(handle)
        raise
    finally:
        runner.final_heal()  # lets every worker go on as well
        patience = longest_ttl(trial.lanes) + trial.beyond_ttl + ACQUIRE_BEYOND_TTL
        tell(waits("the workers to end", patience))
        stuck = server.finish(_all(lanes), patience)
    return missing, stuck


def _missing_in_the_end(
    trial: Trial,
    lanes: Sequence[Running],
    environment: Environment,
    runner: Runner,
    server: ForkServer,
    patience: float,
    tell: Tell,
) -> dict[str, dict[str, str]]:
    """What was not exercised yet, lane → property → reason: as soon as that is nothing, or so many seconds later."""
    versions = environment.cluster(trial.backend).versions()  # once: under load every server takes its time
    reasons = _missing(trial, lanes, versions, runner)
    until = time.monotonic() + patience
    while reasons and (left := until - time.monotonic()) > 0:
        tell(telling.lingers(reasons, left))
        server.await_condition(lambda: False, LOOK_EVERY)
        reasons = _missing(trial, [lane for lane in lanes if lane.lane.name in reasons], versions, runner)
    return reasons


def _missing(
    trial: Trial, lanes: Sequence[Running], versions: Mapping[str, str], runner: Runner
) -> dict[str, dict[str, str]]:
    """What was not exercised yet of these lanes. Of a lock with a bug only what names the bug is waited for."""
    missing = {}
    for lane in lanes:
        every, bug = not_exercised(so_far(trial, lane, versions, runner.records)), trial.planted.get(lane.lane.name)
        if reasons := {name: reason for name, reason in every.items() if bug in (None, name)}:
            missing[lane.lane.name] = reasons
    return missing


def _warm(trial: Trial, lane: Running) -> bool:
    """Whether the first fault may strike the lane: it was granted once. Where a fault may leave its lock held for ever,
    all that takes no fault must have been exercised: afterwards nothing is.
    """
    if not lane.granted_since(0):
        return False
    names = lane.lane.before_the_end(trial.faults)
    return not names or not not_exercised(so_far(trial, lane, {}, ()), names)


def _judged(histories: Sequence[History], tell: Tell) -> tuple[LaneRecord, ...]:
    records = []
    for number, history in enumerate(histories, 1):
        tell(telling.judges(history.facts.lane, number, len(histories)))
        records.append(LaneRecord(history, judge_all(check(history), history)))
    return tuple(records)


def _all(lanes: Sequence[Running]) -> list[Handle]:
    return [handle for lane in lanes for handle in lane.handles]


def _must_be_clean(environment: Environment, when: str) -> None:
    if unclean := environment.unclean():
        raise Unclean(f"{when} the trial: {'; '.join(unclean)}")


def _launch(trial: Trial, environment: Environment, server: ForkServer, folder: Path) -> list[Running]:
    """Start the workers of all lanes, spread over the client groups and, where nodes are equal, over the nodes."""
    lanes, specs, beyond = [], [], trial.beyond_ttl
    equal = environment.cluster(trial.backend).leader() is not None  # to any node a client may go
    run = secrets.token_hex(3)
    pace = BACKENDS[trial.backend].pace * max(1.0, sum(lane.workload.workers for lane in trial.lanes) / fit())
    for lane in trial.lanes:
        count = lane.workload.workers
        keys = tuple(f"{lane.name.replace('/', '.')}.{run}.{n}" for n in range(lane.workload.keys))
        lanes.append(Running(lane, keys))
        for number in range(count):
            group = group_of(number)
            endpoints = environment.endpoints(trial.backend, group)
            if via := lane.lock.via:
                endpoints = (environment.endpoints_of(via, group),)
            elif equal:
                shift = number % len(endpoints)
                endpoints = endpoints[shift:] + endpoints[:shift]
            specs.append(
                Spec(
                    recordings=str(folder),
                    lane=lane.name,
                    lock=registry.spelling(lane.lock_name),
                    endpoints=endpoints,
                    ttl=lane.lock.min_ttl,
                    workload=f"{lane.workload.__module__}:{lane.workload.__qualname__}",
                    store_dsn=environment.store_dsn(group),
                    store_mode=lane.store,
                    keys=keys,
                    number=number,
                    count=count,
                    seed=f"{trial.seed}/{lane.name}/{number}",
                    acquire_timeout=lane.lock.min_ttl + beyond,
                    store_timeout=STORE_TIMEOUT,
                    pace=lane.lock.pace or pace,
                    access=environment.access(trial.backend),
                )
            )
    handles = iter(server.spawn(specs))
    for running in lanes:
        running.handles = [next(handles) for _ in range(running.lane.workload.workers)]
    return lanes


def fit() -> float:
    """Workers that do in each of the trials that go on at once: of pytest-xdist every process has one."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return FIT * min(1.0, (os.cpu_count() or 2) / 2 / processes)


def _cycle(plan: Plan, runner: Runner, crew: Crew, server: ForkServer, lanes: Sequence[Running], tell: Tell) -> None:
    """All steps of the plan once; then wait until every lane has granted again, or its recovery bound has passed."""
    if plan.steps:
        try:
            runner.cycle()
        except VersionRefused as refused:
            raise NoWayThere(str(refused)) from refused
    else:
        tell(step("no fault"))
        server.await_condition(lambda: False, CALM)
    healed = time.monotonic_ns()
    crew.fill_up()
    patience = {lane.lane: lane.lane.lock.bounds.get("recovery", 0.0) + BEYOND_BOUND for lane in lanes}

    told: list[Lane] = []
    at = healed

    def judged(lane: Running) -> bool:
        unasked = "recovery" in lane.lane.workload.unasked
        return unasked or lane.granted_since(healed) or time.monotonic_ns() - healed > patience[lane.lane] * 1e9

    def all_judged() -> bool:
        nonlocal told, at
        late = [lane.lane for lane in lanes if not judged(lane)]
        if late and late != told and time.monotonic_ns() - at > 1e9:  # once a second is enough
            told, at = late, time.monotonic_ns()
            tell(telling.recovers(late, max(patience[lane] for lane in late) - (time.monotonic_ns() - healed) / 1e9))
        return not late

    server.await_condition(all_judged, max(patience.values()))
