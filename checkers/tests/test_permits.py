"""Known histories of semaphores: how many the service let in, and how many were inside."""

import pytest

from checkers.check import applicable
from checkers.history.view import View
from checkers.properties.exclusion import MOST_INSIDE
from checkers.tests.build import Book, cases
from checkers.tests.compare import GOOD, answers

PERMITS, HOLDERS = "permits", "holder-exclusion"


def three(third: int) -> Book:
    """Two permits, both taken from 4 on; the first is released at 20, a third acquire returns at `third`."""
    book = Book(keys=("a",), permits=2, ttl=100)
    book.acquire(1, 2, 1, token=1).acquire(3, 4, 2, token=2).acquire(5, third, 3, token=3)
    return book.release(20, 21, 1).release(40, 41, 2).release(42, 43, 3)


EMPTY = Book(keys=("a",), permits=3).acquire(1, 2, 1).acquire(3, 4, 2).release(8, 9, 1).release(8, 9, 2)


@cases(
    "name, book, expected",
    ("as many as there are permits", PERMITS, three(21), GOOD),
    ("one more granted", PERMITS, three(19), {"kind": "too-many-granted", "at": 19, "holders": (0, 1, 2)}),
    ("one more inside", HOLDERS, three(19), {"kind": "too-many-inside", "at": 19, "holders": (0, 1, 2)}),
)
def test_permits(name: str, book: Book, expected: dict[str, object]) -> None:
    assert answers(name, book, expected) == expected


@pytest.mark.parametrize("name", [PERMITS, HOLDERS])
def test_unexercised_until_all_permits_were_taken(name: str) -> None:
    expected = {"unexercised": "no more than 2 inside at once, 3 needed", MOST_INSIDE: 2}
    assert answers(name, EMPTY, expected) == expected


def test_a_semaphore_is_asked_for_permits_and_not_for_exclusion() -> None:
    assert applicable(View(three(21).history()))[:2] == (PERMITS, HOLDERS)
