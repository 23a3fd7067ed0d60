"""Resuming an interrupted run: whether that is possible, by which command, and preparing its folder.

`run.json` has the arguments of the run; `suites` knows their meaning and what is still to be done.
"""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from results.record import words
from results.storage import files, summary
from results.storage.run_folder import RunFolder, is_running, take_over
from results.terminal import event_journal
from results.terminal.progress import unfinished
from results.text import command_line, typed

Folder = TypeVar("Folder", bound=RunFolder)

ENDED: Final = (0, 1, 5)
"""Exit statuses of `pytest suites/` of a run that was not interrupted."""
ENVIRONMENT_FAILED: Final = 4
"""The exit status if an environment could not be made, or if a fault could not be proven."""
ASIDE: Final = "set-aside"
"""Folder for trials that were run again after an interruption."""
_CERTIFICATE: Final = (files.CERTIFICATE, files.CERTIFICATE_PAGE, files.JUNIT, files.ATTESTATION)
_OF_THE_END: Final = (summary.NAME, "index.html", *_CERTIFICATE)
"""Files that are written when a run is closed. They are outdated when the run goes on."""


def why_not(run: RunFolder) -> str:
    """Why a run cannot be resumed, as the end of a sentence that begins with its name; or empty. Raises BadFile."""
    about = run.about()
    if about.get("merged"):
        return "was merged from others: resume that one of them which was interrupted"
    if not arguments(run):
        return "does not say by which command it was run"
    if is_running(run.path):
        return "is still going on"
    if summary.about_end(run.path).get("exit status") in ENDED:
        return "came to its end: there is nothing to resume"
    return ""


def command(run: RunFolder) -> str:
    """The shell command that resumes a run. Raises BadFile."""
    return command_line("pytest", *arguments(run), "--resume", str(typed(run.path)))


def arguments(run: RunFolder) -> list[str]:
    """The arguments of pytest with which a run was started. Raises BadFile."""
    return words(run.about().get("command"))[1:]


def interruption(run: RunFolder) -> dict[str, Any]:
    """When a run was interrupted, and what the run was doing, as plain JSON. at: ISO 8601, empty if unknown."""
    about = summary.about_end(run.path)
    last = max((event.at for event in event_journal.Tail(run.path).read()), default=0.0)
    when = about.get("finished") or (datetime.fromtimestamp(last, UTC).isoformat(timespec="seconds") if last else "")
    return {"at": when, "broken off": about.get("broken off") or unfinished(run.path)}


def reopen(run: Folder, interruption: Mapping[str, Any]) -> Folder:
    """Take over the folder of an interrupted run, and store the interruption. Raises BadFile if it still goes on."""
    about = run.about()
    about["interruptions"] = [*about.get("interruptions", ()), dict(interruption)]
    made = replace(run, going_on=take_over(run.path, {"started": about["started"], "about": about}))
    for name in _OF_THE_END:
        (run.path / name).unlink(missing_ok=True)
    for partial in run.path.rglob(".*.partial"):  # left by killed processes: no other process uses the folder now
        shutil.rmtree(partial) if partial.is_dir() else partial.unlink()
    with (run.path / event_journal.NAME).open("ab") as file:
        file.write(b"\n")  # a killed process may have left a line unfinished
    return made


def set_aside(run: RunFolder, folder: Path) -> None:
    """Move a trial that will be run again out of the run. Its files are kept."""
    aside = run.path / ASIDE
    aside.mkdir(exist_ok=True)
    folder.rename(aside / files.safe_name(folder.name, [path.name for path in aside.iterdir()]))
