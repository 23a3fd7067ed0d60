"""One process's share of a run: each trial is run once, on one environment, and every case is answered from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from checkers.claims import Word
from checkers.judgement import Judgement
from infra.beside import ExternalEnvironment
from infra.environment import Environment
from infra.faults.plan import storm_seed
from infra.machine import Trouble
from results.record import TrialRecord
from results.run import Run
from suites import guest, recorder, registry
from suites.lane import Lane
from suites.options import Asked, Case
from suites.trial import Trial, about, run_trial
from suites.workers import ForkServer, TrialBroke

Say = Callable[[str], None]


class TrialFailed(Exception):
    """The trial behind a case came to no verdict; the first of its cases says why at length."""


CONTROLS: Final = 3
"""A positive control may need this many trials, with seeds s, s+1, s+2; all of them are stored and counted."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a case came to: the judgement that counts, the trial's page, and in which of how many trials."""

    judgement: Judgement
    page: Path
    attempt: int
    attempts: int

    def must_hold(self) -> None:
        """Fails the test when the word is one of the failing four, with the story and the page."""
        word = self.judgement.word
        if word.fails:
            violation = self.judgement.violation
            story = violation.story if violation is not None else ()
            lines = [f"{word}: {self.judgement.because}", *(f"  {line}" for line in story), f"  see {self.page}"]
            pytest.fail("\n".join(lines), pytrace=False)


class Session:
    """Lazily makes the environment and the fork server; `close` leaves nothing behind."""

    def __init__(self, asked: Asked, run: Run, say: Say) -> None:
        self._asked = asked
        self._run = run
        self._say = say
        self._environment: Environment | None = None
        self._servers: dict[str, ForkServer] = {}
        self._parts: dict[tuple[str, str], tuple[tuple[Lane, ...], ...]] = {}
        self._answers: dict[tuple[str, str, int], dict[tuple[str, str], list[Answer]]] = {}
        self._failures: dict[tuple[str, str, int], str] = {}
        self._recordings = recorder.folder()

    def answer(self, case: Case) -> Answer:
        """Runs the trial behind the case, if it has not run yet. Raises what made the trial impossible."""
        column = (case.lane.backend, case.fault)
        if column not in self._parts:
            self._parts[column] = self._asked.parts(*column)
        parts = self._parts[column]
        part = next(number for number, lanes in enumerate(parts, 1) if case.lane in lanes)
        trial = (*column, part)
        if trial in self._failures:
            raise TrialFailed(f"its trial failed: {self._failures[trial]}")
        if trial not in self._answers:
            try:
                self._answers[trial] = self._try(*trial, parts[part - 1])
            except Exception as error:  # whatever it is, it would be the same for every case of the trial
                self._failures[trial] = self._asked.masked(_in_a_line(error))
                self._discard_environment()
                raise
        return decisive(self._answers[trial][case.lane.name, case.property_id])

    def close(self) -> None:
        """End workers, environment and recordings."""
        self._discard_environment()
        self._recordings.cleanup()

    def _discard_environment(self) -> None:
        """After a trial that broke nothing is known for certain: the next one gets a new environment."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()
        if self._environment is not None:
            self._environment.close()
            self._environment = None

    def _try(self, backend: str, fault: str, part: int, lanes: tuple[Lane, ...]) -> dict[tuple[str, str], list[Answer]]:
        """Run a trial, and again with the next seed for lanes whose positive control did not fire."""
        answers: dict[tuple[str, str], list[Answer]] = {}
        trial = Trial(
            backend,
            fault,
            self._asked.seed if (storm := storm_seed(fault)) is None else storm,
            lanes,
            part,
            version=self._asked.versions.get(backend),
            plan=self._asked.plan(fault, backend),
        )
        for attempt in range(1, CONTROLS + 1):
            page, judgements = self._run_one(
                replace(trial, seed=trial.seed + attempt - 1, lanes=lanes, attempt=attempt)
            )
            for key, judgement in judgements.items():
                answers.setdefault(key, []).append(Answer(judgement, page, attempt, attempt))
            silent = {
                name for (name, _), told in answers.items() if decisive(told).judgement.word is Word.HAZARD_NOT_SHOWN
            }
            lanes = tuple(lane for lane in lanes if lane.name in silent)
            if not lanes:
                break
        return answers

    def _run_one(self, trial: Trial) -> tuple[Path, dict[tuple[str, str], Judgement]]:
        environment = self._ready(trial.backend)
        title = f"{trial.backend:<10} {trial.column:<22} seed {trial.seed}" + (
            f", part {trial.part}" if trial.part > 1 else ""
        )
        self._say(f"{title}: {len(trial.lanes)} lanes")
        deadline, folder = self._asked.profile.deadline, Path(self._recordings.name)
        try:
            record = run_trial(trial, environment, self._server(trial), folder, deadline, self._say)
        except Exception as error:
            told, line = (self._asked.masked(text) for text in (str(error) or repr(error), _in_a_line(error)))
            self._say(f"{title}: broke, {line}")
            self._run.save_trial(TrialRecord(trial.name, {**about(trial), "error": told}, ()))
            raise
        page = self._run.save_trial(record)
        judgements = {
            (lane.history.facts.lane, judgement.property): judgement
            for lane in record.lanes
            for judgement in lane.judgements
        }
        words = [judgement.word for judgement in judgements.values()]
        counts = ", ".join(f"{words.count(word)} {word}" for word in Word if word in words)
        self._say(f"{title}: {record.about['seconds']:.1f} s, {counts}")
        return page, judgements

    def _ready(self, backend: str) -> Environment:
        targets = self._asked.targets
        if self._environment is None:
            self._environment = (
                ExternalEnvironment.beside(targets, self._asked.hooks, self._say)
                if targets
                else Environment.start(say=self._say)
            )
        new = backend in targets and backend not in self._environment.clusters
        self._environment.ensure(backend, self._asked.versions.get(backend))
        if new:
            locks = (lane.lock for lane in self._asked.lanes if lane.backend == backend and not lane.lock.via)
            guest.ask_admission(self._environment, backend, locks)
        return self._environment

    def _server(self, trial: Trial) -> ForkServer:
        if trial.backend not in self._servers:
            names = {lane.lock_name for lane in self._asked.lanes if lane.backend == trial.backend}
            self._servers[trial.backend] = ForkServer(sorted(map(registry.spelling, names)))
        return self._servers[trial.backend]


def decisive(told: list[Answer]) -> Answer:
    """The answer that counts among the trials of one case: the heaviest, except that a positive control that fired
    in any of them has been shown (see `results.record.settled`). Nothing else hides a heavier trial.
    """
    shown = any(answer.judgement.word is Word.BROKEN_AS_DOCUMENTED for answer in told)
    counted = [answer for answer in told if not (shown and answer.judgement.word is Word.HAZARD_NOT_SHOWN)]
    heaviest = min(counted, key=lambda answer: answer.judgement.word.weight)
    return replace(heaviest, attempts=len(told))


def _in_a_line(error: Exception) -> str:
    """For a summary."""
    if isinstance(error, Trouble | TrialBroke):
        return str(error).partition("\n")[0]
    return f"{type(error).__name__}: {error}".partition("\n")[0]
