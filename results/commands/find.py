"""Finds runs and trials by the names on the command line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from results.run import Run
from results.storage import files
from results.storage.files import BadFile


@dataclass(frozen=True, slots=True)
class Stored:
    """A folder with a run.json. wrong: why it cannot be read, in one line, or empty."""

    path: Path
    started: str
    wrong: str = ""


def runs(root: Path) -> list[Stored]:
    """All runs, oldest first, damaged ones too. Raises BadFile if the folder itself cannot be read."""
    stored, problems = [], list[str]()
    for path in files.entries(root, problems, follow=True):
        try:
            if (path / "run.json").exists() and not path.is_symlink():
                stored.append(Stored(path, Run(path).about()["started"]))
        except (BadFile, OSError) as error:
            stamp = re.match(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z", path.name)
            when = "{}-{}-{}T{}:{}:{}+00:00".format(*stamp.groups()) if stamp else ""
            stored.append(Stored(path, when, files.reason(error)))
    if problems:
        raise BadFile(problems[0])
    return sorted(stored, key=lambda run: (run.started, run.path.name))


def find(name: str, root: Path) -> Run:
    """The run of this name (`results.__main__.NAMING`). Raises BadFile."""
    if _has(name, "run.json"):
        return Run.open(Path(name))
    stored = runs(root)
    if not stored:
        raise BadFile(f"no run {name!r} in {root}, which has none")
    if back := re.fullmatch(r"last(?:~(\d{1,9}))?", name):
        number = int(back[1] or 0)
        if number >= len(stored):
            raise BadFile(f"no run {name} in {root}, which has {len(stored)}")
        return Run.open(stored[-1 - number].path)
    names = [run.path.name for run in stored]
    run = of_this_name(name, names, "runs")
    if not run:
        raise BadFile(f"no run {name!r} in {root}; the last one is {names[-1]}")
    return Run.open(root / run)


def find_trial(name: str, run: Run) -> Path:
    """The folder of a run's trial, by its name or the beginning of its name. Raises BadFile."""
    problems: list[str] = []
    names = [path.name for path in files.entries(run.path / "trials", problems) if not path.is_symlink()]
    trial = of_this_name(name, names, "trials")
    if not trial:
        raise BadFile(f"no trial {name!r} in {run.path}" + "".join(f" ({problem})" for problem in problems))
    return run.path / "trials" / trial


def of_this_name(name: str, names: Sequence[str], what: str) -> str:
    """The one of `names` that is equal to `name`, or else begins with it; empty: none. Raises BadFile for several."""
    matching = [each for each in names if each == name] or [each for each in names if name and each.startswith(name)]
    if len(matching) > 1:
        first = ", ".join([*matching[:5], *["..."] * (len(matching) > 5)])
        raise BadFile(f"{name!r} names {len(matching)} {what}: {first}")
    return matching[0] if matching else ""


def run_or_trial(name: str, root: Path) -> tuple[Run, Path | None]:
    """A run, and a trial of it or None, by `RUN`, `RUN/TRIAL` or the folder of a trial. Raises BadFile."""
    if _has(name, "trial.json"):
        whole = Path(name).resolve()
        return Run(whole.parent.parent), whole
    run, _, trial = (name, "", "") if _has(name, "run.json") else name.partition("/")
    chosen = find(run, root)
    return chosen, find_trial(trial, chosen) if trial else None


def _has(folder: str, file: str) -> bool:
    try:
        return (Path(folder) / file).is_file()
    except (OSError, ValueError):
        return False  # no path: it is too long, or has characters that no path has
