"""summary.json: a run in one file, written when it is closed, for lists, trends and whoever reads it elsewhere.

Its shape is published as `schema/summary-2.json` (JSON Schema 2020-12).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from checkers.claims import Word
from results import files, shape, stored
from results.files import BadFile
from results.reading import Contents
from results.record import settled
from results.shape import Damaged, field, many, text

NAME: Final = "summary.json"
CERTIFICATE: Final = "certificate"
"""Of what came of a run, its certificate's sentence."""
CERTIFICATE_PAGE: Final = "certificate.html"
"""Beside the run's own, where it has one."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a list needs of summary.json.

    started, closed  ISO 8601, empty where nobody knows.
    asked, about     what was asked for, and what came of it: plain JSON.
    failed           whether a word is one of the failing four.
    words            how often each was said, zeros included.
    problems         what was left out, one line each.
    """

    run: str
    started: str
    closed: str
    asked: Mapping[str, Any]
    about: Mapping[str, Any]
    failed: bool
    words: Mapping[Word, int]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """All that summary.json says. Of an older format `contents.lanes` is empty."""

    head: Head
    contents: Contents


def certificate(about: Mapping[str, Any]) -> str:
    """The sentence of a run's certificate; empty where it has none."""
    said = about.get(CERTIFICATE)
    return said if isinstance(said, str) else ""


def certificate_of(root: Path) -> str:
    """`certificate` of the run in a folder; empty, too, where nobody can read it."""
    try:
        return certificate(load_head(root).about)
    except BadFile:
        return ""


def make(
    root: Path, started: str, closed: str, asked: Mapping[str, Any], about: Mapping[str, Any], contents: Contents
) -> Summary:
    """The summary of what a run folder holds. closed: empty for a run that is still going on, or was interrupted."""
    words = [cell.word for cell in settled(contents.cells)]
    counts = {word: words.count(word) for word in Word}
    failed = any(word.fails for word in words)
    return Summary(Head(root.name, started, closed, asked, about, failed, counts, contents.problems), contents)


def to_json(summary: Summary, root: Path) -> dict[str, Any]:
    """Plain JSON; pages as posix paths relative to the run folder."""
    head, contents = summary.head, summary.contents
    return {
        "run": head.run,
        "started": head.started,
        "closed": head.closed,
        "asked": dict(head.asked),
        "about": dict(head.about),
        "failed": head.failed,
        "words": {str(word): count for word, count in head.words.items()},
        "cells": [stored.cell_to_json(cell, root) for cell in contents.cells],
        "lanes": [stored.lane_to_json(lane, root) for lane in contents.lanes],
        "problems": list(head.problems),
    }


def load_head(root: Path) -> Head:
    """Of a run that was closed, in a fraction of the time that `load` takes. Raises BadFile."""
    return _read(root, _head)


def load(root: Path) -> Summary:
    """Of a run that was closed. Raises BadFile, also where there is none."""
    return _read(root, lambda data: _summary(data, root))


T = TypeVar("T")


def _read(root: Path, of: Callable[[dict[str, Any]], T]) -> T:
    data = files.read_json(root / NAME)
    try:
        return of(data)
    except Damaged as error:
        raise BadFile(f"{root / NAME}: damaged ({error})") from error


def _head(data: dict[str, Any]) -> Head:
    asked = field(data, "asked", shape.table)
    words = field(data, "words", shape.named(shape.whole))
    return Head(
        run=field(data, "run", text),
        started=field(data if "started" in data else asked, "started", text),
        closed=field(data, "closed", text),
        asked=asked,
        about=field(data, "about", shape.table),
        failed=field(data, "failed", shape.boolean),
        words={word: words.get(word, 0) for word in Word},
        problems=field(data, "problems", many(text)),
    )


def _summary(data: dict[str, Any], root: Path) -> Summary:
    head = _head(data)
    cells = field(data, "cells", many(lambda item: stored.cell_from_json(item, root)))
    lanes = field(data, "lanes", many(lambda item: stored.lane_from_json(item, root))) if "lanes" in data else ()
    return Summary(head, Contents(cells, lanes, head.problems))
