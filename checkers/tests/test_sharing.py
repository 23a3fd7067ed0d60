"""Known histories of readers and writers."""

import pytest

from checkers.tests.build import FAIL, Book
from checkers.tests.compare import asking
from checkers.wire import SHARED, F, Reason

result = asking("sharing")


def kinds(book: Book, name: str) -> list[str]:
    return [violation.kind for violation in result(book, name).violations]


def reading() -> Book:
    """Workers 1 and 2 read, both inside from 4 to 20."""
    book = Book(keys=("a",), workload="share", ttl=100)
    book.acquire(1, 2, 1, flags=SHARED).acquire(3, 4, 2, flags=SHARED)
    return book.release(20, 21, 1, flags=SHARED).release(20, 22, 2, flags=SHARED)


def refused(inv: int, ret: int, reason: Reason = Reason.TIMEOUT, book: Book | None = None) -> Book:
    return (book or reading()).acquire(inv, ret, 0, process=3, outcome=FAIL, flags=SHARED, reason=reason)


def test_readers_inside_together() -> None:
    found = result(reading())
    assert found.valid
    assert found.unexercised is None
    assert found.counters["most readers inside at once"] == 2
    alone = Book(keys=("a",)).acquire(1, 2, 1, flags=SHARED).release(3, 4, 1, flags=SHARED)
    assert result(alone).unexercised == "no more than 1 readers inside at once, 2 needed"


@pytest.mark.parametrize("reason", [Reason.HELD, Reason.TIMEOUT])
def test_a_reader_that_only_readers_can_have_kept_out(reason: Reason) -> None:
    (violation,) = result(refused(6, 9, reason)).violations
    assert (violation.kind, violation.at, violation.holders) == ("reader-refused", 9, (0, 1))
    assert "worker 1 was granted the lock for reading at" in violation.story[0]
    assert violation.story[-2].startswith("worker 3's shared acquire")


def test_no_connection_is_no_refusal() -> None:
    assert result(refused(6, 9, Reason.UNAVAILABLE)).valid


def test_a_timeout_under_a_fault_or_a_stall_is_nobodys_refusal() -> None:
    def under(reason: Reason) -> Book:
        return refused(10, 20, reason).fault("cut-client-drop", 2, 9)

    assert result(under(Reason.TIMEOUT)).valid is False
    book = under(Reason.TIMEOUT)
    book.facts = Book(bounds={"recovery": 3}).facts
    assert result(book).valid
    assert result(refused(6, 9).add(F.STALL, 5, 6, process=3)).valid
    assert result(refused(6, 9).add(F.STALL, 5, 6, process=2)).valid is False
    assert result(refused(10, 20, Reason.HELD).fault("cut-client-drop", 2, 11)).valid is False


# Exclusion among readers and writers


def test_readers_exclude_writers_but_no_readers() -> None:
    assert result(reading(), "server-exclusion").valid
    assert result(reading(), "holder-exclusion").valid
    book = reading().acquire(18, 19, 4).release(30, 31, 4)
    assert kinds(book, "server-exclusion") == ["granted-while-held", "granted-while-held"]
    assert kinds(book, "holder-exclusion") == ["overlap", "overlap"]
    book = reading().acquire(18, 23, 4).release(30, 31, 4).acquire(25, 26, 1 + 4, flags=SHARED)
    assert kinds(book, "server-exclusion") == ["granted-while-held"]


def test_a_writer_waits_for_all_readers_before_it_by_token() -> None:
    """The second reader's lease is over early; the first one's is not."""

    def book(written: int) -> Book:
        result = Book(keys=("a",)).acquire(1, 2, 1, ttl=50, token=1, flags=SHARED)
        result.acquire(3, 4, 2, ttl=5, token=2, flags=SHARED)
        return result.acquire(5, written, 3, ttl=5, token=3)

    assert kinds(book(50), "server-exclusion") == ["granted-while-held"]
    assert result(book(51), "server-exclusion").valid


def test_readers_may_share_a_token_and_nobody_else() -> None:
    def book(first: int, second: int) -> Book:
        result = Book(keys=("a",)).acquire(1, 2, 1, token=5, flags=first)
        return result.acquire(3, 4, 2, token=5, flags=second)

    assert result(book(SHARED, SHARED), "token-order").valid
    assert kinds(book(SHARED, 0), "token-order") == ["token-repeated"]
    assert kinds(book(0, SHARED), "token-order") == ["token-repeated"]
    larger = Book(keys=("a",)).acquire(1, 2, 1, token=5, flags=SHARED).acquire(3, 4, 2, token=4, flags=SHARED)
    assert kinds(larger, "token-order") == ["token-not-larger"]


def test_a_reader_among_readers_contends_with_nobody() -> None:
    assert result(reading(), "server-exclusion").counters["contended acquires"] == 0
    assert result(reading().acquire(10, 23, 4), "server-exclusion").counters["contended acquires"] == 1
