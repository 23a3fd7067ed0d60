"""`--resume RUN`: an interrupted run continues.

The resumed run has the options of the interrupted one. Trials that are stored whole are answered from the run folder,
all others are run. Trials that were interrupted, came to no verdict, or would be run otherwise today are set aside.
"""

import json
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from checkers.claims import Verdict, heaviest
from infra.docker import base, images
from infra.errors import Trouble
from infra.faults.all_faults import FAULTS
from results.commands import find
from results.record import Cell, TrialRecord, settled
from results.run import Run
from results.storage import files, reading, resumable
from results.storage.files import BadFile
from results.storage.reading import load_trial
from results.storage.run_folder import now
from results.terminal.event_journal import Event
from results.text import typed
from suites.selection.bad_option import BadOption, raised_as
from suites.selection.options import options
from suites.selection.selection import Selection
from suites.selection.trial import Trial, column_in
from suites.trial.metadata import about
from suites.trial.run_trials import CONTROLS

_ANYWHERE: Final = ("python", "host")  # fields of `about` that may differ on another machine
_PYTEST: Final = {"keyword": "-k", "markexpr": "-m", "deselect": "--deselect"}  # options of pytest that select tests
_ELSEWHERE: Final = ("results", "resume", "count", "until_failed")  # options of ours that do not select anything


@dataclass(frozen=True, slots=True)
class Kept:
    """Which trials of a run folder are kept."""

    trials: Mapping[Path, Mapping[str, Any]]  # folder → the stored description of its trial
    # Backend, column (as in events), part and seconds of every part that needs no further trial.
    done: tuple[tuple[str, str, int, float], ...]
    aside: Mapping[Path, str]  # folder → in one line, why it is set aside


def interrupted(name: str, root: Path) -> Run:
    """The run to resume. Raises BadOption."""
    with raised_as(BadOption, f"--resume {name}: ", BadFile):
        run = find.find(name, root)
        why = resumable.why_not(run)
    if why:
        raise BadOption(f"--resume {name}: {typed(run.path)} {why}")
    return run


def take_options(
    option: Any, words: Sequence[str], folder: Path, run: Run, parse: Callable[[Sequence[str]], Namespace]
) -> None:
    """Set the options to those of the run. Raises BadOption where the command line names others.

    option: pytest's options, which are changed. words: the command line. folder: where it was typed. parse: pytest's.
    """
    begun, usual = parse(resumable.arguments(run)), parse(())
    name = typed(run.path)
    if (now := _paths(option, folder)) != (was := _paths(begun, folder)):
        raise BadOption(f"--resume {name}: {' '.join(now)} is asked for, the run was begun with {' '.join(was)}")
    for what, spelling in _selecting().items():
        is_, was_ = getattr(option, what, None), getattr(begun, what, None)
        named = any(word == spelling or word.startswith(f"{spelling}=") for word in words)
        if is_ != was_ and (named or is_ != getattr(usual, what, None)):
            raise BadOption(
                f"--resume {name}: {spelling} {_said(is_)} is asked for, the run was begun with {_said(was_)}"
            )
        setattr(option, what, was_)


def go_on(selection: Selection, run: Run) -> tuple[Run, Event]:
    """Prepare the folder: set aside what is not kept. Returns the run, and the event that says that it was resumed.

    Raises BadOption where plans or images have changed.
    """
    name = typed(run.path)
    if [plan.to_json() for plan in selection.plans.values()] != run.about().get("plans"):
        raise BadOption(f"--resume {name}: the plans are not those that the run was begun with")
    kept = examine(selection, run)
    with raised_as(BadOption, f"--resume {name}: ", Trouble):
        other = other_images(selection, kept.trials.values())
    if other:
        raise BadOption(f"--resume {name}: {other}")
    again = [{"trial": folder.name, "because": because} for folder, because in kept.aside.items()]
    resumption = {**resumable.interruption(run), "resumed": now(), "kept": len(kept.trials), "again": again}
    try:
        run = resumable.reopen(run, resumption)
        for folder in kept.aside:
            resumable.set_aside(run, folder)
        for folder in kept.trials:
            run.complete_trial(folder)
    except (BadFile, OSError) as error:
        raise BadOption(f"--resume {name}: {files.reason(error)}") from error
    return run, Event("resumed", {"kept": kept.done, "stored": len(kept.trials), "again": len(again)})


def stored_in(run: Run, trial: Trial) -> tuple[TrialRecord, Path] | None:
    """The trial as this run has it, and its page; None unless it is stored whole."""
    folder = run.path / "trials" / files.safe_name(trial.name)
    if not folder.is_dir() or not _same(reading.about_trial(folder), trial):
        return None
    return load_trial(folder), folder / "index.html"


def examine(selection: Selection, run: Run) -> Kept:
    """Which of the stored trials would be run in the same way today; changes nothing."""
    problems: list[str] = []
    trials: dict[Path, Mapping[str, Any]] = {}
    aside: dict[Path, str] = {}
    today = {
        files.safe_name(trial.name): trial
        for first in selection.trials()
        for trial in map(first.again, range(1, CONTROLS + 1))
    }
    for folder in files.entries(run.path / "trials", problems):
        try:
            record = load_trial(folder)
        except BadFile as error:
            aside[folder] = str(error).removeprefix(f"{folder}: ")
            continue
        trial = today.get(folder.name)
        if trial is not None and trial.attempt > 1:  # only lanes whose positive control had not fired were tried again
            names = record.about.get("lanes", ())
            trial = replace(trial, lanes=tuple(lane for lane in trial.lanes if lane.name in names))
        if error_ := record.about.get("error"):
            aside[folder] = str(error_)
        elif trial is None or not trial.lanes or not _same(record.about, trial):
            aside[folder] = "it would not be run like that today"
        else:
            trials[folder] = record.about
    series: dict[tuple[str, str, int], dict[int, Path]] = defaultdict(dict)
    for folder, stored in trials.items():
        column = column_in(stored["column"], stored["stage"])
        series[stored["backend"], column, stored["part"]][stored["attempt"]] = folder
    cells: dict[Path, list[Cell]] = defaultdict(list)
    for cell in run.read().cells:
        if cell.page is not None:
            cells[cell.page.parent].append(cell)
    done = []
    for key, attempts in series.items():
        first = next(number for number in range(1, CONTROLS + 2) if number not in attempts)
        for number in [number for number in attempts if number > first]:
            aside[attempts[number]] = "the trial before it is not there"
            del trials[attempts.pop(number)]
        if attempts and (len(attempts) == CONTROLS or not _silent(cells, attempts.values())):
            done.append((*key, sum(trials[folder]["seconds"] for folder in attempts.values())))
    return Kept(trials, tuple(done), aside)


def other_images(selection: Selection, trials: Collection[Mapping[str, Any]]) -> str:
    """One line: which server would have another image than in these trials, or "". Raises `infra.errors.Trouble`."""
    used: dict[str, str] = {}
    for stored in trials:
        for node in (stored.get("nodes") or {}).values():
            if "digest" in node and used.setdefault(node["image"], node["digest"]) != node["digest"]:
                return f"the stored trials ran on more than one image called {node['image']}"
    for name, digest in used.items():
        if digest not in (base.image_id(name) or "").split():
            return f"{name} is another image by now, or none: the stored trials ran on {digest}"
    for stored in trials:
        backend = stored["backend"]
        faults = [FAULTS[name] for name in stored["faults"] if name in FAULTS]
        if backend in selection.targets or any(fault.kind == "version" for fault in faults):
            continue
        image = images.resolve(backend, selection.version(backend, stored["stage"]))
        if image.name not in used:
            named = f"{backend} {stored.get('version') or ''}"
            return f"{named} means {image.name} by now: the stored trials ran on another"
        if image.suite is not None and not images.is_current(image):
            return f"{image.name} would be built anew: its recipe is another than that of the stored trials"
    return ""


def _same(stored: Mapping[str, Any], trial: Trial) -> bool:
    """Whether the stored description is of this trial, and the trial came to its end."""
    now = {**about(trial), "plan": trial.plan_to_run().to_json(), "error": None}
    plain = json.loads(json.dumps({name: value for name, value in now.items() if name not in _ANYWHERE}))
    return all(stored.get(name) == value for name, value in plain.items())


def _silent(cells: Mapping[Path, Sequence[Cell]], folders: Iterable[Path]) -> bool:
    """Whether a positive control did not fire in any of these trials, and so gets another one."""
    words: dict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for cell in settled(cell for folder in folders for cell in cells[folder]):
        words[cell.lane, cell.property].append(cell.word)
    return any(heaviest(of_case) is Verdict.WEAKNESS_NOT_SHOWN for of_case in words.values())


def _selecting() -> dict[str, str]:
    """Name of an option's value → spelling of the option, for every option that selects what is tried."""
    ours = {settings.get("dest", how.strip("-").replace("-", "_")): how for how, settings in options().items()}
    return {**{name: how for name, how in ours.items() if name not in _ELSEWHERE}, **_PYTEST}


def _paths(option: Any, folder: Path) -> list[str]:
    """The paths to collect, absolute; `suites` where none was given."""
    given = [str(path).partition("::") for path in option.file_or_dir] or [("suites", "", "")]
    return [f"{typed((folder / path).resolve())}{sign}{rest}" for path, sign, rest in given]


def _said(value: object) -> str:
    """An option's value, as a person would type it."""
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "nothing"
    return "nothing" if value in (None, "") else str(value)
