"""Known histories of semaphores: how many the service let in, and how many were inside."""

from checkers.check import applicable
from checkers.history.view import View
from checkers.tests.build import Book
from checkers.tests.compare import asking

result = asking("permits")


def three(third: int, **facts: object) -> Book:
    """Two permits, both taken from 4 on; the first is released at 20, a third acquire returns at `third`."""
    book = Book(keys=("a",), permits=2, ttl=100, **facts)
    book.acquire(1, 2, 1, token=1).acquire(3, 4, 2, token=2).acquire(5, third, 3, token=3)
    return book.release(20, 21, 1).release(40, 41, 2).release(42, 43, 3)


def test_as_many_as_there_are_permits_may_hold_at_once() -> None:
    assert result(three(21)).valid
    assert result(three(21)).unexercised is None
    assert result(three(21), "holder-exclusion").valid


def test_one_more_than_there_are_permits() -> None:
    (violation,) = result(three(19)).violations
    assert (violation.kind, violation.at, violation.holders) == ("too-many-granted", 19, (0, 1, 2))
    assert violation.story[-1] == "So the service had more grants in force than it has permits."
    (violation,) = result(three(19), "holder-exclusion").violations
    assert (violation.kind, violation.at, violation.holders) == ("too-many-inside", 19, (0, 1, 2))


def test_a_lease_that_ended_frees_its_permit_but_its_holder_is_inside() -> None:
    """Granted after the first lease of 10 was over: right at the service, and one too many inside."""
    book = Book(keys=("a",), permits=2, ttl=10).acquire(1, 2, 1).acquire(10, 11, 2).acquire(12, 13, 3)
    for owner in (1, 2, 3):
        book.release(15, 16, owner)
    assert result(book).valid
    assert [v.kind for v in result(book, "holder-exclusion").violations] == ["too-many-inside"]


def test_unexercised_until_all_permits_were_taken() -> None:
    book = Book(keys=("a",), permits=3).acquire(1, 2, 1).acquire(3, 4, 2).release(8, 9, 1).release(8, 9, 2)
    for name in ("permits", "holder-exclusion"):
        assert result(book, name).unexercised == "no more than 2 inside at once, 3 needed"
        assert result(book, name).counters["most inside at once"] == 2


def test_a_semaphore_is_asked_for_permits_and_not_for_exclusion() -> None:
    assert applicable(View(three(21).history()))[:2] == ("permits", "holder-exclusion")
