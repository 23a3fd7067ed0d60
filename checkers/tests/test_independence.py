"""Known histories of two locks that a service takes for one."""

from typing import Any

from checkers.properties.independence import BESIDE
from checkers.row_format import NESTED, F
from checkers.tests.build import Book, cases
from checkers.tests.compare import GOOD, INVALID, VALID, answers, result_on

NAME = "independence"


def held(**facts: Any) -> Book:
    """Worker 1 holds lock a from 2 to 20; the bound is 5."""
    book = Book(**{"bounds": {NAME: 5}, "ttl": 100, **facts})
    return book.acquire(1, 2, 1).release(20, 21, 1)


def late() -> Book:
    """Lock b comes with the release of a."""
    return held().acquire(3, 22, 2, key=1)


KEPT = {"kind": "kept-by-another-name", "at": 8, "holders": (0,)}
NOBODY = {"unexercised": "nobody asked for a free lock while another was held"}
NO_BOUND = {"unexercised": "the lock declares no bound"}


@cases(
    "book, expected",
    ("given at once", held().acquire(3, 8, 2, key=1).release(9, 10, 2, key=1), {**GOOD, BESIDE: 1}),
    ("with the release of another", late(), KEPT),
    ("late by a fault", late().fault("cut-client-drop", 4, 5), VALID),
    ("late by a stall", late().add(F.STALL, 4, 5, process=2), VALID),
    ("another's stall", late().add(F.STALL, 4, 5, process=3), INVALID),
    ("when nothing was held", held().acquire(22, 23, 2, key=1), NOBODY),
    ("no bound", held(bounds={}).acquire(3, 4, 2, key=1), NO_BOUND),
    ("nested", held().acquire(3, 30, 1, flags=NESTED, key=1), VALID),
)
def test_independence(book: Book, expected: dict[str, object]) -> None:
    assert answers(NAME, book, expected) == expected


def test_the_story_names_both_locks() -> None:
    (violation,) = result_on(late(), NAME).violations
    assert "worker 1 was granted a at" in violation.story[0]
    assert violation.story[1].startswith("worker 2's acquire of b, sent at")
