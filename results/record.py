"""What the room is given and gives back: a trial to store, a cell of the matrix, a lane with its measures, and what was
never run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkers.claims import Word
from checkers.history import Facts, History
from checkers.judgement import Judgement
from checkers.verdict import Violation


@dataclass(frozen=True, slots=True)
class LaneRecord:
    """One lane of a trial: what was recorded and what it means."""

    history: History
    judgements: tuple[Judgement, ...]


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """One trial, complete.

    about  plain JSON; known keys: backend, column, plan, plan_lines, own_plan, seed, attempt, version (asked for, or
           None), stage (of an upgrade, or empty), versions (of each server), locks, started (ISO 8601), seconds,
           endpoints, rolled (what was replaced by another version: {at: seconds since the first operation, what,
           refused}),
           stalled (the part of their time for which the machine did not run the workers), error (why it was aborted,
           or None). Others are stored and shown as they are.
    logs   name of the log (a node, a worker) → its bytes.
    """

    name: str
    about: Mapping[str, Any]
    lanes: tuple[LaneRecord, ...]
    logs: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotRun:
    """A combination that was not tried, with the reason. Empty names mean: all of them."""

    lock: str
    backend: str
    fault: str
    because: str
    workload: str = ""
    store: str = ""
    lane: str = ""
    property: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """One judgement of one lane of one trial, as the matrix sees it.

    version   of the servers, see `version_of`.
    stage     of the upgrade that the trial was part of; empty where there was none.
    attempt   counts the trials of one positive control; their seeds are s, s+1, s+2.
    story     of the violation that the word rests on; empty where there is none.
    page      the trial's page; None where nothing was run.
    """

    lock: str
    backend: str
    workload: str
    store: str
    lane: str
    fault: str
    property: str
    word: Word
    because: str
    counters: Mapping[str, int] = field(default_factory=dict)
    story: tuple[str, ...] = ()
    page: Path | None = None
    trial: str = ""
    seed: int = 0
    attempt: int = 0
    version: str = ""
    stage: str = ""


@dataclass(frozen=True, slots=True)
class LaneSummary:
    """One lane of one trial, as trends and comparisons see it.

    started   of the trial, ISO 8601; empty where nobody knows.
    measures  what `results.measured.measured` made of the history; None: stored by an older format.
    """

    lock: str
    backend: str
    version: str
    workload: str
    store: str
    lane: str
    fault: str
    seed: int
    attempt: int
    trial: str
    page: Path | None
    operations: int
    started: str
    measures: Mapping[str, Any] | None
    stage: str = ""


def fault_of(facts: Facts) -> str:
    """The row of the matrix that a lane belongs to."""
    return "+".join(facts.fault_names) or "none"


def version_of(about: Mapping[str, Any]) -> str:
    """Which version of the servers a trial ran on: what was asked for, or what all of them said; else empty."""
    if asked := about.get("version"):
        return str(asked)
    said = {str(version) for version in (about.get("versions") or {}).values()}
    return said.pop() if len(said) == 1 else ""


def decisive(judgement: Judgement) -> Violation | None:
    """The violation that the word rests on: the first one that nothing excuses, or the first."""
    if judgement.violation is not None:
        return judgement.violation
    verdict = judgement.verdict
    return verdict.violations[0] if verdict is not None and verdict.violations else None


def settled(cells: Iterable[Cell]) -> list[Cell]:
    """Cells without the attempts of a positive control that a later or earlier attempt made good.

    `hazard not shown` means that none of up to three trials (seeds s, s+1, s+2) showed the hazard, so an attempt
    that did not is settled by one of the same series that did. Nothing else is ever dropped.
    """
    cells = list(cells)
    shown = {_series(cell) for cell in cells if cell.word is Word.BROKEN_AS_DOCUMENTED}
    return [cell for cell in cells if cell.word is not Word.HAZARD_NOT_SHOWN or _series(cell) not in shown]


def _series(cell: Cell) -> tuple[str, str, str, str, str, int]:
    """A merged run may have one lane on several versions: each of them has to show its hazards."""
    return (cell.lock, f"{cell.version} {cell.stage}", cell.lane, cell.fault, cell.property, cell.seed - cell.attempt)
