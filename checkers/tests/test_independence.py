"""Known histories of two locks that a service takes for one."""

from typing import Any

from checkers.tests.build import Book
from checkers.tests.compare import asking
from checkers.wire import NESTED, F

BOUND = 5

result = asking("independence")


def held(**facts: Any) -> Book:
    """Worker 1 holds lock a from 2 to 20."""
    book = Book(**{"bounds": {"independence": BOUND}, "ttl": 100, **facts})
    return book.acquire(1, 2, 1).release(20, 21, 1)


def test_a_free_lock_that_is_given_at_once() -> None:
    found = result(held().acquire(3, 8, 2, key=1).release(9, 10, 2, key=1))
    assert found.valid
    assert found.unexercised is None
    assert found.counters["acquires of a free lock while another was held"] == 1


def test_a_free_lock_that_comes_with_the_release_of_another() -> None:
    (violation,) = result(held().acquire(3, 22, 2, key=1)).violations
    assert (violation.kind, violation.at, violation.holders) == ("kept-by-another-name", 8, (0,))
    assert "worker 1 was granted a at" in violation.story[0]
    assert violation.story[1].startswith("worker 2's acquire of b, sent at")


def test_a_fault_or_a_stall_may_make_it_late() -> None:
    assert result(held().acquire(3, 22, 2, key=1).fault("cut-client-drop", 4, 5)).valid
    assert result(held().acquire(3, 22, 2, key=1).add(F.STALL, 4, 5, process=2)).valid
    assert not result(held().acquire(3, 22, 2, key=1).add(F.STALL, 4, 5, process=3)).valid


def test_what_shows_nothing() -> None:
    assert result(held().acquire(22, 23, 2, key=1)).unexercised == "nobody asked for a free lock while another was held"
    assert result(held(bounds={}).acquire(3, 4, 2, key=1)).unexercised == "the lock declares no bound"
    assert result(held().acquire(3, 30, 1, flags=NESTED, key=1)).valid
