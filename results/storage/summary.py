"""summary.json: a closed run in one file, for lists and other programs. Its JSON Schema is made from these types."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from checkers.claims import Verdict
from results.record import Cell, Count, LaneSummary, settled
from results.storage.codec import decoded
from results.storage.files import BadFile, read_json
from results.storage.reading import RunContents

Part = TypeVar("Part", bound="Head")

NAME: Final = "summary.json"
CERTIFICATE: Final = "certificate"
"""The key in `about` for the sentence of a run's certificate."""


@dataclass(frozen=True, slots=True)
class Head:
    """The part of summary.json that a list of runs needs, see `Summary`."""

    run: str
    started: str
    closed: str
    asked: Mapping[str, Any]
    about: Mapping[str, Any]
    failed: bool
    words: Mapping[Verdict, Count]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Summary(Head):
    """One run of the suite: what was asked for, every judgement, and measures of every lane. Within a format keys are
    only added: ignore keys that you do not know.

    run       The name of the run's folder.
    started   When the run started: ISO 8601, UTC.
    closed    When the summary was written: ISO 8601, UTC.
    asked     What was asked for: the command, seed, profile, versions; of a merged run its parts, in `merged`.
    about     How the run ended: `finished`, `exit status`, `interrupted`, the sentence of its `certificate`; of a
              merged run also `missing shards`.
    failed    Whether any cell has a failing word. An attempt of a positive control that another attempt made good does
              not count.
    words     How many cells have each word, with the same exception.
    problems  One line for each trial that is damaged, and so left out, or that was aborted.
    """

    cells: tuple[Cell, ...]
    lanes: tuple[LaneSummary, ...] = ()  # format 1 has none


def certificate(about: Mapping[str, Any]) -> str:
    """The sentence of a run's certificate; empty if it has none."""
    sentence = about.get(CERTIFICATE)
    return sentence if isinstance(sentence, str) else ""


def about_end(root: Path) -> Mapping[str, Any]:
    """How the run in a folder ended; empty if it was not closed, or if its summary is damaged."""
    try:
        return load_head(root).about
    except BadFile:
        return {}


def make(root: Path, closed: str, asked: Mapping[str, Any], about: Mapping[str, Any], contents: RunContents) -> Summary:
    """The summary of what a run folder holds. closed: empty if the run is not closed. asked: see `RunFolder.about`."""
    words = [cell.word for cell in settled(contents.cells)]
    counts = {word: words.count(word) for word in Verdict}
    failed = any(word.fails for word in words)
    started, problems = asked["started"], contents.problems
    return Summary(root.name, started, closed, asked, about, failed, counts, problems, contents.cells, contents.lanes)


def load_head(root: Path) -> Head:
    """The head of a closed run's summary, in a fraction of the time of `load`. Raises BadFile."""
    return _read(root, Head)


def load(root: Path) -> Summary:
    """The summary of a closed run. Raises BadFile, also where there is none."""
    return _read(root, Summary)


def _read(root: Path, of: type[Part]) -> Part:
    """What is stored, with a count for every word."""
    data = read_json(root / NAME)
    if data["format"] == 1 and isinstance(data.get("asked"), dict):
        data["started"] = data["asked"].get("started")
    stored = decoded(data, of, root / NAME)
    return replace(stored, words={**dict.fromkeys(Verdict, 0), **stored.words})
