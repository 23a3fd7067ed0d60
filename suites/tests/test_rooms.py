"""The commands of the four rooms: help is no failure, and a reader who goes away is no traceback."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from infra.__main__ import main as infra
from suites.__main__ import main as suites
from suites.worker.pool import ROOT


def called(room: str, *before: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """Asked for help. before: words of the shell that starts it."""
    command = [*before, sys.executable, "-m", room, "--help"]
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    return subprocess.run(
        command, cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=60, env=environment
    )


@pytest.mark.parametrize(("room", "status"), [("suites", 1), ("infra", 1), ("checkers", 2), ("results", 2)])
def test_help_is_told_and_a_reader_who_has_gone_is_no_traceback(room: str, status: int) -> None:
    told = called(room)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("usage: python -m " + room)
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "wb"):
        gone = called(room, stdout=writes)
    assert (gone.returncode, gone.stderr) == (status, "")


@pytest.mark.parametrize("room", ["checkers", "results"])
def test_an_output_that_was_closed_is_no_failure(room: str) -> None:
    none = called(room, "sh", "-c", 'exec "$@" >&-', "sh")
    assert (none.returncode, none.stderr) == (0, "")


@pytest.mark.parametrize("main", [infra, suites], ids=["infra", "suites"])
def test_a_short_option_for_help_and_no_other(main: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-h"]) == 0
    capsys.readouterr()
    assert main(["--halp"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "no command '--halp'" in told.err


def test_a_command_that_is_interrupted_says_so_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("suites.commands.soak.main", interrupted)
    assert suites(["soak"]) == 2
    assert capsys.readouterr().err == "soak: interrupted\n"
