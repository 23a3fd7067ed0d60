"""Runs plans one after another, outside pytest: each on the environment that the last one left clean, or on a new one.

A cycle is one plan as a trial with a few lanes, whose workers are the victims of faults on workers.
"""

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from checkers.claims import NO_FAULT, Verdict
from checkers.judging.judgement import Judgement
from infra.backends import parse_shapes, shaped
from infra.errors import Trouble
from infra.faults.plan import Plan, compile_plan
from infra.own_environment import OwnEnvironment
from results.record import TrialRecord
from suites.lanes.lane import Lane, longest_ttl, meets, runnable_lanes
from suites.locks import registry
from suites.selection.profiles import PLAINEST
from suites.selection.trial import Trial
from suites.trial.run_trial import run_trial
from suites.worker import recorder
from suites.worker.pool import ForkServer, TrialBroke

DRAWN: Final = 6  # how many lanes `drawn_on` draws
STORES: Final = ("fence-writes", "compare-owner")  # store modes in order of preference


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The result of a plan: what was wrong ("" for nothing), and the record, None where the trial broke."""

    wrong: str
    record: TrialRecord | None = None


class Cycles:
    """Environment and fork servers for cycles, removed at the end of the block. Not for two threads at once."""

    def __init__(self, versions: Mapping[str, str] = MappingProxyType({}), shapes: Sequence[str] = ()) -> None:
        """versions: backend → the version of its servers, where it is not the default. shapes: as for `--shape`."""
        self._versions, self._shapes = versions, parse_shapes(shapes)
        self.members = {name: kind.members for name, kind in shaped(self._shapes).items()}
        self._folder = recorder.folder()
        self._environment: OwnEnvironment | None = None
        self._servers: dict[str, ForkServer] = {}

    def run(self, plan: Plan, lanes: Sequence[Lane], deadline: float = 0.0) -> PlanResult:
        """Run a plan once or, with a deadline (seconds), until everything was exercised or the deadline has passed.

        What went wrong is printed to stderr. After a trial that broke, the next plan gets a new environment.
        """
        try:
            cycle = self._trial(plan, lanes, deadline)
        except (Trouble, TrialBroke) as trouble:
            self._discard()
            cycle = PlanResult(str(trouble))
        if cycle.wrong:
            print(f"{plan.backend} {plan.name}, seed {plan.seed}: {cycle.wrong}", file=sys.stderr, flush=True)
        return cycle

    def run_fault(self, fault: str, seed: int, lanes: Sequence[Lane], deadline: float = 0.0) -> PlanResult:
        """Run the plan that the seed draws for one fault or for none. The lanes are on one backend. See `run`."""
        backend = lanes[0].backend
        plan = compile_plan([fault], seed, backend, longest_ttl(lanes), self.members[backend])
        return self.run(plan, lanes, deadline)

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

    def _trial(self, plan: Plan, lanes: Sequence[Lane], deadline: float) -> PlanResult:
        if self._environment is None:
            self._environment = OwnEnvironment.start(shapes=self._shapes)
        self._environment.ensure(plan.backend, self._versions.get(plan.backend))
        if plan.backend not in self._servers:
            self._servers[plan.backend] = ForkServer([registry.spelling(lane.lock_name) for lane in lanes])
        shape = self._shapes.get(plan.backend, "")
        trial = Trial(plan.backend, plan.name, plan.seed, tuple(lanes), plan=plan, shape=shape)
        server, folder = self._servers[plan.backend], Path(self._folder.name)
        record = run_trial(trial, self._environment, server, folder, deadline, lambda _: None)
        wrong = [f"{lane} {judgement.property}: {judgement.because}" for lane, judgement in violated(record)]
        return PlanResult(f"clean, but violated: {'; '.join(wrong)}" if wrong else "", record)


def violated(record: TrialRecord) -> Iterator[tuple[str, Judgement]]:
    """(lane, judgement) of every claim that was violated."""
    for lane in record.lanes:
        yield from ((lane.history.facts.lane, each) for each in lane.judgements if each.word is Verdict.VIOLATED)


def lanes_on(backend: str, fault: str = NO_FAULT) -> tuple[Lane, ...]:
    """A lane of each of the plainest locks on the backend that meets the fault, preferably with one of `STORES`."""
    there = [name for name in registry.LOCKS if registry.load(name).backend == backend]
    return tuple(
        min(lanes_for(name, fault), key=lambda lane: ((*STORES, lane.store).index(lane.store), lane.workload.name))
        for name in [name for name in there if name in PLAINEST] or there[:1]
    )


def lanes_for(name: str, fault: str = NO_FAULT) -> list[Lane]:
    """The lanes of a lock that meet the fault."""
    return [lane for lane in runnable_lanes(name) if meets(lane, (fault,))]


def drawn_on(backend: str, seed: int) -> tuple[Lane, ...]:
    """One random lane each of some random locks on the backend, without the positive controls (`registry.CONTROLS`)."""
    rng = random.Random(f"{backend}/{seed}")
    promising = [name for name in registry.LOCKS if name not in registry.CONTROLS]
    there = [lanes_for(name) for name in promising if registry.load(name).backend == backend]
    choices = [lanes for lanes in there if lanes]
    return tuple(rng.choice(lanes) for lanes in rng.sample(choices, min(DRAWN, len(choices))))
