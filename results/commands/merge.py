"""`python -m results merge OUT RUN...`: shards of one run, from several machines perhaps, as one run.

What a shard did not run and another did is no longer told as not run. A trial is known by what it recorded, so merging
a run again adds nothing. Damaged trials are taken along as they are: the merged run names them as their own run did.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypedDict

from checkers.claims import Verdict
from checkers.history.history import BadHistory
from results.commands import find
from results.commands.find import NAMING
from results.pages import trend
from results.record import Cell, NotRun, mapping, words
from results.run import Run
from results.storage import files, reading, running
from results.storage.codec import decoded
from results.storage.files import BadFile
from results.storage.run_folder import move_into_place
from results.terminal.output import say, warn
from results.text import typed

_SELECTING: Final = frozenset(
    [
        *("--shard", "--backend", "--lock", "--faults", "--version-of", "-k", "--results"),
        *("-n", "--numprocesses", "--maxprocesses", "--dist", "--junitxml", "--junit-xml", "--color", "--tb", "-r"),
    ]
)
"""Options of a run, each with a value, that say which part of it to run, and how to tell of it. Versions are compared
by themselves.
"""
_TELLING: Final = frozenset(("-q", "-qq", "-v", "-vv", "-s", "-x", "--quiet", "--verbose", "--no-color", "--keep"))
_STATUSES: Final = (1, 4, 3, 2, 0, 5)
"""Of pytest, heaviest first: 5 is a shard for which there was nothing to do."""


def main(arguments: Sequence[str]) -> int:
    """0: merged, damaged trials included, which are named; 2: one of the runs cannot be merged, and nothing was."""
    parser = find.parser("merge", "Merge the shards of a run into one run. Damaged trials are taken along, and named.")
    parser.add_argument("out", type=Path, metavar="OUT", help="a new folder, or one that was merged before")
    parser.add_argument("runs", nargs="+", metavar="RUN", help=NAMING)
    parser.add_argument("--force", action="store_true", help="also runs of different seeds, versions or commands")
    options = parser.parse_args(arguments)
    runs = [find.find(name, options.results) for name in options.runs]
    page, problems = merge(options.out, runs, force=options.force)
    if options.out.resolve().parent == options.results.resolve():
        problems += filter(None, [trend.refresh(options.results)])
    for problem in problems:
        warn(problem)
    say(str(typed(page)))
    return 0


def merge(out: Path, runs: Sequence[Run], *, force: bool = False) -> tuple[Path, list[str]]:
    """Returns the page of the merged run, and what was left out or is missing, one line each.

    Raises BadFile where the runs are not parts of one; then nothing was done.
    """
    parts = _merged(out)
    for run in runs:
        if run.path.resolve() == out.resolve():
            raise BadFile(f"{out}: a run cannot be merged into itself")
        if running.is_running(run.path):
            raise BadFile(f"{run.path}: this run is still going on")
        parts += [part for part in _parts(run) if part["id"] not in {known["id"] for known in parts}]
    if not force:
        for first, other in itertools.combinations(parts, 2):
            if difference := _difference(first, other):
                raise BadFile(f"{difference}; --force merges them nevertheless")
    if (out / "run.json").exists() and running.is_running(out):
        raise BadFile(f"{out}: somebody merges into it now")
    problems: list[str] = []
    made = _prepare(out, parts)
    with running.alone(out):
        known = {_identity(folder) for folder in files.entries(out / "trials", problems)}
        for run in runs:
            for folder in files.entries(run.path / "trials", problems):
                _take(folder, made, known)
        _merge_not_run(made, runs, problems)
        about = _about(parts)
        page = made.finish(about)
    problems += (f"left out: {problem}" for problem in made.read().problems)
    return page, problems + [f"shard {shard} is missing" for shard in about.get("missing shards", ())]


def _merged(out: Path) -> list[_Part]:
    """The parts of an earlier merge. Raises BadFile where the folder is anything else."""
    if not out.exists() and not out.is_symlink():
        return []
    if out.is_dir() and not any(out.iterdir()):
        return []
    if not (out / "run.json").is_file():
        raise BadFile(f"{out}: exists, and is not a run")
    parts = Run.open(out).about().get("merged")
    if not parts:
        raise BadFile(f"{out}: is a run that was not made by merging; name a new folder")
    return _known(out, parts)


class _Part(TypedDict):
    """A run as it is told in what was merged of it. id: of what was asked for, and of its name."""

    id: str
    run: str
    started: str
    asked: dict[str, Any]
    about: dict[str, Any]


def _known(out: Path, parts: object) -> list[_Part]:
    return decoded(parts, list[_Part], out / "run.json")


def _parts(run: Run) -> list[_Part]:
    """A run as a part of what is merged; one that was merged itself as its parts. Raises BadFile."""
    about = run.about()
    if about.get("merged"):
        return _known(run.path, about["merged"])
    head, _ = run.head()
    text = json.dumps([run.path.name, about], sort_keys=True)
    identity = hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()
    started = about.pop("started")
    return [{"id": identity, "run": run.path.name, "started": started, "asked": about, "about": dict(head.about)}]


def _difference(part: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """What makes two runs different ones, as the beginning of a sentence, or nothing."""
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
    """(i, n) of `--shard i/n`; zeros for a run that is no shard."""
    match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", str(part["asked"].get("shard")), re.ASCII)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _command(about: Mapping[str, Any]) -> list[str]:
    """The command without what says which part of a run to run, and how to tell of it."""
    given = words(about.get("command"))
    left: list[str] = []
    position = 0
    while position < len(given):
        word = given[position]
        if word in _SELECTING:
            position += 1  # its value
        elif not (word in _TELLING or word.partition("=")[0] in _SELECTING or word[:2] in ("-n", "-k", "-r")):
            left.append(word)
        position += 1
    return left


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
    together["command"] = _command(abouts[0])
    files.write_json(
        out / "run.json",
        {
            "started": min(part["started"] for part in parts),
            "about": {**together, "merged": [dict(part) for part in parts]},
        },
    )
    return Run(out)


def _about(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What came of all of them."""
    abouts = [part["about"] for part in parts]
    about: dict[str, Any] = {"runs": [part["run"] for part in parts]}
    finished = [str(each["finished"]) for each in abouts if each.get("finished")]
    if finished:
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
    """Of a trial: what was done and recorded in it, wherever it stands."""
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
    """Bring in a trial, unless it is there already; its page is drawn again, since it tells where the trial stands."""
    if folder.is_symlink() or not folder.is_dir() or (identity := _identity(folder)) in known:
        return
    trials = made.path / "trials"
    partial = files.partial_name(trials / files.safe_name(folder.name))
    try:
        for source, target in _files(folder, partial):
            _link_or_copy(source, target)
        place = move_into_place(partial, trials, folder.name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    known.add(identity)
    try:
        made.draw_trial(place)
    except (BadFile, BadHistory):
        pass  # damaged: the page that came with it is all there is; whoever reads the run names it


def _files(folder: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """Every plain file of a trial, with its new place, whose folder is made. Links stay behind."""
    target.mkdir()
    for path in files.entries(folder, []):
        if path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path, target / path.name)
        elif path.is_file():
            yield path, target / path.name


def _link_or_copy(source: Path, target: Path) -> None:
    """A second name for the same file where the disk allows that: files of a run folder are replaced, never changed."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copyfile(source, target, follow_symlinks=False)


def _merge_not_run(made: Run, runs: Sequence[Run], problems: list[str]) -> None:
    """What none of them ran."""
    ran = [cell for cell in made.read().cells if cell.word is not Verdict.NOT_APPLICABLE]
    sources = [made.path, *(run.path for run in runs)]
    items = dict.fromkeys(item for path in sources for item in reading.not_run(path, problems))
    left = [item for item in items if not any(_covers(item, cell) for cell in ran)]
    folder = made.path / "not-run"
    folder.mkdir(exist_ok=True)
    files.write_json(folder / "merged.json", {"not_run": [asdict(item) for item in left]})


def _covers(item: NotRun, cell: Cell) -> bool:
    """Whether what was not run in one place is what this cell tells of. Empty names mean: all of them."""
    return all(
        not getattr(item, name) or getattr(item, name) == getattr(cell, name)
        for name in ("lock", "backend", "fault", "workload", "store", "lane", "property")
    )
