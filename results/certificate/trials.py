"""What a certificate needs of trials beside their judgements (replaced servers, refused writes, errors of clients), and
as plain JSON the conditions under which an upgrade was tried and what was not covered.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import Any, Final

from checkers.claims import Verdict
from checkers.history.history import History
from checkers.judging.judgement import declared
from checkers.measures.availability import longest_gap
from checkers.measures.measured_history import MeasuredHistory
from checkers.models.model import Settings
from checkers.properties.recovery import RECOVERY
from checkers.row_format import F, Outcome, Reason
from results.pages.trial_page import nodes
from results.record import Cell, TrialRecord, grouped, mapping, words
from results.stages import ALONE, BASELINE, CANDIDATE, STAGES, TOGETHER
from results.storage.files import BadFile, entries
from results.storage.reading import load_trial
from results.text import cut, in_a_line

BUSY: Final = 0.2
"""The share of their time for which the machine may stop the workers. On an idle machine it is 0.01 to 0.1."""


@dataclass(frozen=True, slots=True)
class UpgradeLane:
    lane: str
    store: str
    lease: str  # see `checkers.history.history.Facts`
    refused: int = 0  # writes that the store refused because a later holder's token had overtaken theirs
    controls: frozenset[str] = frozenset()  # properties that the lane is certain to break, as its lock declares
    errors: Mapping[str, int] = field(default_factory=dict)  # text of an error → how often
    servers: int = 0  # the number of servers, 0 if that was not stored
    lock: str = ""
    # While versions change: when the longest gap began and ended in which clients asked for the lock and nobody held
    # it, in seconds since the trial's first operation. None: there was none, or it is not known.
    gap: tuple[float, float] | None = None
    recovery: float = 0  # seconds within which the lock promises to be granted again after a fault; 0 without a bound


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
    def clients(self) -> Mapping[str, str]:
        """Client library → release, as its locks loaded them."""
        return {str(name): str(version) for name, version in mapping(self.about.get("clients")).items()}

    @property
    def stalled(self) -> float:
        """The share of their time for which the machine did not run the workers; 0 if that was not stored."""
        return float(self.about.get("stalled") or 0)


@dataclass(frozen=True, slots=True)
class ServerStep:
    """A server that was replaced by another version, or that refused to start."""

    backend: str
    stage: str
    trial: str
    column: str
    at: float  # seconds since the trial's first operation
    what: str  # which server, from which version to which; if it refused, its message
    refused: bool


def load(root: Path, problems: list[str]) -> tuple[UpgradeTrial, ...]:
    """All trials of a stage in the run folder `root`. Damaged ones are left out, with a line in `problems`."""
    trials = []
    for folder in entries(root / "trials", []):
        try:
            record = load_trial(folder)
        except BadFile as error:
            problems.append(str(error).removeprefix(f"{root}/"))
            continue
        if record.about.get("stage") in STAGES:
            trials.append(_trial(record))
    return tuple(trials)


def steps(trials: Iterable[UpgradeTrial]) -> tuple[ServerStep, ...]:
    """The steps of all trials; those of one trial are in order of time."""
    return tuple(
        ServerStep(
            trial.backend, trial.stage, trial.name, trial.column, float(step["at"]), step["what"], step["refused"]
        )
        for trial in trials
        for step in sorted(trial.about.get("rolled") or (), key=lambda step: float(step["at"]))
    )


def _trial(record: TrialRecord) -> UpgradeTrial:
    about = record.about
    first = next((lane.history.facts for lane in record.lanes), None)
    zero = min((int(lane.history.columns["inv"].min()) for lane in record.lanes if len(lane.history)), default=0)
    locks, broken_by_design = about.get("locks") or {}, ("suites.locks.antipatterns.", "suites.locks.without.")
    return UpgradeTrial(
        record.name,
        about.get("backend") or (first.backend if first else ""),
        about.get("column") or ("+".join(first.fault_names) if first else ""),
        about["stage"],
        about,
        tuple(_lane(lane.history, zero, gaps=about["stage"] in TOGETHER) for lane in record.lanes),
        frozenset(name for name, spelled in locks.items() if spelled.startswith(broken_by_design)),
    )


def _lane(history: History, zero: int, *, gaps: bool) -> UpgradeLane:
    """zero: when the trial's first operation began, in ns. gaps: whether to look for the longest gap."""
    facts, c = history.facts, history.columns
    stale = (c["f"] == F.WRITE) & (c["outcome"] == Outcome.FAIL) & (c["reason"] == Reason.STALE_TOKEN)
    errors = Counter(text for number in c["error"].tolist() if number and (text := history.errors[number]))
    controls = frozenset(name for name in facts.properties if declared(name, facts).certain is not None)
    refused = int(stale.sum())
    gap = longest_gap(MeasuredHistory(history, Settings())) if gaps else None
    return UpgradeLane(
        facts.lane,
        facts.store,
        facts.lease,
        refused,
        controls,
        dict(errors),
        len(facts.versions),
        facts.lock,
        gap and ((gap[0] - zero) / 1e9, (gap[1] - zero) / 1e9),
        facts.bounds.get(RECOVERY.id, 0) / 1e9,
    )


_LONGEST: Final = 120  # the most characters of an error's text that are compared and shown

_VARIES: Final = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "ID"),
    (re.compile(r"\[?\b[\w.-]+\]?:\d{2,5}\b"), "ADDRESS"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"), "ADDRESS"),
    (re.compile(r"\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,}\b", re.IGNORECASE), "ID"),
    (re.compile(r"\d+(?:\.\d+)?"), "N"),
)
"""Parts of a text that differ between errors of the same kind, and what replaces them."""


class Turn(StrEnum):
    """In which stages the text of an error occurs; the most notable first."""

    NEW = "new"
    BETWEEN = "only while versions change"
    GONE = "gone"
    BOTH = "in both"


@dataclass(frozen=True, slots=True)
class ErrorText:
    """The text of an error on one backend. stages: stage → how often."""

    backend: str
    text: str
    stages: Mapping[str, int]

    @property
    def turn(self) -> Turn:
        if CANDIDATE in self.stages:
            return Turn.BOTH if BASELINE in self.stages else Turn.NEW
        return Turn.GONE if BASELINE in self.stages else Turn.BETWEEN


def normalised(text: str) -> str:
    """The text of an error in one line, not too long, without numbers, addresses and ids."""
    text = in_a_line(text[: 4 * _LONGEST])
    for pattern, word in _VARIES:
        text = pattern.sub(word, text)
    return cut(text, _LONGEST)


def errors(trials: Iterable[UpgradeTrial]) -> tuple[ErrorText, ...]:
    """All texts of errors in the order of `Turn`; those of one turn by frequency."""
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


_OURS: Final = (
    (re.compile(r"\bfp-\d+-[0-9a-f]{4}\b"), "ENVIRONMENT"),
    (re.compile(r"\b10\.\d{1,3}\.\d{1,3}\.(?=\d)"), "10.x.y."),
)
"""Texts that differ from one environment to the next (its name and its subnet), and what replaces them."""

_COMMAND: Final = "command line"

NEVER: Final = (
    "several machines, with disks and a network of their own",
    "hours, and hundreds of clients",
    "your data, your configuration, your clients",
    "what versions before these two left in the data",
)
"""What this suite never tests."""


def conditions(about: Mapping[str, Any], trials: Sequence[UpgradeTrial]) -> dict[str, Any]:
    """{suite, hosts, pythons, clocks, began, ended, stalled, images, configuration, plans}. about: of the run.

    began, ended: when the first trial began and the last one ended, in UTC; null if no trial has its time.
    stalled: {middle, most, trial, busy}, of all trials; the share of their time for which the machine did not run the
    workers. busy: the number of trials in which the share was more than `BUSY`.

    images: {backend, stage, version, image, digest, packager, nodes: [name]} of the servers of baseline and candidate.
    configuration: {backend, nodes: [name], name, baseline, candidate (null: it is missing)} for each setting or
    client library that differs; of a command line only the words that differ.
    plans: {backend, stage, column, seed, trial}.
    """
    alone = [trial for trial in trials if trial.stage in ALONE]
    return {
        "suite": _text(about.get("suite")),
        **{
            several: sorted({_text(trial.about.get(name)) for trial in trials if trial.about.get(name)})
            for several, name in (("hosts", "host"), ("pythons", "python"), ("clocks", "clock"))
        },
        **_when(trials),
        "stalled": _stalled(trials),
        "images": _images(alone),
        "configuration": _differences(alone),
        "plans": [
            {
                "backend": trial.backend,
                "stage": trial.stage,
                "column": trial.column,
                "seed": trial.about.get("seed"),
                "trial": trial.name,
            }
            for trial in trials
        ],
    }


def one_version(trials: Iterable[UpgradeTrial]) -> dict[str, str]:
    """Backend → the version that its servers report, if baseline and candidate report the same one."""
    reported: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for trial in trials:
        if trial.stage in ALONE:
            reported[trial.backend][trial.stage].update(map(str, (trial.about.get("versions") or {}).values()))
    return {
        backend: next(iter(stages[BASELINE]))
        for backend, stages in sorted(reported.items())
        if stages[BASELINE] == stages[CANDIDATE] and len(stages[BASELINE]) == 1
    }


def _when(trials: Iterable[UpgradeTrial]) -> dict[str, str | None]:
    spans = []
    for trial in trials:
        with suppress(ValueError, OverflowError):
            began = datetime.fromisoformat(_text(trial.about.get("started"))).astimezone(UTC)
            spans.append((began, began + timedelta(seconds=float(trial.about.get("seconds") or 0))))
    if not spans:
        return {"began": None, "ended": None}
    first, last = min(began for began, _ in spans), max(ended for _, ended in spans)
    return {"began": first.isoformat(timespec="seconds"), "ended": last.isoformat(timespec="seconds")}


def _stalled(trials: Sequence[UpgradeTrial]) -> dict[str, Any]:
    most = max(trials, key=lambda trial: trial.stalled, default=None)
    return {
        "middle": round(median(trial.stalled for trial in trials), 3) if trials else 0.0,
        "most": most.stalled if most else 0.0,
        "busy": sum(trial.stalled > BUSY for trial in trials),
        "trial": most.name if most else "",
    }


def _images(trials: Iterable[UpgradeTrial]) -> list[dict[str, Any]]:
    nodes_of: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for trial in trials:
        versions = trial.about.get("versions") or {}
        stored = mapping(trial.about.get("nodes"))
        for node in nodes(trial.about):
            if node.name in versions:  # other nodes have no version and are the same in both stages
                packager = _text(mapping(stored.get(node.name)).get("packager"))
                nodes_of[trial.backend, trial.stage, node.version, node.image, node.digest, packager].add(node.name)
    names = ("backend", "stage", "version", "image", "digest", "packager")
    order = sorted(nodes_of, key=lambda key: (key[0], STAGES.index(key[1]), *key[2:]))
    return [{**dict(zip(names, key, strict=True)), "nodes": sorted(nodes_of[key])} for key in order]


def _differences(trials: Iterable[UpgradeTrial]) -> list[dict[str, Any]]:
    """Differences of nodes that both stages have. For each stage the first trial with the node counts."""
    settings: dict[tuple[str, str], dict[str, Mapping[str, str]]] = defaultdict(dict)
    for trial in trials:
        settings[trial.backend, "workers"].setdefault(trial.stage, trial.clients)
        for name, node in mapping(trial.about.get("nodes")).items():
            settings[trial.backend, name].setdefault(trial.stage, _settings(mapping(node)))
    differing: dict[tuple[str, str, str | None, str | None], list[str]] = defaultdict(list)
    for (backend, node), stages in sorted(settings.items()):
        if len(stages) == len(ALONE):
            old, new = (stages[stage] for stage in ALONE)
            for name in sorted(old.keys() | new.keys()):
                if (before := old.get(name)) != (after := new.get(name)):
                    pair = _apart(before or "", after or "") if name == _COMMAND else (before, after)
                    differing[backend, name, *pair].append(node)
    return [
        {"backend": backend, "nodes": each, "name": name, **dict(zip(ALONE, values, strict=True))}
        for (backend, name, *values), each in differing.items()
    ]


def _apart(before: str, after: str) -> tuple[str, str]:
    """The words that only one of two command lines has; all words if only their order differs."""
    old, new = Counter(before.split()), Counter(after.split())
    only = tuple(" ".join((mine - others).elements()) for mine, others in ((old, new), (new, old)))
    return (only[0], only[1]) if any(only) else (before, after)


def _settings(node: Mapping[str, Any]) -> dict[str, str]:
    """A node's environment, and its command line as one setting."""
    settings = {str(name): _same_everywhere(str(value)) for name, value in mapping(node.get("settings")).items()}
    return {**settings, _COMMAND: _same_everywhere(" ".join(words(node.get("command"))))}


def _same_everywhere(text: str) -> str:
    for pattern, word in _OURS:
        text = pattern.sub(word, text)
    return text


def uncovered(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """What was not tried, by reason: {because, faults: [name], locks: [name]}, the widest first."""
    not_tried = (cell for cell in cells if cell.word is Verdict.NOT_APPLICABLE and not cell.trial)
    rows = []
    for because, mine in sorted(grouped(not_tried, lambda cell: cell.because).items()):
        locks = {cell.lock or f"all on {cell.backend or 'all backends'}" for cell in mine}
        rows.append({"because": because, "faults": sorted({cell.fault for cell in mine}), "locks": sorted(locks)})
    return sorted(rows, key=lambda row: -len(row["faults"]) * len(row["locks"]))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
