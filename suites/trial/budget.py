"""`--budget`: whether a certification has the time for further trials of what is undecided.

The first trials of all columns are run whatever they take. A further trial is run only if all of this fits into the
budget of its backend: what its stored trials took, the first trials that are still to come, and the further one. The
time counts that trials take, not that in which clusters start. Processes that share a backend see each other's trials
in the run's folder, as does a run that is resumed.
"""

from collections.abc import Mapping
from pathlib import Path

from results.storage import files, reading
from suites.selection.selection import Selection
from suites.selection.trial import Trial


class TrialBudget:
    """processes: how many run trials of a backend side by side, if more than one. run: the run's folder."""

    def __init__(self, selection: Selection, run: Path, processes: Mapping[str, int]) -> None:
        self._selection = selection
        self._folder = run / "trials"
        self._processes = processes
        self._stored: dict[str, tuple[str, float]] = {}  # name of a trial's folder → its backend, and its seconds
        self._first: dict[str, dict[str, float]] = {}  # backend → folder of each first trial → its expected seconds

    def allows(self, *further: Trial) -> bool:
        """Whether these trials of one backend, one after another, fit. Those that are stored have fitted."""
        backend = further[0].backend
        if backend not in self._first:
            first = (trial for trial in self._selection.trials() if trial.backend == backend)
            self._first[backend] = {files.safe_name(trial.name): trial.seconds for trial in first}
        for folder in files.entries(self._folder, []):
            if folder.name not in self._stored and folder.is_dir():
                self._stored[folder.name] = _took(folder)
        spent = sum(seconds for of, seconds in self._stored.values() if of == backend)
        to_come = sum(seconds for name, seconds in self._first[backend].items() if name not in self._stored)
        new = [trial.seconds for trial in further if files.safe_name(trial.name) not in self._stored]
        return not new or spent + to_come + sum(new) <= 60 * self._selection.budget * self._processes.get(backend, 1)


def _took(folder: Path) -> tuple[str, float]:
    """The backend of a stored trial, and its seconds; nothing of a damaged one."""
    try:
        about = reading.about_trial(folder)
    except files.BadFile:
        return "", 0.0
    return str(about.get("backend", "")), float(about.get("seconds") or 0)
