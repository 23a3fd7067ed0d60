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
from suites.workers import ForkServer, TrialBroke, WorkerBroke

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
        self._untold: dict[tuple[str, str, int], Exception] = {}
        """Failures that no case has told at length yet."""
        self._recordings = recorder.folder()

    def answer(self, case: Case) -> Answer:
        """Runs the trial behind the case, if it has not run yet. Raises what made the trial impossible.

        Where it was a lock's workers that broke, the others' lanes become a trial of their own, without that lock.
        """
        column = (case.lane.backend, case.fault)
        if column not in self._parts:
            self._parts[column] = self._asked.parts(*column)
        parts = self._parts[column]
        part = next(number for number, lanes in enumerate(parts, 1) if case.lane in lanes)
        trial = (*column, part)
        if trial in self._untold:
            raise self._untold.pop(trial)
        if trial in self._failures:
            raise TrialFailed(f"not judged, its trial came to no verdict: {self._failures[trial]}")
        if trial not in self._answers:
            try:
                self._answers[trial] = self._try(*trial, parts[part - 1])
            except Exception as error:  # noqa: BLE001 - kept: the same for every case of the trial, the first raises it
                self._failures[trial], self._untold[trial] = self._asked.masked(_in_a_line(error)), error
                self._discard_environment()
                self._parts[column] = _parted(parts, part, error)
                return self.answer(case)
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
            rest = {"traceback": lines} if (lines := told.splitlines()[1:]) else {}
            self._run.save_trial(TrialRecord(trial.name, {**about(trial), "error": line, **rest}, ()))
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


def _parted(parts: tuple[tuple[Lane, ...], ...], part: int, error: Exception) -> tuple[tuple[Lane, ...], ...]:
    """The parts after one of them broke: only the lanes of the locks whose workers broke it are left in it, all others
    become the last part. The same parts where nobody knows who it was, or it was everybody.
    """
    lanes = parts[part - 1]
    broke = error.lanes if isinstance(error, WorkerBroke) else frozenset[str]()
    blamed = {lane.lock_name for lane in lanes if lane.name in broke}
    others = tuple(lane for lane in lanes if lane.lock_name not in blamed)
    if not blamed or not others:
        return parts
    return (*parts[: part - 1], tuple(lane for lane in lanes if lane not in others), *parts[part:], others)


def _in_a_line(error: Exception) -> str:
    """For a summary."""
    if isinstance(error, TrialBroke):
        return error.line
    if isinstance(error, Trouble):
        return str(error).partition("\n")[0]
    return f"{type(error).__name__}: {error}".partition("\n")[0]
