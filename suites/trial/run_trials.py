"""The part of a run that one process executes: each trial runs once, and answers every case that belongs to it."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from checkers.claims import Verdict
from checkers.properties.all_properties import OF_THE_SERVICE
from infra.docker import machine
from infra.environment import Environment
from infra.faults.plan import storm_seed
from infra.own_environment import OwnEnvironment
from infra.target.external_environment import ExternalEnvironment
from infra.waiting import at_once
from results.certificate.promise_losses import DECIDING
from results.record import TrialRecord, version_of
from results.report.short_story import stories
from results.run import Run
from results.stages import BASELINE, CALIBRATION, CALIBRATIONS, CANDIDATE, STAGES
from results.terminal.event_journal import Event, Tell, says, step
from suites.lanes.lane import Lane
from suites.locks import registry
from suites.selection.selection import Case, Selection
from suites.selection.trial import Trial, named
from suites.trial import target_cleanup
from suites.trial.broken_trial import TrialFailed, blameless, broken_record, reason
from suites.trial.budget import TrialBudget
from suites.trial.case_answer import Answers, CaseAnswer, broken_unpromised, counting, shown_of_a_version, unpromised
from suites.trial.run_trial import run_trial
from suites.trial.timeouts import DEADLINE, STORM_DEADLINE
from suites.worker import recorder
from suites.worker.pool import ForkServer

CONTROLS: Final = 3
"""Trials that a positive control may take to show its hazard, with seeds s, s+1, s+2; all are stored and counted."""
MISSES: Final = 1  # so many of these trials of the new version need not show what the first one broke


@dataclass(slots=True)
class _Part:
    """The first trial of lanes that are tried together, and the answers of all their trials."""

    trial: Trial
    answers: Answers | None = None  # None before the trials, and if they came to no verdict
    failure: str | None = None  # one line: why there was no verdict; None if there is one, or before the trials
    error: Exception | None = None  # the exception behind the failure, until the first case has raised it


Stored = Callable[[Trial], "tuple[TrialRecord, Path] | None"]
"""The record and page of a trial that was run before; None: run it."""


class TrialEnvironment:
    """The environment of one stage of an upgrade. The next trial after `leave` or `close` gets a new one."""

    def __init__(self, selection: Selection, stage: str, tell: Tell) -> None:
        self._selection = selection
        self._stage = stage
        self._tell = tell
        self._environment: Environment | None = None
        self._servers: dict[str, ForkServer] = {}
        self._aside = ThreadPoolExecutor(max_workers=1)
        self._left: list[Future[None]] = []

    def ready(self, backend: str) -> Environment:
        if self._environment is not None and backend in self._environment.clusters:
            return self._environment
        targets, hooks, shapes = self._selection.targets, self._selection.hooks, self._selection.shapes
        began, version = time.monotonic(), self._selection.version(backend, self._stage)
        self._tell(Event("boot", {"backend": backend, "version": version or ""}))
        if self._environment is None:
            with machine.heard_by(lambda line: self._tell(says(line))):
                self._environment = (
                    ExternalEnvironment.beside(targets, hooks) if targets else OwnEnvironment.start(shapes=shapes)
                )
        self._environment.ensure(backend, version)
        if backend in targets:
            there = (lane for lane in self._selection.lanes if lane.backend == backend and not lane.lock.via)
            target_cleanup.ask_admission(self._environment, backend, {lane.lock_name: lane.lock for lane in there})
        self._tell(Event("ready", {"backend": backend, "seconds": round(time.monotonic() - began, 1)}))
        return self._environment

    def server(self, backend: str) -> ForkServer:
        if backend not in self._servers:
            names = {lane.lock_name for lane in self._selection.lanes if lane.backend == backend}
            pythons = self._selection.pythons(self._stage)
            self._servers[backend] = ForkServer(sorted(map(registry.spelling, names)), pythons)
        return self._servers[backend]

    def leave(self) -> None:
        """End the workers; the environment is removed while the next trial gets its own. Idempotent."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()
        if self._environment is not None:
            self._left.append(self._aside.submit(self._environment.close))
            self._environment = None

    def close(self) -> None:
        """End workers and environments and leave nothing behind. Idempotent. Raises Failed if something remains."""
        self.leave()
        while self._left:
            self._left.pop().result()


class TrialSession:
    """Environments and fork servers start when they are first needed; `close` removes them. tell: takes events."""

    def __init__(
        self,
        selection: Selection,
        run: Run,
        tell: Tell,
        stored: Stored | None = None,
        processes: Mapping[str, int] | None = None,
    ) -> None:
        """processes: backend → how many processes run its trials side by side, if more than one."""
        self._selection = selection
        self._run = run
        self._budget = TrialBudget(selection, run.path, processes or {})
        self._tell = tell
        self._stored = stored or (lambda _: None)
        self._environments = {stage.name: TrialEnvironment(selection, stage.name, tell) for stage in selection.stages}
        if CALIBRATION in self._environments:  # the same versions
            self._environments[CALIBRATION] = self._environments[CANDIDATE]
        self._parts: dict[tuple[str, str, str], list[_Part]] = {}  # (backend, column, stage) → its parts
        self._recordings = recorder.folder()

    def answer(self, case: Case) -> CaseAnswer:
        """The answer to a case; runs its trial first, if it has not run yet. Raises what broke the trial.

        Where the workers of one lock broke the trial, the lanes of the other locks become a trial of their own.
        """
        while (part := self._part_of(case)).answers is None:
            if part.failure is None:
                self._run_part(part)
            elif part.error is None:
                raise TrialFailed(f"not judged, its trial came to no verdict: {part.failure}")
            else:
                error, part.error = part.error, None
                raise error
        return counting(part.answers[case.lane.name, case.property_id], case.stage)

    def close(self) -> None:
        at_once(TrialEnvironment.close, set(self._environments.values()))
        self._recordings.cleanup()

    def _part_of(self, case: Case) -> _Part:
        backend, column, stage = place = case.lane.backend, case.fault, case.stage
        if place not in self._parts:
            parts = enumerate(self._selection.parts(backend, column), 1)
            trials = (self._selection.trial(backend, column, stage, number, lanes) for number, lanes in parts)
            self._parts[place] = list(map(_Part, trials))
        return next(part for part in self._parts[place] if case.lane in part.trial.lanes)

    def _run_part(self, part: _Part) -> None:
        """Run the trials of a part. If they break, the lanes of the locks that did not break them become a new part."""
        trial = part.trial
        try:
            part.answers = self._try(trial)
        except Exception as error:  # noqa: BLE001 - kept: the same for every case of the trial, the first raises it
            part.failure, part.error = self._selection.masked(reason(error)), error
            self._environments[trial.stage].close()  # what such a trial leaves is not known for certain
            place = trial.backend, trial.column, trial.stage
            parts = self._parts[place]
            if others := blameless(trial.lanes, error):
                part.trial = replace(trial, lanes=tuple(lane for lane in trial.lanes if lane not in others))
                parts.append(_Part(self._selection.trial(*place, len(parts) + 1, others)))

    def _try(self, trial: Trial) -> Answers:
        """Run a trial, and again with the next seed for lanes whose positive control did not fire, or, in a certificate
        and within its budget, that did not stress a property. Then both versions are tried until counts decide.
        """
        answers: Answers = {}
        lanes = trial.lanes
        most = 1 if trial.stage in CALIBRATIONS else CONTROLS
        for attempt in range(1, most + 1):
            lanes = self._add(replace(trial.again(attempt), lanes=lanes), answers, once_more=attempt < most)
            if not lanes:
                break
        if trial.stage == CANDIDATE:
            self._decide_unpromised(trial, answers)
            by_version = tuple(lane for lane in trial.lanes if lane.differs_by_version(trial.faults))
            if by_version:
                self._decide(replace(trial, lanes=by_version), answers)
        return answers

    def _decide_unpromised(self, trial: Trial, answers: Answers) -> None:
        """If the new version broke what nobody promised, try both versions, the old one first, until counts can decide.
        What the old version breaks too is left alone, and so is what the new one no longer breaks.

        trial: the first trial of the new version.
        """
        reasons = broken_unpromised(answers)
        missed: Counter[str] = Counter()
        for attempt in range(CONTROLS + DECIDING, CONTROLS + 2 * DECIDING - 1):
            broken = {lane for (lane, _), given in answers.items() for each in given if unpromised(each) in reasons}
            if not broken:
                return
            lanes = tuple(lane for lane in trial.lanes if lane.name in broken)
            again = replace(trial.again(attempt), lanes=lanes)
            of_old, of_new = Answers(), Answers()
            if not self._budget.allows(again, self._on_old(again)):
                return
            self._add(self._on_old(again), of_old)
            reasons -= broken_unpromised(of_old)
            if reasons:
                self._add(again, of_new)
                missed.update(reasons - broken_unpromised(of_new))
                reasons = {reason for reason in reasons if missed[reason] <= MISSES}
                for key, given in of_new.items():
                    answers[key] += given

    def _on_old(self, trial: Trial) -> Trial:
        """The same trial of the old version."""
        version, pythons = self._selection.version(trial.backend, BASELINE), self._selection.pythons(BASELINE)
        return replace(trial, stage=BASELINE, version=version, pythons=pythons)

    def _decide(self, trial: Trial, answers: Answers) -> None:
        """Try both versions until counts can decide, if the new one shows a weakness that only one of them may have.

        trial: the first trial of the new version. A second one is always run, as another chance for the weakness to
        show. Once the old version has shown it twice here, counts cannot decide any more.
        """
        shown_by_old = 0
        for attempt in range(CONTROLS + 1, CONTROLS + DECIDING):
            again, on_old = trial.again(attempt), self._on_old(trial.again(attempt))
            if shown_by_old > 1 or not self._budget.allows(again, on_old):
                return
            self._add(again, answers)
            if not shown_of_a_version(answers):
                return
            of_old: Answers = {}
            self._add(on_old, of_old)
            shown_by_old += shown_of_a_version(of_old)

    def _add(self, trial: Trial, answers: Answers, *, once_more: bool = False) -> tuple[Lane, ...]:
        """Run a trial, unless it has run before, and add its answers.

        once_more: whether lanes are tried again whose positive control did not fire, or that did not stress a property
        of a certificate whose budget lasts; they are returned, and have not failed yet.
        """
        known = self._stored(trial)
        record, page = known or self._run_one(trial)
        version = version_of(record.about)
        for lane in record.lanes:
            by_property = stories(lane)
            for judgement in lane.judgements:
                story = by_property.get(judgement.property, ())
                answer = CaseAnswer(judgement, page, trial.attempt, trial.seed, version, story)
                answers.setdefault((lane.history.facts.lane, judgement.property), []).append(answer)
        settled = {key: counting(given, trial.stage).judgement for key, given in answers.items()}

        def lanes_with(words: Collection[Verdict]) -> tuple[Lane, ...]:
            names = {lane for (lane, _), judgement in settled.items() if judgement.word in words}
            return tuple(lane for lane in trial.lanes if lane.name in names)

        missing = {Verdict.WEAKNESS_NOT_SHOWN} if once_more else set()
        calm = lanes_with({Verdict.NOT_STRESSED}) if once_more and trial.stage in STAGES else ()
        if calm and self._budget.allows(replace(trial, lanes=calm, seed=trial.seed + 1)):
            missing.add(Verdict.NOT_STRESSED)
        lanes = lanes_with(missing)
        again = {lane.name for lane in lanes}
        for (lane_name, name), judgement in settled.items() if trial.stage not in CALIBRATIONS else ():
            word = judgement.word
            if word.fails and not (word in missing and lane_name in again):
                facts = {"lane": lane_name, "property": name, "fault": trial.column, "word": str(word)}
                self._tell(Event("verdict", {**facts, "because": judgement.because}))
        if known is None:
            words = [judgement.word for lane in record.lanes for judgement in lane.judgements]
            counts = {str(word): words.count(word) for word in Verdict if word in words}
            seconds = record.about["seconds"]
            self._tell(Event("done", {**named(trial), "seconds": seconds, "words": counts, "again": len(again)}))
        return lanes

    def _run_one(self, trial: Trial) -> tuple[TrialRecord, Path]:
        mine = self._environments[trial.stage]
        environment = mine.ready(trial.backend)
        folder = Path(self._recordings.name)
        deadline = DEADLINE if storm_seed(trial.column) is None else STORM_DEADLINE
        try:
            record = run_trial(trial, environment, mine.server(trial.backend), folder, deadline, self._tell)
        except Exception as error:
            broken = broken_record(trial, error, self._selection.masked)
            self._tell(Event("broke", {**named(trial), "text": broken.about["error"]}))
            self._run.save_trial(broken)
            raise
        broke = {each.property for lane in record.lanes for each in lane.judgements if each.word is Verdict.VIOLATED}
        if (trial.plan is not None and trial.plan.lasting) or not broke.isdisjoint(OF_THE_SERVICE):
            mine.leave()  # it is another cluster by now, or its members differ, which no heal undoes
        self._tell(step("writing the page"))
        return record, self._run.save_trial(record)
