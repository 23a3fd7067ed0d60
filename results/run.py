"""A run folder: everything that one run of the suite left behind, enough to judge it again and to repeat it.

    <root>/<utc stamp>-<4 hex>/
        run.json                     what was asked for
        trials/<trial>/trial.json    what was done: plan, seed, versions, lanes
                       <lane>.arrow  what was recorded
                       verdicts.json what it means
                       logs/         what the nodes said
                       index.html    to be read
        not-run/*.json               what was not tried, and why
        index.html, summary.json     written at the end

Several processes save into one folder at the same time: every file and every trial's folder appears under its
final name in one step.
"""

from __future__ import annotations

import errno
import json
import secrets
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from checkers import history as histories
from checkers.claims import Word
from checkers.judgement import Judgement
from results import files, index, page
from results.files import BadFile
from results.record import Cell, LaneRecord, NotRun, TrialRecord, decisive, fault_of, settled
from results.stored import judgement_from_json, judgement_to_json

__all__ = ["BadFile", "Cell", "Contents", "LaneRecord", "NotRun", "Run", "TrialRecord", "load_trial"]

FORMAT: Final = 1
"""Of run.json, trial.json, verdicts.json, not-run/*.json and summary.json."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a run folder holds; problems: damaged or aborted trials, one line each, which `cells` leaves out."""

    cells: tuple[Cell, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One run folder."""

    path: Path

    @classmethod
    def create(cls, root: Path, about: Mapping[str, Any]) -> Self:
        """A fresh folder under `root`. about: plain JSON, what was asked for."""
        root.mkdir(parents=True, exist_ok=True)
        while True:
            path = root / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
            try:
                path.mkdir()
            except FileExistsError:
                continue
            break
        (path / "trials").mkdir()
        files.write_json(path / "run.json", FORMAT, {"started": _now(), "about": dict(about)})
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> Self:
        """A folder that exists. Raises BadFile."""
        files.read_json(path / "run.json", FORMAT)
        return cls(path)

    def about(self) -> dict[str, Any]:
        """What was asked for, when it started (`started`) and, once closed, what came of it (`closed`)."""
        data = files.read_json(self.path / "run.json", FORMAT)
        about = data.get("about")
        return {**(about if isinstance(about, dict) else {}), "started": data.get("started", "")}

    def save_trial(self, record: TrialRecord) -> Path:
        """Store a trial and draw its page. Returns the page's path.

        A trial of a name that exists already is stored beside it (`name~2`), never over it.
        """
        trials = self.path / "trials"
        partial = files.partial_name(trials / files.safe_name(record.name))
        partial.mkdir(parents=True)
        try:
            names = _write_data(record, partial)
            folder = _move_into_place(partial, trials, record.name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        # The page comes last: whatever happens to a picture, what was recorded is stored.
        path = folder / "index.html"
        files.write_text(path, page.render(record, names, files.typed(folder)))
        return path

    def save_not_run(self, items: Iterable[NotRun]) -> None:
        """Store what was not tried; any process may, and may repeat what another said."""
        folder = self.path / "not-run"
        folder.mkdir(exist_ok=True)
        data = {"not_run": [asdict(item) for item in items]}
        files.write_json(folder / f"{secrets.token_hex(8)}.json", FORMAT, data)

    def read(self) -> Contents:
        """All judgements of the run, oldest trial first, and every folder that could not be read."""
        cells: list[Cell] = []
        problems: list[str] = []
        for folder in self._folders("trials"):
            try:
                trial = files.read_json(folder / "trial.json", FORMAT)
                cells += _cells(folder, trial, files.read_json(folder / "verdicts.json", FORMAT))
                if trial["about"].get("error"):
                    problems.append(f"{folder}: aborted: {trial['about']['error']}")
            except BadFile as error:
                problems.append(str(error))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                problems.append(f"{folder}: damaged ({error!r})")
        not_run: dict[NotRun, None] = {}
        for file in self._folders("not-run"):
            try:
                not_run |= {NotRun(**item): None for item in files.read_json(file, FORMAT)["not_run"]}
            except BadFile as error:
                problems.append(str(error))
            except (KeyError, TypeError) as error:
                problems.append(f"{file}: damaged ({error!r})")
        cells += (Cell(word=Word.NOT_APPLICABLE, **asdict(item)) for item in not_run)
        return Contents(tuple(cells), tuple(problems))

    def cells(self) -> list[Cell]:
        """`read`, for those who do not mind what is damaged."""
        return list(self.read().cells)

    def close(self, about: Mapping[str, Any]) -> Path:
        """Write the run's page and its summary. Returns the page's path. about: what came of it, plain JSON."""
        contents = self.read()
        asked = self.about()
        summary = _summary(self.path.name, asked, about, contents, self.path)
        files.write_json(self.path / "summary.json", FORMAT, summary)
        path = self.path / "index.html"
        files.write_text(path, index.render(self.path, {**asked, **about}, contents.cells, contents.problems))
        return path

    def _folders(self, name: str) -> list[Path]:
        folder = self.path / name
        if not folder.is_dir():
            return []
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def load_trial(folder: Path) -> TrialRecord:
    """A stored trial, whole. Raises BadFile or BadHistory."""
    trial = files.read_json(folder / "trial.json", FORMAT)
    verdicts = files.read_json(folder / "verdicts.json", FORMAT)
    try:
        lanes = tuple(
            LaneRecord(
                histories.load(folder / str(lane["file"])),
                tuple(judgement_from_json(item) for item in lane["judgements"]),
            )
            for lane in verdicts["lanes"]
        )
        logs = {str(name): (folder / "logs" / str(file)).read_bytes() for name, file in trial["logs"].items()}
        return TrialRecord(str(trial["name"]), trial["about"], lanes, logs)
    except OSError as error:
        raise BadFile(f"{folder}: {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadFile(f"{folder}: damaged ({error!r})") from error


def _write_data(record: TrialRecord, folder: Path) -> tuple[str, ...]:
    """Everything but the page. Returns the lanes' file names."""
    names: list[str] = []
    for lane in record.lanes:
        name = files.safe_name(lane.history.facts.lane, [stem.removesuffix(".arrow") for stem in names]) + ".arrow"
        histories.save(lane.history, folder / name)
        names.append(name)
    logs: dict[str, str] = {}
    if record.logs:
        (folder / "logs").mkdir()
    for title, data in record.logs.items():
        logs[title] = files.safe_name(title, logs.values())
        (folder / "logs" / logs[title]).write_bytes(data)
    files.write_json(
        folder / "trial.json",
        FORMAT,
        {"name": record.name, "about": dict(record.about), "lanes": names, "logs": logs},
    )
    if plan := record.about.get("plan"):
        files.write_text(folder / "plan.json", json.dumps(plan, indent=1) + "\n")
    column = record.about.get("column")
    lanes = [_lane_to_json(lane, name, column) for lane, name in zip(record.lanes, names, strict=True)]
    files.write_json(folder / "verdicts.json", FORMAT, {"lanes": lanes})
    return tuple(names)


def _lane_to_json(lane: LaneRecord, file: str, column: str | None) -> dict[str, Any]:
    facts = lane.history.facts
    return {
        "lane": facts.lane,
        "lock": facts.lock,
        "backend": facts.backend,
        "workload": facts.workload,
        "store": facts.store,
        "fault": column or fault_of(facts),
        "seed": facts.seed,
        "file": file,
        "operations": len(lane.history),
        "judgements": [judgement_to_json(judgement) for judgement in lane.judgements],
    }


def _move_into_place(partial: Path, trials: Path, name: str) -> Path:
    """Renaming onto a folder that holds something fails, so two processes cannot both take one name."""
    while True:
        folder = trials / files.safe_name(name, [path.name for path in trials.iterdir()])
        try:
            return partial.rename(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def _cells(folder: Path, trial: Mapping[str, Any], verdicts: Mapping[str, Any]) -> list[Cell]:
    """Raises AttributeError, KeyError, TypeError or ValueError."""
    return [
        _cell(folder, trial, lane, judgement_from_json(item))
        for lane in verdicts["lanes"]
        for item in lane["judgements"]
    ]


def _cell(folder: Path, trial: Mapping[str, Any], lane: Mapping[str, Any], judgement: Judgement) -> Cell:
    violation = decisive(judgement)
    return Cell(
        lock=str(lane["lock"]),
        backend=str(lane["backend"]),
        workload=str(lane["workload"]),
        store=str(lane["store"]),
        lane=str(lane["lane"]),
        fault=str(lane["fault"]),
        property=judgement.property,
        word=judgement.word,
        because=judgement.because,
        counters=judgement.verdict.counters if judgement.verdict is not None else {},
        story=violation.story if violation is not None else (),
        page=folder / "index.html",
        trial=str(trial["name"]),
        seed=int(lane["seed"]),
        attempt=int(trial["about"].get("attempt", 0)),
    )


def _summary(
    name: str, asked: Mapping[str, Any], about: Mapping[str, Any], contents: Contents, root: Path
) -> dict[str, Any]:
    words = [cell.word for cell in settled(contents.cells)]
    return {
        "run": name,
        "asked": dict(asked),
        "about": dict(about),
        "closed": _now(),
        "failed": any(word.fails for word in words),
        "words": {str(word): words.count(word) for word in Word},
        "cells": [
            {
                **asdict(cell),
                "word": str(cell.word),
                "page": None if cell.page is None else cell.page.relative_to(root).as_posix(),
            }
            for cell in contents.cells
        ],
        "problems": list(contents.problems),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
