"""How engines for locks, tokens and stores tell what they find. fuzz_locks and fuzz_fenced test that they find it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from checkers.bench.generate import GENERATORS, HistoryShape
from checkers.engines import locks
from checkers.engines.fenced import LOOSE, REPEATED, fenced_store, posed, screened
from checkers.engines.tokens import fencing_tokens
from checkers.models.engine_answer import Engine
from checkers.models.model import Settings
from checkers.models.stores import RULES
from checkers.row_format import FINAL, NONE, F, Outcome, Reason
from checkers.tests.build import FAIL, INFO, OK, Book, cases

PLAIN, STRICT = Settings(), Settings(strict_try=True)


def refused(book: Book, inv: int, ret: int, owner: int, reason: Reason = Reason.HELD) -> Book:
    return book.add(F.TRY_ACQUIRE, inv, ret, FAIL, owner=owner, reason=reason)


def judged(engine: Engine, book: Book, settings: Settings = PLAIN) -> tuple[str, tuple[int, ...]]:
    """(kind, rows) of the only conflict, (why it is undecided, ()), or ("valid", order)."""
    answer = engine(book.history(), settings)
    if answer.conflicts:
        (conflict,) = answer.conflicts
        assert not answer.undecided
        return conflict.kind, conflict.rows
    return (answer.undecided[0], ()) if answer.undecided else ("valid", tuple(answer.order().tolist()))


def tokens(ret: int, second: int) -> Book:
    return Book(keys=("a",)).acquire(1, ret, 1, token=2).acquire(3, 4, 2, token=second)


def released(until: int = 4) -> Book:
    return Book().acquire(1, 2, 7).release(3, until, 7)


AGAIN, STRANGER = "second-acquire", "release-by-another"
PLAIN_ONES = (locks.mutex, locks.rwlock, locks.semaphore)
ALL = (*PLAIN_ONES, locks.reentrant_mutex)
MUTEX, REENTRANT, SEMAPHORE, TOKENS = (locks.mutex,), (locks.reentrant_mutex,), (locks.semaphore,), (fencing_tokens,)
TWO_HOLD = Book().acquire(1, 2, 7).acquire(1, 3, 8).release(4, 5, 7).release(8, 9, 8)
THREE_HOLD = Book().acquire(1, 2, 7).acquire(3, 4, 7).acquire(5, 6, 8).release(8, 9, 7)
TRIED = refused(Book().acquire(1, 2, 7).acquire(3, 4, 8), 5, 6, 9)
FOR_EVER = Book().acquire(1, 2, 7).acquire(5, 6, 8)


@cases(
    "engines, settings, book, kind, rows",
    ("two holds at once", (*MUTEX, *REENTRANT, *SEMAPHORE), PLAIN, TWO_HOLD, "overlap", (0, 2, 3, 1)),
    ("for whom there are permits", SEMAPHORE, Settings(permits=2), TWO_HOLD, "valid", None),
    ("who never released holds for ever", MUTEX, PLAIN, FOR_EVER, "overlap", (0, 1)),
    ("a release without an answer", MUTEX, PLAIN, FOR_EVER.then().release(3, 4, 7, INFO), "valid", None),
    ("a second acquire by the holder", PLAIN_ONES, PLAIN, Book().acquire(1, 2, 7).acquire(3, 4, 7), AGAIN, (0, 1)),
    ("of a reentrant lock", REENTRANT, PLAIN, Book().acquire(1, 2, 7).acquire(3, 4, 7), "valid", None),
    ("a release of what nobody holds", ALL, PLAIN, Book().release(1, 2, 7), STRANGER, (0,)),
    ("a release of what another holds", ALL, PLAIN, Book().acquire(1, 2, 8).release(3, 4, 7), STRANGER, (1,)),
    ("a release of what was released", ALL, PLAIN, released().release(5, 6, 7), STRANGER, (2,)),
    ("a release that was refused", ALL, PLAIN, released().release(5, 6, 7, FAIL), "valid", None),
    ("a refused try is no evidence", MUTEX, PLAIN, refused(released(), 6, 7, 8), "valid", None),
    ("unless that is asked for", MUTEX, STRICT, refused(released(), 6, 7, 8), "refused-while-free", (0, 1, 2)),
    ("refused for another reason", MUTEX, STRICT, refused(released(), 6, 7, 8, Reason.UNAVAILABLE), "valid", None),
    ("refused when it was released", MUTEX, STRICT, refused(released(6), 6, 7, 8), "valid", (0, 2, 1)),
    ("as many as there are permits", SEMAPHORE, Settings(permits=3), THREE_HOLD, "valid", None),
    ("more than there are permits", SEMAPHORE, Settings(permits=2), THREE_HOLD, "too-many", (0, 3, 1, 2)),
    ("refused without a permit left", SEMAPHORE, Settings(permits=2, strict_try=True), TRIED, "valid", None),
    ("with one left", SEMAPHORE, Settings(permits=3, strict_try=True), TRIED, "refused-while-free", None),
    ("tokens must grow", TOKENS, PLAIN, tokens(2, 1), "token-not-larger", (0, 1)),
    ("a token twice", TOKENS, PLAIN, tokens(5, 2), "token-repeated", (0, 1)),
)
def test_locks_and_tokens(
    engines: Sequence[Engine], settings: Settings, book: Book, kind: str, rows: tuple[int, ...] | None
) -> None:
    for engine in engines:
        found = judged(engine, book, settings)
        assert found == (kind, found[1] if rows is None else rows), engine


def test_only_the_key_of_an_owner_with_overlapping_operations_is_left_to_the_search() -> None:
    book = Book().acquire(1, 5, 7).release(3, 6, 7).acquire(1, 2, 8, key=1).acquire(3, 4, 8, key=1)
    answer = locks.mutex(book.history(), Settings())
    assert (list(answer.undecided), [conflict.key for conflict in answer.conflicts]) == ([0], [1])


def only(book: Book, **settings: Any) -> tuple[str, tuple[int, ...]]:
    return judged(fenced_store, book, Settings(**settings))


def store(mode: str) -> Book:
    return Book(store=mode, keys=("a",))


WRITES, READS = "fence-writes", "fence-reads-and-writes"
MODES = (WRITES, f"{WRITES}-strict", READS, f"{READS}-strict")
NOT_LATEST, OVERWRITTEN = "not-the-latest-value", "overwritten-value-read-later"


@pytest.mark.parametrize("mode", MODES)
def test_a_write_below_an_accepted_token_is_reported_with_both_writes(mode: str) -> None:
    book = store(mode).write(1, 2, 1, 10, token=1).write(3, 4, 2, 20, token=2).write(5, 6, 1, 11, token=1)
    kind, rows = only(book)
    assert rows[-1] == 2
    assert kind == ("second-write-accepted" if "strict" in mode else "stale-write-accepted")
    book = store(mode).write(3, 4, 2, 20, token=2).write(5, 6, 1, 11, token=1)
    assert only(book) == ("stale-write-accepted", (0, 1))
    assert only(store(mode).write(3, 5, 2, 20, token=2).write(5, 6, 1, 11, token=1))[0] == "valid"  # a tie


@pytest.mark.parametrize("mode", MODES)
def test_a_refusal_needs_a_reason(mode: str) -> None:
    refused = store(mode).write(5, 6, 1, 11, FAIL, token=1)
    assert only(refused) == ("needless-refusal", (0,))
    assert only(refused.then().write(7, 8, 2, 20, token=2)) == ("needless-refusal", (1, 0))
    assert only(refused.then().write(6, 8, 2, 20, token=2))[0] == "valid"
    assert only(refused.then().write(4, 0, 2, 20, INFO, token=2)) == ("valid", (0, 1))
    assert (only(refused.then().write(1, 2, 1, 10, token=1))[0] == "valid") == mode.endswith("strict")


@pytest.mark.parametrize("mode", MODES)
def test_a_read_of_a_refused_or_unwritten_value_is_reported(mode: str) -> None:
    assert only(store(mode).read(1, 2, 1, 99, token=1)) == ("value-never-written", (0,))
    book = store(mode).write(1, 2, 2, 20, token=2).write(3, 4, 1, 10, FAIL, token=1).read(5, 6, 2, 10, token=2)
    assert only(book) == ("refused-value-read", (1, 2))
    kind, rows = only(store(mode).read(1, 2, 1, 10, token=1).write(3, 4, 1, 10, token=1))
    assert set(rows) <= {0, 1}
    named = {READS: NOT_LATEST, f"{READS}-strict": "second-write-accepted"}
    assert kind == named.get(mode, "value-read-before-write")


def written(mode: str, second: int = 10, ret: int = 4, outcome: Outcome = OK) -> Book:
    """10 is written with token 1, and then `second`, maybe the same value, with token 2."""
    return store(mode).write(1, 2, 1, 10, token=1).write(3, ret, 2, second, outcome, token=2)


OF_TWO_KEYS = Book(store=WRITES).write(1, 2, 1, 10, token=1).write(3, 4, 1, 10, token=1, key=1)
OF_TWO_KEYS.write(5, 6, 1, 11, token=1).write(7, 8, 1, 11, token=1, key=1)
IN_TURN = written(READS).read(5, 6, 2, 10, token=2)
LAST_READ, FITTING = (store(mode).write(1, 5, 1, 10, token=1).write(2, 6, 1, 11, token=1) for mode in (READS, WRITES))
LAST_READ.read(20, 21, 2, 10, token=2)
FITTING.read(7, 8, 1, 10).read(9, 10, 1, 10)
# With a write of 21, both groups above the refusal begin at 5 or later; the lower one has the write that was in time.
LAST = store(READS).read(2, 2, 1, 0, FAIL, token=1).write(2, 8, 2, 20, token=2)
LAST.read(5, 7, 3, 20, token=3).read(5, 6, 2, 20, token=2)
REFUSED_TOO = store(WRITES).write(1, 2, 2, 10, token=2).write(3, 4, 1, 10, FAIL, token=1).read(5, 6, 2, 10)


@cases(
    "book, kind, rows",
    ("what later tokens read was last", LAST, "valid", None),
    ("and explains nothing", LAST.then().write(5, 8, 2, 21, token=2), "needless-refusal", (1, 2, 3, 4, 0)),
    ("overlapping accesses of one token", FITTING, "valid", None),
    ("without an order", FITTING.then().read(11, 12, 1, 11).read(13, 14, 1, 10), "no-order-within-token", None),
    ("what a later token read was last", LAST_READ, "valid", None),
    ("and nothing read before", LAST_READ.then().read(10, 11, 1, 11, token=1), OVERWRITTEN, (0, 2, 3)),
    ("a value twice that nobody read", written(WRITES), "valid", None),
    ("that somebody read", written(WRITES).read(5, 6, 2, 10), REPEATED, None),
    ("that each token wrote once", IN_TURN, "valid", None),
    ("contradicted", IN_TURN.then().write(7, 8, 2, 30, token=2).read(9, 10, 2, 10, token=2), NOT_LATEST, (3, 4)),
    ("that may not have been", written(READS, ret=0, outcome=INFO).read(5, 6, 3, 10, token=3), REPEATED, None),
    ("that was refused", REFUSED_TOO, "valid", None),
    ("a conflict outweighs a doubt", written(WRITES).read(5, 6, 2, 10).read(7, 8, 2, 99), "value-never-written", None),
    ("a final read past the fence", written(READS, 20).read(9, 10, 0, 20, flags=FINAL), "valid", (0, 1, 2)),
    ("another read past the fence", written(READS, 20).read(4, 10, 0, 20), LOOSE, None),
    ("the same values under two keys", OF_TWO_KEYS, "valid", None),
    ("one of them an old one", OF_TWO_KEYS.then().read(9, 10, 1, 10, key=1), "no-order-within-token", (4, 1, 3)),
)
def test_stores(book: Book, kind: str, rows: tuple[int, ...] | None) -> None:
    found = only(book)
    assert found == (kind, found[1] if rows is None else rows)


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


def test_the_rule_of_the_lane_overrides_that_of_the_settings() -> None:
    book = store("fence-writes").write(1, 2, 1, 10, token=1).write(3, 4, 1, 11, token=1)
    assert only(book, store="fence-writes-strict")[0] == "valid"
    unfenced = book.then(store="unfenced")
    assert only(unfenced, store="fence-writes-strict")[0] == "second-write-accepted"
    with pytest.raises(ValueError, match="no rule of a fenced store: 'guarded'"):
        only(unfenced, store="guarded")


@pytest.mark.parametrize("factor", [10**9, 10**16])
def test_tokens_and_values_of_any_size(factor: int) -> None:
    book = store("fence-writes")
    for n in range(300):  # tokens fall: each refused but the first
        book.write(2 * n + 1, 2 * n + 2, 1, (n - 150) * factor, FAIL if n else OK, token=(150 - n) * factor)
    assert only(book)[0] == "valid"
    assert only(book.write(700, 701, 1, 9, token=(-150) * factor))[0] == "stale-write-accepted"


@pytest.mark.parametrize("processes", [2, 50])
def test_the_screen_passes_normal_keys_and_doubts_only_a_bad_one(processes: int) -> None:
    shape = HistoryShape(20_000, processes, 20, unknown=50)
    doubt = screened(*posed(GENERATORS["fenced-store"](shape), Settings(), RULES["fence-writes"]))
    assert not doubt.any()
    bad = GENERATORS["fenced-store"](shape._replace(bad=True, unknown=0))
    doubt = screened(*posed(bad, Settings(), RULES["fence-writes"]))
    assert np.count_nonzero(doubt) == 1
    (conflict,) = fenced_store(bad, Settings()).conflicts
    assert doubt[conflict.key]
    assert {int(bad.columns["key"][row]) for row in conflict.rows} == {conflict.key}
