"""Trials and environments that only remember what was asked of them: for tests of sessions of trials."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from checkers.claims import Verdict
from checkers.history.history import DTYPE, from_rows
from checkers.judging.judgement import Judgement
from checkers.tests.build import FACTS
from results.record import LaneRecord, TrialRecord
from results.run import Run
from results.terminal.event_journal import Event
from suites.selection.selection import Case, Selection
from suites.selection.trial import Trial
from suites.trial.metadata import about
from suites.trial.run_trials import TrialSession

SEED = 7
Told = dict[tuple[str, str], Verdict]  # (lane, property) → its verdict in a fake trial; UPHELD for all others
Script = Callable[[Trial], Told]


@dataclass
class FakeEnvironment:
    backends: list[tuple[str, str | None]] = field(default_factory=list)
    closed: bool = False

    @property
    def clusters(self) -> Mapping[str, None]:
        return dict.fromkeys(backend for backend, _ in self.backends)

    def ensure(self, backend: str, version: str | None) -> None:
        self.backends.append((backend, version))

    def close(self) -> None:
        self.closed = True


@dataclass
class World:
    """Stands in for environments and trials, and remembers in order what was started, run and closed."""

    run: Run
    script: Script = lambda _: {}
    because: str = "because"
    trials: list[Trial] = field(default_factory=list)
    environments: list[FakeEnvironment] = field(default_factory=list)
    told: list[Event] = field(default_factory=list)

    def session(self, asked: Selection) -> TrialSession:
        return TrialSession(asked, self.run, self.told.append)

    def start(self, **_: object) -> FakeEnvironment:
        self.environments.append(FakeEnvironment())
        return self.environments[-1]

    def run_trial(self, trial: Trial, environment: FakeEnvironment, *_: object) -> TrialRecord:
        assert not environment.closed
        self.trials.append(trial)
        words = self.script(trial)
        lanes = []
        for lane in trial.lanes:
            facts = replace(FACTS, trial=trial.name, lane=lane.name, fault_names=trial.faults, seed=trial.seed)
            names = (name for name in lane.properties if lane.asks(name, trial.faults))
            given = ((name, words.get((lane.name, name), Verdict.UPHELD)) for name in names)
            judgements = tuple(Judgement(name, word, self.because) for name, word in given)
            lanes.append(LaneRecord(from_rows(facts, np.zeros(0, DTYPE), []), judgements))
        told = {**about(trial), "plan": trial.plan_to_run().to_json(), "seconds": 4.0, "error": None}
        return TrialRecord(trial.name, told, tuple(lanes))


def breaks(error: BaseException, when: Callable[[Trial], bool] = lambda _: True, rest: Script = lambda _: {}) -> Script:

    def script(trial: Trial) -> Told:
        if when(trial):
            raise error
        return rest(trial)

    return script


def case_of(run: Selection, name: str, fault: str, store: str = "unfenced", stage: str = "") -> Case:
    where = (fault, f"redis/register/{store}", stage)
    (case,) = [case for case in run.cases(name) if (case.fault, case.lane.name, case.stage) == where]
    return case


def askable(run: Selection, lock: str) -> list[Case]:
    found = [case for case in run.cases("server-exclusion") if case.lane.lock_name == lock and case.because is None]
    assert len(found) > 1
    return found


def key_of(case: Case) -> tuple[str, str]:
    return case.lane.name, case.property_id


def shown_by(case: Case, attempt: int | None) -> Script:
    """Only this attempt shows the hazard of the case; None: no attempt does."""
    words = {True: Verdict.WEAKNESS_SHOWN, False: Verdict.WEAKNESS_NOT_SHOWN}
    return lambda trial: {key_of(case): words[trial.attempt == attempt]}


def every_case(run: Selection, fault: str) -> Iterator[Case]:
    names = dict.fromkeys(itertools.chain.from_iterable(lane.properties for lane in run.lanes))
    return (case for name in names for case in run.cases(name) if case.fault == fault)


def with_redlock(trial: Trial) -> bool:
    return "redlock" in {lane.lock_name for lane in trial.lanes}
