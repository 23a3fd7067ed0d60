"""Commands of the rooms: help is no failure, a reader who goes away no traceback; and `repeat`, on a small project."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from infra.__main__ import main as infra
from suites.__main__ import main as suites
from suites.commands import repeat
from suites.tests.bench import ENDS
from suites.worker.pool import ROOT


def called(room: str, *before: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """Asked for help. before: words of the shell that starts it."""
    command = [*before, sys.executable, "-m", room, "--help"]
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    return subprocess.run(
        command, cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=ENDS, env=environment
    )


@pytest.mark.parametrize(("room", "status"), [("suites", 2), ("infra", 1), ("checkers", 2), ("results", 2)])
def test_help_is_told_and_a_reader_who_has_gone_is_no_traceback(room: str, status: int) -> None:
    told = called(room)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith(f"Usage: python -m {room} ")
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
    assert "'--halp'" in told.err


def test_a_command_that_is_interrupted_says_so_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    with patch("suites.commands.soak.main", side_effect=KeyboardInterrupt):
        assert suites(["soak"]) == 2
    assert capsys.readouterr().err == "soak: interrupted\n"


MAKEFILE = """
certify:
\t@mkdir -p results/runs/r/trials/a results/runs/r/trials/b
\t@touch results/runs/r/trials/a/verdicts.json results/runs/r/trials/b/verdicts.json
\t@case "$(ARGS)" in *" 3"*) echo "1 failed, 9 passed"; exit 1;; *) echo "10 passed, 3 skipped";; esac
test:
\t@echo "500 passed"
"""


@pytest.fixture
def commit(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> str:
    """The only one of a project, in which the third run of `make certify` is red."""
    (tmp_path / "results").mkdir()
    (tmp_path / "Makefile").write_text(MAKEFILE)
    monkeypatch.setattr(repeat, "ROOT", tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("clones")))
    monkeypatch.setattr(repeat, "NOTED", tmp_path / "results" / "repeated.jsonl")
    author = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    for words in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "-m", "all"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=tmp_path, text=True).strip()


def test_it_goes_on_where_it_stopped_and_ends_at_a_red_run(commit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert repeat.main("certify", 2) == 0
    assert [(run.seed, run.busy, run.status, run.trials, run.judged) for run in repeat.noted()] == [
        (1, os.cpu_count(), 0, 2, 10),
        (2, 0, 0, 2, 10),
    ]
    assert repeat.in_words("certify", repeat.green_in_a_row("certify")) == (
        f"make certify: 2 green in a row at {commit[:12]} (4 trials, 20 judgements), so with 95 % confidence "
        "fewer than 100% of runs and 0.1 of judgements are red without cause"
    )
    assert repeat.main("certify", 3) == 1
    log = capsys.readouterr().out.splitlines()[-1].rpartition(": ")[2]
    assert "1 failed, 9 passed" in Path(log).read_text(), "the clone of a red run stays"
    assert repeat.green_in_a_row("certify") == []
    assert repeat.main("certify", 1) == 0, "and the count begins again"
    assert repeat.main("test", 1) == 0
    assert "1 green in a row at" in repeat.in_words("test", repeat.green_in_a_row("test"))
