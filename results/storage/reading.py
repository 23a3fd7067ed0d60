"""Reads run folders. What is damaged is left out and named in a line; it is never fatal."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self, TypedDict

from checkers.claims import Verdict
from checkers.history import history as histories
from checkers.history.history import BadHistory
from results.record import Cell, Count, LaneRecord, LaneSummary, Measures, NotRun, TrialRecord, version_of
from results.stages import CALIBRATIONS
from results.storage import files
from results.storage.codec import About, StoredJudgement, decoded
from results.storage.files import BadFile

VERDICTS: Final = "verdicts.json"
"""A trial's file of judgements, see `results.storage.verdicts`."""


@dataclass(frozen=True, slots=True)
class RunContents:
    cells: tuple[Cell, ...]
    lanes: tuple[LaneSummary, ...]  # of the trials of `cells`, in the same order
    problems: tuple[str, ...]  # damaged or aborted trials, one line each. Damaged ones are not in `cells` and `lanes`
    # Judgements of the calibration's trials: for each planted bug the one that must detect it. `cells` and `lanes`
    # have nothing of these trials.
    planted: tuple[Cell, ...] = ()


def read(root: Path) -> RunContents:
    """Everything of the run folder `root`, oldest trial first. Raises nothing."""
    cells: list[Cell] = []
    lanes: list[LaneSummary] = []
    planted: list[Cell] = []
    problems: list[str] = []
    for folder in files.entries(root / "trials", problems):
        try:
            trial = _Trial.read(folder)
        except BadFile as error:
            problems.append(str(error))
            continue
        if trial.about.get("stage") in CALIBRATIONS:
            planted += trial.planted
        else:
            cells += trial.cells
            lanes += trial.summaries
        if error_ := trial.about.get("error"):
            problems.append(f"{folder}: aborted: {error_}")
    blank: dict[str, Any] = {"counters": {}, "story": (), "page": None, "trial": "", "seed": 0, "attempt": 0}
    cells += (Cell(word=Verdict.NOT_APPLICABLE, **asdict(item), **blank) for item in not_run(root, problems))
    short = tuple(problem.removeprefix(f"{root}/") for problem in problems)
    return RunContents(tuple(cells), tuple(lanes), short, tuple(planted))


def not_run(root: Path, problems: list[str]) -> tuple[NotRun, ...]:
    """What was not tried, each once. Adds a line to `problems` for each file that cannot be read."""
    items: dict[NotRun, None] = {}
    for file in files.entries(root / "not-run", problems):
        try:
            items |= dict.fromkeys(_not_run(file))
        except BadFile as error:
            problems.append(str(error))
    return tuple(items)


def load_trial(folder: Path) -> TrialRecord:
    """A stored trial, whole. Raises BadFile."""
    trial = _Trial.read(folder)
    try:
        lanes = tuple(_lane_record(folder, lane) for lane in trial.lanes)
        logs = {name: files.read_bytes(files.inside(folder / "logs", file)) for name, file in trial.logs.items()}
    except BadHistory as error:
        raise BadFile(str(error)) from error
    except OSError as error:
        raise BadFile(f"{folder}: {error.strerror}") from error
    return TrialRecord(trial.name, trial.about, lanes, logs)


def about_trial(folder: Path) -> Mapping[str, Any]:
    """What was done in a stored trial (see `TrialRecord`). Raises BadFile."""
    return _Trial.read(folder).about


@dataclass(frozen=True, slots=True)
class _Lane:
    """A lane of verdicts.json; format 1 has no measures."""

    lane: str
    lock: str
    backend: str
    workload: str
    store: str
    fault: str
    seed: int
    file: str
    operations: Count
    judgements: tuple[StoredJudgement, ...]
    measures: Measures | None = None


class _Verdicts(TypedDict):
    lanes: tuple[_Lane, ...]


class _NotRunFile(TypedDict):
    not_run: list[dict[str, str]]


class _TrialFile(TypedDict):
    name: str
    about: About
    logs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Trial:
    """What trial.json and verdicts.json say of a trial."""

    folder: Path
    name: str
    about: Mapping[str, Any]
    logs: Mapping[str, str]
    lanes: tuple[_Lane, ...]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The trial of a folder, without its histories and logs. Raises BadFile."""
        if folder.is_symlink():
            raise BadFile(f"{folder}: a link, which is not followed")
        trial, verdicts = folder / "trial.json", folder / VERDICTS
        data = files.read_json(trial)
        stored = decoded(data, _TrialFile, trial)
        lanes = decoded(files.read_json(verdicts), _Verdicts, verdicts)["lanes"]
        return cls(folder, stored["name"], data["about"], stored["logs"], lanes)

    @property
    def cells(self) -> list[Cell]:
        return [
            Cell(
                **self._place(lane),
                property=judgement.property,
                word=judgement.word,
                because=judgement.because,
                counters=judgement.verdict.counters if judgement.verdict is not None else {},
                story=judgement.story(),
            )
            for lane in self.lanes
            for judgement in lane.judgements
        ]

    @property
    def planted(self) -> list[Cell]:
        """For each lane with a planted bug the cell of the property that must detect it."""
        names = self.about.get("planted") or {}
        return [cell for cell in self.cells if names.get(cell.lane) == cell.property]

    @property
    def summaries(self) -> list[LaneSummary]:
        struck = self.about.get("boundaries") or {}
        return [
            LaneSummary(
                **self._place(lane),
                operations=lane.operations,
                started=self.about.get("started") or "",
                measures=lane.measures,
                boundaries={
                    verb: {"messages": each["messages"], "hit": len(each["hit"])}
                    for verb, each in struck.get(lane.lane, {}).items()
                },
            )
            for lane in self.lanes
        ]

    def _place(self, lane: _Lane) -> dict[str, Any]:
        """What a lane shares with its judgements."""
        names = ("lock", "backend", "workload", "store", "lane", "fault", "seed")
        return {
            **{name: getattr(lane, name) for name in names},
            "page": self.folder / "index.html",
            "trial": self.name,
            "attempt": self.about.get("attempt") or 0,
            "version": version_of(self.about),
            "stage": self.about.get("stage") or "",
        }


def _lane_record(folder: Path, lane: _Lane) -> LaneRecord:
    """A lane with its history. Raises BadFile, BadHistory or OSError."""
    history = histories.load(files.plain(files.inside(folder, lane.file)))
    size = len(history)
    for judgement in lane.judgements:
        violations = judgement.verdict.violations if judgement.verdict is not None else ()
        for violation in (*violations, *([judgement.violation] if judgement.violation is not None else [])):
            if not all(0 <= row < size for row in (*violation.rows, *violation.holders)):
                raise BadFile(f"{folder}: damaged ({judgement.property} tells of a row that {lane.file} does not have)")
    return LaneRecord(history, tuple(judgement.judgement() for judgement in lane.judgements), lane.file)


def _not_run(file: Path) -> tuple[NotRun, ...]:
    """What one file says was not tried. Raises BadFile."""
    items = decoded(files.read_json(file), _NotRunFile, file)["not_run"]
    if any(item.keys() != set(NotRun.__slots__) for item in items):
        raise BadFile(f"{file}: damaged (Expected of each {', '.join(NotRun.__slots__)})")
    return tuple(NotRun(**item) for item in items)
