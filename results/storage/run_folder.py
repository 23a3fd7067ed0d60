"""A run folder: everything that one run of the suite stored, enough to judge it again and to repeat it.

`results/README.md` lists its files, and says how they get their names and how they show that the run goes on. Several
processes save into one folder at the same time. Their locks end with them, even if they are killed.
"""

import errno
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

from checkers.history import history as histories
from results.record import LaneRecord, NotRun, TrialRecord
from results.storage import files, reading, summary, verdicts
from results.storage.codec import RunFile, decoded
from results.storage.files import BadFile

CLOSED: Final = "closed"
GOING_ON: Final = "still going on"
INTERRUPTED: Final = "interrupted"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run folder without its pages. going_on: the locked file, if this process makes the run (see `hold`)."""

    path: Path
    going_on: BinaryIO | None = field(default=None, compare=False, repr=False)

    @classmethod
    def create(cls, root: Path, about: Mapping[str, Any]) -> Self:
        """A new folder under `root`. about: what was asked for, plain JSON."""
        root.mkdir(parents=True, exist_ok=True)
        while True:
            path = root / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
            with suppress(FileExistsError):
                path.mkdir()
                return cls.create_at(path, now(), about)

    @classmethod
    def create_at(cls, path: Path, started: str, about: Mapping[str, Any]) -> Self:
        """Make a run of an empty folder. started: ISO 8601."""
        (path / "trials").mkdir()
        files.write_json(path / "run.json", {"started": started, "about": dict(about)})
        return cls(path, hold(path / "run.json"))

    @classmethod
    def open(cls, path: Path) -> Self:
        """A folder that exists. Raises BadFile."""
        run = cls(path)
        run.about()
        return run

    @classmethod
    def join(cls, path: Path) -> Self:
        """Join a run that another process has opened. The run goes on until both have closed it. Raises BadFile."""
        return replace(cls.open(path), going_on=hold(path / "run.json"))

    def about(self) -> dict[str, Any]:
        """What was asked for, and when the run started (`started`, ISO 8601). Raises BadFile."""
        file = self.path / "run.json"
        data = decoded(files.read_json(file), RunFile, file)
        return {**data["about"], "started": data["started"]}

    def store_trial(self, record: TrialRecord) -> tuple[Path, TrialRecord]:
        """Store a trial, without measures and stories. Returns its folder, and the trial with the names of its files.

        A trial whose name exists already is stored beside the other one (`name~2`), never over it.
        """
        trials = self.path / "trials"
        partial = files.partial_name(trials / files.safe_name(record.name))
        partial.mkdir(parents=True)
        try:
            stored = _write_data(record, partial)
            return move_into_place(partial, trials, record.name), stored
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def save_not_run(self, items: Iterable[NotRun]) -> None:
        """Store what was not tried. Several processes may store the same."""
        folder = self.path / "not-run"
        folder.mkdir(exist_ok=True)
        files.write_json(folder / f"{secrets.token_hex(8)}.json", {"not_run": [asdict(item) for item in items]})

    def read(self) -> reading.RunContents:
        """All judgements of the run, oldest trial first, and a line for each folder that cannot be read."""
        return reading.read(self.path)

    def restore(self) -> None:
        """Write run.json again if it was removed while the run went on: without it the run is not found."""
        file = self.path / "run.json"
        if self.going_on is not None and not file.exists():
            self.path.mkdir(parents=True, exist_ok=True)
            self.going_on.seek(0)
            files.write_bytes(file, self.going_on.read())

    def summarise(self, closed: str, about: Mapping[str, Any]) -> summary.Summary:
        """The summary of what the folder holds now. Raises BadFile."""
        return summary.make(self.path, closed, self.about(), about, self.read())

    def state(self) -> str:
        """`CLOSED`, `GOING_ON` or `INTERRUPTED`. Raises BadFile where there is no run."""
        if (self.path / summary.NAME).exists():
            return CLOSED
        return GOING_ON if is_running(self.path) else INTERRUPTED

    def head(self) -> tuple[summary.Head, str]:
        """The head of a run's summary and its state, which may also be `damaged summary`. Raises BadFile."""
        state, wrong = self.state(), []
        if state == CLOSED:
            try:
                return summary.load_head(self.path), state
            except BadFile as error:
                state, wrong = "damaged summary", [str(error).removeprefix(f"{self.path}/")]
        made = self.summarise("", {INTERRUPTED: True})
        return replace(made, problems=(*made.problems, *wrong)), state


def move_into_place(partial: Path, trials: Path, name: str) -> Path:
    """Rename a finished trial to a free name. Renaming onto a full folder fails, so no name is taken twice."""
    while True:
        folder = trials / files.safe_name(name, [path.name for path in trials.iterdir()])
        try:
            return partial.rename(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def _write_data(record: TrialRecord, folder: Path) -> TrialRecord:
    """Write all files but the page. Judgements are stored without measures. Returns the trial with its file names."""
    lanes: dict[str, LaneRecord] = {}
    for lane in record.lanes:
        name = files.safe_name(lane.history.facts.lane, [stem.removesuffix(".arrow") for stem in lanes]) + ".arrow"
        histories.save(lane.history, folder / name)
        lanes[name] = replace(lane, file=name)
    stored = replace(record, lanes=tuple(lanes.values()))
    logs: dict[str, str] = {}
    if record.logs:
        (folder / "logs").mkdir()
    for title, data in record.logs.items():
        logs[title] = files.safe_name(title, logs.values())
        (folder / "logs" / logs[title]).write_bytes(data)
    trial = {"name": record.name, "about": dict(record.about), "lanes": list(lanes), "logs": logs}
    files.write_json(folder / "trial.json", trial)
    if plan := record.about.get("plan"):
        files.write_text(folder / "plan.json", json.dumps(plan, indent=1) + "\n")
    files.write_json(folder / reading.VERDICTS, verdicts.content(stored, bare=True))
    return stored


def now() -> str:
    """UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def hold(run_file: Path) -> BinaryIO:
    """Mark the run of this run.json as going on, until the returned file is closed or this process ends."""
    file = run_file.open("rb")
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """Keep other processes from running, merging or pruning this folder. Raises BadFile if one does so already."""
    path = files.plain(root / "run.json")
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(file.fileno()), path.stat()):  # another process has taken it over since
                raise BlockingIOError
        except BlockingIOError:
            raise BadFile(f"{root}: this run is still going on") from None
        yield


def take_over(root: Path, data: Mapping[str, Any]) -> BinaryIO:
    """`hold` for an interrupted run. data: the content of its new run.json.

    The new file is locked before it replaces the old one: of two processes that try at once one is refused (BadFile).
    """
    with alone(root):
        path = root / "run.json"
        new = files.partial_name(path)
        try:
            files.write_json(new, data)
            file = hold(new)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
    return file


def is_running(root: Path) -> bool:
    """Whether a process runs it now. Raises BadFile where there is no run."""
    try:
        with alone(root):
            return False
    except BadFile:
        files.plain(root / "run.json")
        return True
