"""`python -m checkers`, as a process: what it prints and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from checkers.history import load, save
from checkers.register import PROPERTIES
from checkers.tests.build import Book

ROOT = Path(__file__).parents[2]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "checkers", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("histories")
    good = Book(keys=("a",), lane="good").acquire(1, 2, 1).release(6, 7, 1).acquire(3, 8, 2).release(9, 10, 2)
    save(good.history(), path / "good.arrow")
    bad = Book(keys=("a",), lane="bad").acquire(1, 2, 1).release(50, 51, 1).acquire(3, 4, 2).release(9, 10, 2)
    save(bad.acquire(4, 5, 3).release(9, 10, 3).history(), path / "bad.arrow")
    unknown = Book(keys=("a",), store="of-tomorrow").acquire(1, 2, 1).write(3, 4, 1, 5)
    save(unknown.history(), path / "unknown.arrow")
    (path / "damaged.arrow").write_bytes((path / "good.arrow").read_bytes()[:-20])
    foreign = Book(properties=("of-tomorrow",)).acquire(1, 2, 1)
    save(foreign.history(), path / "later.arrow")
    (path / "empty").mkdir()
    (path / "run" / "trial").mkdir(parents=True)
    save(bad.history(), path / "run" / "trial" / "lane.arrow")
    return path


@pytest.mark.parametrize(
    ("files", "status"),
    [
        (("good",), 0),
        (("bad",), 1),
        (("damaged",), 2),
        (("missing",), 2),
        (("later",), 2),
        (("unknown",), 3),
        (("good", "unknown"), 3),
        (("unknown", "damaged"), 2),
        (("damaged", "unknown", "bad", "good"), 1),
    ],
)
def test_exit_status(folder: Path, files: tuple[str, ...], status: int) -> None:
    done = run(*(folder / f"{name}.arrow" for name in files))
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["damaged.arrow", "missing.arrow", "empty", "later.arrow"])
def test_one_clear_line_for_bad_input(folder: Path, name: str) -> None:
    done = run(folder / name)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert str(folder / name) in done.stderr
    assert done.stdout == ""


def test_output(folder: Path) -> None:
    done = run(folder / "bad.arrow")
    assert "holder-exclusion   invalid (3)" in done.stdout
    assert "violated: granted-while-held" in done.stdout
    assert "not claimed: broken: overlap" in done.stdout
    assert "and 2 more (--explain)" in done.stdout
    explained = run(folder / "bad.arrow", "--explain").stdout
    assert "--explain" not in explained
    assert len(explained.splitlines()) > len(done.stdout.splitlines())


def test_a_folder_is_all_its_histories(folder: Path) -> None:
    done = run(folder / "run")
    assert done.returncode == 1
    assert "lane.arrow" in done.stdout


def test_json(folder: Path) -> None:
    done = run(folder / "bad.arrow", "--json", "--property", "holder-exclusion")
    (line,) = done.stdout.splitlines()
    answer = json.loads(line)
    assert (answer["valid"], answer["model"], answer["operations"]) == (False, None, 6)
    assert answer["witness"]["kind"] == "overlap"
    (verdict,) = answer["verdicts"]
    assert verdict["property"] == "holder-exclusion"
    assert verdict["valid"] is False
    assert verdict["word"] == "not claimed: broken"
    assert verdict["violations"][0]["kind"] == "overlap"


def test_usage() -> None:
    for arguments in ((), ("--property", "nonsense", "x"), ("--jso", "x")):
        assert run(*arguments).returncode == 2
    assert "server-exclusion" in run("--property", "nonsense", "x").stderr


def test_every_property_can_be_asked_for(folder: Path) -> None:
    done = run(folder / "good.arrow", *(word for name in PROPERTIES for word in ("--property", name)))
    assert done.returncode == 0
    assert all(name in done.stdout for name in PROPERTIES)


def test_output_that_nobody_reads_is_no_crash(folder: Path) -> None:
    many = " ".join([str(folder / "bad.arrow")] * 200)  # more than a pipe holds
    command = f"{sys.executable} -m checkers {many} --explain | head -1"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)  # noqa: S602
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_the_files_are_not_changed(folder: Path) -> None:
    before = (folder / "bad.arrow").read_bytes()
    run(folder / "bad.arrow")
    assert (folder / "bad.arrow").read_bytes() == before
    assert len(load(folder / "bad.arrow")) == 6
