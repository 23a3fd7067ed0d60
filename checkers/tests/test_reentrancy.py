"""Known histories of holders that acquire again."""

from typing import Any

import pytest

from checkers.tests.build import FAIL, INFO, OK, Book
from checkers.tests.compare import asking
from checkers.wire import NESTED, Reason

result = asking("reentrancy")


def kinds(book: Book) -> list[str]:
    return [violation.kind for violation in result(book).violations]


def held(**inner: Any) -> Book:
    """Worker 1 holds from 2 to 30, for 100 at most; it acquires again from 4 to 5 and releases that at 8."""
    book = Book(keys=("a",), workload="nested", ttl=100).acquire(1, 2, 1, token=7).release(30, 31, 1)
    book.acquire(4, 5, 1, flags=NESTED, **{"token": 7, **inner})
    return book.release(8, 9, 1, flags=NESTED)


def test_the_same_grant_again() -> None:
    found = result(held().acquire(6, 32, 2).release(33, 34, 2))
    assert found.valid
    assert found.unexercised is None
    assert found.counters["nested acquires"] == 1
    assert found.counters["inner releases that somebody waited for"] == 1


@pytest.mark.parametrize(
    ("reason", "wrong"),
    [(Reason.HELD, True), (Reason.NOT_OWNER, True), (Reason.TIMEOUT, True), (Reason.UNAVAILABLE, False)],
)
def test_refused_to_the_one_that_holds(reason: Reason, wrong: bool) -> None:
    assert kinds(held(outcome=FAIL, reason=reason)) == ["nested-refused"] * wrong


def test_a_timeout_under_a_fault_is_nobodys_refusal() -> None:
    assert kinds(held(outcome=FAIL, reason=Reason.TIMEOUT).fault("cut-client-drop", 3, 4)) == []


def test_another_token() -> None:
    (violation,) = result(held(token=8)).violations
    assert violation.kind == "token-changed"
    assert violation.story[1] == "worker 1's nested acquire, sent at 0.000 s, succeeded with token 8 at 0.000 s"


def test_an_inner_release_that_frees_the_lock() -> None:
    (violation,) = result(held().acquire(6, 12, 2)).violations
    assert (violation.kind, violation.at) == ("freed-by-inner-release", 12)
    assert "worker 1's nested release, sent at" in " ".join(violation.story)
    assert kinds(held().acquire(6, 32, 2)) == []


def test_a_refused_inner_release_frees_nothing() -> None:
    book = Book(keys=("a",), ttl=100).acquire(1, 2, 1).release(30, 31, 1).release(8, 9, 1, FAIL, flags=NESTED)
    assert kinds(book.acquire(6, 12, 2)) == []
    book = Book(keys=("a",), ttl=100).acquire(1, 2, 1).release(30, 31, 1).release(8, 9, 1, INFO, flags=NESTED)
    assert kinds(book.acquire(6, 12, 2)) == ["freed-by-inner-release"]


def test_the_latest_inner_release_is_to_blame_once() -> None:
    book = held().acquire(9, 10, 1, token=7, flags=NESTED).release(10, 11, 1, flags=NESTED)
    (violation,) = result(book.acquire(6, 12, 2)).violations
    assert book.history().columns["inv"][list(violation.rows)].tolist() == [1, 10, 6]


def test_nested_operations_are_part_of_the_outer_hold() -> None:
    """Neither a grant nor a release of its own, and its own hold is no contention."""
    found = result(held().acquire(6, 32, 2).release(33, 34, 2), "server-exclusion")
    assert found.valid
    assert found.counters["grants"] == 2
    assert found.counters["contended acquires"] == 1


def test_unexercised() -> None:
    assert result(Book().acquire(1, 2, 1)).unexercised == "nobody acquired again what it held"
    assert result(held()).unexercised == "nobody waited at an inner release"
    assert result(held(outcome=OK)).valid
