"""A run folder with its pages: a trial's page is drawn when the trial is stored, other pages when the run is closed."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from results.pages import run_page, scorecard, trend, trial_page, web
from results.record import TrialRecord
from results.storage import files, reading, summary, verdicts
from results.storage.codec import encoded
from results.storage.files import BadFile
from results.storage.reading import load_trial
from results.storage.run_folder import RunFolder, now
from results.terminal.output import warn
from results.text import typed


class Run(RunFolder):
    __slots__ = ()

    def save_trial(self, record: TrialRecord) -> Path:
        """Store a trial (see `store_trial`) and draw its page. Returns the page's path."""
        folder, stored = self.store_trial(record)
        # Measures, stories and the page come last: if one of them fails, the recorded data is stored already.
        return self._complete(stored, folder)

    def complete_trial(self, folder: Path) -> None:
        """Write what is missing of a stored trial whose process was killed. Raises BadFile."""
        page = folder / "index.html"
        if not page.is_file() or not page.stat().st_size:  # it is written last
            self._complete(load_trial(folder), folder)

    def complete_trials(self) -> None:
        """`complete_trial` for all trials. A trial that cannot be read is left as it is."""
        for folder in files.entries(self.path / "trials", []):
            with suppress(BadFile):
                self.complete_trial(folder)

    def draw_trial(self, folder: Path, record: TrialRecord | None = None) -> Path:
        """Draw a stored trial's page; without a record the trial is read. Returns its path. Raises BadFile."""
        record = record or load_trial(folder)
        path = folder / "index.html"
        web.write_assets(self.path)
        files.write_text(path, trial_page.render(record, typed(folder)))
        return path

    def close(self, about: Mapping[str, Any], say: Callable[[str], None] = warn) -> Path:
        """Write the run's page and its summary, and the page of all runs beside it. Returns the run's page's path.

        about: how the run ended, plain JSON. say: gets a line if the page of all runs could not be written.
        """
        self.restore()
        path = self.finish(about, now())
        for line in trend.refresh(self.path.parent):
            say(line)
        if self.going_on is not None:
            self.going_on.close()
        return path

    def finish(self, about: Mapping[str, Any], closed: str) -> Path:
        """Write the run's page and its summary, but not the page of all runs: the folder may be anywhere."""
        made = self.summarise(closed, about)
        files.write_json(self.path / summary.NAME, encoded(made, self.path))
        return self.draw(made)

    def add(self, about: Mapping[str, Any], say: Callable[[str], None] = warn) -> None:
        """If a run was closed, add to how it ended and draw its pages again. say: as for `close`. Raises BadFile."""
        if (self.path / summary.NAME).exists():
            head = summary.load_head(self.path)
            self.finish({**head.about, **about}, head.closed)
            # Only if there is a page of all runs: in any other folder a file of that name is not ours.
            for line in trend.refresh(self.path.parent) if (self.path.parent / trend.CACHE).exists() else ():
                say(line)

    def draw(self, made: summary.Summary) -> Path:
        about, certificate = {**made.asked, **made.about, "closed": made.closed}, summary.certificate(made.about)
        text = run_page.render(self.path, about, made.cells, made.problems, made.lanes, certificate)
        web.write_assets(self.path)
        path = self.path / "index.html"
        files.write_text(path, text)
        scorecard.write_all(scorecard.Tried.of(self.path, made))
        return path

    def _complete(self, record: TrialRecord, folder: Path) -> Path:
        """Add measures, stories and the page to a stored trial. Returns the page's path."""
        files.write_json(folder / reading.VERDICTS, verdicts.content(record))
        return self.draw_trial(folder, record)
