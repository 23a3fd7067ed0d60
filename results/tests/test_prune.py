"""`python -m results prune`: what it removes, and above all what it does not."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest

from checkers.tests.build import cases
from results.__main__ import main
from results.tests import hostile, samples

ALL = ["run-0", "run-1", "run-2", "run-3"]


def make(root: Path, name: str, days: float, *, failed: bool = False) -> Path:
    record = hostile.trial() if failed else samples.trial("t")
    began = datetime.now(UTC) - timedelta(days=days)
    run = samples.run(root / name, record, started=began.isoformat(timespec="seconds"))
    run.close({})
    return run.path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "runs"
    for number, days in enumerate((40, 20, 10, 1)):
        make(made, f"run-{number}", days)
    return made


def left(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.is_dir() or path.is_symlink())


def done(root: Path, *words: str, status: int = 0) -> None:
    assert main(["--results", str(root), "prune", *words]) == status


@cases(
    "words, names",
    ("two", ("--keep", "2"), ["run-2", "run-3"]),
    ("none", ("--keep", "0"), []),
    ("more than there are", ("--keep", "9"), ALL),
    ("days", ("--younger-than", "15d"), ["run-2", "run-3"]),
    ("hours", ("--younger-than", "36h"), ["run-3"]),
    ("weeks or one", ("--younger-than", "3w", "--keep", "1"), ["run-1", "run-2", "run-3"]),
    ("one by name", ("--keep", "1", "--keep-run", "run-0"), ["run-0", "run-3"]),
    ("two by name", ("--keep", "1", "--keep-run", "last~1", "--keep-run", "run-0"), ["run-0", "run-2", "run-3"]),
)
def test_what_is_kept(root: Path, words: tuple[str, ...], names: list[str]) -> None:
    done(root, *words, "--yes")
    assert left(root) == names
    page = (root / "index.html").read_text("utf-8")
    assert all((name in page) == (name in names) for name in ALL) or names == ALL


@pytest.mark.parametrize("words", [(), ("--keep-run", "run-0"), ("--keep", "-1"), ("--younger-than", "soon")])
def test_without_saying_what_to_keep_nothing_is_removed(root: Path, words: tuple[str, ...]) -> None:
    done(root, "--yes", *words, status=2)
    assert left(root) == ALL


def test_it_asks(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    done(root, "--keep", "1", status=2)
    assert left(root) == ALL, "nobody can answer"
    assert "--yes" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, status, names in (("", 2, ALL), ("n", 2, ALL), ("y", 0, ["run-3"])):
        monkeypatch.setattr("builtins.input", lambda _, answer=answer: answer)
        done(root, "--keep", "1", status=status)
        assert left(root) == names


def test_a_dry_run_tells_and_removes_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done(root, "--keep", "1", "--dry-run", "--yes")
    assert left(root) == ALL
    out = capsys.readouterr().out
    assert "run-0  to be removed" in out
    assert "run-3  kept: one of the last" in out
    assert "would remove 3 runs" in out


def test_a_run_that_failed_is_kept_unless_asked(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(root, "failed", 50, failed=True)
    done(root, "--keep", "0", "--yes")
    assert left(root) == ["failed"]
    assert "failed  kept: it failed" in capsys.readouterr().out
    done(root, "--keep", "0", "--yes", "--failed-too")
    assert left(root) == []


def test_a_run_that_was_interrupted_may_go(root: Path) -> None:
    (make(root, "interrupted", 50) / "summary.json").unlink()
    done(root, "--keep", "4", "--yes")
    assert left(root) == ALL


def test_a_run_that_is_still_going_on_is_kept(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = samples.run(root / "going-on")
    done(root, "--keep", "0", "--yes", "--failed-too")
    assert left(root) == ["going-on"]
    assert "going-on  kept: still going on" in capsys.readouterr().out
    assert run.going_on is not None
    run.going_on.close()
    done(root, "--keep", "0", "--yes")
    assert left(root) == []


def test_what_is_no_run_or_stands_elsewhere_is_never_touched(root: Path, tmp_path: Path) -> None:
    elsewhere = make(tmp_path, "elsewhere", 90)
    (root / "a-link").symlink_to(elsewhere)
    for name, text in (("notes/run", "mine"), ("damaged/run.json", "{"), ("future/run.json", '{"format": 3}')):
        (root / name).parent.mkdir()
        (root / name).write_text(text)
    (root / "run-0" / "trials" / "link").symlink_to(elsewhere / "trials")
    done(root, "--keep", "0", "--yes", "--failed-too")
    assert left(root) == ["a-link", "damaged", "future", "notes"]
    assert (elsewhere / "trials" / "t" / "trial.json").is_file()


def test_what_an_interrupted_removal_left_is_removed(root: Path) -> None:
    (root / "run-0").rename(root / ".run-0.0123abcd.removed")
    (root / ".mine").mkdir()
    done(root, "--keep", "2", "--yes")
    assert left(root) == [".mine", "run-2", "run-3"]


def test_an_irremovable_run_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.rmtree", Mock(side_effect=PermissionError(13, "Permission denied", "run")))
    done(root, "--keep", "3", "--yes", status=2)
    assert "Permission denied" in capsys.readouterr().err
