"""Known histories of semaphores: how many the service let in, and how many were inside."""

from checkers.check import applicable
from checkers.history.view import View
from checkers.properties.permits import MOST_INSIDE
from checkers.tests.build import Book
from checkers.tests.compare import GOOD, known

PERMITS, HOLDERS = "permits", "holder-exclusion"


def three(third: int) -> Book:
    """Two permits, both taken from 4 on; the first is released at 20, a third acquire returns at `third`."""
    book = Book(keys=("a",), permits=2, ttl=100)
    book.acquire(1, 2, 1, token=1).acquire(3, 4, 2, token=2).acquire(5, third, 3, token=3)
    return book.release(20, 21, 1).release(40, 41, 2).release(42, 43, 3)


EMPTY = Book(keys=("a",), permits=3).acquire(1, 2, 1).acquire(3, 4, 2).release(8, 9, 1).release(8, 9, 2)
NOT_ALL = {"unexercised": "no more than 2 inside at once, 3 needed", MOST_INSIDE: 2}

test_permits = known(
    PERMITS,
    ("as many as there are", three(21), GOOD),
    ("one more granted", three(19), {"kind": "too-many-granted", "at": 19, "holders": (0, 1, 2)}),
    ("unexercised until all were taken", EMPTY, NOT_ALL),
)

test_holder_exclusion = known(
    HOLDERS,
    ("one more inside", three(19), {"kind": "too-many-inside", "at": 19, "holders": (0, 1, 2)}),
    ("unexercised until all permits were taken", EMPTY, NOT_ALL),
)


def test_a_semaphore_is_asked_for_permits_and_not_for_exclusion() -> None:
    assert applicable(View(three(21).history()))[:2] == (PERMITS, HOLDERS)
