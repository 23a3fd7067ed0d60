"""One cycle of a plan after the other, each on an environment that the one before left clean, or on a new one.

A cycle is a trial with a few lanes, so that faults on workers find their victims.
"""

import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from checkers.claims import Verdict
from checkers.history.history import FaultInterval
from checkers.judging.judgement import Judgement
from infra.environment import Environment
from infra.faults.plan import Plan, compile_plan
from infra.machine import Trouble
from results.record import TrialRecord
from suites.lanes.lane import Lane, longest_ttl, runnable_lanes
from suites.locks import registry
from suites.selection.profiles import PLAINEST
from suites.trial.run import run_trial
from suites.trial.spec import Trial
from suites.worker import recorder
from suites.worker.pool import ForkServer, TrialBroke

DRAWN: Final = 6
"""Lanes of a trial of `drawn_on`."""
STORES: Final = ("fence-writes", "compare-owner")
"""The store modes that are preferred to others."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """What came of a plan: what was done when, what was wrong ("" if nothing was), and what was recorded, if it was."""

    faults: tuple[FaultInterval, ...]
    wrong: str
    record: TrialRecord | None = None


class Cycles:
    """Not for two threads at once. Nothing is left behind at the end of the block."""

    def __init__(self) -> None:
        self._folder = recorder.folder()
        self._environment: Environment | None = None
        self._servers: dict[str, ForkServer] = {}

    def run(self, plan: Plan, lanes: Sequence[Lane], deadline: float = 0.0) -> Cycle:
        """Do a plan, once if there is no deadline (seconds), else until everything was exercised or it has passed.

        What went wrong is printed to stderr. After a plan that broke, the next gets a new environment.
        """
        try:
            cycle = self._trial(plan, self._ready(plan.backend), lanes, deadline)
        except (Trouble, TrialBroke) as trouble:
            self._discard()
            cycle = Cycle((), str(trouble))
        if cycle.wrong:
            print(f"{plan.backend} {plan.name}, seed {plan.seed}: {cycle.wrong}", file=sys.stderr, flush=True)
        return cycle

    def run_fault(self, fault: str, seed: int, lanes: Sequence[Lane], deadline: float = 0.0) -> Cycle:
        """The plan that the seed draws for one fault, or for none. The lanes are on one backend. See `run`."""
        return self.run(compile_plan([fault], seed, lanes[0].backend, longest_ttl(lanes)), lanes, deadline)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._discard()
        self._folder.cleanup()

    def _discard(self) -> None:
        for server in self._servers.values():
            server.close()
        self._servers.clear()
        if self._environment is not None:
            self._environment.close()
            self._environment = None

    def _trial(self, plan: Plan, environment: Environment, lanes: Sequence[Lane], deadline: float) -> Cycle:
        if plan.backend not in self._servers:
            self._servers[plan.backend] = ForkServer([registry.spelling(lane.lock_name) for lane in lanes])
        trial = Trial(plan.backend, plan.name, plan.seed, tuple(lanes), plan=plan)
        server, folder = self._servers[plan.backend], Path(self._folder.name)
        record = run_trial(trial, environment, server, folder, deadline, lambda _: None)
        faults = dict.fromkeys(fault for lane in record.lanes for fault in lane.history.faults)
        wrong = [f"{lane} {judgement.property}: {judgement.because}" for lane, judgement in violated(record)]
        return Cycle(tuple(faults), f"clean, but violated: {'; '.join(wrong)}" if wrong else "", record)

    def _ready(self, backend: str) -> Environment:
        if self._environment is None:
            self._environment = Environment.start()
        self._environment.ensure(backend)
        return self._environment


def violated(record: TrialRecord) -> Iterator[tuple[str, Judgement]]:
    """Every claim that broke, with its lane."""
    for lane in record.lanes:
        yield from ((lane.history.facts.lane, each) for each in lane.judgements if each.word is Verdict.VIOLATED)


def lanes_on(backend: str) -> tuple[Lane, ...]:
    """A lane of each of the plainest locks on the backend, with the first of `STORES` that it can have, if with any."""
    there = [name for name in registry.LOCKS if registry.load(name).backend == backend]
    return tuple(
        min(runnable_lanes(name), key=lambda lane: (_preference(lane.store), lane.workload.name))
        for name in [name for name in there if name in PLAINEST] or there[:1]
    )


def drawn_on(backend: str, seed: int) -> tuple[Lane, ...]:
    """A lane each, at random, of some locks on the backend that promise anything (not `registry.CONTROLS`)."""
    rng = random.Random(f"{backend}/{seed}")
    promising = [name for name in registry.LOCKS if name not in registry.CONTROLS]
    there = [runnable_lanes(name) for name in promising if registry.load(name).backend == backend]
    choices = [lanes for lanes in there if lanes]
    return tuple(rng.choice(lanes) for lanes in rng.sample(choices, min(DRAWN, len(choices))))


def _preference(store: str) -> int:
    """0 for the store mode that is preferred to all others."""
    return STORES.index(store) if store in STORES else len(STORES)
