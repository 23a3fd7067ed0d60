"""The conditions under which an upgrade was tried, and what was not covered, as plain JSON. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any, Final

from checkers.claims import Verdict
from results.certificate.trials import BUSY, UpgradeTrial
from results.pages.surroundings import nodes
from results.record import Cell, mapping, words
from results.stages import ALONE, BASELINE, CANDIDATE, STAGES

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

    began, ended: in UTC, of the first and the last trial; null if no trial has its time.
    stalled: the part of their time for which the machine did not run the workers: {middle, most, trial}, of all trials;
    busy: the number of trials in which it was more than `BUSY`.

    images: {backend, stage, version, image, digest, packager, nodes: [name]} of the servers of baseline and candidate.
    configuration: {backend, nodes: [name], name, baseline, candidate (null: it is missing)} of settings that differ; of
    a command line only the words that differ.
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
    """Backend → the version that its servers report, if those of the baseline and of the candidate report the same."""
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
            if node.name in versions:  # all else has no version and is the same in both stages
                packager = _text(mapping(stored.get(node.name)).get("packager"))
                nodes_of[trial.backend, trial.stage, node.version, node.image, node.digest, packager].add(node.name)
    names = ("backend", "stage", "version", "image", "digest", "packager")
    order = sorted(nodes_of, key=lambda key: (key[0], STAGES.index(key[1]), *key[2:]))
    return [{**dict(zip(names, key, strict=True)), "nodes": sorted(nodes_of[key])} for key in order]


def _differences(trials: Iterable[UpgradeTrial]) -> list[dict[str, Any]]:
    """Differences of nodes that both stages have. Of each stage the first trial with the node counts."""
    settings: dict[tuple[str, str], dict[str, Mapping[str, str]]] = defaultdict(dict)
    for trial in trials:
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
    places: dict[str, tuple[set[str], set[str]]] = {}
    for cell in cells:
        if cell.word is Verdict.NOT_APPLICABLE and not cell.trial:
            faults, locks = places.setdefault(cell.because, (set(), set()))
            faults.add(cell.fault)
            locks.add(cell.lock or f"all on {cell.backend or 'all backends'}")
    rows = [
        {"because": because, "faults": sorted(faults), "locks": sorted(locks)}
        for because, (faults, locks) in sorted(places.items())
    ]
    return sorted(rows, key=lambda row: -len(row["faults"]) * len(row["locks"]))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
