"""One process's share of a run: each trial is run once, on one environment, and every case is answered from it."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from checkers.claims import Word
from checkers.judgement import Judgement
from infra.faults.plan import storm_seed
from infra.machine import Trouble
from results.record import TrialRecord, version_of
from results.record import decisive as shown_first
from results.report.telling import stories
from results.run import Run
from results.stages import CALIBRATION, CALIBRATIONS, CANDIDATE
from results.terminal.events import Event, Tell, step
from results.text import plain
from suites import calibration, recorder
from suites.about import about
from suites.asked import Asked, Case
from suites.lane import Lane
from suites.place import Place
from suites.stages import OF_UPGRADES
from suites.telling import named
from suites.trial import NoWayThere, Trial, run_trial
from suites.workers import TrialBroke, WorkerBroke


class TrialFailed(Exception):
    """The trial behind a case came to no verdict; the first of its cases says why at length."""


CONTROLS: Final = 3
"""A positive control may need this many trials, with seeds s, s+1, s+2; all of them are stored and counted."""


OUR_FAILURE: Final = (
    "The suite failed to stress the property, which says nothing about the lock. Run it again with another --seed, and "
    "on a quiet machine; where it comes back, report it with the folder of the run."
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a case came to: the judgement that counts, the trial's page, and in which of how many trials.

    seed, version  of that trial, and of the servers that it ran on.
    told           the story that the word rests on, as the page tells it.
    """

    judgement: Judgement
    page: Path
    attempt: int
    attempts: int
    seed: int = 0
    version: str = ""
    told: tuple[str, ...] = ()

    @property
    def story(self) -> tuple[str, ...]:
        """What is told, as plain text; empty where nothing broke."""
        violation = shown_first(self.judgement)
        return tuple(map(plain, self.told or (violation.story if violation is not None else ())))

    def must_hold(self) -> None:
        """Fails the test when the word is one of the failing four, with the story and the page."""
        word = self.judgement.word
        if word.fails:
            lines = [f"{word}: {plain(self.judgement.because)}", *(f"  {line}" for line in self.story)]
            if word is Word.UNEXERCISED:
                lines.append(f"  {OUR_FAILURE}")
            pytest.fail("\n".join([*lines, f"  see {plain(str(self.page))}"]), pytrace=False)

    def must_be_caught(self) -> None:
        """Fails the test where a bug that was planted is not violated."""
        if self.judgement.word is not Word.VIOLATED:
            told = f"a bug that was planted is not caught: {self.judgement.word}: {plain(self.judgement.because)}"
            pytest.fail(f"{told}\n  see {plain(str(self.page))}", pytrace=False)


@dataclass(frozen=True, slots=True)
class _Column:
    """What is told apart in the matrix of a backend."""

    backend: str
    fault: str
    stage: str


Stored = Callable[[Trial], "tuple[TrialRecord, Path] | None"]
"""A trial that was run before, with its page; None: it is to be run."""


def nothing_stored(_: Trial) -> None:
    """Of a run that has just begun."""


class Session:
    """Lazily makes the environment and the fork server; `close` leaves nothing behind. tell: is told what is done."""

    def __init__(self, asked: Asked, run: Run, tell: Tell, stored: Stored = nothing_stored) -> None:
        self._asked = asked
        self._run = run
        self._tell = tell
        self._stored = stored
        self._places = {stage.name: Place(asked, stage.name, tell) for stage in asked.stages}
        if CALIBRATION in self._places:  # the same versions
            self._places[CALIBRATION] = self._places[CANDIDATE]
        self._parts: dict[_Column, tuple[tuple[Lane, ...], ...]] = {}
        self._answers: dict[tuple[_Column, int], dict[tuple[str, str], list[Answer]]] = {}
        self._failures: dict[tuple[_Column, int], str] = {}
        self._untold: dict[tuple[_Column, int], Exception] = {}
        """Failures that no case has told at length yet."""
        self._recordings = recorder.folder()

    def answer(self, case: Case) -> Answer:
        """Runs the trial behind the case, if it has not run yet. Raises what made the trial impossible.

        Where it was a lock's workers that broke, the others' lanes become a trial of their own, without that lock.
        """
        column = _Column(case.lane.backend, case.fault, case.stage)
        if column not in self._parts:
            self._parts[column] = self._asked.parts(case.lane.backend, case.fault)
        parts = self._parts[column]
        part = next(number for number, lanes in enumerate(parts, 1) if case.lane in lanes)
        trial = (column, part)
        if trial in self._untold:
            raise self._untold.pop(trial)
        if trial in self._failures:
            raise TrialFailed(f"not judged, its trial came to no verdict: {self._failures[trial]}")
        if trial not in self._answers:
            try:
                self._answers[trial] = self._try(column, part, parts[part - 1])
            except Exception as error:  # noqa: BLE001 - kept: the same for every case of the trial, the first raises it
                self._failures[trial], self._untold[trial] = self._asked.masked(_in_a_line(error)), error
                self._places[case.stage].close()  # what such a trial leaves is not known for certain
                self._parts[column] = _parted(parts, part, error)
                return self.answer(case)
        return decisive(self._answers[trial][case.lane.name, case.property_id])

    def close(self) -> None:
        """End workers, environment and recordings."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(Place.close, set(self._places.values())))
        self._recordings.cleanup()

    def _try(self, column: _Column, part: int, lanes: tuple[Lane, ...]) -> dict[tuple[str, str], list[Answer]]:
        """Run a trial, and again with the next seed for lanes whose positive control did not fire."""
        answers: dict[tuple[str, str], list[Answer]] = {}
        trial = first_trial(self._asked, column.backend, column.fault, column.stage, part, lanes)
        most = 1 if column.stage in CALIBRATIONS else CONTROLS
        for attempt in range(1, most + 1):
            one = replace(trial, seed=trial.seed + attempt - 1, lanes=lanes, attempt=attempt)
            known = self._stored(one)
            record, page = known or self._run_one(one)
            version = version_of(record.about)
            for lane in record.lanes:
                told = stories(lane)
                for judgement in lane.judgements:
                    story = told.get(judgement.property, ())
                    answer = Answer(judgement, page, attempt, attempt, one.seed, version, story)
                    answers.setdefault((lane.history.facts.lane, judgement.property), []).append(answer)
            settled = {key: decisive(told).judgement for key, told in answers.items()}
            silent = {name for (name, _), judgement in settled.items() if judgement.word is Word.HAZARD_NOT_SHOWN}
            lanes = tuple(lane for lane in lanes if lane.name in silent and attempt < most)
            self._tell_end(one, record, settled, frozenset(lane.name for lane in lanes), new=known is None)
            if not lanes:
                break
        return answers

    def _run_one(self, trial: Trial) -> tuple[TrialRecord, Path]:
        place = self._places[trial.stage]
        environment = place.ready(trial.backend)
        deadline, folder = self._asked.profile.deadline, Path(self._recordings.name)
        try:
            record = run_trial(trial, environment, place.server(trial.backend), folder, deadline, self._tell)
        except Exception as error:
            told, line = (self._asked.masked(text) for text in (str(error) or repr(error), _in_a_line(error)))
            self._tell(Event("broke", {**named(trial), "text": line}))
            rest: dict[str, object] = {"traceback": lines} if (lines := told.splitlines()[1:]) else {}
            if isinstance(error, NoWayThere):
                rest["no_way_there"] = line
            self._run.save_trial(TrialRecord(trial.name, {**about(trial), "error": line, **rest}, ()))
            raise
        if trial.plan is not None and trial.plan.lasting:
            place.leave()  # it is another cluster by now
        self._tell(step("writing the page"))
        return record, self._run.save_trial(record)

    def _tell_end(
        self,
        trial: Trial,
        record: TrialRecord,
        settled: Mapping[tuple[str, str], Judgement],
        again: frozenset[str],
        *,
        new: bool,
    ) -> None:
        """again: the lanes whose controls did not fire; they are tried once more, and have not failed yet.

        new: whether it was run just now.
        """
        for (lane, name), judgement in settled.items() if trial.stage not in CALIBRATIONS else ():
            word = judgement.word
            if word.fails and not (word is Word.HAZARD_NOT_SHOWN and lane in again):
                facts = {"lane": lane, "property": name, "fault": trial.column, "word": str(word)}
                self._tell(Event("verdict", {**facts, "because": judgement.because}))
        if not new:
            return
        words = [judgement.word for lane in record.lanes for judgement in lane.judgements]
        counts = {str(word): words.count(word) for word in Word if word in words}
        seconds = record.about["seconds"]
        self._tell(Event("done", {**named(trial), "seconds": seconds, "words": counts, "again": len(again)}))


def first_trial(asked: Asked, backend: str, column: str, stage: str, part: int, lanes: tuple[Lane, ...]) -> Trial:
    """The trial with which a part of a column begins."""
    return Trial(
        backend,
        column,
        asked.seed if (storm := storm_seed(column)) is None else storm,
        lanes,
        part,
        stage=stage,
        version=asked.version(backend, stage),
        plan=asked.plan(column, backend),
        profile=None if asked.named or column in OF_UPGRADES else asked.profile.name,
        planted=calibration.found_by(lanes) if column in calibration.COLUMNS else {},
    )


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
