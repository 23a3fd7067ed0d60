"""Going on with a run that ended before its time: whether one can, by which command, and its folder made ready for it.

What the run was asked for stands in its `run.json`; `suites` knows what that means, and what is still to be done.
"""

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from results.record import words
from results.storage import files, running, summary
from results.storage.files import BadFile
from results.storage.run_folder import RunFolder
from results.terminal import events
from results.terminal.events import Tail
from results.terminal.progress import unfinished
from results.text import typed

Folder = TypeVar("Folder", bound=RunFolder)

ENDED: Final = (0, 1, 5)
"""Exit statuses of `pytest suites/` that say that the run came to its end."""
ASIDE: Final = "set-aside"
"""Folder of the trials that were run again after an interruption."""
_CERTIFICATE: Final = (files.CERTIFICATE, files.CERTIFICATE_PAGE, files.JUNIT, files.ATTESTATION)
_OF_THE_END: Final = (summary.NAME, "index.html", *_CERTIFICATE)
"""What is written when a run is closed; it would tell of what the run was before it went on."""


def why_not(run: RunFolder) -> str:
    """Why nobody can go on with it, as the end of a sentence that its name begins; or empty. Raises BadFile."""
    about = run.about()
    if about.get("merged"):
        return "was merged from others: resume that one of them which was interrupted"
    if not arguments(run):
        return "does not say by which command it was run"
    if running.is_running(run.path):
        return "is still going on"
    if _about_end(run).get("exit status") in ENDED:
        return "came to its end: there is nothing to resume"
    return ""


def command(run: RunFolder) -> str:
    """What goes on with it, to be typed into a shell. Raises BadFile."""
    given = [*arguments(run), "--resume", str(typed(run.path))]
    return shlex.join([".venv/bin/python", "-m", "pytest", *given])


def arguments(run: RunFolder) -> list[str]:
    """The arguments of pytest with which it was begun. Raises BadFile."""
    return words(run.about().get("command"))[1:]


def interruption(run: RunFolder) -> dict[str, Any]:
    """When it ended before its time, and at what, as plain JSON. at: ISO 8601, empty where nobody knows."""
    about = _about_end(run)
    last = max((event.at for event in Tail(run.path).read()), default=0.0)
    when = about.get("finished") or (datetime.fromtimestamp(last, UTC).isoformat(timespec="seconds") if last else "")
    return {"at": when, "broken off": about.get("broken off") or unfinished(run.path)}


def reopen(run: Folder, interruption: Mapping[str, Any]) -> Folder:
    """Hold the folder of a run again, and remember the interruption in it. Raises BadFile where somebody runs it."""
    about = run.about()
    about["interruptions"] = [*about.get("interruptions", ()), dict(interruption)]
    data = {"started": about["started"], "about": about}
    made = replace(run, going_on=running.take_over(run.path, lambda path: files.write_json(path, data)))
    for name in _OF_THE_END:
        (run.path / name).unlink(missing_ok=True)
    for partial in run.path.rglob(".*.partial"):  # of processes that were killed: nobody else has the folder now
        shutil.rmtree(partial) if partial.is_dir() else partial.unlink()
    with (run.path / events.NAME).open("ab") as file:
        file.write(b"\n")  # one of them may have been at a line
    return made


def set_aside(run: RunFolder, folder: Path) -> None:
    """Take a trial out of the run, whose place another will take; what it recorded is kept."""
    aside = run.path / ASIDE
    aside.mkdir(exist_ok=True)
    folder.rename(aside / files.safe_name(folder.name, [path.name for path in aside.iterdir()]))


def _about_end(run: RunFolder) -> Mapping[str, Any]:
    """What came of it; nothing where nobody closed it, or what was written then is damaged."""
    try:
        return summary.load_head(run.path).about
    except BadFile:
        return {}
