"""Known histories of queues: who overtook whom, and how many were woken."""

from typing import Any

from checkers.properties.fifo_and_herd import BYPASSES, CROWDED, PER_RELEASES, QUEUED, WAKES
from checkers.row_format import NESTED, SHARED
from checkers.tests.build import Book, cases
from checkers.tests.compare import GOOD, INVALID, VALID, answers, result_on


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


IN_ORDER = {**GOOD, QUEUED: 1, BYPASSES: 0}
SEVERAL = {"valid": True, "unexercised": "several may hold at once, so that nobody knows who was first"}
UNTOLD = {"unexercised": "the grants do not tell when they were queued"}
ONE_EACH = {**GOOD, WAKES: 2, PER_RELEASES: 66, CROWDED: 1}
NESTED_TOO = woken(1, 3).acquire(30, 31, 1, flags=NESTED, value=0)
SILENT = {"unexercised": "the client does not tell how often it was woken"}


@cases(
    "name, book, expected",
    ("in order", "fifo", queue((5, 6, 22), (7, 8, 28)), IN_ORDER),
    ("overtaken", "fifo", overtaken(), {"kind": "overtaken", "at": 22, "owners": (3, 2), BYPASSES: 1}),
    ("readers pass one another", "fifo", overtaken(reader=3), VALID),
    ("permits", "fifo", overtaken(permits=2), SEVERAL),
    ("not behind", "fifo", queue((5, 0, 22), (7, 0, 28)), {"unexercised": "nobody was queued behind another"}),
    ("untold", "fifo", Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1), UNTOLD),
    ("one wake for each that left", "herd-free", woken(1, 1), ONE_EACH),
    ("as many as can be", "herd-free", woken(1, 2), VALID),
    ("a herd", "herd-free", woken(1, 3), {"kind": "herd", "at": 32}),
    ("a nested acquire has no place in the queue", "herd-free", NESTED_TOO, INVALID),
    ("nobody woken", "herd-free", woken(-1, -1), {"unexercised": "nobody was woken"}),
    ("wakes untold", "herd-free", Book(keys=("a",)).acquire(1, 2, 1), SILENT),
    ("one waits", "herd-free", woken(1), {"unexercised": "never were two waiting at a release"}),
)
def test_queues(name: str, book: Book, expected: dict[str, object]) -> None:
    assert answers(name, book, expected) == expected


def test_stories_tell_of_queues_and_wakes() -> None:
    (violation,) = result_on(overtaken(), "fifo").violations
    story = " ".join(violation.story)
    assert "worker 2 asked for the lock at 0.000 s; it was in the queue at 0.000 s" in story
    (violation,) = result_on(woken(1, 3), "herd-free").violations
    assert any("it was woken 3 times" in sentence for sentence in violation.story)
