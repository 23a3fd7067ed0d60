"""May we go from this version to that one? What a run with `--from` and `--to` found, and the verdict. Pure.

A regression is what `results.comparison` calls worse from the baseline to the candidate, with one exception: where the
baseline broke the same promise of the same lock in another lane or under another fault, that promise is broken already
and nothing was lost by the upgrade. A positive control that fell silent is no regression of a server either: it says
that this run could not have seen what it was to see. A regression outranks everything inconclusive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from checkers.claims import Word
from checkers.exercise import CONTENDED, EXPIRED, UNDER_FAULT
from checkers.fencing import STALE
from results.certificate.stages import BASELINE, CANDIDATE, STAGES
from results.comparison.comparison import Change, Comparison, Seen, compare
from results.comparison.speeds import Speed
from results.reading import Contents
from results.record import Cell, settled


class Verdict(StrEnum):
    """What the certificate says, the heaviest first."""

    REGRESSION = "REGRESSION"
    INCONCLUSIVE = "INCONCLUSIVE"
    NO_REGRESSION = "NO REGRESSION FOUND"


STATUS: Final[Mapping[Verdict, int]] = {Verdict.NO_REGRESSION: 0, Verdict.REGRESSION: 1, Verdict.INCONCLUSIVE: 3}
"""Exit statuses of the commands."""

BITES: Final = (CONTENDED, EXPIRED, STALE, UNDER_FAULT)
"""Counters that must not be zero in one stage and more in another, or the two were not put to the same test."""


@dataclass(frozen=True, slots=True)
class Promise:
    """One property of one lock, under all faults together; stage → what it said of it."""

    backend: str
    lock: str
    property: str
    stages: Mapping[str, Seen]


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is to be decided on.

    upgrades    backend → (from, to), as they were asked for.
    comparison  from the baseline to the candidate.
    promises    the heaviest first.
    regressed   the changes that make it a regression; slower: the times and rates that do.
    known       changes to `violated` of promises that the baseline had broken already, elsewhere.
    cleared     promises that the baseline broke and the candidate kept.
    bites       backend → counter → stage → how often what is to put promises to the test happened.
    doubts      why it is not conclusive, a line each.
    """

    upgrades: Mapping[str, tuple[str, str]]
    comparison: Comparison
    promises: tuple[Promise, ...]
    regressed: tuple[Change, ...]
    slower: tuple[Speed, ...]
    known: tuple[Change, ...]
    cleared: tuple[Promise, ...]
    bites: Mapping[str, Mapping[str, Mapping[str, int]]]
    doubts: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        if self.regressed or self.slower:
            return Verdict.REGRESSION
        return Verdict.INCONCLUSIVE if self.doubts else Verdict.NO_REGRESSION


def certify(contents: Contents, upgrades: Mapping[str, tuple[str, str]], cut_short: str = "") -> Certificate:
    """contents: of a run with both stages. cut_short: why there is less than was asked for, or empty."""
    before, after = (_of(contents, stage) for stage in (BASELINE, CANDIDATE))
    comparison, bites = compare(before, after), _bites(contents.cells)
    promises = _promises(contents.cells)
    broken = {(one.backend, one.lock, one.property) for one in promises if broke(one, BASELINE)}
    worse = [change for change in comparison.changes if change.worse]
    accused = [
        change for change in worse if change.after is not None and change.after.word is not Word.HAZARD_NOT_SHOWN
    ]
    known = [change for change in accused if (change.backend, change.lock, change.property) in broken]
    regressed = [change for change in accused if change not in known]
    return Certificate(
        upgrades,
        comparison,
        promises,
        tuple(regressed),
        tuple(speed for speed in comparison.speeds if speed.worse),
        tuple(known),
        tuple(
            one for one in promises if broke(one, BASELINE) and one.stages.get(CANDIDATE) and not broke(one, CANDIDATE)
        ),
        bites,
        (*filter(None, [cut_short]), *_doubts(contents, comparison, worse, bites)),
    )


def broke(promise: Promise, stage: str) -> bool:
    """Whether it was violated in this stage."""
    return stage in promise.stages and promise.stages[stage].word is Word.VIOLATED


def _of(contents: Contents, stage: str) -> Contents:
    cells = tuple(cell for cell in contents.cells if cell.stage == stage)
    return Contents(cells, tuple(lane for lane in contents.lanes if lane.stage == stage), ())


def _promises(cells: Iterable[Cell]) -> tuple[Promise, ...]:
    found: dict[tuple[str, str, str], dict[str, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    for cell in settled(cells):
        if cell.stage in STAGES and cell.word is not Word.NOT_APPLICABLE:
            found[cell.backend, cell.lock, cell.property][cell.stage].append(cell)
    promises = [
        Promise(*name, {stage: Seen.of(stages[stage]) for stage in STAGES if stage in stages})
        for name, stages in sorted(found.items())
    ]
    return tuple(sorted(promises, key=lambda one: min(told.word.weight for told in one.stages.values())))


def _bites(cells: Iterable[Cell]) -> dict[str, dict[str, dict[str, int]]]:
    """The most that any property of a lane counted: all of them saw the same history. Summed over lanes and trials."""
    most: dict[tuple[str, str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    backends: dict[str, dict[str, dict[str, int]]] = {}
    for cell in cells:
        if cell.stage in STAGES:
            stages = backends.setdefault(cell.backend, {bite: dict.fromkeys(STAGES, 0) for bite in BITES})
            seen = most[cell.stage, cell.trial, cell.lane]
            for bite in BITES:
                more = max(cell.counters.get(bite, 0) - seen[bite], 0)
                seen[bite] += more
                stages[bite][cell.stage] += more
    return backends


def _doubts(
    contents: Contents,
    comparison: Comparison,
    worse: Iterable[Change],
    bites: Mapping[str, Mapping[str, Mapping[str, int]]],
) -> Iterable[str]:
    if not comparison.common:
        yield "no judgement is there on both versions"
    elif alone := sum(change.after is None for change in comparison.changes):
        yield f"{_count(alone, 'judgement')} of the old version {'has' if alone == 1 else 'have'} none beside it"
    for backend, counters in bites.items():
        for bite, stages in counters.items():
            for stage, number in stages.items():
                if not number and (bite == CONTENDED or any(stages.values())):
                    yield f"{backend}: no {bite} in the {stage}"
    silent = [change for change in worse if change.after is not None and change.after.word is Word.HAZARD_NOT_SHOWN]
    if silent:
        yield f"{_first(silent)} fell silent on the new version: this run could not have seen what it was to see"
    if lost := [change for change in comparison.changes if change.lost]:
        yield f"{_first(lost)} came to no verdict on the new version ({lost[0].lost})"
    if contents.problems:
        yield f"{_count(len(contents.problems), 'trial')} came to no verdict: {contents.problems[0]}"


def _first(changes: list[Change]) -> str:
    one = changes[0]
    more = f" and {_count(len(changes) - 1, 'other judgement')}" if len(changes) > 1 else ""
    return f"{one.property} of {one.lane} under {one.fault}{more}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def sentence(certificate: Certificate) -> str:
    """The verdict, and the first reason for it or how much was cleared."""
    verdict = str(certificate.verdict)
    if certificate.verdict is Verdict.REGRESSION:
        return f"{verdict}: {'; '.join(_accusations(certificate))}"
    cleared = f" ({_count(len(certificate.cleared), 'defect')} cleared)" if certificate.cleared else ""
    if certificate.verdict is Verdict.INCONCLUSIVE:
        more = f", and {len(certificate.doubts) - 1} more" if len(certificate.doubts) > 1 else ""
        return f"{verdict}{cleared}: {certificate.doubts[0]}{more}"
    return verdict + cleared


def _accusations(certificate: Certificate) -> Iterable[str]:
    """At most three."""
    broken: dict[tuple[str, str, str], list[Change]] = defaultdict(list)
    for change in certificate.regressed:
        broken[change.backend, change.lock, change.property].append(change)
    told = [
        f"{lock} lost {name} under {' and '.join(sorted({one.fault for one in changes})[:2])}"
        for (_, lock, name), changes in broken.items()
    ]
    told += [
        f"{speed.lock or 'all locks'} on {speed.backend}: {speed.measure} is {speed.ratio:.1f} times what it was"
        for speed in certificate.slower
    ]
    return told[:3] + [f"and {len(told) - 3} more"] * (len(told) > 3)
