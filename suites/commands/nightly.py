"""`python -m suites nightly`: the whole matrix on every version that is available, compared with the night before.

A shard is a backend in one version, or a part of that. All commands take the options that select what is tried; others
go to pytest. The same options give the same shards anywhere.
"""

import argparse
import inspect
import itertools
import math
import shlex
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from json import dumps
from pathlib import Path
from typing import Any, Final

import pytest

from checkers.claims import Verdict
from infra.backends import BACKENDS
from infra.docker import images
from infra.docker.sources import PACKAGES
from results.commands.digest import digest
from results.commands.find import find
from results.commands.merge import merge
from results.comparison.compare import INCONCLUSIVE, RED, news
from results.comparison.presentation import Side
from results.run import Run
from results.storage import files, resumable, summary
from results.storage.files import BadFile
from results.text import plain, typed
from suites.rounds import run_pytest
from suites.selection.bad_option import BadOption
from suites.selection.options import options as product_options
from suites.selection.parse_options import parse
from suites.selection.shards import Shard
from suites.worker.pool import ROOT

_JOBS: Final = ("backend", "version_of", "shard", "results")  # options that each job sets itself
NIGHTS: Final = 3  # how many nights a failing verdict stays known while it cannot be judged again
SUMMARY: Final = "summary.md"
NIGHT: Final = "night.json"


@dataclass(frozen=True, slots=True)
class Job:
    """One shard of one backend in one version."""

    backend: str
    version: str
    shard: Shard

    @property
    def name(self) -> str:
        return files.safe_name(f"{self.backend}-{self.version}-{self.shard.i}of{self.shard.n}")

    def words(self, options: Sequence[str], results: Path) -> list[str]:
        """The arguments of pytest. options: those for pytest, without `_JOBS`."""
        which = ["--backend", self.backend, "--version-of", f"{self.backend}={self.version}"]
        return ["suites/", *options, *which, "--shard", str(self.shard), "--results", str(results)]


@dataclass(frozen=True, slots=True)
class Night:
    jobs: tuple[Job, ...]
    options: tuple[str, ...]  # for pytest
    product: Mapping[str, Any]  # the options that select what is tried: nights with the same can be compared
    results: Path  # where runs are stored


def main(command: str, **options: Any) -> int:
    """The exit status, see the command. options: those of `_night`, and what only this command takes."""
    night = _night(**{name: options.pop(name) for name in inspect.signature(_night).parameters})
    if command == "conclude":
        return _conclude(night, **options)[0]
    does: Mapping[str, Callable[..., int]] = {"plan": _plan, "shard": _shard, "run": _run}
    return does[command](night, **options)


def _night(
    rest: Sequence[str], profile: str, backend: Sequence[str], version_of: Sequence[str], minutes: float, results: Path
) -> Night:
    """rest: for pytest. Raises BadOption."""
    if not minutes > 0:
        raise BadOption(f"--minutes {minutes}: must be more than 0")
    if any(word.partition("=")[0] in ("--shard", "--target") for word in rest):
        raise BadOption("--shard and --target: a night is cut into shards of our own clusters by itself")
    words = ["--profile", profile, *rest]
    whole = parse(_as_pytest(words, backend))
    versions = _versions(version_of)
    jobs = []
    for name in whole.backends:
        seconds = sum(trial.seconds for trial in parse(_as_pytest(words, [name])).trials())
        n = math.ceil(seconds / 60 / minutes)  # 0 if there is nothing to do
        for version in versions.get(name) or PACKAGES[name].series.values():
            parse(_as_pytest([*words, "--version-of", f"{name}={version}"], [name]))  # raises if unavailable
            jobs += [Job(name, version, Shard(i, n)) for i in range(1, n + 1)]
    if not jobs:
        raise BadOption("none of that can be tried on any backend")
    product = vars(_as_pytest(words, [])).items()
    chosen = {option: value for option, value in product if option not in _JOBS}
    return Night(tuple(jobs), tuple(words), chosen, results.absolute())  # pytest runs in another directory


def _as_pytest(words: Sequence[str], backends: Sequence[str]) -> Namespace:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for spelling, settings in product_options().items():
        parser.add_argument(spelling, **settings)
    chosen = [word for name in backends for word in ("--backend", name)]
    return parser.parse_known_args([*words, *chosen])[0]


def _versions(pairs: Sequence[str]) -> Mapping[str, list[str]]:
    """Backend → versions. Raises BadOption for an unknown backend; whether a version is available is checked later."""
    versions: dict[str, list[str]] = {}
    for pair in pairs:
        backend, version = images.spelled(pair)
        if backend not in BACKENDS or not version:
            raise BadOption(f"--version-of {pair}: expected BACKEND=VERSION, for example etcd=3.4")
        versions.setdefault(backend, []).append(version)
    return versions


def _plan(night: Night, *, json: bool) -> int:
    names = [job.name for job in night.jobs]
    print(dumps(names) if json else "\n".join(names))
    return 0


def _shard(night: Night, name: str) -> int:
    """Returns 0 if the shard ran to its end, else pytest's exit status."""
    job = next((job for job in night.jobs if job.name == name), None)
    if job is None:
        raise BadOption(f"no shard {name!r}; there are {', '.join(job.name for job in night.jobs)}")
    status = _run_job(night, job, night.results)
    return 0 if status in resumable.ENDED else status


def _run_job(night: Night, job: Job, results: Path) -> int:
    words = job.words(night.options, results)
    print(f"nightly: {job.name}: {plain(shlex.join(['-m', 'pytest', *words]))}", flush=True)
    return run_pytest(words, ROOT)


def _run(night: Night, previous: Sequence[str], summary: Path | None, *, resume: bool) -> int:
    root = night.results / "nightly"
    folder = _resumed(root, night) if resume else None
    if folder is None:
        if resume:
            print("nightly: there is no unfinished night of these options; this is a new one")
        folder = root / _stamp()
        folder.mkdir(parents=True)
        files.write_json(folder / NIGHT, _described(night))
    for number, job in enumerate(night.jobs, 1):
        if _run_of(job, night, folder / "shards") is not None:
            print(f"nightly: {job.name}: done before")
            continue
        print(f"nightly: shard {number} of {len(night.jobs)}")
        status = _run_job(night, job, folder / "shards" / job.name)
        if status == pytest.ExitCode.INTERRUPTED:
            print(f"nightly: interrupted; --resume goes on with {typed(folder)}", file=sys.stderr)
            return status
    previous = list(previous) or _previous(root, night, folder)
    made = night.results / f"{folder.name}-night"
    shards = folder / "shards"
    status, text, missing = _conclude(night, shards, made, previous, summary)
    files.write_text(folder / SUMMARY, text)
    came = {"run": made.name, "previous": previous, "status": status, "missing": missing}
    files.write_json(folder / NIGHT, {**_described(night), **came})
    if not missing:
        shutil.rmtree(shards)  # the run that was merged from them has all of it
    return status


def _stamp() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


def _described(night: Night) -> dict[str, Any]:
    return {"asked": dict(night.product), "jobs": [job.name for job in night.jobs]}


def _nights(root: Path, night: Night) -> list[tuple[Path, dict[str, Any]]]:
    """(folder, description) of the nights with the same options, the last one first."""
    nights = []
    for folder in reversed(files.entries(root, [])):
        try:
            known = files.read_json(folder / NIGHT)
        except BadFile:
            continue
        if {name: known.get(name) for name in ("asked", "jobs")} == _described(night):
            nights.append((folder, known))
    return nights


def _resumed(root: Path, night: Night) -> Path | None:
    """The folder of the last night, if not all of its shards ran to their end."""
    nights = _nights(root, night)
    return nights[0][0] if nights and nights[0][1].get("missing") != [] else None


def _previous(root: Path, night: Night, this: Path) -> list[str]:
    """The runs of the last nights other than `this` that have a judgement, the last one first."""
    runs = (root.parent / str(known["run"]) for path, known in _nights(root, night) if path != this and "run" in known)
    return [str(run) for run in itertools.islice(filter(_judged, runs), NIGHTS)]


def _judged(run: Path) -> bool:
    try:
        words = summary.load_head(run).words
    except BadFile:
        return False
    return any(count for word, count in words.items() if word is not Verdict.NOT_APPLICABLE)


def _run_of(job: Job, night: Night, shards: Path) -> Run | None:
    """The run of a shard of this night that ran to its end; the last one, if it ran more than once."""
    wanted = (str(job.shard), {job.backend: job.version}, *(night.product[name] for name in ("profile", "seed")))
    for path in sorted(shards.rglob("run.json"), reverse=True):
        run = Run(path.parent)
        try:
            begun, about = run.about(), summary.load_head(run.path).about
        except BadFile:
            continue
        mine = tuple(begun.get(name) for name in ("shard", "versions", "profile", "seed"))
        if mine == wanted and about.get("exit status") in resumable.ENDED:
            return run
    return None


def _conclude(
    night: Night, shards: Path, into: Path, previous: Sequence[str], summary: Path | None
) -> tuple[int, str, list[str]]:
    """The exit status, the summary in Markdown, and the shards that are missing.

    previous: the night before and older ones. summary: gets the summary, too. Raises BadFile.
    """
    runs = {job.name: _run_of(job, night, shards) for job in night.jobs}
    missing = [name for name, run in runs.items() if run is None]
    there = [run for run in runs.values() if run is not None]
    for name in missing:
        print(f"nightly: {name}: missing, it did not run to its end", file=sys.stderr)
    if not there:
        raise BadFile(f"{shards}: not one shard ran to its end")
    sides = [Side.of(find(name, night.results)) for name in previous]
    before, older = (sides[0] if sides else None), [side.contents for side in sides[1:]]
    merge(into, there, force=True)  # versions may differ; `_run_of` took runs of this night only
    this = Side.of(Run.open(into))
    status = news(None if before is None else before.contents, this.contents, older).status
    status = status if status == RED or not missing else INCONCLUSIVE
    notes = [f"Shards that did not run to their end: {', '.join(missing)}."] if missing else []
    notes += [] if before is not None else ["There is no night before to compare with: every failing verdict counts."]
    text = digest(this, before, notes, older)
    if summary is not None:
        with summary.open("a", encoding="utf-8") as file:
            file.write(text)
    print(text.partition("\n\n")[0].removeprefix("## "))
    words = {0: "nothing worse", RED: "red", INCONCLUSIVE: "nothing red, but not all was judged"}
    print(f"nightly: {words[status]}: {plain(str(typed(into / 'index.html')))}")
    return status, text, missing
