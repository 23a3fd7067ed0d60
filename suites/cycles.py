"""One cycle of a plan after the other, each on an environment that the one before left clean, or on a new one.

A cycle is a trial with a lane of every lock of the backend, so that faults on workers find their victims. PostgreSQL,
which has no lock yet, is hit without workers.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from checkers.claims import Word
from checkers.history import FaultInterval
from infra.environment import Environment
from infra.faults.hand import OneProcess
from infra.faults.plan import Plan
from infra.faults.runner import Runner
from infra.faults.target import MonotonicClock, Target
from infra.machine import Trouble
from results.record import TrialRecord
from suites import registry
from suites.lane import Lane, lanes_of, longest_ttl
from suites.trial import Trial, Unclean, run_trial
from suites.workers import ForkServer, TrialBroke

TTL: Final = 1.0
"""Seconds that faults on workers reckon with where there is no lock."""
STORES: Final = ("fence-writes", "compare-owner")
"""The store mode of a lane: the first that the lock can have."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """What came of a plan: what was done when, what was wrong ("" if nothing was), and what was recorded, if it was."""

    faults: tuple[FaultInterval, ...]
    wrong: str
    record: TrialRecord | None = None


class Cycles:
    """Not for two threads at once. `close` leaves nothing behind."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fencepost-")
        self._environment: Environment | None = None
        self._servers: dict[str, ForkServer] = {}

    def run(self, plan: Plan) -> Cycle:
        """Do a plan once. After one that left something, or broke, the next gets a new environment."""
        try:
            environment = self._ready(plan.backend)
            lanes = lanes_on(plan.backend)
            return self._trial(plan, environment, lanes) if lanes else _without_workers(plan, environment)
        except (Trouble, TrialBroke) as trouble:
            self._discard()
            return Cycle((), str(trouble))

    def close(self) -> None:
        """End workers and environment."""
        self._discard()
        self._folder.cleanup()

    def _discard(self) -> None:
        for server in self._servers.values():
            server.close()
        self._servers.clear()
        if self._environment is not None:
            self._environment.close()
            self._environment = None

    def _trial(self, plan: Plan, environment: Environment, lanes: tuple[Lane, ...]) -> Cycle:
        if plan.backend not in self._servers:
            self._servers[plan.backend] = ForkServer([registry.spelling(lane.lock_name) for lane in lanes])
        trial = Trial(plan.backend, plan.name, plan.seed, lanes, plan=plan)
        server, folder = self._servers[plan.backend], Path(self._folder.name)
        record = run_trial(trial, environment, server, folder, 0.0, lambda _: None)
        faults = dict.fromkeys(fault for lane in record.lanes for fault in lane.history.faults)
        wrong = [
            f"{lane.history.facts.lane} {judgement.property}: {judgement.because}"
            for lane in record.lanes
            for judgement in lane.judgements
            if judgement.word is Word.VIOLATED
        ]
        return Cycle(tuple(faults), f"clean, but violated: {'; '.join(wrong)}" if wrong else "", record)

    def _ready(self, backend: str) -> Environment:
        if self._environment is None:
            self._environment = Environment.start()
        self._environment.ensure(backend)
        return self._environment


def lanes_on(backend: str) -> tuple[Lane, ...]:
    """A lane of every lock on the backend, the first by name of its workload with one of `STORES`."""
    found: list[Lane] = []
    for name in registry.LOCKS:
        lock = registry.lock(name)
        if lock.backend == backend:
            lanes = [lane for lane in lanes_of(name, lock) if lane.not_applicable is None and lane.store in STORES]
            found.append(min(lanes, key=lambda lane: (lane.workload.name, STORES.index(lane.store))))
    return tuple(found)


def ttl_on(backend: str) -> float:
    """Seconds that a fault on workers must outlast there."""
    lanes = lanes_on(backend)
    return longest_ttl(lanes) if lanes else TTL


def _without_workers(plan: Plan, environment: Environment) -> Cycle:
    target = Target.of(environment, plan.backend, OneProcess(None, TTL), MonotonicClock())
    runner = Runner(plan, target)
    runner.cycle()
    if unclean := environment.unclean():
        raise Unclean(f"after the plan: {'; '.join(unclean)}")
    return Cycle(tuple(FaultInterval(**asdict(record)) for record in runner.records), "")
