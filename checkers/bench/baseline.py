"""Porcupine, built from its Go module and asked the same as we are; ``porcupine/main.go`` says what it reads."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from checkers.bench.timing import RUNS
from checkers.history.history import History
from checkers.row_format import INFINITY, NONE, F, Outcome

SECONDS: Final = 60.0  # CPU time that Porcupine may take for one check
SPEND: Final = 10.0  # CPU time after which it is not asked again

BYTES: Final = 8_000_000_000

_SOURCE: Final = Path(__file__).parent / "porcupine"
_MODULE: Final = "github.com/anishathalye/porcupine"
_MODELS: Final[Mapping[str, tuple[int, str, str]]] = {
    "mutex": (0, "owner", "owner"),
    "fenced-store": (1, "token", "value"),
    "cas-register": (2, "base", "value"),
}
"""The program's number of each model, and the columns that its models read."""
_KINDS: Final[Mapping[F, int]] = {F.ACQUIRE: 0, F.RELEASE: 1, F.READ: 2, F.WRITE: 3, F.CAS: 4}
_ANSWERS: Final[Mapping[str, bool]] = {"Ok": True, "Illegal": False}


class PorcupineUnavailable(Exception):
    """Porcupine cannot be built here. The text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class BaselineTiming:
    """What Porcupine answered, and what that cost."""

    valid: tuple[bool, ...]  # one answer for each history; empty where it did not end
    seconds: tuple[float, ...]  # CPU time of each run; where it was stopped, what it had used so far
    peak: int  # bytes, all that the process held, the histories included
    passed: str = ""  # the bound at which it was stopped: ``seconds``, ``bytes``, or empty


def build() -> Path:
    """The program, built if it is not there already. Raises PorcupineUnavailable."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fencepost" / "bench"
    program = folder / "porcupine"
    newest = max(file.stat().st_mtime for file in _SOURCE.iterdir())
    if program.exists() and program.stat().st_mtime >= newest:
        return program
    folder.mkdir(parents=True, exist_ok=True)
    _go("build", "-trimpath", "-o", str(program))
    os.utime(program)
    return program


def logs() -> list[Path]:
    """The logs of etcd under Jepsen that come with Porcupine's module. Raises PorcupineUnavailable."""
    _go("mod", "download")
    folder = Path(_go("list", "-m", "-f", "{{.Dir}}", _MODULE).strip())
    files = sorted(file for file in (folder / "test_data" / "jepsen").glob("*.log") if file.stat().st_size)
    if not files:
        raise PorcupineUnavailable(f"{folder}: no logs in this version of the module")
    return files


def _go(*arguments: str) -> str:
    command = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if command is None:
        raise PorcupineUnavailable("go is not installed: Porcupine is built from its Go module (https://go.dev/dl)")
    try:
        done = subprocess.run([command, *arguments], cwd=_SOURCE, capture_output=True, text=True, check=False)
    except OSError as error:
        raise PorcupineUnavailable(f"{command}: {error.strerror or error}") from error
    if done.returncode:
        raise PorcupineUnavailable(f"go {' '.join(arguments)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def check(files: Sequence[Path]) -> BaselineTiming:
    """Porcupine's answers on `packed` files. Raises PorcupineUnavailable."""
    options = ["-seconds", str(SECONDS), "-bytes", str(BYTES), "-runs", str(RUNS), "-spend", str(SPEND)]
    done = subprocess.run([build(), *options, *files], capture_output=True, text=True, check=False)
    if done.returncode:
        raise PorcupineUnavailable(f"Porcupine ended with status {done.returncode}: {done.stderr.strip()[-200:]}")
    answer = json.loads(done.stdout)
    valid = tuple(_ANSWERS[word] for word in answer["results"])
    return BaselineTiming(valid, tuple(answer["seconds"]), int(answer["bytes"]), answer["passed"])


def packed(model: str, history: History) -> bytes:
    """The history as the program reads it."""
    c = history.columns
    codes = np.zeros(256, np.uint8)
    codes[list(_KINDS)] = list(_KINDS.values())
    number, first, second = _MODELS[model]
    columns = (
        c["inv"].astype("<i8"),
        np.where(c["outcome"] == Outcome.INFO, INFINITY, c["ret"]).astype("<i8"),
        _numbers(history, c[first]),
        _numbers(history, c[second]),
        c["key"].astype("<u4"),
        codes[c["f"]],
        c["outcome"].astype(np.uint8),
    )
    head = np.array([number, len(history), max(len(history.facts.keys), 1)], "<i8")
    return b"FPBENCH1" + head.tobytes() + b"".join(column.tobytes() for column in columns)


def _numbers(history: History, column: np.typing.NDArray[np.int64]) -> np.typing.NDArray[np.int64]:
    """Values from elsewhere are indexes; nil, which a register holds at first, becomes `NONE` for Porcupine."""
    if None not in history.values:
        return column.astype("<i8")
    return np.where(column == history.values.index(None), NONE, column).astype("<i8")
