"""The matrix in terminals of every kind, and the command."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from checkers.claims import Word
from results import __main__ as command
from results import matrix
from results.record import Cell
from results.run import Run
from results.tests import samples

PAGE = f"results/runs/r/trials/{'long-' * 40}/index.html"
FAULTS = ("none", "cut-client-drop", "freeze-holder", "isolate-leader-refuse", "kill-server", "slow-links")


def cell(lock: str, fault: str, word: Word, about: str = "server-exclusion", **given: object) -> Cell:
    made = Cell(lock, lock, "register", "unfenced", f"{lock}/register/unfenced", fault, about, word, "because so",
                page=Path(PAGE), seed=7)  # fmt: skip
    return replace(made, **given)  # type: ignore[arg-type]


def cells() -> list[Cell]:
    made = [cell(lock, fault, Word.UPHELD) for lock in ("redis", "redlock", "zookeeper", "etcd") for fault in FAULTS]
    made += [
        cell("redlock", "kill-server", Word.VIOLATED, story=("Worker 1 held it.", "So did worker 2.")),
        cell("etcd", "slow-links", Word.UNEXERCISED, "recovery"),
        cell("redis", "freeze-holder", Word.BROKEN_AS_DOCUMENTED, "holder-exclusion"),
        cell("redis", "freeze-holder", Word.BROKEN_AS_DOCUMENTED, "fenced-store"),
        cell("redis", "cut-nodes-drop", Word.NOT_APPLICABLE, "", because="redis has one node", page=None, lane=""),
    ]
    return made


def drawn(width: int, given: list[Cell] | None = None, **console: object) -> str:
    out = io.StringIO()
    options = {"file": out, "width": width, **console}
    matrix.render(cells() if given is None else given, Console(**options), ["trials/x: damaged"])  # type: ignore[arg-type]
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_everything_is_told_at_every_width(width: int) -> None:
    text = drawn(width)
    lines = text.splitlines()
    flat = " ".join(text.split())
    assert all(len(line) <= width for line in lines if "/" not in line and "  " not in line.strip())
    assert "…" not in text
    for name in ("violated", "unexercised", "documented", "upheld", "redlock", "zookeeper"):
        assert name in text
    assert "1. Worker 1 held it. 2. So did worker 2." in flat
    assert PAGE in text  # in one piece, so that it can be copied
    assert "redis has one node" in flat
    assert "left out: trials/x: damaged" in flat
    assert "redis broke holder-exclusion and fenced-store under freeze-holder, as documented" in flat


def test_the_table_at_80_columns() -> None:
    lines = drawn(80).splitlines()
    head = next(line for line in lines if line.startswith("fault"))
    assert head.split() == ["fault", "etcd", "redis", "redlock", "zookeeper"]
    assert all(len(line.rstrip()) <= 80 for line in lines if PAGE not in line)
    place = head.index("redlock")
    at = next(n for n, line in enumerate(lines) if line.startswith("kill-server"))
    column = [line[place : place + 12].strip() for line in lines[at : at + 4]]
    assert column == ["violated 1", "server-", "exclusion", "upheld 1"]
    # `none` is the baseline and comes first.
    assert lines[lines.index(head) + 2].startswith("none")


def test_a_heavier_word_is_never_hidden() -> None:
    for order in (1, -1):
        both = [cell("redis", "none", Word.UPHELD), cell("redis", "none", Word.VIOLATED, "token-order")][::order]
        line = next(line for line in drawn(80, both).splitlines() if line.startswith("none"))
        assert "violated 1" in line


def test_no_colour_no_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in drawn(80)  # not a terminal
    assert "\x1b[1;31m" in drawn(80, force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    coloured = drawn(80, force_terminal=True, color_system="standard")
    assert "\x1b[31m" not in coloured
    assert ";31m" not in coloured


def test_a_terminal_without_unicode() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    matrix.render([cell("rédis", "none", Word.VIOLATED, because="é")], Console(file=out, width=80))
    out.flush()
    assert rb"r\xe9dis" in raw.getvalue()


def test_recorded_strings_neither_style_nor_steer_the_terminal() -> None:
    evil = "[red]x[/red]\x1b[2J\x07\nnext\ud800"
    text = drawn(80, [cell(evil, evil, Word.VIOLATED, because=evil, story=(evil,))])
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[red]x[/red]" in text
    text.encode()


def test_nothing() -> None:
    out = io.StringIO()
    matrix.render([], Console(file=out, width=80))
    assert out.getvalue() == "Nothing was judged.\n"


def test_many_trials_of_one_failure_are_told_once() -> None:
    same = [cell("redis", "none", Word.UNEXERCISED, trial=f"t{n}", seed=n) for n in range(5)]
    assert drawn(80, same).count("Nothing put") == 1
    assert "the first of 5 trials" in drawn(80, same)


# The command


@pytest.fixture
def stored(tmp_path: Path) -> Run:
    run = Run.create(tmp_path, {})
    run.save_trial(samples.trial())
    return run


def test_list(stored: Run, capsys: pytest.CaptureFixture[str]) -> None:
    (stored.path.parent / "20000101T000000Z-dead").mkdir()
    (stored.path.parent / "20000101T000000Z-dead" / "run.json").write_text("{")
    assert command.main(["--results", str(stored.path.parent), "list"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "dead  damaged:" in first
    assert second == f"{stored.path.name}  3 broken as documented, 5 upheld"


@pytest.mark.parametrize("how", ["name", "prefix", "last", "path"])
def test_show(stored: Run, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    stored.close({})
    name = {"name": stored.path.name, "prefix": stored.path.name[:8], "last": "last", "path": str(stored.path)}[how]
    assert command.main(["--results", str(stored.path.parent), "show", name]) == 0
    assert "freeze-holder" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["show", "nowhere"], "no run 'nowhere'"),
        (["open", "nowhere"], "no run 'nowhere'"),
        (["show", ""], "names 2 runs"),
    ],
)
def test_bad_input_is_status_2(
    stored: Run, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Run.create(stored.path.parent, {})
    assert command.main(["--results", str(stored.path.parent), *arguments]) == 2
    assert says in capsys.readouterr().err


def test_bad_usage_is_status_2() -> None:
    for arguments in ([], ["dance"], ["show"]):
        with pytest.raises(SystemExit) as stopped:
            command.main(arguments)
        assert stopped.value.code == 2


def test_open_makes_the_page_of_an_interrupted_run(
    stored: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert command.main(["--results", str(stored.path.parent), "open", "last"]) == 0
    assert opened == [(stored.path / "index.html").resolve().as_uri()]
    assert (stored.path / "index.html").is_file()
