"""What the files of a run folder say, as JSON and back: judgements, cells, lanes with their measures, what was not run.

Stored are a judgement, its violations and its counters. Proofs are not: an order of 1e5 rows is longer than the
history's own file, and `python -m checkers FILE` makes it again from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from checkers.claims import Word
from checkers.judgement import Judgement
from checkers.verdict import Verdict, Violation
from results import shape
from results.record import Cell, LaneSummary, NotRun, decisive
from results.shape import Damaged, field, many, named, optional, text, whole

MOST_VIOLATIONS: Final = 100
"""Stored per judgement; their number is stored whole. The history tells the rest."""


def judgement_to_json(judgement: Judgement, told: Sequence[str] = ()) -> dict[str, Any]:
    """Plain JSON. told: the story that the word rests on, as pages tell it."""
    verdict = judgement.verdict
    return {
        "property": judgement.property,
        "word": str(judgement.word),
        "because": judgement.because,
        "told": list(told),
        "violation": None if judgement.violation is None else asdict(judgement.violation),
        "verdict": None
        if verdict is None
        else {
            "valid": verdict.valid,
            "violations_found": len(verdict.violations),
            "violations": [asdict(violation) for violation in verdict.violations[:MOST_VIOLATIONS]],
            "counters": {str(name): int(count) for name, count in verdict.counters.items()},
            "unexercised": verdict.unexercised,
            "reason": verdict.reason,
        },
    }


def judgement_from_json(data: object) -> Judgement:
    """Raises Damaged."""
    name = field(data, "property", text)

    def verdict(told: object) -> Verdict:
        return Verdict(
            property=name,
            valid=field(told, "valid", optional(shape.boolean)),
            violations=field(told, "violations", many(_violation)),
            counters=field(told, "counters", named(whole)),
            unexercised=field(told, "unexercised", optional(text)),
            reason=field(told, "reason", optional(text)),
        )

    return Judgement(
        name,
        field(data, "word", _word),
        field(data, "because", text),
        field(data, "verdict", optional(verdict)),
        field(data, "violation", optional(_violation)),
    )


def told_from_json(data: object) -> tuple[Judgement, tuple[str, ...]]:
    """And the story that its word rests on: where none was stored, all that the checkers said. Raises Damaged."""
    judgement = judgement_from_json(data)
    told = field(data, "told", many(text)) if "told" in shape.table(data) else ()
    violation = decisive(judgement)
    return judgement, told or (violation.story if violation is not None else ())


def _violation(data: object) -> Violation:
    return Violation(
        kind=field(data, "kind", text),
        at=field(data, "at", whole),
        rows=field(data, "rows", many(whole)),
        holders=field(data, "holders", many(whole)),
        story=field(data, "story", many(text)),
    )


def _word(value: object) -> Word:
    try:
        return Word(text(value))
    except ValueError as error:
        raise Damaged(str(error)) from None


def _rolled(data: object) -> Mapping[str, Any]:
    """A server that was replaced by one of another version, or would not be. Raises Damaged."""
    for name, of in (("at", shape.number), ("what", text), ("refused", shape.boolean)):
        field(data, name, of)
    return shape.table(data)


_ABOUT: Final = {
    "backend": optional(text),
    "column": optional(text),
    "plan": optional(shape.table),
    "plan_lines": optional(many(text)),
    "own_plan": optional(shape.boolean),
    "seed": optional(whole),
    "attempt": optional(whole),
    "version": optional(text),
    "stage": optional(text),
    "versions": optional(named(text)),
    "locks": optional(named(text)),
    "started": optional(text),
    "seconds": optional(shape.number),
    "rolled": optional(many(_rolled)),
    "stalled": optional(shape.number),
    "planted": optional(named(text)),
    "no_way_there": optional(text),
    "error": optional(text),
}


def trial_about(data: object) -> Mapping[str, Any]:
    """A trial's `about` (see `TrialRecord`): what is known of it has the types that its readers count on.

    Raises Damaged.
    """
    about = shape.table(data)
    for name, of in _ABOUT.items():
        if name in about:
            field(about, name, of)
    return about


def not_run_from_json(data: object) -> NotRun:
    """Raises Damaged."""
    strange = shape.table(data).keys() - NotRun.__slots__
    if strange:
        raise Damaged(f"{min(strange)} is not known")
    return NotRun(
        *(field(data, name, text) for name in ("lock", "backend", "fault", "because")),
        *(field(data, name, text) for name in ("workload", "store", "lane", "property")),
    )


def cell_to_json(cell: Cell, root: Path) -> dict[str, Any]:
    """root: of the run, which pages are told relative to."""
    return {**asdict(cell), "word": str(cell.word), "page": _page_to_json(cell.page, root)}


def lane_to_json(lane: LaneSummary, root: Path) -> dict[str, Any]:
    """root: of the run, which pages are told relative to."""
    return {**asdict(lane), "page": _page_to_json(lane.page, root)}


def _page_to_json(page: Path | None, root: Path) -> str | None:
    return None if page is None else page.relative_to(root).as_posix()


def cell_from_json(data: object, root: Path) -> Cell:
    """Of any format. Raises Damaged."""
    return Cell(
        **{name: field(data, name, text) for name in ("lock", "backend", "workload", "store", "lane", "fault")},
        property=field(data, "property", text),
        word=field(data, "word", _word),
        because=field(data, "because", text),
        counters=field(data, "counters", named(whole)),
        story=field(data, "story", many(text)),
        page=_page_from_json(data, root),
        trial=field(data, "trial", text),
        seed=field(data, "seed", whole),
        attempt=field(data, "attempt", whole),
        version=field(data, "version", text) if "version" in shape.table(data) else "",
        stage=field(data, "stage", text) if "stage" in shape.table(data) else "",
    )


def lane_from_json(data: object, root: Path) -> LaneSummary:
    """Raises Damaged."""
    return LaneSummary(
        **{name: field(data, name, text) for name in ("lock", "backend", "version", "workload", "store", "lane")},
        fault=field(data, "fault", text),
        seed=field(data, "seed", whole),
        attempt=field(data, "attempt", whole),
        trial=field(data, "trial", text),
        page=_page_from_json(data, root),
        operations=field(data, "operations", whole),
        started=field(data, "started", text),
        measures=field(data, "measures", optional(measures)),
        stage=field(data, "stage", text) if "stage" in shape.table(data) else "",
    )


def _page_from_json(data: object, root: Path) -> Path | None:
    """Only what `_page_to_json` writes: a link that leads anywhere else is none of ours."""
    told = field(data, "page", optional(text))
    if told is None:
        return None
    parts = told.split("/")
    if not (len(parts) == 3 and parts[0] == "trials" and parts[2] == "index.html"):
        raise Damaged("page: not the page of a trial of this run")
    if parts[1] in ("", ".", "..") or "\\" in parts[1] or "\0" in parts[1]:
        raise Damaged("page: not the page of a trial of this run")
    return root.joinpath(*parts)


def measures(data: object) -> Mapping[str, Any]:
    """What `results.measured.measured` gave: its readers count on these types; more may stand in it.

    Raises Damaged.
    """
    _each(data, _MEASURES)
    return shape.table(data)


def _each(data: object, fields: Mapping[str, Callable[[object], object]]) -> None:
    for name, of in fields.items():
        field(data, name, of)


def _quantiles(data: object) -> None:
    _each(data, {"count": whole, "given_up": whole, **dict.fromkeys(("p50", "p90", "p99", "longest"), _NUMBER)})
    if "p10" in shape.table(data):  # it was added to the format
        field(data, "p10", _NUMBER)


def _cycle(data: object) -> None:
    _each(data, _CYCLE)


def _phase(data: object) -> None:
    if text(data) not in ("before", "during", "after"):
        raise Damaged("none of before, during, after")


_NUMBER: Final = optional(shape.number)
_CYCLE: Final[Mapping[str, Callable[[object], object]]] = {
    "phase": _phase,
    **dict.fromkeys(("cycle", "grants", "attempts"), whole),
    **dict.fromkeys(("begin_s", "seconds"), shape.number),
    **dict.fromkeys(("acquire_ms", "release_ms"), _quantiles),
}
_MEASURES: Final[Mapping[str, Callable[[object], object]]] = {
    **dict.fromkeys(("operations", "grants", "unknown", "refused"), whole),
    "seconds": shape.number,
    "cycles": many(_cycle),
    **dict.fromkeys(("acquire_ms", "release_ms", "store_ms"), _quantiles),
    "recovery_s": many(_NUMBER),
    "longest_gap_s": _NUMBER,
}
