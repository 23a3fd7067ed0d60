"""The commands of the four rooms: help is no failure, and a reader who goes away is no traceback."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from suites.workers import ROOT


def called(*argv: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *argv]
    return subprocess.run(command, cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=60)


@pytest.mark.parametrize("room", ["suites", "infra", "checkers", "results"])
def test_help_is_told_and_a_reader_who_has_gone_is_no_traceback(room: str) -> None:
    told = called(room, "--help")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("usage: python -m " + room)
    reads, writes = os.pipe()
    os.close(reads)
    try:
        assert called(room, "--help", stdout=writes).stderr == ""
    finally:
        os.close(writes)


@pytest.mark.parametrize("room", ["suites", "infra"])
def test_a_short_option_for_help_and_no_other(room: str) -> None:
    assert called(room, "-h").returncode == 0
    wrong = called(room, "--halp")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "no command '--halp'" in wrong.stderr
