"""What the room is given and gives back: a trial to store, a cell of the matrix, and what was never run."""

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

    about  plain JSON; known keys: backend, column, plan, plan_lines, own_plan, seed, attempt, versions, started
           (ISO 8601), seconds, endpoints, error (why it was aborted, or None). Others are stored and shown as they are.
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


def fault_of(facts: Facts) -> str:
    """The row of the matrix that a lane belongs to."""
    return "+".join(facts.fault_names) or "none"


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


def _series(cell: Cell) -> tuple[str, str, str, str, int]:
    return (cell.lock, cell.lane, cell.fault, cell.property, cell.seed - cell.attempt)
