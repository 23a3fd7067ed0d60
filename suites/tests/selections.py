"""What `pytest suites/` selects and collects, in this process: for tests of options and selections."""

import contextlib
import io
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from checkers.tests.build import message_of
from suites.selection.bad_option import BadOption
from suites.selection.parse_options import parse
from suites.selection.selection import Selection
from suites.worker.pool import ROOT

LOCK = """
class Mine:
    backend = "redis"
    def open(*_): ...
    def acquire(*_): ...
    def renew(*_): ...
    def release(*_): ...
    def close(*_): ...
"""
OLD, NEW = "image:old:1", "image:new:2"

USUAL: dict[str, object] = {"profile": "default", "seed": 1, "results": "results/runs", "from_": (), "to": ()}
USUAL |= dict.fromkeys(("lock", "backend", "faults", "plan", "target", "hook", "version_of", "shape", "workload"), ())
USUAL |= dict.fromkeys(("shard", "workers", "keys", "ttl", "rate", "duration", "python", "quick", "budget"))
USAGE = 4  # exit status of pytest


def collected(*argv: str, plugins: Sequence[object] = ()) -> CompletedProcess[str]:
    """`pytest suites/ --collect-only` with these arguments, in this process."""
    out, err = io.StringIO(), io.StringIO()
    words = ["suites/", "--collect-only", "-q", "-p", "no:cacheprovider", *argv]
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = pytest.main(words, plugins)
    return CompletedProcess(words, int(status), out.getvalue(), err.getvalue())


def asked(**given: object) -> Selection:
    return parse(Namespace(**{**USUAL, **given}))


def upgrading(**given: object) -> Selection:
    return asked(**{"lock": ["redis"], "from_": [f"redis={OLD}"], "to": [f"redis={NEW}"], **given})


def refused(**given: object) -> str:
    return message_of(BadOption, asked, **given)


def lock_file(folder: Path, text: str = LOCK) -> str:
    path = folder / "mine.py"
    path.write_text(text)
    return f"{path}:Mine"
