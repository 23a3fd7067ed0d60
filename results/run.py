"""A run folder: everything that one run of the suite left behind, enough to judge it again and to repeat it.

    <root>/<utc stamp>-<4 hex>/
        run.json                     what was asked for
        trials/<trial>/trial.json    what was done: plan, seed, versions, lanes
                       <lane>.arrow  what was recorded
                       verdicts.json what it means, and what was measured
                       logs/         what the nodes said
                       index.html    to be read
        not-run/*.json               what was not tried, and why
        set-aside/                   trials that were run again after an interruption (`results.resuming`)
        assets/                      what pages share
        events.jsonl                 what every process was at while it went on (`results.terminal.events`)
        index.html, summary.json     written at the end
    <root>/index.html                the runs, and their trend

Several processes save into one folder at the same time: every file and every trial's folder appears under its
final name in one step.
"""

import dataclasses
import errno
import json
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Self

from checkers import history as histories
from checkers.history import BadHistory
from results import files, reading, running, summary, verdicts
from results.files import BadFile
from results.pages import index, page, trend, web
from results.reading import Contents, load_trial
from results.record import NotRun, TrialRecord
from results.stored import RunFile, decoded
from results.summary import Summary
from results.terminal.output import warn


def _warn(line: str) -> None:
    warn(line)


@dataclass(frozen=True, slots=True)
class Run:
    """One run folder. going_on: held by whoever makes the run, until it is closed (`results.running`)."""

    path: Path
    going_on: BinaryIO | None = dataclasses.field(default=None, compare=False, repr=False)

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
        return cls.create_at(path, _now(), about)

    @classmethod
    def create_at(cls, path: Path, started: str, about: Mapping[str, Any]) -> Self:
        """Make a run of an empty folder. started: ISO 8601."""
        (path / "trials").mkdir()
        files.write_json(path / "run.json", {"started": started, "about": dict(about)})
        return cls(path, running.hold(path))

    @classmethod
    def open(cls, path: Path) -> Self:
        """A folder that exists. Raises BadFile."""
        run = cls(path)
        run.about()
        return run

    @classmethod
    def join(cls, path: Path) -> Self:
        """One that somebody else has opened and goes on: it does so until both are gone. Raises BadFile."""
        run = cls.open(path)
        return cls(run.path, running.hold(path))

    def about(self) -> dict[str, Any]:
        """What was asked for, and when it started (`started`, ISO 8601). Raises BadFile."""
        file = self.path / "run.json"
        data = decoded(files.read_json(file), RunFile, file)
        return {**data["about"], "started": data["started"]}

    def save_trial(self, record: TrialRecord) -> Path:
        """Store a trial and draw its page. Returns the page's path.

        A trial of a name that exists already is stored beside it (`name~2`), never over it.
        """
        trials = self.path / "trials"
        partial = files.partial_name(trials / files.safe_name(record.name))
        partial.mkdir(parents=True)
        try:
            names = _write_data(record, partial)
            folder = move_into_place(partial, trials, record.name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        # Measures, stories and the page come last: whatever happens to a number, a sentence or a picture, what was
        # recorded is stored.
        files.write_json(folder / reading.VERDICTS, verdicts.whole(record, names))
        return self._draw_trial(record, names, folder)

    def complete_trial(self, folder: Path) -> None:
        """What a stored trial lacks whose process was killed at it, if anything. Raises BadFile or BadHistory."""
        page = folder / "index.html"
        if not page.is_file() or not page.stat().st_size:  # it is written last
            record, names = load_trial(folder), reading.histories_of(folder)
            files.write_json(folder / reading.VERDICTS, verdicts.whole(record, names))
            self._draw_trial(record, names, folder)

    def complete_trials(self) -> None:
        """All of them; what cannot be read is left as it is."""
        for folder in files.entries(self.path / "trials", []):
            with suppress(BadFile, BadHistory):
                self.complete_trial(folder)

    def draw_trial(self, folder: Path) -> Path:
        """Draw a stored trial's page again. Returns its path. Raises BadFile or BadHistory."""
        return self._draw_trial(load_trial(folder), reading.histories_of(folder), folder)

    def save_not_run(self, items: Iterable[NotRun]) -> None:
        """Store what was not tried; any process may, and may repeat what another said."""
        folder = self.path / "not-run"
        folder.mkdir(exist_ok=True)
        data = {"not_run": [asdict(item) for item in items]}
        files.write_json(folder / f"{secrets.token_hex(8)}.json", data)

    def read(self) -> Contents:
        """All judgements of the run, oldest trial first, and every folder that could not be read."""
        return reading.read(self.path)

    def close(self, about: Mapping[str, Any], say: Callable[[str], None] = _warn) -> Path:
        """Write the run's page and its summary, and the page of all runs beside it. Returns the run's page's path.

        about: what came of it, plain JSON. say: is told in a line why the page of all runs could not be written.
        """
        self.restore()
        path = self.finish(about)
        if wrong := trend.refresh(self.path.parent):
            say(wrong)
        if self.going_on is not None:
            self.going_on.close()
        return path

    def restore(self) -> None:
        """run.json again, where somebody removed it while the run went on: without it nobody finds what was saved."""
        file = self.path / "run.json"
        if self.going_on is not None and not file.exists():
            self.path.mkdir(parents=True, exist_ok=True)
            self.going_on.seek(0)
            files.write_bytes(file, self.going_on.read())

    def finish(self, about: Mapping[str, Any]) -> Path:
        """`close`, of a folder that may stand anywhere: nothing is written beside it."""
        return self._finish(self.summarise(_now(), about))

    def add(self, about: Mapping[str, Any], say: Callable[[str], None] = _warn) -> None:
        """More that came of a run, told wherever it is told what came of it; nothing where it was not closed.

        say: as for `close`. Raises BadFile.
        """
        if (self.path / summary.NAME).exists():
            head = summary.load_head(self.path)
            self._finish(self.summarise(head.closed, {**head.about, **about}))
            # Only where the page of all runs is: elsewhere a page of that name is somebody else's.
            if (self.path.parent / trend.CACHE).exists() and (wrong := trend.refresh(self.path.parent)):
                say(wrong)

    def _finish(self, made: Summary) -> Path:
        files.write_json(self.path / summary.NAME, summary.to_json(made, self.path))
        return self.draw(made)

    def summarise(self, closed: str, about: Mapping[str, Any]) -> Summary:
        """What the folder holds now. Raises BadFile."""
        asked = self.about()
        return summary.make(self.path, asked["started"], closed, asked, about, self.read())

    def draw(self, made: Summary) -> Path:
        """Draw the run's page. Returns its path."""
        contents, about = made.contents, {**made.head.asked, **made.head.about, "closed": made.head.closed}
        certificate = summary.certificate(made.head.about)
        text = index.render(self.path, about, contents.cells, contents.problems, contents.lanes, certificate)
        self._write_assets()
        path = self.path / "index.html"
        files.write_text(path, text)
        return path

    def _draw_trial(self, record: TrialRecord, names: Sequence[str], folder: Path) -> Path:
        path = folder / "index.html"
        self._write_assets()
        files.write_text(path, page.render(record, names, files.typed(folder)))
        return path

    def _write_assets(self) -> None:
        """Raises BadFile where they would be written elsewhere."""
        if (self.path / "assets").is_symlink():
            raise BadFile(f"{self.path / 'assets'}: a link, which is not followed")
        web.write_assets(self.path)


def move_into_place(partial: Path, trials: Path, name: str) -> Path:
    """Renaming onto a folder that holds something fails, so two processes cannot both take one name."""
    while True:
        folder = trials / files.safe_name(name, [path.name for path in trials.iterdir()])
        try:
            return partial.rename(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def _write_data(record: TrialRecord, folder: Path) -> tuple[str, ...]:
    """Everything but measures and the page. Returns the lanes' file names."""
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
        folder / "trial.json", {"name": record.name, "about": dict(record.about), "lanes": names, "logs": logs}
    )
    if plan := record.about.get("plan"):
        files.write_text(folder / "plan.json", json.dumps(plan, indent=1) + "\n")
    files.write_json(folder / reading.VERDICTS, verdicts.bare(record, names))
    return tuple(names)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
