"""A run's page: the matrix, every square with its judgements and the way to their trials; what was not run, and why."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from checkers.claims import Word
from results import story, web
from results.grid import Case, Square, counts, documented, failures, grid, not_run
from results.record import Cell

_MOST_LINKS: Final = 60
"""Judgements listed in one square; their numbers are whole."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One judgement in a square, or one case below."""

    word: Word
    lane: str
    property: str
    because: str
    sentence: str
    story: tuple[str, ...]
    seed: int
    lanes: int
    trials: int
    link: str


def render(root: Path, about: Mapping[str, Any], cells: Iterable[Cell], problems: Sequence[str]) -> str:
    """The page as HTML. root: the run's folder, which links are relative to."""
    cells = list(cells)
    made = grid(cells)
    return web.render(
        "run.html",
        title=f"{root.name} - fencepost",
        name=root.name,
        sentence=_sentence(cells, problems),
        words=counts(cells),
        locks=made.locks,
        rows=[
            (fault, [_square(made.squares.get((fault, lock)), root) for lock in made.locks]) for fault in made.faults
        ],
        failures=[_line(case, root) for case in failures(cells)],
        documented=[_line(case, root) for case in documented(cells)],
        not_run=_not_run(cells),
        problems=list(problems),
        trials=_trials(cells, root),
        about=json.dumps(dict(about), indent=2, ensure_ascii=False, default=str),
    )


def _sentence(cells: Sequence[Cell], problems: Sequence[str]) -> str:
    failing = failures(cells)
    judged = [cell for cell in cells if cell.word is not Word.NOT_APPLICABLE]
    left = f" {len(problems)} trials are left out." if len(problems) > 1 else " One trial is left out." * len(problems)
    if not judged:
        return "Nothing was judged." + left
    if not failing:
        return f"No failing verdict in {len(judged)} judgements." + left
    first = failing[0].first
    told = story.sentence(first.lock, [first.property], first.word, first.fault, first.because)
    more = len(failing) - 1
    return told + (f" And {more} more failing {'verdict' if more == 1 else 'verdicts'}." if more else "") + left


def _square(square: Square | None, root: Path) -> dict[str, Any] | None:
    if square is None:
        return None
    told = sorted(square.cells, key=lambda cell: cell.word.weight)
    return {
        "word": square.word,
        "properties": square.properties if square.word.weight <= Word.NOT_CLAIMED_BROKEN.weight else (),
        "first": len(square.first),
        "upheld": dict(square.counts).get(Word.UPHELD, 0),
        "counts": square.counts,
        "total": len(square.cells),
        "lines": [_line(Case(cell), root) for cell in told[:_MOST_LINKS]],
        "more": max(len(told) - _MOST_LINKS, 0),
    }


def _line(case: Case, root: Path) -> _Line:
    cell = case.first
    return _Line(
        word=cell.word,
        lane=cell.lane or cell.lock,
        property=cell.property,
        because=cell.because,
        sentence=story.sentence(cell.lock, [cell.property or "everything"], cell.word, cell.fault, cell.because),
        story=cell.story,
        seed=cell.seed,
        lanes=case.lanes,
        trials=case.trials,
        link=_link(cell.page, root),
    )


def _link(page: Path | None, root: Path) -> str:
    return "" if page is None else quote(page.relative_to(root).as_posix())


def _not_run(cells: Iterable[Cell]) -> list[tuple[str, str, str]]:
    """(what, fault, because)"""
    rows = {
        (cell.lane or cell.lock or cell.backend, cell.fault or "every fault", cell.because) for cell in not_run(cells)
    }
    return sorted(rows)


def _trials(cells: Iterable[Cell], root: Path) -> list[dict[str, Any]]:
    """Every stored trial once, with its words."""
    found: dict[Path, list[Cell]] = {}
    for cell in cells:
        if cell.page is not None:
            found.setdefault(cell.page, []).append(cell)
    return [
        {
            "name": mine[0].trial,
            "link": _link(page, root),
            "fault": mine[0].fault,
            "seed": mine[0].seed,
            "lanes": len({cell.lane for cell in mine}),
            "words": [(word, number) for word in Word if (number := sum(cell.word is word for cell in mine))],
        }
        for page, mine in found.items()
    ]
