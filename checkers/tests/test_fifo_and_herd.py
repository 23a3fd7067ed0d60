"""Known histories of queues: who overtook whom, and how many were woken."""

from typing import Any

from checkers.properties.fifo_and_herd import BYPASSES, CROWDED, PER_RELEASES, QUEUED, WAKES
from checkers.row_format import NESTED, SHARED
from checkers.tests.build import Book
from checkers.tests.compare import GOOD, INVALID, VALID, known


def queue(early: tuple[int, int, int], late: tuple[int, int, int], **more: Any) -> Book:
    """Worker 1 holds until 20; two others, each (asked, in the queue, granted)."""
    book = Book(keys=("a",), ttl=100, **more).acquire(1, 3, 1, base=2).release(20, 21, 1)
    for owner, (inv, queued, ret) in enumerate((early, late), 2):
        book.acquire(inv, ret, owner, base=queued).release(ret + 4, ret + 5, owner)
    return book


def overtaken(reader: int = 0, **more: Any) -> Book:
    """Worker 3, who asked later, goes before worker 2."""
    book = queue((5, 6, 28), (7, 8, 22), **more)
    book.rows = [(*row[:-1], SHARED) if row[5] == reader else row for row in book.rows]
    return book


def woken(*wakes: int, **more: Any) -> Book:
    """Worker 1 holds until 20, the others wait, and are woken that often."""
    book = Book(keys=("a",), ttl=100).acquire(1, 2, 1, value=0).release(20, 21, 1)
    for owner, times in enumerate(wakes, 2):
        ret = 20 + 4 * owner
        book.acquire(owner + 2, ret, owner, value=times, **more).release(ret + 1, ret + 2, owner)
    return book


ASKED = ("worker 2 asked for the lock at 0.000 s; it was in the queue at 0.000 s",)
SEVERAL = {"valid": True, "unexercised": "several may hold at once, so that nobody knows who was first"}
UNTOLD = {"unexercised": "the grants do not tell when they were queued"}
SILENT = {"unexercised": "the client does not tell how often it was woken"}

test_fifo = known(
    "fifo",
    ("in order", queue((5, 6, 22), (7, 8, 28)), {**GOOD, QUEUED: 1, BYPASSES: 0}),
    ("overtaken", overtaken(), {"told": ASKED, "kind": "overtaken", "at": 22, "owners": (3, 2), BYPASSES: 1}),
    ("readers pass one another", overtaken(reader=3), VALID),
    ("permits", overtaken(permits=2), SEVERAL),
    ("not behind", queue((5, 0, 22), (7, 0, 28)), {"unexercised": "nobody was queued behind another"}),
    ("untold", Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1), UNTOLD),
)

test_herd_free = known(
    "herd-free",
    ("one wake for each that left", woken(1, 1), {**GOOD, WAKES: 2, PER_RELEASES: 66, CROWDED: 1}),
    ("as many as can be", woken(1, 2), VALID),
    ("a herd", woken(1, 3), {"kind": "herd", "at": 32, "told": ("it was woken 3 times",)}),
    ("a nested acquire has no place in the queue", woken(1, 3).acquire(30, 31, 1, flags=NESTED, value=0), INVALID),
    ("nobody woken", woken(-1, -1), {"unexercised": "nobody was woken"}),
    ("wakes untold", Book(keys=("a",)).acquire(1, 2, 1), SILENT),
    ("one waits", woken(1), {"unexercised": "never were two waiting at a release"}),
)
