"""Runs of `pytest suites/` as processes. `--count N` and `--until-failed`: the same run again and again, each with the
next seed and a folder of its own.
"""

import itertools
import signal
import subprocess
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from infra.errors import Trouble
from results.storage import resumable, summary
from results.storage.run_folder import RunFolder
from results.text import without_options
from suites.worker.pool import ROOT


def several(option: Any) -> bool:
    """Whether pytest's parsed options ask for more than one run. A resumed run is a single run."""
    return option.resume is None and (option.until_failed or (option.count or 1) > 1)


def run_all(option: Any, words: Sequence[str], folder: Path) -> int:
    """Run one after another. Returns 0 if all were green, else the status of the first that was not.

    words: the command line; folder: where it was typed. A run that neither failed nor passed is the last; with
    `--until-failed`, a failed run is the last as well.
    """
    endless = option.until_failed and option.count is None
    numbers: Iterable[int] = itertools.count(1) if endless else range(1, (option.count or 1) + 1)
    of_one = without_options(words, ("--count", "--seed"), ("--until-failed",))
    statuses: dict[int, int] = {}
    for number in numbers:
        seed = option.seed + number - 1
        print(f"run {number}{'' if endless else f' of {option.count}'}: seed {seed}", flush=True)
        status = statuses[seed] = run_pytest([*of_one, "--seed", str(seed)], folder)
        if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or (status and option.until_failed):
            break
    red = {seed: status for seed, status in statuses.items() if status}
    which = "".join(f"; seed {seed}: exit status {status}" for seed, status in red.items())
    print(f"{len(statuses)} runs, {len(statuses) - len(red)} green{which}", flush=True)
    return next(iter(red.values()), 0)


class Unfinished(Trouble):
    """A run did not come to its end."""

    status = 2


def run_in(folder: Path, words: Sequence[str], ends: Collection[int] = resumable.ENDED) -> RunFolder:
    """The only run in this folder: begun now with these words, resumed, or done before. ends: its exit status must be
    one of these. Raises Unfinished.
    """
    always = ["suites/", "-q", "-n", "2", "--results", str(folder)]
    status, begun = 0, _run(folder)
    if begun is None:
        status = run_pytest([*always, *words], ROOT)
    elif not resumable.why_not(begun):
        status = run_pytest([*always, "--resume", str(begun.path)], ROOT)
    run = None if status == pytest.ExitCode.INTERRUPTED else _run(folder)
    if run is None or summary.about_end(run.path).get("exit status") not in ends:
        raise Unfinished("this run did not come to its end; the same command goes on with it")
    return run


def _run(folder: Path) -> RunFolder | None:
    return next((RunFolder.open(path.parent) for path in folder.glob("*/run.json")), None)


def run_pytest(words: Sequence[str], folder: Path) -> int:
    """The exit status of `pytest` with these words. Ctrl-C reaches it by itself, a SIGTERM is passed on. After either,
    the status is that of an interrupted run, however the run ends, so that no further run begins.
    """
    process = subprocess.Popen([sys.executable, "-m", "pytest", *words], cwd=folder)
    interrupts: list[int] = []

    def pass_on(number: int, _: object) -> None:
        interrupts.append(number)
        if number == signal.SIGTERM:
            process.terminate()

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        status = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return pytest.ExitCode.INTERRUPTED if interrupts else status
