"""`python -m suites repeat`: runs the README's two commands many times, to see whether they are ever red without cause.

Each run is in a fresh clone; every second run has busy loops beside it, one for each core. `results/repeated.jsonl`
keeps the result and the commit of each run. The command goes on where it stopped, and ends at a red run. After that,
both counts begin again: the cause has to be found. README.md says how many runs were green in a row.
"""

import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from infra import lifetime
from suites.worker.pool import ROOT

NOTED: Final = ROOT / "results" / "repeated.jsonl"
BUSY: Final = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"


@dataclass(frozen=True, slots=True)
class Repeated:
    """One run of a command. command: ``certify`` or ``test``; busy: loops beside it; judged: judgements, or tests."""

    commit: str
    command: str
    seed: int
    busy: int
    status: int
    trials: int
    judged: int
    seconds: int
    began: str


def main(command: str, count: int, commit: str = "HEAD") -> int:
    """Exit status: 0 all green, 1 one was red."""
    lifetime.exit_when_asked()
    rev_parse = ["git", "rev-parse", f"{commit}^{{commit}}"]
    commit = subprocess.run(rev_parse, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    while True:
        green = green_in_a_row(command)
        print(in_words(command, green), flush=True)
        if len(green) >= count:
            return 0
        seed = len(green) + 1
        if _run(commit, command, seed, busy=(seed % 2) * (os.cpu_count() or 1)).status:
            return 1


def noted() -> list[Repeated]:
    return [Repeated(**json.loads(line)) for line in NOTED.read_text().splitlines()] if NOTED.exists() else []


def green_in_a_row(command: str) -> list[Repeated]:
    """The green runs of this command, at any commit, since the last red run of either command: its fix affects both."""
    green = itertools.takewhile(lambda each: not each.status, reversed(noted()))
    return [each for each in green if each.command == command][::-1]


def in_words(command: str, runs: Sequence[Repeated]) -> str:
    """How many runs were green in a row, and what follows with 95 % confidence (1 - 0.05^(1/n), about 3/n)."""
    if not runs:
        return f"make {command}: none yet"
    trials, judged = sum(each.trials for each in runs), sum(each.judged for each in runs)
    unit = "judgements" if command == "certify" else "tests"
    what = f"{trials:,} trials, {judged:,} {unit}" if trials else f"{judged:,} {unit}"
    first, last = runs[0].commit[:12], runs[-1].commit[:12]
    commits = f"at {first}" if first == last else f"from {first} to {last}"
    return (
        f"make {command}: {len(runs)} green in a row {commits} ({what}), so with 95 % confidence "
        f"fewer than {1 - 0.05 ** (1 / len(runs)):.0%} of runs and {300 / judged:.2g}% of {unit} are red without cause"
    )


def _run(commit: str, command: str, seed: int, busy: int) -> Repeated:
    """Run the command in a fresh clone, and note the result; then remove the clone if the run was green."""
    clone = Path(tempfile.mkdtemp(prefix="fencepost-repeat-")) / "fencepost"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    subprocess.run(["git", "checkout", "--quiet", commit], cwd=clone, check=True)
    arguments = [f"ARGS=--seed {seed}"] if command == "certify" else []
    log = clone.parent / "log.txt"
    began, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    with _busy(busy), log.open("w") as file:
        made = subprocess.Popen(
            ["make", command, *arguments], cwd=clone, env=os.environ | {"YES": "1", "CI": "true"},
            stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            made.wait()
        finally:
            made.terminate()  # if we are told to end; make tells the processes that it started
            made.wait()
    status, seconds = made.returncode, round(time.monotonic() - clock)
    passed = re.findall(r"(\d+) passed", log.read_text(errors="replace"))[-1:]
    trials = len(list(clone.glob("results/runs/*/trials/*/verdicts.json")))
    judged = int(passed[0]) if passed else 0
    repeated = Repeated(commit, command, seed, busy, status, trials, judged, seconds, began)
    with NOTED.open("a") as file:
        file.write(json.dumps(asdict(repeated)) + "\n")
    print(f"{command}, seed {seed}, {busy} busy loops: status {status}, {passed or 'nothing'} passed: {log}")
    if not status:
        shutil.rmtree(clone.parent)
    return repeated


@contextlib.contextmanager
def _busy(loops: int) -> Iterator[None]:
    """Run so many processes that compute all the time, as those of another user do. They have sessions of their own, so
    that the scheduler divides the cores between those and our session, whatever the nice values within ours.
    """
    processes = [subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True) for _ in range(loops)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
