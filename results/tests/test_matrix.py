"""The matrix in terminals of every kind, and the command."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from checkers.claims import Word
from results.record import Cell
from results.terminal import matrix
from results.tests import samples

PAGE = f"results/runs/r/trials/{'long-' * 40}/index.html"
FAULTS = ("none", "cut-client-drop", "freeze-holder", "isolate-leader-refuse", "kill-server", "slow-links")


def cell(lock: str, fault: str, word: Word, about: str = "server-exclusion", **given: object) -> Cell:
    made = Cell(lock, lock, "register", "unfenced", f"{lock}/register/unfenced", fault, about, word, "because so",
                **samples.BLANK)  # fmt: skip
    return replace(made, **{"page": Path(PAGE), "seed": 7, **given})  # type: ignore[arg-type]


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


MANY = [f"a-{backend}-{number}" for backend in ("redis", "etcd") for number in range(12)]


def of_many(word: Word = Word.UPHELD, faults: tuple[str, ...] = FAULTS, **given: Any) -> list[Cell]:
    return [cell(lock, fault, word, backend=lock.split("-")[1], **given) for lock in MANY for fault in faults]


def test_where_one_table_is_too_wide_each_backend_has_its_own() -> None:
    lines = drawn(200, of_many()).splitlines()
    heads = [line.split() for line in lines if line.startswith("fault")]
    assert [line for line in lines if line.startswith("on ")] == ["on etcd", "on redis"]
    assert heads == [["fault", *sorted(lock for lock in MANY if backend in lock)] for backend in ("etcd", "redis")]
    assert max(len(line.rstrip()) for line in lines if PAGE not in line) <= 200


def test_where_that_is_too_wide_as_well_each_fault_lists_its_locks_by_their_word() -> None:
    made = [*of_many(), cell(MANY[3], "none", Word.VIOLATED, "token-order", backend="redis")]
    text = drawn(80, made)
    lines = text.splitlines()
    at = lines.index("none")
    assert lines[at + 1] == f"  violated (token-order): {MANY[3]}"
    assert lines[at + 2].startswith("  upheld: a-etcd-0, ")
    told = " ".join(" ".join(lines[at + 2 : lines.index("cut-client-drop")]).split())
    assert sorted(told.removeprefix("upheld: ").split(", ")) == sorted(lock for lock in MANY if lock != MANY[3])
    assert max(map(len, (line for line in lines if PAGE not in line))) <= 80


def test_a_long_name_of_a_column_is_broken_and_not_cut() -> None:
    names = ["an-extremely-long-name-of-a-lock", "supercalifragilisticexpialidocious", "redis", "etcd"]
    text = drawn(80, [cell(name, "none", Word.UPHELD) for name in names])
    head = [line for line in text.splitlines() if line.strip()][:4]
    assert "…" not in text
    for name in names:
        assert any(part in "".join(head) for part in (name[:12], name.split("-")[0]))


def test_columns_have_the_shortest_names_that_tell_them_apart() -> None:
    one, other = "some/where/locks.py:Mine", "else/where/locks.py:Yours"
    text = drawn(80, [cell(one, "none", Word.UPHELD), cell(other, "none", Word.UPHELD)])
    assert next(line for line in text.splitlines() if line.startswith("fault")).split() == ["fault", "Yours", "Mine"]


def test_the_stories_of_many_lanes_are_told_once_with_their_number() -> None:
    made = [
        cell("redis", "none", Word.VIOLATED, lane=f"redis/set/{n}", story=(f"At {n} s it broke.",)) for n in range(9)
    ]
    text = drawn(80, made)
    assert text.count("s it broke.") == 1
    assert "violated: server-exclusion in redis/set/0 and 8 more under none" in text


def test_much_that_broke_as_documented_is_told_by_mechanism() -> None:
    few = " ".join(drawn(80, of_many(Word.BROKEN_AS_DOCUMENTED, because="explained by magic")[:12]).split())
    assert few.count("as documented: explained by magic") == 2  # a line a lock, with all of its faults
    assert "under no fault, cut-client-drop, freeze-holder, isolate-leader-refuse, kill-server and slow-links" in few
    many = " ".join(drawn(80, of_many(Word.BROKEN_AS_DOCUMENTED, because="explained by magic")).split())
    assert many.count("explained by magic") == 1
    assert "and 19 more under" in many


def test_reasons_that_are_the_same_are_one_line() -> None:
    made = of_many(Word.NOT_APPLICABLE, about="", because="it has one node", page=None, lane="")
    text = " ".join(drawn(80, made).split())
    assert text.count("it has one node") == 1
    assert re.search(r"not applicable: a-\S+, .* and 19 more under .*: it has one node", text)


def test_a_trial_that_is_left_out_for_many_reasons_takes_few_lines() -> None:
    out = io.StringIO()
    matrix.render([], Console(file=out, width=80), ["trials/x: " + "worker 3 of redis/set/unfenced, " * 100])
    assert len(out.getvalue().splitlines()) < 10
