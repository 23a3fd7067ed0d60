"""Timelines: what is packed can be unpacked to what was recorded, is small, and no string of a history breaks out."""

import base64
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from markupsafe import Markup

from checkers.history import History, from_rows
from checkers.wire import NONE, F, Outcome, Reason
from results.pages import timeline
from results.pages.columns import LONGEST_ERROR, MOST_ERRORS, TICK, columns
from results.pages.focus import Focus
from results.pages.holds import holds
from results.tests import samples
from results.tests.samples import MS, START, row


@dataclass(frozen=True)
class Operation:
    process: int
    inv: int
    ret: int | None
    code: tuple[int, ...]
    key: int | None
    token: int | None
    value: int | None
    base: int | None
    error: str
    hold: tuple[int, int | None, bool] | None  # end, lease, open


def operations(history: History) -> list[Operation]:
    """What the columns say, as `timeline-data.js` reads them. Times in ns since the origin."""
    data = json.loads(json.dumps(columns(history, holds(history), START)))
    column = data["columns"]
    grants = {at: rest for at, *rest in zip(*(data["holds"][n] for n in ("row", "held", "lease", "open")), strict=True)}
    inv, token, value, base = (summed(column[name]) for name in ("inv", "token", "value", "base"))
    decoded = []
    for at, code in enumerate(column["code"]):
        lasted = column["lasted"][at]
        end = inv[at] + max(lasted, 0)
        hold = None
        if at in grants:
            held, lease, open_ = grants[at]
            hold = ((end + held) * TICK, None if lease is None else (end + lease) * TICK, bool(open_))
        decoded.append(
            Operation(
                column["process"][at], inv[at] * TICK, None if lasted < 0 else end * TICK, tuple(data["codes"][code]),
                column["key"][at] if "key" in column else None, token[at], value[at], base[at],
                data["errors"][column["error"][at]], hold,
            )
        )  # fmt: skip
    return decoded


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
    key = np.arange(len(history), dtype=np.uint32) % 2
    return replace(history, columns={**history.columns, "key": key})


def large_numbers() -> History:
    """Values and tokens as large as 64 bits can be."""
    numbers = [2**62, -5, 2**63 - 1, -(2**63), 0, 2**53 + 1]
    return from_rows(
        samples.facts(workers=1),
        samples.rows_of([row(F.WRITE, n, n + 0.5, 0, value=v, token=-v // 2) for n, v in enumerate(numbers)]),
    )


HISTORIES: dict[str, Callable[[], History]] = {
    "stale": samples.stale_write,
    "long": lambda: samples.long(3000),
    "crowded": crowded,
    "two-locks": two_locks,
    "large-numbers": large_numbers,
    "one": lambda: from_rows(samples.facts(), samples.rows_of([row(F.ACQUIRE, 1, 0, 4, outcome=Outcome.INFO)])),
}


def figure(history: History, moments: tuple[tuple[int, str], ...] = ()) -> Markup:
    window = Focus(START, START + MS, (), (), (), 0, "why")
    return timeline.draw(history, holds(history), window, moments, START, "lane0")


class Figure(HTMLParser):
    """The scripts of a figure, and every start tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str | None, str] = {}
        self.kind: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.kind = dict(attrs)["type"] if tag == "script" else self.kind

    def handle_endtag(self, tag: str) -> None:
        self.kind = None if tag == "script" else self.kind

    def handle_data(self, data: str) -> None:
        if self.kind:
            self.scripts[self.kind] = self.scripts.get(self.kind, "") + data

    @property
    def about(self) -> dict[str, Any]:
        text = zlib.decompress(base64.b64decode(self.scripts["application/octet-stream"]), -zlib.MAX_WBITS)
        about: dict[str, Any] = json.loads(text)
        return about


@pytest.mark.parametrize("name", HISTORIES)
def test_every_operation_comes_back_in_its_place(name: str) -> None:
    history = HISTORIES[name]()
    c = history.columns
    decoded = operations(history)
    assert len(decoded) == len(history)
    for at, operation in enumerate(decoded):
        assert operation.process == c["process"][at]
        assert operation.code == tuple(int(c[name][at]) for name in ("f", "outcome", "reason", "flags"))
        assert operation.inv == (c["inv"][at] - START) // TICK * TICK
        assert operation.ret == (None if c["ret"][at] == 0 else (c["ret"][at] - START) // TICK * TICK)
        assert operation.error == history.errors[c["error"][at]]
        assert operation.key == (c["key"][at] if len(history.facts.keys) > 1 else None)
        assert (NONE if operation.token is None else operation.token) == c["token"][at]
        f, outcome, *_ = operation.code
        valued = f == F.WRITE or (f == F.READ and outcome == Outcome.OK)
        assert operation.value == (c["value"][at] if valued and c["value"][at] != NONE else None)
        assert operation.base == (c["base"][at] if f == F.WRITE and c["base"][at] != NONE else None)


@pytest.mark.parametrize("name", HISTORIES)
def test_every_hold_comes_back(name: str) -> None:
    history = HISTORIES[name]()
    held, decoded = holds(history), operations(history)
    assert [at for at, operation in enumerate(decoded) if operation.hold] == sorted(held.acquire)
    for place, at in enumerate(held.acquire):
        end, lease = ((column[place] - START) // TICK * TICK for column in (held.end, held.lease))
        assert decoded[at].hold == (end, lease if held.lease[place] else None, held.open[place])


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
    history = from_rows(samples.facts(workers=1), rows, errors=errors)
    texts = Figure(figure(history)).about["errors"]
    assert texts[:2] == ["", "often"]
    assert len(texts) == MOST_ERRORS + 2
    assert max(map(len, texts)) <= LONGEST_ERROR
    errors_of_rows = [operation.error for operation in operations(history)]
    assert errors_of_rows[:6] == ["", "often", "often"] * 2
    assert errors_of_rows[-3] == texts[-1]
    assert errors_of_rows[-2] == errors_of_rows[-1] == texts[2]
    assert errors_of_rows[-1].startswith("longlong")


def test_the_figure_holds_what_the_script_needs() -> None:
    history = samples.stale_write()
    read = Figure(figure(history, ((START + 1905 * MS, "fenced-store: stale-write-accepted"),)))
    about = read.about
    assert about["violations"] == [[1905 * MS, "fenced-store: stale-write-accepted"]]
    assert about["faults"][0]["moments"] == [330 * MS, 640 * MS, 1880 * MS, 1890 * MS]
    assert about["faults"][0]["worker"] == 3
    assert about["window"] == [0, MS]
    begin, end = about["whole"]
    assert begin < 60 * MS - 30 * MS
    assert end > 2301 * MS
    words = [code[2] + code[4] for code in about["codes"]]
    assert "writeok" in words
    assert "acquirerefused: timeout" in words


def test_the_canvas_has_its_height_before_any_script_runs() -> None:
    read = Figure(figure(samples.stale_write()))
    heights = [int(attrs["height"] or 0) for tag, attrs in read.tags if tag == "svg" and "height" in attrs]
    places = read.about["places"]
    assert heights[0] == places["height"] > places["brush"] > places["axis"] > places["rows"] + places["shown"]
    assert not any("style" in attrs for _, attrs in read.tags)


@pytest.mark.parametrize("workers", [1, 5, 12, 40, 200])
def test_many_workers_have_low_rows_and_no_endless_canvas(workers: int) -> None:
    history = replace(samples.stale_write(), facts=samples.facts(workers=workers))
    places = Figure(figure(history)).about["places"]
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
    about = Figure(figure(replace(history, faults=faults))).about
    lines = [fault["line"] for fault in about["faults"]]
    assert lines[:3] == [0, 1, 0]
    assert max(lines) == 2
    assert about["faults"][1]["moments"][3] is None


def test_the_same_stands_as_text() -> None:
    history = samples.stale_write()
    moments = tuple((START + n * MS, f"kind {n}") for n in range(150))
    text = str(figure(history, moments))
    details = text[text.index("<details") : text.index("</details>")]
    row_of_writes = details[details.index("<td>write</td>") :]
    cells = row_of_writes[: row_of_writes.index("</tr>")]
    writes = int((history.columns["f"] == F.WRITE).sum())
    assert f">{writes}<" in cells
    assert "kind 99<" in details
    assert "kind 100<" not in details
    assert "and 50 more" in details


def test_hostile_strings_stay_inside_the_data() -> None:
    history = samples.hostile().lanes[0].history
    text = str(figure(history, ((START, samples.HOSTILE + "\u202e\0"),)))
    read = Figure(text)
    assert not any(tag == "img" for tag, _ in read.tags)
    assert [attrs.get("type") for tag, attrs in read.tags if tag == "script"] == ["application/octet-stream"]
    assert read.about["faults"][0]["name"].startswith("</script><script>")
    told = read.about["violations"][0][1]
    assert "\u202e" not in told
    assert r"\u202e\x00" in told
    assert r"\ud800" in told


def test_an_empty_lane_says_so() -> None:
    history = from_rows(samples.facts(), samples.rows_of([]))
    assert "Nothing was recorded" in figure(history)
    assert "<canvas" not in figure(history)


def test_kinds_and_reasons_from_elsewhere_have_words() -> None:
    rows = samples.rows_of(
        [
            row(F.CAS, 1, 2, 0, outcome=Outcome.FAIL, reason=Reason.DENIED),
            row(F.GENERATE, 3, 4, 0),
            row(F.READ, 5, 6, 0, outcome=Outcome.FAIL, reason=200),
        ]
    )
    codes = Figure(figure(from_rows(samples.facts(), rows))).about["codes"]
    assert {(code[0], code[2], code[4]) for code in codes} == {
        ("other", "cas", "refused: denied"),
        ("other", "generate", "ok"),
        ("read", "read", "refused: reason 200"),
    }


def test_the_same_history_gives_the_same_figure() -> None:
    assert figure(crowded()) == figure(crowded())
