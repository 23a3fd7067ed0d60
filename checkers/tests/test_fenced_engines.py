"""Engines for fencing tokens and fenced stores: what they find, in words and rows, and that both forms are the same."""

from dataclasses import replace
from typing import Any

import pytest

from checkers.engines.fenced import LOOSE, REPEATED, fenced_store
from checkers.engines.tokens import fencing_tokens
from checkers.models.engine_answer import EngineAnswer
from checkers.models.model import Settings
from checkers.row_format import FINAL, NONE
from checkers.tests.build import FAIL, INFO, OK, Book

MODES = ("fence-writes", "fence-writes-strict", "fence-reads-and-writes", "fence-reads-and-writes-strict")


def judge(book: Book, **settings: Any) -> EngineAnswer:
    return fenced_store(book.history(), Settings(**settings))


def only(book: Book) -> tuple[str, tuple[int, ...]]:
    (conflict,) = judge(book).conflicts
    return conflict.kind, conflict.rows


def store(mode: str, **facts: Any) -> Book:
    return Book(store=mode, keys=("a",), **facts)


@pytest.mark.parametrize("mode", MODES)
def test_a_write_below_an_accepted_one_with_both_as_proof(mode: str) -> None:
    book = store(mode).write(1, 2, 1, 10, token=1).write(3, 4, 2, 20, token=2).write(5, 6, 1, 11, token=1)
    kind, rows = only(book)
    assert rows[-1] == 2
    assert kind == ("second-write-accepted" if "strict" in mode else "stale-write-accepted")
    book = store(mode).write(3, 4, 2, 20, token=2).write(5, 6, 1, 11, token=1)
    assert only(book) == ("stale-write-accepted", (0, 1))
    assert not judge(store(mode).write(3, 5, 2, 20, token=2).write(5, 6, 1, 11, token=1)).conflicts  # a tie


@pytest.mark.parametrize("mode", MODES)
def test_a_refusal_needs_a_reason(mode: str) -> None:
    refused = store(mode).write(5, 6, 1, 11, FAIL, token=1)
    assert only(refused) == ("needless-refusal", (0,))
    late = store(mode).write(5, 6, 1, 11, FAIL, token=1).write(7, 8, 2, 20, token=2)
    assert only(late) == ("needless-refusal", (1, 0))
    assert not judge(store(mode).write(5, 6, 1, 11, FAIL, token=1).write(6, 8, 2, 20, token=2)).conflicts
    unknown = store(mode).write(5, 6, 1, 11, FAIL, token=1).write(4, 0, 2, 20, INFO, token=2)
    answer = judge(unknown)
    assert not answer.conflicts
    assert answer.order().tolist() == [0, 1]
    equal = store(mode).write(1, 2, 1, 10, token=1).write(5, 6, 1, 11, FAIL, token=1)
    assert (judge(equal).conflicts == ()) == mode.endswith("strict")


def test_a_write_that_later_tokens_read_was_last_and_explains_nothing() -> None:
    """Both groups above can begin at 5: that of the lower token is the one whose write was in time."""
    book = store("fence-reads-and-writes").read(2, 2, 1, 0, FAIL, token=1).write(2, 8, 2, 20, token=2)
    book.read(5, 7, 3, 20, token=3).read(5, 6, 2, 20, token=2)
    assert not judge(book).conflicts
    assert only(book.write(5, 8, 2, 21, token=2)) == ("needless-refusal", (1, 2, 3, 4, 0))


def test_a_read_of_what_was_refused_or_never_written() -> None:
    for mode in MODES:
        assert only(store(mode).read(1, 2, 1, 99, token=1)) == ("value-never-written", (0,))
        book = store(mode).write(1, 2, 2, 20, token=2).write(3, 4, 1, 10, FAIL, token=1).read(5, 6, 2, 10, token=2)
        assert only(book) == ("refused-value-read", (1, 2))
        kind, rows = only(store(mode).read(1, 2, 1, 10, token=1).write(3, 4, 1, 10, token=1))
        assert set(rows) <= {0, 1}
        assert kind == {
            "fence-reads-and-writes": "not-the-latest-value",
            "fence-reads-and-writes-strict": "second-write-accepted",
        }.get(mode, "value-read-before-write")


def test_overlapping_accesses_of_one_token() -> None:
    book = store("fence-writes").write(1, 5, 1, 10, token=1).write(2, 6, 1, 11, token=1)
    assert not judge(book.read(7, 8, 1, 10).read(9, 10, 1, 10)).conflicts
    kind, rows = only(book.read(11, 12, 1, 11).read(13, 14, 1, 10))
    assert kind == "no-order-within-token"
    assert {4, 5} <= set(rows)


def test_what_later_tokens_read_was_last() -> None:
    book = store("fence-reads-and-writes").write(1, 5, 1, 10, token=1).write(2, 6, 1, 11, token=1)
    assert not judge(book.read(20, 21, 2, 10, token=2)).conflicts
    kind, rows = only(book.read(10, 11, 1, 11, token=1))
    assert (kind, rows) == ("overwritten-value-read-later", (0, 2, 3))


def test_repeated_values_matter_only_where_they_leave_a_choice() -> None:
    twice = store("fence-writes").write(1, 2, 1, 10, token=1).write(3, 4, 2, 10, token=2)
    assert judge(twice).undecided == {}
    assert judge(twice.read(5, 6, 2, 10)).undecided == {0: REPEATED}
    in_turn = store("fence-reads-and-writes").write(1, 2, 1, 10, token=1).write(3, 4, 2, 10, token=2)
    assert judge(in_turn.read(5, 6, 2, 10, token=2)).undecided == {}
    assert only(in_turn.write(7, 8, 2, 30, token=2).read(9, 10, 2, 10, token=2)) == ("not-the-latest-value", (3, 4))
    unknown = store("fence-reads-and-writes").write(1, 2, 1, 10, token=1).write(3, 0, 2, 10, INFO, token=2)
    assert judge(unknown.read(5, 6, 3, 10, token=3)).undecided == {0: REPEATED}
    refused = store("fence-writes").write(1, 2, 2, 10, token=2).write(3, 4, 1, 10, FAIL, token=1).read(5, 6, 2, 10)
    assert judge(refused).undecided == {}


def test_a_conflict_outweighs_a_doubt() -> None:
    book = store("fence-writes").write(1, 2, 1, 10, token=1).write(3, 4, 2, 10, token=2).read(5, 6, 2, 10)
    answer = judge(book.read(7, 8, 2, 99))
    assert [conflict.kind for conflict in answer.conflicts] == ["value-never-written"]
    assert not answer.undecided


def test_reads_past_the_fence() -> None:
    book = store("fence-reads-and-writes").write(1, 2, 1, 10, token=1).write(3, 4, 2, 20, token=2)
    good = judge(replace_flags(book.read(9, 10, 0, 20)))
    assert (good.conflicts, good.undecided) == ((), {})
    assert good.order().tolist() == [0, 1, 2]
    book = store("fence-reads-and-writes").write(1, 2, 1, 10, token=1).write(3, 4, 2, 20, token=2).read(4, 10, 0, 20)
    assert judge(book).undecided == {0: LOOSE}


def replace_flags(book: Book) -> Book:
    *others, last = book.rows
    book.rows = [*others, (*last[:-1], FINAL)]
    return book


def test_values_of_files_from_elsewhere() -> None:
    book = store("").read(1, 2, 1, 0, token=1).write(3, 4, 1, 1, token=1).read(5, 6, 1, NONE, token=1)
    history = replace(book.history(), values=(None, "x"))
    answer = fenced_store(history, Settings())
    assert not answer.conflicts
    assert answer.order().tolist() == [0, 1, 2]  # a read without a value says nothing, but was answered
    (conflict,) = fenced_store(history, Settings(initial="x")).conflicts
    assert conflict.rows == (0,)
    assert not fenced_store(history, Settings(initial="x", nil_read="unknown")).conflicts
    assert fenced_store(history, Settings(store="fence-reads-and-writes")).undecided == {0: LOOSE}


def test_the_lane_knows_its_rule_better_than_the_settings() -> None:
    book = store("fence-writes").write(1, 2, 1, 10, token=1).write(3, 4, 1, 11, token=1)
    assert not judge(book, store="fence-writes-strict").conflicts
    book.facts = replace(book.facts, store="unfenced")
    assert judge(book, store="fence-writes-strict").conflicts
    with pytest.raises(ValueError, match="no rule of a fenced store: 'guarded'"):
        judge(book, store="guarded")


@pytest.mark.parametrize("factor", [10**9, 10**16])
def test_tokens_and_values_of_any_size(factor: int) -> None:
    book = store("fence-writes")
    for n in range(300):  # tokens fall: each refused but the first
        outcome = OK if n == 0 else FAIL
        book.write(2 * n + 1, 2 * n + 2, 1, (n - 150) * factor, outcome, token=(150 - n) * factor)
    assert not judge(book).conflicts
    assert only(book.write(700, 701, 1, 9, token=(-150) * factor))[0] == "stale-write-accepted"


def test_tokens_must_grow_in_real_time() -> None:
    for book, kind in (
        (Book(keys=("a",)).acquire(1, 2, 1, token=2).acquire(3, 4, 2, token=1), "token-not-larger"),
        (Book(keys=("a",)).acquire(1, 5, 1, token=2).acquire(3, 4, 2, token=2), "token-repeated"),
    ):
        (conflict,) = fencing_tokens(book.history(), Settings()).conflicts
        assert (conflict.kind, conflict.rows) == (kind, (0, 1))
