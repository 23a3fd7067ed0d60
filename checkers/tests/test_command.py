"""`python -m checkers` on recordings: what it prints and how it ends."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from checkers import __main__ as command
from checkers.history.history import save
from checkers.properties.all_properties import PROPERTIES
from checkers.tests.build import Book

ROOT = Path(__file__).parents[2]


Run = Callable[..., tuple[int, str, str]]
"""Takes the arguments; gives the exit status, and what was printed to both outputs."""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def called(*arguments: object) -> tuple[int, str, str]:
        try:
            status = command.main([*map(str, arguments)])
        except SystemExit as ended:
            status = int(str(ended.code))
        return status, *capsys.readouterr()

    return called


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
        (("unknown",), 3),
        (("good", "unknown"), 3),
        (("unknown", "damaged"), 2),
        (("damaged", "unknown", "bad", "good"), 1),
    ],
)
def test_exit_status(folder: Path, run: Run, files: tuple[str, ...], status: int) -> None:
    assert run(*(folder / f"{name}.arrow" for name in files))[0] == status


@pytest.mark.parametrize("name", ["damaged.arrow", "missing.arrow", "empty", "later.arrow"])
def test_one_clear_line_for_bad_input(folder: Path, run: Run, name: str) -> None:
    status, out, err = run(folder / name)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert str(folder / name) in err


def test_output_and_explanation(folder: Path, run: Run) -> None:
    before = (folder / "bad.arrow").read_bytes()
    _, out, _ = run(folder / "bad.arrow")
    for part in (
        "holder-exclusion   invalid (3)", "violated: granted-while-held", "not claimed: broken: overlap",
        "and 2 more (--explain)",
    ):  # fmt: skip
        assert part in out
    _, explained, _ = run(folder / "bad.arrow", "--explain")
    assert "--explain" not in explained
    assert len(explained.splitlines()) > len(out.splitlines())
    assert (folder / "bad.arrow").read_bytes() == before, "the files are not changed"
    status, out, _ = run(folder / "run")
    assert (status, "lane.arrow" in out) == (1, True), "a folder is all its histories"


def test_json(folder: Path, run: Run) -> None:
    (line,) = run(folder / "bad.arrow", "--json", "--property", "holder-exclusion")[1].splitlines()
    answer = json.loads(line)
    assert (answer["valid"], answer["model"], answer["operations"]) == (False, None, 6)
    assert answer["witness"]["kind"] == "overlap"
    (result,) = answer["verdicts"]
    assert (result["property"], result["valid"]) == ("holder-exclusion", False)
    assert result["word"] == "not claimed: broken"
    assert result["violations"][0]["kind"] == "overlap"


def test_usage(run: Run) -> None:
    for arguments in ((), ("--property", "nonsense", "x"), ("--jso", "x")):
        assert run(*arguments)[0] == 2
    assert "server-exclusion" in run("--property", "nonsense", "x")[2]


def test_every_property_can_be_asked_for(folder: Path, run: Run) -> None:
    status, out, _ = run(folder / "good.arrow", *(word for name in PROPERTIES for word in ("--property", name)))
    assert status == 0
    assert all(name in out for name in PROPERTIES)
