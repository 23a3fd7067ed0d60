"""Known histories of two locks that a service takes for one."""

from typing import Any

from checkers.properties.independence import BESIDE
from checkers.row_format import NESTED, F
from checkers.tests.build import Book
from checkers.tests.compare import GOOD, INVALID, VALID, known

NAME = "independence"


def held(**facts: Any) -> Book:
    """Worker 1 holds lock a from 2 to 20; the bound is 5."""
    book = Book(**{"bounds": {NAME: 5}, "ttl": 100, **facts})
    return book.acquire(1, 2, 1).release(20, 21, 1)


# Lock b comes with the release of a.
LATE = held().acquire(3, 22, 2, key=1)
STORY = ("worker 1 was granted a at", "worker 2's acquire of b, sent at")
NOBODY = {"unexercised": "nobody asked for a free lock while another was held"}

test_independence = known(
    NAME,
    ("given at once", held().acquire(3, 8, 2, key=1).release(9, 10, 2, key=1), {**GOOD, BESIDE: 1}),
    ("with the release of another", LATE, {"kind": "kept-by-another-name", "at": 8, "holders": (0,), "told": STORY}),
    ("late by a fault", held().acquire(3, 22, 2, key=1).fault("cut-client-drop", 4, 5), VALID),
    ("late by a stall", held().acquire(3, 22, 2, key=1).add(F.STALL, 4, 5, process=2), VALID),
    ("another's stall", held().acquire(3, 22, 2, key=1).add(F.STALL, 4, 5, process=3), INVALID),
    ("when nothing was held", held().acquire(22, 23, 2, key=1), NOBODY),
    ("no bound", held(bounds={}).acquire(3, 4, 2, key=1), {"unexercised": "the lock declares no bound"}),
    ("nested", held().acquire(3, 30, 1, flags=NESTED, key=1), VALID),
)
