"""The page of all runs: changes between runs that can be compared, damaged runs, and which runs are read again."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call
from xml.etree import ElementTree

import pytest

from checkers.claims import Verdict
from checkers.tests.build import cases, there
from results.pages import curve, rates, trend
from results.record import Cell, LaneSummary
from results.report import grid
from results.run import Run
from results.storage import files, summary
from results.storage.codec import encoded
from results.storage.reading import RunContents
from results.storage.verdicts import measured
from results.tests import samples
from results.tests.markup import Page, golden
from results.tests.test_index import cycle
from results.text import span

COMMAND = ("pytest", "suites/", "-n", "2")
cell = partial(samples.cell, version="8.0")
MEASURED: Any = measured(samples.stale_write())
CYCLES = [{**MEASURED["cycles"][0], **one} for one in (cycle("before", 100.0, 400.0), cycle("during", 200.0, None))]
LANE = samples.summary({**MEASURED, "cycles": CYCLES, "recovery_s": [1.5, 3.5]})


def stored(root: Path, day: int, *cells: Cell, lanes: Sequence[LaneSummary] = (), **asked: Any) -> Path:
    """A run that was closed, without its trials."""
    path = root / f"202601{day:02d}T000000Z-{day:04x}"
    started, closed = f"2026-01-{day:02d}T00:00:00+00:00", f"2026-01-{day:02d}T00:01:30+00:00"
    about = {"command": COMMAND, "profile": "default", "seed": day, "targets": {}, **asked}
    about["command"] = [*about["command"], "--results", "x"]
    path.mkdir(parents=True)
    files.write_json(path / "run.json", {"started": started, "about": about})
    page = path / "trials" / "redis-none-1" / "index.html"
    contents = RunContents(tuple(replace(one, page=page) for one in cells), tuple(lanes), ())
    made = summary.make(path, closed, {**about, "started": started}, {}, contents)
    files.write_json(path / summary.NAME, encoded(made, path))
    (path / "index.html").write_text("drawn")
    return path


def drawn(root: Path) -> Page:
    return Page(trend.write(root).read_text())


def rows(page: Page) -> list[list[str]]:
    """The rows of the table of changes: (change, lane, fault, property, before, now)."""
    inside = page.within("section", id="changes") if list(page.all("section", id="changes")) else []
    cells = [one.text for one in inside if one.tag == "td" and "number" not in one.given.get("class", "")]
    return [cells[at : at + 6] for at in range(0, len(cells), 6)]


def test_the_page_of_all_runs_matches_the_golden_text(tmp_path: Path) -> None:
    for day in (1, 2, 3, 5):
        word = Verdict.UPHELD if day < 3 else Verdict.VIOLATED
        stored(tmp_path, day, cell(word), cell(Verdict.UPHELD, "token-order"), lanes=[LANE])
    stored(tmp_path, 4, cell(Verdict.UPHELD), lanes=[LANE], profile="smoke")
    page = drawn(tmp_path)
    assert page.lines == golden("runs.txt", page.lines)


@pytest.mark.parametrize(
    ("before", "now", "kind"),
    [
        (Verdict.UPHELD, Verdict.VIOLATED, "▲ new"), (None, Verdict.NOT_STRESSED, "▲ new"),
        (Verdict.VIOLATED, Verdict.UPHELD, "▼ cleared"), (Verdict.VIOLATED, None, "? no longer judged"),
        (Verdict.UNKNOWN, Verdict.VIOLATED, "~ changed"), (Verdict.VIOLATED, Verdict.VIOLATED, None),
        (Verdict.UPHELD, None, None), (None, Verdict.UPHELD, None),
    ],
    ids=lambda word: "" if word is None else str(word),
)  # fmt: skip
def test_each_change_has_a_kind(tmp_path: Path, before: Verdict | None, now: Verdict | None, kind: str | None) -> None:
    same = cell(Verdict.UPHELD, "token-order")
    stored(tmp_path, 1, same, *([cell(before)] if before else []))
    stored(tmp_path, 2, same, *([cell(now)] if now else []))
    words = (f"{grid.SIGNS[word].glyph}{word}" if word else "not judged" for word in (before, now))
    row = [kind, "redis/register/unfenced", "none", "server-exclusion", *words]
    assert rows(drawn(tmp_path)) == ([row] if kind else [])


def test_the_heaviest_trial_stands_for_a_lane_under_a_fault(tmp_path: Path) -> None:
    for order in (1, -1):
        root, words = tmp_path / str(order), (Verdict.UPHELD, Verdict.VIOLATED)[::order]
        stored(root, 1, cell(Verdict.UPHELD))
        stored(root, 2, *(cell(word, seed=seed) for seed, word in enumerate(words)))
        assert [(kind, new) for kind, *_, new in rows(drawn(root))] == [("▲ new", "✖violated")]


def test_lanes_that_changed_alike_share_a_row_even_if_another_lane_was_broken_before(tmp_path: Path) -> None:
    names = [f"redis/{workload}/unfenced" for workload in ("set", "once", "work", "share")]
    broken, *others = (cell(Verdict.VIOLATED, lane=lane) for lane in names)
    stored(tmp_path, 1, broken, *(replace(one, word=Verdict.UPHELD) for one in others))
    run = stored(tmp_path, 2, broken, *others)
    page = drawn(tmp_path)
    [[kind, lane, *_]] = rows(page)
    assert (kind, lane) == ("▲ new", "redis/once/unfenced and 2 more")
    assert f"{run.name}/trials/redis-none-1/index.html#lane=redis%2Fonce%2Funfenced&property=" in page.lines
    assert "1 new since the last one like it" in page.one("h1", id="verdict")


@cases(
    "asked",
    ("profile", {"profile": "smoke"}),
    ("target", {"targets": {"redis": ["a:1"]}}),
    *((words, {"command": (*COMMAND, *words.split())}) for words in ("--lock redis", "--lock=redis", "--faults none")),
)
def test_only_runs_that_tried_the_same_are_compared(tmp_path: Path, asked: dict[str, Any]) -> None:
    stored(tmp_path, 1, cell(Verdict.UPHELD))
    stored(tmp_path, 2, cell(Verdict.NOT_STRESSED), **asked)
    assert rows(drawn(tmp_path)) == []
    stored(tmp_path, 3, cell(Verdict.VIOLATED))
    stored(tmp_path, 4, cell(Verdict.UNKNOWN), **asked)
    told = [(old[1:], new[1:]) for *_, old, new in rows(drawn(tmp_path))]
    assert told == [("not stressed", "unknown"), ("upheld", "violated")]
    for day, words in enumerate((["--seed", "9"], ["--version-of", "redis=7"], ["-q"]), 5):  # all of which may differ
        stored(tmp_path, day, cell([Verdict.VIOLATED, Verdict.UPHELD][day % 2]), command=(*COMMAND, *words))
        assert len(rows(drawn(tmp_path))) == day - 2


@pytest.mark.parametrize("file", ["run.json", "summary.json"])
@pytest.mark.parametrize("data", [b"{", b'{"format": 99}', b'{"format": 2, "cells": 7}'])
def test_a_damaged_run_and_another_folder_are_passed_by(tmp_path: Path, file: str, data: bytes) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "file").write_text("x")
    assert drawn(tmp_path).one("h1", id="verdict") == "No runs yet."
    good = stored(tmp_path, 1, cell(Verdict.UPHELD))
    bad = stored(tmp_path, 2, cell(Verdict.UPHELD))
    (bad / file).write_bytes(data)
    if file == "run.json":
        (bad / summary.NAME).unlink()
    page = drawn(tmp_path)
    assert [row.given["data-run"] for row in page.all("tr") if "data-run" in row.given] == [good.name]
    assert page.one("p", class_="alert").startswith(f"left out: {bad.name}/{file}: ")


def test_an_interrupted_run_is_marked_and_not_compared(tmp_path: Path) -> None:
    stored(tmp_path, 1, cell(Verdict.UPHELD))
    run = Run.create(tmp_path, {"command": COMMAND, "profile": "default"})
    run.save_trial(samples.trial())
    assert "still going on" in drawn(tmp_path).one("tr", data_run=run.path.name)
    there(run.going_on).close()
    row = drawn(tmp_path).one("tr", data_run=run.path.name)
    assert "interrupted" in row
    assert "3 weakness" in row
    stored(tmp_path, 2, cell(Verdict.VIOLATED))
    assert len(rows(drawn(tmp_path))) == 1
    run.close({})
    row = Page((tmp_path / "index.html").read_text()).one("tr", data_run=run.path.name)
    assert not re.search("interrupted|going on", row)
    assert not list(tmp_path.glob("*.partial"))


def test_each_run_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in range(1, 9):
        stored(tmp_path, day, *([cell(Verdict.UPHELD)] if day > 3 else []))
    read = Mock(wraps=summary.load)
    monkeypatch.setattr(summary, "load", read)
    first = trend.write(tmp_path).read_text()
    assert read.call_count == 8
    assert (trend.write(tmp_path).read_text(), read.call_count) == (first, 8)
    new = stored(tmp_path, 9, cell(Verdict.VIOLATED))
    assert (len(rows(drawn(tmp_path))), read.call_args_list[8:]) == (1, [call(new)])


def test_a_run_that_was_written_again_is_read_again_and_one_that_is_gone_no_more(tmp_path: Path) -> None:
    words = enumerate((Verdict.UPHELD, Verdict.UPHELD, Verdict.VIOLATED), 1)
    _, changed, _ = (stored(tmp_path, day, cell(word)) for day, word in words)
    assert [kind for kind, *_ in rows(drawn(tmp_path))] == ["▲ new"]
    path = changed / summary.NAME
    path.write_text(path.read_text().replace('"word": "upheld"', '"word": "unknown"'))
    assert [kind for kind, *_ in rows(drawn(tmp_path))] == ["~ changed", "▲ new"]
    changed.rename(tmp_path / ".gone")
    [[kind, *_, old, new]] = rows(drawn(tmp_path))
    assert (kind, old[1:], new[1:]) == ("▲ new", "upheld", "violated")


@pytest.mark.parametrize("how", ["gone", "cut", "changed", "other-shape", "binary"])
def test_runs_are_read_anew_if_the_cache_is_unusable(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(tmp_path, 1, cell(Verdict.UPHELD))
    stored(tmp_path, 2, cell(Verdict.VIOLATED))
    whole = trend.write(tmp_path).read_text()
    kept = tmp_path / trend.CACHE
    text = kept.read_text()
    cut, changed = text[: len(text) // 2].encode(), text.replace("violated", "upheld").encode()
    damaged = {"cut": cut, "changed": changed, "other-shape": b"0\n{}", "binary": b"\xff\xfe\n\x00"}
    kept.unlink()
    if how != "gone":
        kept.write_bytes(damaged[how])
    read = Mock(wraps=summary.load)
    monkeypatch.setattr(summary, "load", read)
    assert (trend.write(tmp_path).read_text(), read.call_count) == (whole, 2)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    hostile = samples.HOSTILE.replace("/", "")
    path = stored(tmp_path, 1, cell(Verdict.UPHELD), command=(hostile,), profile=hostile, seed=hostile)
    bad = cell(Verdict.VIOLATED, hostile, lock=hostile, fault=hostile, backend=hostile)
    stored(tmp_path, 2, bad, lanes=[replace(LANE, backend=hostile)])
    path.rename(tmp_path / hostile.replace("\ud800", ""))
    page = drawn(tmp_path)
    assert len(list(page.all("script"))) == 1
    assert not list(page.all("img"))
    assert "<script>alert(1)" in page.one("main")


def test_a_line_of_a_chart_has_a_gap_at_an_unknown_value() -> None:
    runs = [(str(at), "") for at in range(5)]
    line = rates.line("t", runs, [rates.ChartLine("p50", (1.0, 2.0, None, 4.0, 5.0))])
    [reach] = Page(there(line)).all("path", class_="reach")
    assert [reach.given["d"].count(letter) for letter in "ML"] == [2, 2]
    assert rates.line("t", runs, [rates.ChartLine("p50", (None,) * 5)]) is None


@cases("value, told", (None, "-"), (0, "0"), (0.00537, "0.00537"), (12.34, "12.3"), (99.96, "100"), (1234.5, "1,234"))
def test_numbers_have_three_digits_that_matter(value: float | None, told: str) -> None:
    assert rates.shown(value) == told


@pytest.mark.parametrize(("seconds", "told"), [(0.4, "0 s"), (61, "1 min 1 s"), (7322, "2 h 2 min"), (-1, "0 s")])
def test_a_span_of_time_is_written_in_its_two_largest_units(seconds: float, told: str) -> None:
    assert span(seconds) == told


@pytest.mark.parametrize(
    ("hits", "tries", "low", "high"),
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (129, 718, 0.1533, 0.2094)],
)
def test_the_interval_of_a_curve_is_wilsons(hits: int, tries: int, low: float, high: float) -> None:
    assert curve.Point(1.0, hits, tries).interval() == pytest.approx((low, high), abs=5e-4)


def test_the_file_of_a_curve_is_whole_and_hostile_names_are_escaped() -> None:
    points = curve.Point(0.5, 1, 4), curve.Point(1.0, 4, 4)
    text = curve.draw("a < b", "across", [curve.LockPoints("<script>", points)], [(0.1, "& mark")])
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert ("<script>" in "".join(root.itertext()), "<script>" in text) == (True, False)
