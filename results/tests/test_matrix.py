"""The matrix in terminals of every kind, and the command."""

import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from checkers.claims import Verdict
from results.record import Cell
from results.terminal import matrix
from results.tests import test_index
from results.tests.markup import golden

PAGE = f"results/runs/r/trials/{'long-' * 40}/index.html"
FAULTS = ("none", "cut-client-drop", "freeze-holder", "isolate-leader-refuse", "kill-server", "slow-links")
cell = partial(test_index.cell, page=Path(PAGE), seed=7, trial="")
MANY = [f"a-{backend}-{number}" for backend in ("redis", "etcd") for number in range(12)]


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


def drawn(
    width: int, given: list[Cell] | None = None, problems: Sequence[str] = ("trials/x: damaged",), **console: Any
) -> str:
    out = io.StringIO()
    options: dict[str, Any] = {"file": out, "width": width, **console}
    matrix.render(cells() if given is None else given, Console(**options), problems)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_everything_is_told_at_every_width(width: int) -> None:
    text = drawn(width)
    assert all(len(line) <= width for line in text.splitlines() if "/" not in line and "  " not in line.strip())
    assert "…" not in text
    assert PAGE in text  # in one piece, so that it can be copied
    assert all(name in text for name in ("violated", "stressed", "weakness", "upheld", "redlock", "zookeeper"))
    assert _below(text) == _below(drawn(80))


def _below(text: str) -> str:
    """What is told below the table, in one line."""
    return " ".join(text.partition("violated: server-exclusion in")[2].split())


def test_nothing_and_a_trial_that_is_left_out_for_many_reasons_take_few_lines() -> None:
    assert drawn(80, [], []).strip() == "NOT CLEAN: nothing was judged"
    assert len(drawn(80, [], ["trials/x: " + "worker 3 of redis/set/unfenced, " * 100]).splitlines()) <= 10


def test_briefly_it_is_the_sentence_the_first_failures_and_a_small_matrix_or_a_line_for_each_backend() -> None:
    made = [cell("redis", "none", Verdict.VIOLATED, f"p{n}") for n in range(5)]
    small, large = (
        _brief([*made, *more], ["trials/x: " + "damaged " * 90]) for more in ([], of_many(faults=FAULTS * 20))
    )
    assert small == golden("matrix-brief.txt", small)
    assert large == golden("matrix-brief-large.txt", large)
    assert max(len(text.splitlines()) for text in (small, large)) <= 23


def _brief(given: list[Cell], problems: Sequence[str]) -> str:
    out = io.StringIO()
    matrix.brief(given, Console(file=out, width=80), problems, lambda cell: f"pytest suites/ --lock {cell.lock}")
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def test_at_80_columns() -> None:
    text = drawn(80)
    assert text == golden("matrix.txt", text)
    assert all(len(line) <= 80 for line in text.splitlines() if PAGE not in line)


def test_a_heavier_word_is_never_hidden() -> None:
    for order in (1, -1):
        both = [cell("redis", "none", Verdict.UPHELD), cell("redis", "none", Verdict.VIOLATED, "token-order")][::order]
        line = next(line for line in drawn(80, both).splitlines() if line.startswith("none"))
        assert "violated 1" in line


def test_no_colour_no_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal: dict[str, Any] = {"force_terminal": True, "color_system": "standard"}
    assert "\x1b" not in drawn(80)  # not a terminal
    assert "\x1b[1;31m" in drawn(80, **terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in drawn(80, **terminal)


def test_a_terminal_without_unicode() -> None:
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


def test_where_one_table_is_too_wide_each_backend_has_its_own() -> None:
    text = drawn(200, of_many())
    assert text == golden("matrix-by-backend.txt", text)


def test_where_that_is_too_wide_as_well_each_fault_lists_its_locks_by_their_word() -> None:
    text = drawn(80, [*of_many(), cell(MANY[3], "none", Verdict.VIOLATED, "token-order", backend="redis")])
    assert text == golden("matrix-by-word.txt", text)


def test_names_of_columns_are_as_short_as_they_can_be_and_broken_but_not_cut() -> None:
    names = ["an-extremely-long-name-of-a-lock", "supercalifragilisticexpialidocious", "a/locks.py:Mine", "b/c.py:Its"]
    text = drawn(80, [cell(name, "none", Verdict.UPHELD) for name in names])
    assert text == golden("matrix-long-names.txt", text)


def test_what_is_alike_is_told_once_with_its_number() -> None:
    magic: dict[str, Any] = {"because": "explained by magic"}
    made = [cell("redis", "none", Verdict.NOT_STRESSED, trial=f"t{n}", seed=n) for n in range(5)]
    lanes: list[dict[str, Any]] = [{"lane": f"redis/set/{n}", "story": (f"At {n} s it broke.",)} for n in range(9)]
    made += [cell("redis", "none", Verdict.VIOLATED, **lane) for lane in lanes]
    made += of_many(Verdict.NOT_APPLICABLE, about="", because="it has one node", page=None, lane="")
    few, many = (drawn(80, made + of_many(Verdict.WEAKNESS_SHOWN, **magic)[:size]) for size in (12, None))
    text = few.split("\n\n", 2)[2] + many.partition("known weakness shown: ")[2]
    assert text == golden("matrix-alike.txt", text)
