"""Timelines: packed data unpack to what was recorded and are small, and no string of a history breaks out of them."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from markupsafe import Markup

from checkers.history.history import History, from_rows
from checkers.history.view import View
from checkers.row_format import INFINITY, NONE, F, Outcome, Reason
from results.pages.lane.shown_operations import Focus, numbers
from results.pages.lane.timeline import LONGEST_ERROR, MOST_ERRORS, TICK, columns, draw
from results.tests import hostile, samples
from results.tests.markup import Page, unpacked
from results.tests.samples import MS, START, row


def packed(history: History) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(json.dumps(columns(View(history))))
    return data


def ticks(history: History, moments: Any) -> list[int]:
    since: list[int] = ((moments - View(history).zero) // TICK).tolist()
    return since


def summed(column: list[int | str | None]) -> list[Any]:
    last = 0
    numbers: list[int | None] = []
    for entry in column:
        if isinstance(entry, int):
            last += entry
            assert abs(entry) <= 2**53
        numbers.append(last if isinstance(entry, int) else entry if entry is None else int(entry))
    return numbers


def crowded() -> History:
    """Many operations within the same microseconds, of four workers; some overlap, some never return."""
    generator = np.random.default_rng(7)
    size = 4000
    rows = samples.rows_of([row(F.READ, 0, 1, 0)] * size)
    rows["inv"] = START + np.sort(generator.integers(0, 20_000_000, size))
    rows["ret"] = rows["inv"] + generator.integers(0, 40_000, size)
    rows["process"] = generator.integers(-1, 40, size)  # -1: a read at the end of the trial
    rows["value"], rows["base"] = generator.integers(-1, 9, (2, size))
    rows["f"] = generator.choice([F.READ, F.WRITE, F.KEEP_ALIVE, F.STALL, F.BELIEF], size)
    rows["outcome"] = generator.choice([Outcome.OK, Outcome.FAIL, Outcome.INFO], size)
    rows["ret"][(rows["outcome"] == Outcome.INFO) & (generator.random(size) < 0.5)] = 0
    return from_rows(samples.facts(workers=4), rows)


def two_locks() -> History:
    history = samples.stale_write(keys=("left", "right"))
    return replace(history, columns={**history.columns, "key": np.arange(len(history), dtype=np.uint32) % 2})


def large_numbers() -> History:
    numbers = [2**62, -5, 2**63 - 1, -(2**63), 0, 2**53 + 1]
    operations = [row(F.WRITE, n, n + 0.5, 0, value=v, token=-v // 2) for n, v in enumerate(numbers)]
    return from_rows(samples.facts(workers=1), samples.rows_of(operations))


HISTORIES: dict[str, Callable[[], History]] = {
    "stale": samples.stale_write,
    "long": lambda: samples.long(3000),
    "no-lease": lambda: samples.stale_write(lease="none"),
    "crowded": crowded,
    "two-locks": two_locks,
    "large-numbers": large_numbers,
    "one": lambda: from_rows(samples.facts(), samples.rows_of([row(F.ACQUIRE, 1, 0, 4, outcome=Outcome.INFO)])),
}


def figure(history: History, moments: tuple[tuple[int, str], ...] = ()) -> Markup:
    view = View(history)
    return draw(view, Focus(view.zero, view.zero + MS, (), (), (), 0, "why"), moments, "lane0")


def about(figure: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(unpacked(Page(figure).one("script", type="application/octet-stream")))
    return told


@pytest.mark.parametrize("name", HISTORIES)
def test_every_operation_and_every_hold_comes_back_in_its_place(name: str) -> None:
    history = HISTORIES[name]()
    c, data = {name: column.tolist() for name, column in history.columns.items()}, packed(history)
    column, begun, ended = data["columns"], *(ticks(history, history.columns[end]) for end in ("inv", "ret"))
    assert summed(column["inv"]) == begun
    lasted = zip(begun, column["lasted"], c["ret"], ended, strict=True)
    assert [at for at, (begin, last, ret, end) in enumerate(lasted) if last != (end - begin if ret else -1)] == []
    codes = zip(c["f"], c["outcome"], c["reason"], c["flags"], strict=True)
    assert [tuple(data["codes"][code]) for code in column["code"]] == list(codes)
    assert column["process"] == c["process"]
    assert [data["errors"][error] for error in column["error"]] == [history.errors[error] for error in c["error"]]
    assert column.get("key") == (c["key"] if len(history.facts.keys) > 1 else None)
    valued = [f == F.WRITE or (f == F.READ and ok == Outcome.OK) for f, ok in zip(c["f"], c["outcome"], strict=True)]
    for name, there in (("token", [True] * len(begun)), ("value", valued), ("base", [f == F.WRITE for f in c["f"]])):
        wanted = [n if is_there and n != NONE else None for n, is_there in zip(c[name], there, strict=True)]
        assert summed(column[name]) == wanted
    held, holds = View(history).holds.columns, data["holds"]
    assert holds["row"] == held.row.tolist()
    assert [ended[row] + n for row, n in zip(holds["row"], holds["held"], strict=True)] == ticks(history, held.left)
    leases = zip(holds["row"], holds["lease"], strict=True)
    ends = zip(held.expiry, ticks(history, held.expiry), strict=True)
    expiries = [None if end == INFINITY else lease for end, lease in ends]
    assert [None if lease is None else ended[row] + lease for row, lease in leases] == expiries
    assert list(map(bool, holds["open"])) == held.open.tolist()
    assert summed(holds["rank"]) == numbers(View(history)).tolist()


def test_a_large_lane_is_small() -> None:
    history = samples.long(20_000)
    jitter = np.random.default_rng(3).integers(0, 900_000, len(history))
    noisy = replace(history, columns={**history.columns, "ret": history.columns["ret"] + jitter})
    assert len(figure(noisy)) / len(noisy) < 8


def test_error_texts_stand_once_and_the_rarest_are_told_as_one() -> None:
    errors = ("", "often", "often", *(f"error {n}" for n in range(600)), "long" * 1000, "long" * 1000)
    rows = samples.rows_of(
        [row(F.READ, n, n + 0.5, 0, outcome=Outcome.FAIL, error=n % 3) for n in range(300)]
        + [row(F.READ, 300 + n, 300.5 + n, 0, outcome=Outcome.FAIL, error=3 + n) for n in range(602)]
    )
    data = packed(from_rows(samples.facts(workers=1), rows, errors=errors))
    texts = data["errors"]
    assert (texts[:2], len(texts)) == (["", "often"], MOST_ERRORS + 2)
    assert max(map(len, texts)) <= LONGEST_ERROR
    errors_of_rows = [texts[error] for error in data["columns"]["error"]]
    assert errors_of_rows[:6] == ["", "often", "often"] * 2
    assert errors_of_rows[-3:] == [texts[-1], texts[2], texts[2]]
    assert errors_of_rows[-1].startswith("longlong")


def test_the_figure_has_the_data_for_the_script_and_the_height_of_the_canvas() -> None:
    history = samples.stale_write()
    told = about(figure(history, ((View(history).zero + 1875 * MS, "fenced-store: stale-write-accepted"),)))
    assert told["violations"] == [[1875 * MS, "fenced-store: stale-write-accepted"]]
    assert told["faults"][0]["moments"] == [300 * MS, 610 * MS, 1850 * MS, 1860 * MS]
    assert (told["faults"][0]["worker"], told["window"]) == (3, [0, MS])
    begin, end = told["whole"]
    assert begin < 0 < 2271 * MS < end
    assert {"writeok", "acquirerefused: timeout"} <= {code[2] + code[4] for code in told["codes"]}
    text = figure(history)
    elements, places = Page(text).elements, about(text)["places"]
    heights = [int(one.given["height"]) for one in elements if one.tag == "svg" and "height" in one.given]
    assert heights[0] == places["height"] > places["brush"] > places["axis"] > places["rows"] + places["shown"]
    assert not any("style" in one.given for one in elements)


@pytest.mark.parametrize("workers", [1, 5, 12, 40, 200])
def test_many_workers_have_low_rows_and_no_endless_canvas(workers: int) -> None:
    places = about(figure(replace(samples.stale_write(), facts=samples.facts(workers=workers))))["places"]
    assert places["height"] < 900
    assert places["shown"] == min(places["row"] * workers, places["shown"])
    assert places["row"] >= 18


def test_overlapping_faults_have_lines_of_their_own() -> None:
    history = samples.stale_write()
    fault = history.faults[0]
    faults = (
        fault,
        replace(fault, begun=fault.begun + MS, healed=0),
        replace(fault, begun=fault.healed + MS, healed=fault.healed + 9 * MS),
        *(replace(fault, begun=fault.healed + (n + 2) * MS, healed=fault.healed + 90 * MS) for n in range(6)),
    )
    drawn = about(figure(replace(history, faults=faults)))["faults"]
    lines = [fault["line"] for fault in drawn]
    assert (lines[:3], max(lines)) == ([0, 1, 0], 2)
    assert drawn[1]["moments"][3] is None


def test_the_figure_has_its_content_as_text_too() -> None:
    history = samples.stale_write()
    details = Page(figure(history, tuple((START + n * MS, f"no. {n}!") for n in range(150)))).one("details")
    assert f"write{int((history.columns['f'] == F.WRITE).sum())}read" in details
    assert "no. 99!" in details
    assert "no. 100!" not in details
    assert "and 50 more" in details


def test_hostile_strings_stay_inside_the_data() -> None:
    text = str(figure(hostile.trial().lanes[0].history, ((START, samples.HOSTILE + "\u202e\0"),)))
    page, data = Page(text), about(text)
    assert not list(page.all("img"))
    assert [script.given.get("type") for script in page.all("script")] == ["application/octet-stream"]
    assert data["faults"][0]["name"].startswith("in-fault <script>")
    told = data["violations"][0][1]
    assert "\u202e" not in told
    assert r"\u202e\x00" in told
    assert r"\ud800" in told


def test_kinds_and_reasons_from_elsewhere_have_words() -> None:
    fail = Outcome.FAIL
    operations = [row(F.CAS, 1, 2, 0, outcome=fail, reason=Reason.DENIED), row(F.GENERATE, 3, 4, 0)]
    operations.append(row(F.READ, 5, 6, 0, outcome=fail, reason=200))
    codes = about(figure(from_rows(samples.facts(), samples.rows_of(operations))))["codes"]
    told = [("other", "cas", "refused: denied"), ("other", "generate", "ok"), ("read", "read", "refused: reason 200")]
    assert {(code[0], code[2], code[4]) for code in codes} == {*told}
