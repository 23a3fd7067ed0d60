"""Timelines: what is packed can be unpacked to what was recorded, is small, and no string of a history breaks out."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from markupsafe import Markup

from checkers.history import History, from_rows
from checkers.wire import NONE, F, Outcome, Reason
from results.pages import packing, timeline
from results.pages.focus import Focus
from results.pages.holds import holds
from results.pages.packing import BASE, ERROR, HOLD, TICK, TOKEN, VALUE, Packed
from results.tests import samples
from results.tests.samples import MS, START, row

MICROSECONDS = 2 * TICK  # one for rounding, one for what moved to keep the order


@dataclass
class Operation:
    worker: int
    process: int
    inv: int
    ret: int | None
    code: tuple[int, ...]
    key: int | None = None
    token: int | None = None
    value: int | None = None
    base: int | None = None
    error: str = ""
    hold: tuple[int, int | None, bool] | None = None  # end, lease, open


def unpack(packed: Packed, workers: int) -> list[Operation]:
    """As `timeline-data.js` does it, operation by operation. Times in ns since the origin."""
    data = zlib.decompress(base64.b64decode(packed.data), -zlib.MAX_WBITS)
    columns: dict[str, Iterator[int]] = {}
    at = 0
    for name, length, width in packed.columns:
        planes = np.frombuffer(data, np.uint8, length * width, at).reshape(width, length).astype(np.uint64)
        columns[name] = iter(
            [int(sum(int(plane[i]) << 8 * n for n, plane in enumerate(planes))) for i in range(length)]
        )
        at += length * width
    assert at == len(data)
    found = []
    for worker, _, size in packed.threads:
        now = token = value = generation = 0
        for _ in range(size):
            code = packed.codes[next(columns["code"])]
            bits = code[-1]
            inv = now + signed(next(columns["gap"]))
            lasted = next(columns["lasted"])
            now = inv + max(lasted - 1, 0)
            generation += signed(next(columns["generation"]))
            ret = None if lasted == 0 else now * TICK
            one = Operation(worker, generation * workers + worker, inv * TICK, ret, code[:-1])
            if "key" in columns:
                one.key = next(columns["key"])
            if bits & TOKEN:
                one.token = token = wrapped(token + signed(next(columns["token"])))
            if bits & BASE:
                one.base = wrapped(value + signed(next(columns["base"])))
            if bits & VALUE:
                one.value = value = wrapped(value + signed(next(columns["value"])))
            if bits & ERROR:
                one.error = packed.errors[next(columns["error"])]
            if bits & HOLD:
                end, lease = now + next(columns["held"]), next(columns["lease"])
                left = signed(lease) - (signed(lease) > 0)
                one.hold = end * TICK, (now + left) * TICK if lease else None, bool(next(columns["open"]))
            found.append(one)
    assert all(next(rest, None) is None for rest in columns.values())
    return found


def signed(number: int) -> int:
    return -(number + 1) // 2 if number % 2 else number // 2


def wrapped(number: int) -> int:
    """As 64 bits with a sign."""
    return (number + 2**63) % 2**64 - 2**63


def by_row(packed: Packed, workers: int) -> list[Operation]:
    """In the order of the history, told from the times and the order of the threads alone."""
    return sorted(unpack(packed, workers), key=lambda one: one.inv)


def crowded() -> History:
    """Many operations within the same microseconds, of four workers; some overlap, some never return."""
    generator = np.random.default_rng(7)
    size = 4000
    rows = samples.rows_of([row(F.READ, 0, 1, 0)] * size)
    rows["inv"] = START + np.sort(generator.integers(0, 20_000_000, size))
    rows["ret"] = rows["inv"] + generator.integers(0, 40_000, size)
    rows["process"] = generator.integers(0, 40, size)
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
        found: dict[str, Any] = json.loads(self.scripts["application/json"])
        return found


@pytest.mark.parametrize("name", HISTORIES)
def test_every_operation_comes_back_in_its_place(name: str) -> None:
    history = HISTORIES[name]()
    c, workers = history.columns, history.facts.workers
    found = by_row(packing.pack(history, holds(history), START), workers)
    assert len(found) == len(history)
    inv, ret = (np.asarray(c[name], np.int64) - START for name in ("inv", "ret"))
    for at, one in enumerate(found):
        assert one.process == c["process"][at]
        assert one.worker == one.process % workers
        assert one.code == tuple(int(c[name][at]) for name in ("f", "outcome", "reason", "flags"))
        assert 0 <= one.inv - inv[at] // TICK * TICK <= MICROSECONDS
        assert (one.ret is None) == (c["ret"][at] == 0)
        if one.ret is not None:
            assert abs(one.ret - ret[at]) <= MICROSECONDS
        assert one.error == history.errors[c["error"][at]]
        assert (NONE if one.token is None else one.token) == c["token"][at]
        if len(history.facts.keys) > 1:
            assert one.key == c["key"][at]
        if one.code[0] == F.WRITE or (one.code[0] == F.READ and one.code[1] == Outcome.OK):
            assert (NONE if one.value is None else one.value) == c["value"][at]
        else:
            assert one.value is None
        if one.code[0] == F.WRITE:
            assert (NONE if one.base is None else one.base) == c["base"][at]


@pytest.mark.parametrize("name", HISTORIES)
def test_every_hold_comes_back(name: str) -> None:
    history = HISTORIES[name]()
    held = holds(history)
    found = by_row(packing.pack(history, held, START), history.facts.workers)
    assert [at for at, one in enumerate(found) if one.hold] == sorted(held.acquire)
    for place, at in enumerate(held.acquire):
        hold = found[at].hold
        assert hold is not None
        end, lease, open_ = hold
        assert abs(end - (held.end[place] - START)) <= MICROSECONDS
        assert (lease is None) == (held.lease[place] == 0)
        assert lease is None or abs(lease - (held.lease[place] - START)) <= MICROSECONDS
        assert open_ == held.open[place]


def test_threads_have_the_order_of_the_script() -> None:
    threads = packing.pack(crowded(), holds(crowded()), START).threads
    assert [(worker, sort) for worker, sort, _ in threads] == [(w, s) for w in range(4) for s in range(3)]
    assert sum(size for *_, size in threads) == 4000


def test_a_large_lane_is_small() -> None:
    history = samples.long(20_000)
    jitter = np.random.default_rng(3).integers(0, 900_000, len(history))
    noisy = replace(history, columns={**history.columns, "ret": history.columns["ret"] + jitter})
    packed = packing.pack(noisy, holds(noisy), START)
    assert len(packed.data) / len(noisy) < 8


def test_error_texts_stand_once_and_the_rarest_are_told_as_one() -> None:
    errors = ("", "often", "often", *(f"error {n}" for n in range(600)), "long" * 1000, "long" * 1000)
    rows = samples.rows_of(
        [row(F.READ, n, n + 0.5, 0, outcome=Outcome.FAIL, error=n % 3) for n in range(300)]
        + [row(F.READ, 300 + n, 300.5 + n, 0, outcome=Outcome.FAIL, error=3 + n) for n in range(602)]
    )
    history = from_rows(samples.facts(workers=1), rows, errors=errors)
    packed = packing.pack(history, holds(history), START)
    assert packed.errors[:2] == ["", "often"]
    assert len(packed.errors) == packing.MOST_ERRORS + 2
    assert max(map(len, packed.errors)) <= packing.LONGEST_ERROR
    told = [one.error for one in by_row(packed, 1)]
    assert told[:6] == ["", "often", "often"] * 2
    assert told[-3] == packed.errors[-1]
    assert told[-2] == told[-1] == packed.errors[2]
    assert told[-1].startswith("longlong")


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
    words = [code[3] + code[4] for code in about["codes"]]
    assert "writeok" in words
    assert "acquirerefused: timeout" in words
    assert len(read.scripts["application/octet-stream"]) < 10 * len(history)


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
    assert [attrs.get("type") for tag, attrs in read.tags if tag == "script"] == [
        "application/json",
        "application/octet-stream",
    ]
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
    assert {(code[0], code[3], code[4]) for code in codes} == {
        ("other", "cas", "refused: denied"),
        ("other", "generate", "ok"),
        ("read", "read", "refused: reason 200"),
    }


def test_the_same_history_gives_the_same_figure() -> None:
    assert figure(crowded()) == figure(crowded())


def test_differences_are_folded_as_the_script_unfolds_them() -> None:
    numbers: npt.NDArray[np.int64] = np.array([0, -1, 1, -2, 2**62, -(2**63)], np.int64)
    folded = packing._zigzag(numbers).view(np.uint64)
    assert [signed(int(number)) for number in folded] == numbers.tolist()
