"""Known histories of the store in each mode."""

from typing import Any

import pytest

from checkers.engines import search
from checkers.properties import fenced_store as fencing
from checkers.tests.build import FAIL, INFO, Book, cases
from checkers.tests.compare import asking
from checkers.wire import LATE, SHARED, Reason

result = asking("fenced-store")


def kinds(book: Book) -> list[str]:
    return [violation.kind for violation in result(book).violations]


def stale(store: str, outcome: Any = FAIL, **more: Any) -> Book:
    """Worker 1 (token 1) loses the lock to worker 2 (token 2), who writes 20; then worker 1 writes 10."""
    token: dict[str, Any] = {"token": 1} if store.startswith("fence") else {}
    later: dict[str, Any] = {"token": 2} if token else {}
    book = Book(store=store, keys=("a",), fault_names=more.pop("fault_names", ("none",)))
    book.acquire(1, 2, 1, ttl=5, **token).read(3, 4, 1, -1, **token)
    book.acquire(5, 10, 2, sent=9, ttl=50, **later).write(11, 12, 2, 20, **later)
    return book.write(13, 14, 1, 10, outcome, **token, **more)


@pytest.mark.parametrize("store", ["fence-writes", "fence-writes-strict", "fence-reads-and-writes", "compare-owner"])
def test_a_stale_write_must_be_refused(store: str) -> None:
    good = result(stale(store))
    assert good.valid
    assert good.unexercised is None
    assert good.counters["stale attempts"] == 1
    bad = result(stale(store, outcome=1))
    assert bad.valid is False
    assert len(bad.violations) == 1
    assert bad.violations[0].holders == (0, 2)


def test_a_stale_write_into_an_unfenced_store_is_reported_with_both_grants() -> None:
    (violation,) = result(stale("unfenced", outcome=1)).violations
    assert violation.kind == "stale-write-accepted"
    assert violation.at == 13
    assert violation.holders == (0, 2)
    assert "worker 1's write of 10, sent at 0.000 s, was accepted" in " ".join(violation.story)


def test_holders_that_do_not_exclude_each_other_make_no_write_stale() -> None:
    """Of a semaphore with two permits, and of two readers, both hold when the first one writes."""
    several = Book(store="unfenced", keys=("a",), permits=2).acquire(1, 2, 1, ttl=50).acquire(3, 4, 2, ttl=50)
    readers = Book(store="unfenced", keys=("a",)).acquire(1, 2, 1, ttl=50, flags=SHARED)
    readers.acquire(3, 4, 2, ttl=50, flags=SHARED)
    for book in (several, readers):
        assert result(book.write(5, 6, 1, 10)).valid
    assert kinds(readers.acquire(7, 8, 3, ttl=50).write(9, 10, 1, 11)) == ["stale-write-accepted"], "after a writer"


def test_a_store_without_a_fence_goes_by_time_where_tokens_went_back() -> None:
    """The counter was lost: worker 2 is granted token 3 after worker 1 had token 7."""
    book = Book(store="unfenced", keys=("a",)).acquire(1, 2, 1, ttl=5, token=7).release(6, 7, 1)
    book.acquire(8, 10, 2, ttl=50, token=3).write(11, 12, 2, 20, token=3)
    assert result(book).valid
    assert kinds(book.write(13, 14, 1, 10, token=7)) == ["stale-write-accepted"]


def test_no_stale_attempt_is_unexercised() -> None:
    book = Book(store="fence-writes", keys=("a",)).acquire(1, 2, 1, token=1).write(3, 4, 1, 10, token=1)
    assert result(book).unexercised == "no stale attempts, 1 needed"
    book.release(5, 6, 1).acquire(7, 8, 2, token=2)
    assert result(book.write(9, 10, 1, 11, FAIL, token=1, flags=LATE)).unexercised is None


def test_a_fault_on_the_way_to_the_store_must_meet_a_write() -> None:
    for sent, expected in ((15, None), (25, "delayed-write left no write without an answer")):
        book = stale("fence-writes", fault_names=("delayed-write",)).write(sent, 0, 2, 30, INFO, token=2)
        book.fault("delayed-write", 12, 20, target="requests of clients c2 to the store")
        assert result(book).unexercised == expected


def two(store: str) -> Book:
    return Book(store=store, keys=("a",)).acquire(1, 2, 1, token=1).acquire(3, 4, 2, token=2)


@cases(
    "book, expected",
    ("what a guard of the lock service refuses", stale("guarded"), []),
    ("what a guard of the lock service accepts", stale("guarded", outcome=1), ["stale-write-accepted"]),
    ("an unanswered stale write", stale("unfenced", INFO), []),
    ("and a read that proves it", stale("unfenced", INFO).read(15, 16, 2, 10), ["stale-write-accepted"]),
    (
        "every stale write is reported",
        stale("unfenced", outcome=1).write(15, 16, 1, 11).write(17, 18, 1, 12),
        ["stale-write-accepted"] * 3,
    ),
    # Granting token 2 raises nothing: the store must still accept token 1 until token 2 comes by.
    ("before the bar is up", two("fence-writes").write(9, 10, 1, 11, FAIL, token=1, flags=LATE), ["needless-refusal"]),
)
def test_what_a_store_accepts(book: Book, expected: list[str]) -> None:
    assert kinds(book) == expected


def test_values_that_cannot_be() -> None:
    book = Book(store="fence-writes", keys=("a",)).acquire(1, 2, 1, token=1)
    assert kinds(book.read(3, 4, 1, 99, token=1)) == ["value-never-written"]
    assert "refused-value-read" in kinds(stale("fence-writes").read(15, 16, 2, 10, token=2))


def test_only_refusals_by_the_fence_are_evidence() -> None:
    """A write that never reached the store says nothing about its bar, and was not accepted either."""
    book = Book(store="fence-writes", keys=("a",)).acquire(1, 2, 1, token=1)
    book.write(3, 4, 1, 10, FAIL, token=1, reason=Reason.UNAVAILABLE)
    assert result(book).valid


@pytest.mark.parametrize("store", ["fence-writes", "fence-reads-and-writes", "compare-owner"])
def test_the_final_read_sees_the_last_accepted_write(store: str) -> None:
    assert result(stale(store).final(20, 21, 20)).valid
    assert result(stale(store).final(20, 21, -1)).valid is False


def test_the_owner_is_whoever_came_first_last() -> None:
    book = Book(store="compare-owner", keys=("a",)).acquire(1, 2, 1).acquire(3, 4, 2)
    book.read(5, 6, 1, -1).read(7, 8, 2, -1).write(9, 10, 1, 10, FAIL).write(11, 12, 2, 20).read(13, 14, 1, 20)
    found = result(book)
    assert found.valid
    assert found.proof is not None
    assert found.proof.form == "order"
    assert len(found.proof.rows) == 5


def test_repeated_values_are_searched() -> None:
    book = Book(store="fence-writes", keys=("a",)).acquire(1, 2, 1, token=1).acquire(3, 4, 2, token=2)
    book.write(5, 6, 1, 10, token=1).write(7, 8, 2, 10, token=2).read(9, 10, 2, 10, token=2)
    assert result(book).valid
    assert kinds(book.write(11, 12, 1, 10, token=1)) == ["stale-write-accepted"]
    book = Book(store="fence-writes", keys=("a",)).acquire(1, 2, 1, token=1).write(5, 9, 1, 10, token=1)
    book.write(6, 9, 1, 11, token=1).write(7, 9, 1, 10, token=1)
    assert result(book.read(10, 11, 1, 11).read(12, 13, 1, 11)).valid
    assert kinds(book.read(14, 15, 1, 10)) == ["no-order"]


def test_a_search_that_is_too_long_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    limited = lambda ops, model: search.search(ops, model, seconds=0)  # noqa: E731
    monkeypatch.setattr(fencing, "search", limited)
    book = stale("compare-owner")
    assert result(book).valid is None
    assert "budget" in str(result(book).reason)


def test_an_unknown_store_mode_is_unknown() -> None:
    assert result(stale("of-tomorrow")).valid is None
    assert result(stale("guarded")).unexercised is None


@pytest.mark.parametrize("store", ["compare-and-set", "idempotency-key"])
def test_a_store_that_looks_at_the_state_alone_knows_no_stale_holder(store: str) -> None:
    assert result(stale(store, outcome=1)).valid
    assert result(stale(store)).unexercised == f"the store mode {store} knows no holders"
