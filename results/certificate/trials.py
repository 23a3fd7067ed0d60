"""What a certificate needs of trials beside their judgements: replaced servers, refused writes, errors of clients."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from checkers.history.history import History
from checkers.judging.judgement import declared
from checkers.row_format import F, Outcome, Reason
from results.record import TrialRecord
from results.stages import BASELINE, CANDIDATE, STAGES
from results.storage import files
from results.storage.files import BadFile
from results.storage.reading import load_trial
from results.text import cut, in_a_line

BUSY: Final = 0.2
"""The part of their time for which workers may be stopped by the machine. On an idle machine it is 0.01 to 0.1."""

_BY_DESIGN: Final = ("suites.locks.antipatterns.", "suites.locks.without.")
"""Packages of the locks that are broken by design."""


@dataclass(frozen=True, slots=True)
class UpgradeLane:
    """One lane.

    lease     see `checkers.history.history.Facts`.
    refused   writes that the store refused under a token that a later holder had overtaken.
    controls  properties that it is certain to break, as its lock declares.
    errors    text of an error → how often.
    servers   the number of servers, 0 if that was not stored.
    """

    lane: str
    store: str
    lease: str
    refused: int = 0
    controls: frozenset[str] = frozenset()
    errors: Mapping[str, int] = field(default_factory=dict)
    servers: int = 0


@dataclass(frozen=True, slots=True)
class UpgradeTrial:
    """One trial. by_design: the locks in it that are broken by design."""

    name: str
    backend: str
    column: str
    stage: str
    about: Mapping[str, Any]
    lanes: tuple[UpgradeLane, ...]
    by_design: frozenset[str] = frozenset()

    @property
    def stalled(self) -> float:
        """The part of their time for which the machine did not run its workers; 0 if that was not stored."""
        return float(self.about.get("stalled") or 0)


@dataclass(frozen=True, slots=True)
class ServerStep:
    """A server that was replaced by another version, or that refused to start.

    at       seconds since the trial's first operation.
    what     which server, from which version to which; if it refused, its message.
    """

    backend: str
    stage: str
    trial: str
    column: str
    at: float
    what: str
    refused: bool


def load(root: Path, problems: list[str]) -> tuple[UpgradeTrial, ...]:
    """All trials of a stage in the run folder `root`. Damaged ones are left out, with a line in `problems`."""
    trials = []
    for folder in files.entries(root / "trials", []):
        try:
            record = load_trial(folder)
        except BadFile as error:
            problems.append(str(error).removeprefix(f"{root}/"))
            continue
        if record.about.get("stage") in STAGES:
            trials.append(_trial(record))
    return tuple(trials)


def steps(trials: Iterable[UpgradeTrial]) -> tuple[ServerStep, ...]:
    """The steps of all trials, those of one trial by time."""
    return tuple(
        ServerStep(
            trial.backend, trial.stage, trial.name, trial.column, float(step["at"]), step["what"], step["refused"]
        )
        for trial in trials
        for step in sorted(trial.about.get("rolled") or (), key=lambda step: float(step["at"]))
    )


def no_way_there(trials: Iterable[UpgradeTrial]) -> tuple[str, ...]:
    """Messages of servers of the new version that did not start on the old data, each once."""
    refusals = ((trial.backend, trial.about.get("no_way_there")) for trial in trials)
    return tuple(dict.fromkeys(f"{backend}: {words}" for backend, words in refusals if words))


def _trial(record: TrialRecord) -> UpgradeTrial:
    about = record.about
    first = next((lane.history.facts for lane in record.lanes), None)
    locks = about.get("locks") or {}
    return UpgradeTrial(
        record.name,
        about.get("backend") or (first.backend if first else ""),
        about.get("column") or ("+".join(first.fault_names) if first else ""),
        about["stage"],
        about,
        tuple(_lane(lane.history) for lane in record.lanes),
        frozenset(name for name, spelled in locks.items() if spelled.startswith(_BY_DESIGN)),
    )


def _lane(history: History) -> UpgradeLane:
    facts, c = history.facts, history.columns
    stale = (c["f"] == F.WRITE) & (c["outcome"] == Outcome.FAIL) & (c["reason"] == Reason.STALE_TOKEN)
    errors = Counter(text for number in c["error"].tolist() if number and (text := history.errors[number]))
    controls = frozenset(name for name in facts.properties if declared(name, facts).certain is not None)
    refused = int(stale.sum())
    return UpgradeLane(facts.lane, facts.store, facts.lease, refused, controls, dict(errors), len(facts.versions))


_LONGEST: Final = 120
"""Characters that are compared and shown."""

_VARIES: Final = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "ID"),
    (re.compile(r"\[?\b[\w.-]+\]?:\d{2,5}\b"), "ADDRESS"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"), "ADDRESS"),
    (re.compile(r"\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,}\b", re.IGNORECASE), "ID"),
    (re.compile(r"\d+(?:\.\d+)?"), "N"),
)
"""Parts that differ between errors of the same kind, and what replaces them."""


class Turn(StrEnum):
    """In which stages a text occurs, the most notable first."""

    NEW = "new"
    BETWEEN = "only while versions change"
    GONE = "gone"
    BOTH = "in both"


@dataclass(frozen=True, slots=True)
class ErrorText:
    """One text on one backend. stages: stage → how often."""

    backend: str
    text: str
    stages: Mapping[str, int]

    @property
    def turn(self) -> Turn:
        if CANDIDATE in self.stages:
            return Turn.BOTH if BASELINE in self.stages else Turn.NEW
        return Turn.GONE if BASELINE in self.stages else Turn.BETWEEN


def normalised(text: str) -> str:
    """In one line, not too long, without numbers, addresses and ids."""
    text = in_a_line(text[: 4 * _LONGEST])
    for pattern, word in _VARIES:
        text = pattern.sub(word, text)
    return cut(text, _LONGEST)


def errors(trials: Iterable[UpgradeTrial]) -> tuple[ErrorText, ...]:
    """All texts in the order of `Turn`, those of one turn by frequency."""
    counted: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for trial in trials:
        for lane in trial.lanes:
            for text, number in lane.errors.items():
                counted[trial.backend, normalised(text)][trial.stage] += number
    texts = [
        ErrorText(backend, text, {stage: counts[stage] for stage in STAGES if stage in counts})
        for (backend, text), counts in counted.items()
    ]
    turns = list(Turn)
    texts.sort(key=lambda text: (turns.index(text.turn), -sum(text.stages.values()), text.backend, text.text))
    return tuple(texts)
