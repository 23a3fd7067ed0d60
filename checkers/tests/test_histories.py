"""Histories on disk: what is read back, and what is refused. Spans of time, compared with counted moments."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from checkers import row_format
from checkers.claims import Claim, Hazard
from checkers.history.history import DTYPE, BadHistory, from_rows, load, read_recording, save
from checkers.history.interval_sets import Span, clipped, length, moment, united, without
from checkers.row_format import F, Outcome
from checkers.tests.build import FACTS, INFO, Book, cases, message_of

HAZARD = Hazard("recovery", ("cut-*",), "frozen-past-ttl")
# Each of its facts is of another type than the next.
SOME = Book(claims=(Claim("token-order"),), hazards=(HAZARD,), versions={"redis": "8.0.2"}, drift=0.01, fair=True)
SOME.facts = replace(SOME.facts, silences=((3, 9), (12, 20)))
for number in range(1, 20):
    SOME.acquire(10 * number, 10 * number + 1, number, token=number).release(10 * number + 2, 0, number, INFO)
SOME.fault("cut-client-drop", 3, 9, target="c1", owner=4, process=2)


@cases("book", ("some", SOME), ("empty", Book()))
def test_what_was_saved_is_loaded(tmp_path: Path, book: Book) -> None:
    history = book.history()
    save(history, tmp_path / "lane.arrow")
    again = load(tmp_path / "lane.arrow")
    assert (again.facts, again.faults, again.errors) == (history.facts, history.faults, history.errors)
    for name, _ in row_format.FIELDS:
        assert np.array_equal(again.columns[name], history.columns[name])
        assert again.columns[name].dtype == history.columns[name].dtype
    assert [path.name for path in tmp_path.iterdir()] == ["lane.arrow"]


def test_truncated_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "lane.arrow"
    save(SOME.history(), path)
    data = path.read_bytes()
    for size in (0, 1, 7, 8, 100, len(data) // 2, len(data) - 9, len(data) - 1):
        path.write_bytes(data[:size])
        message = message_of(BadHistory, load, path)
        assert str(path) in message
        assert "\n" not in message


def test_a_flipped_bit_is_noticed_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "lane.arrow"
    history = SOME.history()
    save(history, path)
    data, rng = path.read_bytes(), Random(5)
    noticed = 0
    for _ in range(400):
        damaged = bytearray(data)
        damaged[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            again = load(path)
        except BadHistory:
            noticed += 1
        else:  # the bit is padding, or in the schema's second copy
            assert again.facts == history.facts
            assert all(np.array_equal(again.columns[name], history.columns[name]) for name, _ in row_format.FIELDS)
    assert noticed > 200


def test_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "other.arrow"
    table = pa.table({"x": [1, 2]})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(BadHistory, match="not a history of ours"):
        load(path)
    path.write_text("index,inv\n")
    with pytest.raises(BadHistory, match="not a complete Arrow file"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing.arrow")


@cases(
    "book, problem",
    (Book().add(F.READ, 5, 4), "completed before it was invoked"),
    (Book().add(F.READ, 5, 6, key=2), "a key that the lane does not have"),
    (Book().acquire(1, 2, 0), "without an owner"),
    (Book().acquire(1, 2, 3).acquire(4, 5, 3), "two grants share one owner"),
    (Book(lease="session").acquire(1, 2, 3), "without a session"),
)
def test_contradictions(tmp_path: Path, book: Book, problem: str) -> None:
    save(book.history(), tmp_path / "lane.arrow")
    with pytest.raises(BadHistory, match=problem):
        load(tmp_path / "lane.arrow")


@pytest.mark.parametrize(
    "wrong", [{"workers": 0}, {"workers": "5"}, {"permits": 0}, {"properties": [["recovery"]]}, {"silences": [[3]]}]
)
def test_impossible_facts_are_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    save(replace(SOME.history(), facts=replace(FACTS, **wrong)), tmp_path / "lane.arrow")  # type: ignore[arg-type]
    with pytest.raises(BadHistory, match="its description is missing or damaged"):
        load(tmp_path / "lane.arrow")


def test_rows_are_sorted_and_pending_ones_unknown() -> None:
    rows = np.zeros(2, DTYPE)
    rows["inv"], rows["f"], rows["outcome"] = (9, 3), (F.READ, F.WRITE), (Outcome.PENDING, Outcome.OK)
    history = from_rows(FACTS, rows)
    assert history.columns["inv"].tolist() == [3, 9]
    assert history.columns["outcome"].tolist() == [Outcome.OK, Outcome.INFO]
    assert rows["outcome"].tolist() == [Outcome.PENDING, Outcome.OK]


def test_recordings(tmp_path: Path) -> None:
    path = tmp_path / "1.rec"
    rows = np.zeros(3, DTYPE)
    rows["inv"], rows["f"] = (4, 0, 5), (F.READ, 0, 0)
    preamble = row_format.PREAMBLE.pack(row_format.MAGIC, row_format.VERSION, row_format.ROW.size)
    head = preamble.ljust(row_format.HEADER, b"\0")
    path.write_bytes(head + rows.tobytes()[:-5])
    assert read_recording(path)["inv"].tolist() == [4]
    path.write_bytes(head.replace(row_format.MAGIC, b"notours!"))
    with pytest.raises(BadHistory, match="not a recording"):
        read_recording(path)
    path.write_bytes(b"x")
    with pytest.raises(BadHistory, match="shorter"):
        read_recording(path)


def moments(spans: Iterable[Span]) -> set[int]:
    return {at for begin, end in spans for at in range(begin, end)}


def test_spans_agree_with_counted_moments() -> None:
    rng = Random(5)
    for _ in range(2000):
        some, more = ([(at, at + rng.randrange(6)) for at in rng.choices(range(21), k=rng.randint(0, 4))] for _ in "ab")
        assert (moments(united(some)), length(united(some))) == (moments(some), len(moments(some)))
        assert moments(clipped(some, 5, 12)) == moments(some) & set(range(5, 12))
        left = without(united(some), united(more))
        assert (moments(left), length(left)) == (moments(some) - moments(more), len(moments(left)))
        for place, at in enumerate(sorted(moments(left))):
            assert moment(left, place) == at


def test_a_moment_after_the_end_of_all_spans_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        moment([(1, 3)], 2)
