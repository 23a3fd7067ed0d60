"""`python -m results merge OUT RUN...`: merges shards of one run, also from several machines, to one run.

What one shard did not run, but another did, is not listed as not run. A trial is identified by what it recorded.
"""

import hashlib
import itertools
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypedDict

from checkers.claims import Verdict
from results.commands.find import find
from results.pages import trend
from results.record import Cell, NotRun, mapping, words
from results.run import Run
from results.storage import files, reading
from results.storage.codec import decoded
from results.storage.files import BadFile
from results.storage.run_folder import alone, is_running, move_into_place, now
from results.terminal.output import say, warn
from results.text import typed, without_options

_SELECTING: Final = (
    *("--shard", "--backend", "--lock", "--faults", "--version-of", "-k", "--results"),
    *("-n", "--numprocesses", "--maxprocesses", "--dist", "--junitxml", "--junit-xml", "--color", "--tb", "-r"),
)
"""Options with a value that choose the part of a run, or its output. Versions are compared apart from these."""
_TELLING: Final = ("-q", "-qq", "-v", "-vv", "-s", "-x", "--quiet", "--verbose", "--no-color", "--keep")
_STATUSES: Final = (1, 4, 3, 2, 0, 5)  # exit statuses of pytest, heaviest first. 5: the shard had nothing to do


class _MergedRun(TypedDict):
    """A run, as stored in the merged run. id: a digest of its name and of what was asked for."""

    id: str
    run: str
    started: str
    asked: dict[str, Any]
    about: dict[str, Any]


def main(results: Path, out: Path, runs: Sequence[str], *, force: bool) -> int:
    """Returns 0 if the runs were merged, damaged trials included. Raises BadFile if one cannot be: then none was."""
    page, problems = merge(out, [find(name, results) for name in runs], force=force)
    if out.resolve().parent == results.resolve():
        problems += trend.refresh(results)
    warn(*problems)
    say(str(typed(page)))
    return 0


def merge(out: Path, runs: Sequence[Run], *, force: bool = False) -> tuple[Path, list[str]]:
    """Merge runs. Returns the page of the merged run, and a line for each thing that was left out or is missing.

    Raises BadFile if the runs are not parts of one run; then nothing was done.
    """
    parts = _merged(out)
    for run in runs:
        if run.path.resolve() == out.resolve():
            raise BadFile(f"{out}: a run cannot be merged into itself")
        if is_running(run.path):
            raise BadFile(f"{run.path}: this run is still going on")
        parts += [part for part in _parts(run) if part["id"] not in {known["id"] for known in parts}]
    if not force:
        for first, other in itertools.combinations(parts, 2):
            if difference := _difference(first, other):
                raise BadFile(f"{difference}; --force merges them nevertheless")
    if (out / "run.json").exists() and is_running(out):
        raise BadFile(f"{out}: somebody merges into it now")
    problems: list[str] = []
    made = _prepare(out, parts)
    with alone(out):
        known = {_identity(folder) for folder in files.entries(out / "trials", problems)}
        for run in runs:
            for folder in files.entries(run.path / "trials", problems):
                _take(folder, made, known)
        _merge_not_run(made, runs, problems)
        about = _about(parts)
        page = made.finish(about, now())
    problems += (f"left out: {problem}" for problem in made.read().problems)
    return page, problems + [f"shard {shard} is missing" for shard in about.get("missing shards", ())]


def _merged(out: Path) -> list[_MergedRun]:
    """The parts of an earlier merge. Raises BadFile if the folder is something else."""
    if not (out.exists() or out.is_symlink()) or (out.is_dir() and not any(out.iterdir())):
        return []
    if not (out / "run.json").is_file():
        raise BadFile(f"{out}: exists, and is not a run")
    parts = Run.open(out).about().get("merged")
    if not parts:
        raise BadFile(f"{out}: is a run that was not made by merging; name a new folder")
    return decoded(parts, list[_MergedRun], out / "run.json")


def _parts(run: Run) -> list[_MergedRun]:
    """The parts of a run: the run itself, or the parts from which it was merged. Raises BadFile."""
    about = run.about()
    if about.get("merged"):
        return decoded(about["merged"], list[_MergedRun], run.path / "run.json")
    head, _ = run.head()
    text = json.dumps([run.path.name, about], sort_keys=True)
    identity = hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()
    started = about.pop("started")
    return [{"id": identity, "run": run.path.name, "started": started, "asked": about, "about": dict(head.about)}]


def _difference(part: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Why two runs are not parts of one run, as the beginning of a sentence; or empty."""
    about, others = part["asked"], other["asked"]
    compared = [(f"{name} ", about.get(name), others.get(name)) for name in ("seed", "profile")]
    for name in ("versions", "targets"):
        mine, theirs = mapping(about.get(name)), mapping(others.get(name))
        shared = sorted(mine.keys() & theirs.keys())
        compared += [(f"{name} of {backend} ", mine[backend], theirs[backend]) for backend in shared]
    compared.append(("", " ".join(_command(about)), " ".join(_command(others))))
    differences = [f"{what}{first!r}, {second!r}" for what, first, second in compared if first != second]
    (shard, of), (shard_, of_) = _shard(part), _shard(other)
    if of and of_ and (of != of_ or shard == shard_):
        differences.append(f"shard {shard}/{of}, {shard_}/{of_}")
    return f"{part['run']} and {other['run']} are not parts of one run: {differences[0]}" if differences else ""


def _shard(part: Mapping[str, Any]) -> tuple[int, int]:
    """(i, n) of `--shard i/n`; zeros if the run is no shard."""
    match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", str(part["asked"].get("shard")), re.ASCII)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _command(about: Mapping[str, Any]) -> list[str]:
    """The command line without the options for the part of a run to run, and for its output."""
    left = without_options(words(about.get("command")), _SELECTING, _TELLING)
    return [word for word in left if word[:2] not in ("-n", "-k", "-r")]  # such as -n4


def _prepare(out: Path, parts: Sequence[Mapping[str, Any]]) -> Run:
    out.mkdir(parents=True, exist_ok=True)
    (out / "trials").mkdir(exist_ok=True)
    abouts = [part["asked"] for part in parts]
    together: dict[str, Any] = {
        name: value for name, value in abouts[0].items() if all(each.get(name) == value for each in abouts)
    }
    together["targets"] = {key: value for each in abouts for key, value in mapping(each.get("targets")).items()}
    versions = [(key, str(value)) for each in abouts for key, value in mapping(each.get("versions")).items()]
    together["versions"] = {
        backend: ", ".join(dict.fromkeys(value for key, value in versions if key == backend)) for backend, _ in versions
    }
    if described := [mapping(each["described"]) for each in abouts if "described" in each]:
        together["described"] = {
            kind: {name: text for each in described for name, text in mapping(each.get(kind)).items()}
            for kind in ("faults", "locks")
        }
    together["command"] = _command(abouts[0])
    together["merged"] = [dict(part) for part in parts]
    files.write_json(out / "run.json", {"started": min(part["started"] for part in parts), "about": together})
    return Run(out)


def _about(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How the parts ended, as the end of one run."""
    abouts = [part["about"] for part in parts]
    about: dict[str, Any] = {"runs": [part["run"] for part in parts]}
    if finished := [str(each["finished"]) for each in abouts if each.get("finished")]:
        about["finished"] = max(finished)
    statuses = [each.get("exit status") for each in abouts]
    if known := [status for status in _STATUSES if status in statuses]:
        about["exit status"] = known[0]
    if any(each.get("interrupted") for each in abouts):
        about["interrupted"] = True
    shards = {_shard(part) for part in parts} - {(0, 0)}
    if missing := [f"{i}/{n}" for n in sorted({n for _, n in shards}) for i in range(1, n + 1) if (i, n) not in shards]:
        about["missing shards"] = missing
    return about


def _identity(folder: Path) -> bytes:
    """A digest of what was done and recorded in a trial, wherever it is stored."""
    digest = hashlib.blake2b(digest_size=16)
    for file in files.entries(folder, []):
        if file.name == "trial.json" or file.suffix == ".arrow":
            try:
                data = files.read_bytes(file)
            except BadFile as error:
                data = str(error).partition(": ")[2].encode()
            digest.update(f"{file.name} {len(data)} ".encode("utf-8", "backslashreplace") + data)
    return digest.digest()


def _take(folder: Path, made: Run, known: set[bytes]) -> None:
    """Copy a trial, unless it is there already. Its page is drawn again, since the page has the folder's name."""
    if folder.is_symlink() or not folder.is_dir() or (identity := _identity(folder)) in known:
        return
    trials = made.path / "trials"
    partial = files.partial_name(trials / files.safe_name(folder.name))
    try:
        for source, target in _files(folder, partial):
            try:  # a hard link, if the disk allows it: files of a run folder are replaced, never changed
                os.link(source, target, follow_symlinks=False)
            except OSError:
                shutil.copyfile(source, target, follow_symlinks=False)
        place = move_into_place(partial, trials, folder.name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    known.add(identity)
    with suppress(BadFile):  # a damaged trial keeps the page that it has; readers of the run report it
        made.draw_trial(place)


def _files(folder: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """(file, its copy) of every regular file of a trial. Makes the folders of the copies. Links are left out."""
    target.mkdir()
    for path in files.entries(folder, []):
        if path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path, target / path.name)
        elif path.is_file():
            yield path, target / path.name


def _merge_not_run(made: Run, runs: Sequence[Run], problems: list[str]) -> None:
    ran = [cell for cell in made.read().cells if cell.word is not Verdict.NOT_APPLICABLE]
    sources = [made.path, *(run.path for run in runs)]
    items = dict.fromkeys(item for path in sources for item in reading.not_run(path, problems))
    left = [item for item in items if not any(_covers(item, cell) for cell in ran)]
    folder = made.path / "not-run"
    folder.mkdir(exist_ok=True)
    files.write_json(folder / "merged.json", {"not_run": [asdict(item) for item in left]})


def _covers(item: NotRun, cell: Cell) -> bool:
    """Whether `item`, which one shard did not run, includes `cell`, which another shard ran. Empty names mean all."""
    names = ("lock", "backend", "fault", "workload", "store", "lane", "property")
    return all(getattr(item, name) in ("", getattr(cell, name)) for name in names)
