"""summary.json: a run in one file, written when it is closed, for lists, trends and whoever reads it elsewhere.

`python -m results schema` prints its JSON Schema, made of the types that it is read into.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checkers.claims import Verdict
from results.record import Cell, Count, LaneSummary, settled
from results.storage import files
from results.storage.codec import decoded, encoded
from results.storage.files import BadFile
from results.storage.reading import Contents

NAME: Final = "summary.json"
CERTIFICATE: Final = "certificate"
"""Of what came of a run, its certificate's sentence."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a list needs of summary.json, see `File`."""

    run: str
    started: str
    closed: str
    asked: Mapping[str, Any]
    about: Mapping[str, Any]
    failed: bool
    words: Mapping[Verdict, Count]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class File(Head):
    """One run of the suite: what was asked for, every judgement, and measures of every lane. Within a format keys are
    only added: ignore those that you do not know.

    run       The folder's name.
    started   ISO 8601, UTC.
    closed    ISO 8601, UTC: when the summary was written.
    asked     What was asked for: the command, seed, profile, versions; of a merged run its parts, in `merged`.
    about     What came of it: `finished`, `exit status`, `interrupted`, the sentence of its `certificate`; of a merged
              run `missing shards`.
    failed    Whether one of the failing words was said. An attempt of a positive control that another attempt made good
              does not count.
    words     How often each word was said, with the same exception.
    problems  Trials that are damaged, and so left out, and trials that were aborted: one line each.
    """

    cells: tuple[Cell, ...]
    lanes: tuple[LaneSummary, ...] = ()  # format 1 has none


@dataclass(frozen=True, slots=True)
class Summary:
    """All that summary.json says. Of an older format `contents.lanes` is empty."""

    head: Head
    contents: Contents


def certificate(about: Mapping[str, Any]) -> str:
    """The sentence of a run's certificate; empty where it has none."""
    sentence = about.get(CERTIFICATE)
    return sentence if isinstance(sentence, str) else ""


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
    counts = {word: words.count(word) for word in Verdict}
    failed = any(word.fails for word in words)
    return Summary(Head(root.name, started, closed, asked, about, failed, counts, contents.problems), contents)


def to_json(summary: Summary, root: Path) -> dict[str, Any]:
    """Plain JSON; pages as posix paths relative to the run folder."""
    head = {name: getattr(summary.head, name) for name in Head.__slots__}
    made: dict[str, Any] = encoded(File(**head, cells=summary.contents.cells, lanes=summary.contents.lanes), root)
    return made


def load_head(root: Path) -> Head:
    """Of a run that was closed, in a fraction of the time that `load` takes. Raises BadFile."""
    return _head(decoded(_read(root), Head, root / NAME))


def load(root: Path) -> Summary:
    """Of a run that was closed. Raises BadFile, also where there is none."""
    file = decoded(_read(root), File, root / NAME)
    return Summary(_head(file), Contents(file.cells, file.lanes, file.problems))


def _read(root: Path) -> dict[str, Any]:
    data = files.read_json(root / NAME)
    if data["format"] == 1 and isinstance(data.get("asked"), dict):
        data["started"] = data["asked"].get("started")
    return data


def _head(stored: Head) -> Head:
    """Of what a file says, with every word counted."""
    head = {name: getattr(stored, name) for name in Head.__slots__}
    return Head(**{**head, "words": {**dict.fromkeys(Verdict, 0), **stored.words}})
