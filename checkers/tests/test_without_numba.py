"""Without numba, the extra [fast], checks run in plain Python, and answer the same."""

import subprocess
import sys
from pathlib import Path

import pytest

from checkers.__main__ import FASTER, main
from checkers.bench.generate import GENERATORS, HistoryShape
from checkers.engines import kernel
from checkers.history.history import save

ROOT = Path(__file__).parents[2]
WITHOUT = "import sys; sys.modules['numba'] = None; from checkers.__main__ import main; sys.exit(main())"
"""A process in which numba cannot be imported."""


def run(*arguments: Path | str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)


def test_large_histories(tmp_path: Path) -> None:
    for bad in (False, True):
        save(GENERATORS["mutex"](HistoryShape(kernel.LARGE + 100, 10, 100, bad=bad)), tmp_path / f"{bad}.arrow")
    done = run(tmp_path, "--model", "mutex")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith(f"{tmp_path}/False.arrow: valid")
    assert f"{tmp_path}/True.arrow: invalid" in done.stdout
    assert done.stderr.splitlines() == [FASTER]


def test_recorded_runs(capsys: pytest.CaptureFixture[str]) -> None:
    recorded = ROOT / "results/tests/formats/2"
    done = run(recorded)
    assert done.returncode == main([str(recorded)]) == 1
    assert done.stdout == capsys.readouterr().out
    assert "fenced-store       invalid (1)" in done.stdout
    assert done.stderr == ""  # small ones are checked in plain Python anyway


def test_asking_for_the_compiled_form_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "compiler", lambda: None)
    with (
        pytest.raises(RuntimeError, match=r"numba, which is missing: pip install 'fencepost\[fast\]'"),
        kernel.always(compiled=True),
    ):
        pass
    with kernel.always(compiled=False):
        pass
