"""Engines for locks, tokens and stores: how they tell what they find. That they find it: fuzz_locks, fuzz_fenced."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from checkers.bench.generate import GENERATORS, HistoryShape
from checkers.engines import locks
from checkers.engines.fenced import LOOSE, REPEATED, fenced_store, posed, screened
from checkers.engines.tokens import fencing_tokens
from checkers.models.engine_answer import Engine, EngineAnswer
from checkers.models.model import Settings
from checkers.models.stores import RULES
from checkers.row_format import FINAL, NONE, F, Reason
from checkers.tests.build import FAIL, INFO, OK, Book

PLAIN, STRICT = Settings(), Settings(strict_try=True)


def refused(book: Book, inv: int, ret: int, owner: int, reason: Reason = Reason.HELD) -> Book:
    return book.add(F.TRY_ACQUIRE, inv, ret, FAIL, owner=owner, reason=reason)


def judged(engine: Engine, book: Book, settings: Settings = PLAIN) -> tuple[str, tuple[int, ...]]:
    """(kind, rows) of the only conflict, ("undecided", ()), or ("valid", order)."""
    answer = engine(book.history(), settings)
    if answer.conflicts:
        (conflict,) = answer.conflicts
        return conflict.kind, conflict.rows
    return ("undecided", ()) if answer.undecided else ("valid", tuple(answer.order().tolist()))


def test_two_holds_at_once_are_told_with_their_four_events() -> None:
    book = Book().acquire(1, 2, 7).acquire(1, 3, 8).release(4, 5, 7).release(8, 9, 8)
    assert judged(locks.mutex, book) == ("overlap", (0, 2, 3, 1))
    assert judged(locks.reentrant_mutex, book) == ("overlap", (0, 2, 3, 1))
    assert judged(locks.semaphore, book) == ("overlap", (0, 2, 3, 1))
    assert judged(locks.semaphore, book, Settings(permits=2))[0] == "valid"


def test_who_never_released_holds_for_ever() -> None:
    book = Book().acquire(1, 2, 7).acquire(5, 6, 8)
    assert judged(locks.mutex, book) == ("overlap", (0, 1))
    book.release(3, 4, 7, INFO)
    assert judged(locks.mutex, book)[0] == "valid"


@pytest.mark.parametrize("engine", [locks.mutex, locks.rwlock, locks.semaphore])
def test_a_second_acquire_by_the_holder_is_a_verdict(engine: Engine) -> None:
    book = Book().acquire(1, 2, 7).acquire(3, 4, 7)
    assert judged(engine, book)[0] == "second-acquire"
    assert judged(engine, book)[1] == (0, 1)
    assert judged(locks.reentrant_mutex, book)[0] == "valid"


@pytest.mark.parametrize("engine", [locks.mutex, locks.rwlock, locks.semaphore, locks.reentrant_mutex])
def test_a_release_by_somebody_who_holds_nothing_is_a_verdict(engine: Engine) -> None:
    assert judged(engine, Book().release(1, 2, 7)) == ("release-by-another", (0,))
    book = Book().acquire(1, 2, 8).release(3, 4, 7)
    assert judged(engine, book) == ("release-by-another", (1,))
    assert judged(engine, Book().acquire(1, 2, 7).release(3, 4, 7).release(5, 6, 7)) == ("release-by-another", (2,))
    assert judged(engine, Book().acquire(1, 2, 7).release(3, 4, 7).release(5, 6, 7, FAIL))[0] == "valid"


def test_an_owner_whose_operations_overlap_is_left_to_the_search_and_no_other_key_with_it() -> None:
    book = Book().acquire(1, 5, 7).release(3, 6, 7).acquire(1, 2, 8, key=1).acquire(3, 4, 8, key=1)
    answer = locks.mutex(book.history(), Settings())
    assert list(answer.undecided) == [0]
    assert [conflict.key for conflict in answer.conflicts] == [1]


def test_a_refused_try_is_evidence_only_if_asked_for_and_refused_because_held() -> None:
    book = refused(Book().acquire(1, 2, 7).release(3, 4, 7), 6, 7, 8)
    assert judged(locks.mutex, book)[0] == "valid"
    assert judged(locks.mutex, book, STRICT) == ("refused-while-free", (0, 1, 2))
    other = refused(Book().acquire(1, 2, 7).release(3, 4, 7), 6, 7, 8, Reason.UNAVAILABLE)
    assert judged(locks.mutex, other, STRICT)[0] == "valid"
    met = refused(Book().acquire(1, 2, 7).release(3, 6, 7), 6, 7, 8)
    assert judged(locks.mutex, met, STRICT) == ("valid", (0, 2, 1))


def test_permits_are_counted() -> None:
    book = Book().acquire(1, 2, 7).acquire(3, 4, 7).acquire(5, 6, 8).release(8, 9, 7)
    assert judged(locks.semaphore, book, Settings(permits=3))[0] == "valid"
    kind, rows = judged(locks.semaphore, book, Settings(permits=2))
    assert kind == "too-many"
    assert set(rows) == {0, 1, 2, 3}
    tried = refused(Book().acquire(1, 2, 7).acquire(3, 4, 8), 5, 6, 9)
    assert judged(locks.semaphore, tried, Settings(permits=2, strict_try=True))[0] == "valid"
    assert judged(locks.semaphore, tried, Settings(permits=3, strict_try=True))[0] == "refused-while-free"


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
    good = judge(book.read(9, 10, 0, 20, flags=FINAL))
    assert (good.conflicts, good.undecided) == ((), {})
    assert good.order().tolist() == [0, 1, 2]
    book = store("fence-reads-and-writes").write(1, 2, 1, 10, token=1).write(3, 4, 2, 20, token=2).read(4, 10, 0, 20)
    assert judge(book).undecided == {0: LOOSE}


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


# The first look: what is normal passes, and nothing else does, of whatever size.


def test_a_value_of_two_keys_is_no_reason_to_pass_either() -> None:
    book = Book(store="fence-writes").write(1, 2, 1, 10, token=1).write(3, 4, 1, 10, token=1, key=1)
    book.write(5, 6, 1, 11, token=1).write(7, 8, 1, 11, token=1, key=1)
    assert not fenced_store(book.history(), Settings()).conflicts
    book.read(9, 10, 1, 10, key=1)
    (conflict,) = fenced_store(book.history(), Settings()).conflicts
    assert conflict.key == 1


@pytest.mark.parametrize("processes", [2, 50])
def test_what_is_normal_passes_and_what_is_not_is_judged_alone(processes: int) -> None:
    shape = HistoryShape(20_000, processes, 20, unknown=50)
    history = GENERATORS["fenced-store"](shape)
    doubt = screened(*posed(history, Settings(), RULES["fence-writes"]))
    assert not doubt.any()
    bad = GENERATORS["fenced-store"](shape._replace(bad=True, unknown=0))
    doubt = screened(*posed(bad, Settings(), RULES["fence-writes"]))
    assert np.count_nonzero(doubt) == 1
    (conflict,) = fenced_store(bad, Settings()).conflicts
    assert doubt[conflict.key]
    assert {int(bad.columns["key"][row]) for row in conflict.rows} == {conflict.key}
