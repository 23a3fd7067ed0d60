"""The matrix, whole and in brief, in terminals of every kind."""

import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from checkers.claims import Verdict
from checkers.tests.build import cases
from results.record import Cell
from results.terminal import matrix
from results.tests import test_index
from results.tests.markup import golden

PAGE = f"results/runs/r/trials/{'long-' * 40}/index.html"
FAULTS = ("none", "cut-client-drop", "freeze-holder", "isolate-leader-refuse", "kill-server", "slow-links")
cell = partial(test_index.cell, page=Path(PAGE), seed=7, trial="")
MANY = [f"a-{backend}-{number}" for backend in ("redis", "etcd") for number in range(12)]
LONG = ("an-extremely-long-name-of-a-lock", "supercalifragilisticexpialidocious", "a/locks.py:Mine", "b/c.py:Its")
LEFT_OUT = ("trials/x: damaged",)
AGAIN = "pytest suites/ --lock {0.lock}".format
BROKEN = cell(MANY[3], "none", Verdict.VIOLATED, "token-order", backend="redis")


def cells() -> list[Cell]:
    made = [cell(lock, fault, Verdict.UPHELD) for lock in ("redis", "redlock", "zookeeper", "etcd") for fault in FAULTS]
    made += [
        cell("redlock", "kill-server", Verdict.VIOLATED, story=("Worker 1 held it.", "So did worker 2.")),
        cell("etcd", "slow-links", Verdict.NOT_STRESSED, "recovery"),
        cell("redis", "freeze-holder", Verdict.WEAKNESS_SHOWN, "holder-exclusion"),
        cell("redis", "freeze-holder", Verdict.WEAKNESS_SHOWN, "fenced-store"),
        cell("redis", "cut-nodes-drop", Verdict.NOT_APPLICABLE, "", because="redis has one node", page=None, lane=""),
    ]
    return made


def drawn(width: int, given: list[Cell] | None = None, problems: Sequence[str] = LEFT_OUT, **console: Any) -> str:
    made = cells() if given is None else given
    return shown(lambda on: matrix.render(made, on, problems, AGAIN), width=width, **console)


def shown(render: Callable[[Console], None], **console: Any) -> str:
    out = io.StringIO()
    render(Console(file=out, **console))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_the_matrix_is_complete_at_every_width(width: int) -> None:
    text = drawn(width)
    assert all(len(line) <= width for line in text.splitlines() if "/" not in line and "  " not in line.strip())
    assert "…" not in text
    assert PAGE in text  # in one piece, so that it can be copied
    assert all(name in text for name in ("violated", "stressed", "weakness", "upheld", "redlock", "zookeeper"))
    assert _below(text) == _below(drawn(80))


def _below(text: str) -> str:
    return " ".join(text.partition("violated: server-exclusion in")[2].split())


def test_an_empty_matrix_and_a_long_problem_take_few_lines() -> None:
    assert drawn(80, [], []).strip() == "NOT CLEAN: nothing was judged"
    assert len(drawn(80, [], ["trials/x: " + "worker 3 of redis/set/unfenced, " * 100]).splitlines()) <= 10


def test_the_brief_form_of_a_small_or_large_matrix_fits_a_screen() -> None:
    made = [cell("redis", "none", Verdict.VIOLATED, f"p{n}") for n in range(5)]
    problem = "trials/x: " + "damaged " * 90
    both = (made, [*made, *of_many(faults=FAULTS * 20)])
    small, large = (shown(partial(matrix.brief, it, problems=[problem], again=AGAIN), width=80) for it in both)
    assert small == golden("matrix-brief.txt", small)
    assert large == golden("matrix-brief-large.txt", large)
    assert max(len(text.splitlines()) for text in (small, large)) <= 23
    other = cell("other", "none", Verdict.NOT_APPLICABLE, backend="other")
    assert "other: nothing of this run applies to it" in shown(partial(matrix.brief, [*both[1], other]), width=80)


def test_a_heavier_word_is_never_hidden() -> None:
    for order in (1, -1):
        both = [cell("redis", "none", Verdict.UPHELD), cell("redis", "none", Verdict.VIOLATED, "token-order")][::order]
        assert "violated 1" in next(line for line in drawn(80, both).splitlines() if line.startswith("none"))


def test_no_colour_no_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal: dict[str, Any] = {"force_terminal": True, "color_system": "standard"}
    assert "\x1b" not in drawn(80)  # not a terminal
    assert "\x1b[1;31m" in drawn(80, **terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in drawn(80, **terminal)


def test_a_letter_that_the_terminal_lacks_is_escaped() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    matrix.render([cell("rédis", "none", Verdict.VIOLATED, because="é")], Console(file=out, width=80))
    out.flush()
    assert rb"r\xe9dis" in raw.getvalue()


def test_recorded_strings_neither_style_nor_steer_the_terminal() -> None:
    evil = "[red]x[/red]\x1b[2J\x07\nnext\ud800"
    text = drawn(80, [cell(evil, evil, Verdict.VIOLATED, because=evil, story=(evil,))])
    assert not {"\x1b", "\x07"} & {*text}
    assert "[red]x[/red]" in text
    text.encode()


def of_many(word: Verdict = Verdict.UPHELD, faults: tuple[str, ...] = FAULTS, **given: Any) -> list[Cell]:
    return [cell(lock, fault, word, backend=lock.split("-")[1], **given) for lock in MANY for fault in faults]


@cases(
    "name, width, given",
    ("all at 80 columns", "matrix", 80, cells()),
    ("each backend has a table where one is too wide", "matrix-by-backend", 200, of_many()),
    ("each fault lists its locks by their word where that is too wide", "matrix-by-word", 80, [*of_many(), BROKEN]),
    ("names are short and broken, not cut", "matrix-long-names", 80, [cell(n, "none", Verdict.UPHELD) for n in LONG]),
)
def test_the_whole_matrix_matches_the_golden_text_and_fits_the_width(name: str, width: int, given: list[Cell]) -> None:
    text = drawn(width, given)
    assert text == golden(f"{name}.txt", text)
    assert all(len(line) <= width for line in text.splitlines() if PAGE not in line)


def test_cells_that_are_alike_are_printed_once_with_their_number() -> None:
    magic: dict[str, Any] = {"because": "explained by magic"}
    made = [cell("redis", "none", Verdict.NOT_STRESSED, trial=f"t{n}", seed=n) for n in range(5)]
    lanes: list[dict[str, Any]] = [{"lane": f"redis/set/{n}", "story": (f"At {n} s it broke.",)} for n in range(9)]
    made += [cell("redis", "none", Verdict.VIOLATED, **lane) for lane in lanes]
    made += of_many(Verdict.NOT_APPLICABLE, about="", because="it has one node", page=None, lane="")
    few, many = (drawn(80, made + of_many(Verdict.WEAKNESS_SHOWN, **magic)[:size]) for size in (12, None))
    text = few.split("\n\n", 2)[2] + many.partition("known weakness shown: ")[2]
    assert text == golden("matrix-alike.txt", text)
