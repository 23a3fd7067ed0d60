"""Known histories of queues: who overtook whom, and how many were woken."""

from typing import Any

from checkers.tests.build import Book
from checkers.tests.compare import asking
from checkers.wire import NESTED, SHARED

result = asking("fifo")


def queue(early: tuple[int, int, int], late: tuple[int, int, int], **more: Any) -> Book:
    """Worker 1 holds until 20; two others, each (asked, in the queue, granted)."""
    book = Book(keys=("a",), ttl=100, **more).acquire(1, 3, 1, base=2).release(20, 21, 1)
    for owner, (inv, queued, ret) in enumerate((early, late), 2):
        book.acquire(inv, ret, owner, base=queued).release(ret + 4, ret + 5, owner)
    return book


def test_in_order() -> None:
    found = result(queue((5, 6, 22), (7, 8, 28)))
    assert found.valid
    assert found.unexercised is None
    assert found.counters["acquires queued behind another"] == 1
    assert found.counters["bypasses"] == 0


def test_overtaken() -> None:
    found = result(queue((5, 6, 28), (7, 8, 22)))
    (violation,) = found.violations
    assert (violation.kind, violation.at) == ("overtaken", 22)
    assert found.counters["bypasses"] == 1
    story = " ".join(violation.story)
    assert "worker 2 asked for the lock at 0.000 s; it was in the queue at 0.000 s" in story
    history = queue((5, 6, 28), (7, 8, 22)).history()
    assert history.columns["owner"][list(violation.holders)].tolist() == [3, 2]


def test_readers_pass_one_another_and_semaphores_know_no_first() -> None:
    book = queue((5, 6, 28), (7, 8, 22))
    book.rows = [(*row[:-1], SHARED) if row[5] == 3 else row for row in book.rows]
    assert result(book).valid
    found = result(queue((5, 6, 28), (7, 8, 22), permits=2))
    assert found.valid
    assert found.unexercised == "several may hold at once, so that nobody knows who was first"


def test_fifo_unexercised() -> None:
    assert result(queue((5, 0, 22), (7, 0, 28))).unexercised == "nobody was queued behind another"
    untold = Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1)
    assert result(untold).unexercised == "the grants do not tell when they were queued"


def woken(*wakes: int, **more: Any) -> Book:
    """Worker 1 holds until 20, the others wait, and are woken that often."""
    book = Book(keys=("a",), ttl=100).acquire(1, 2, 1, value=0).release(20, 21, 1)
    for owner, times in enumerate(wakes, 2):
        ret = 20 + 4 * owner
        book.acquire(owner + 2, ret, owner, value=times, **more).release(ret + 1, ret + 2, owner)
    return book


def test_one_wake_for_each_that_left() -> None:
    found = result(woken(1, 1), "herd-free")
    assert found.valid
    assert found.unexercised is None
    assert found.counters["wakes"] == 2
    assert found.counters["wakes per 100 releases"] == 66
    assert found.counters["releases with several waiting"] == 1


def test_a_herd() -> None:
    assert result(woken(1, 2), "herd-free").valid
    (violation,) = result(woken(1, 3), "herd-free").violations
    assert (violation.kind, violation.at) == ("herd", 32)
    assert any("it was woken 3 times" in sentence for sentence in violation.story)


def test_a_nested_acquire_has_no_place_in_the_queue() -> None:
    book = woken(1, 3)
    book.acquire(30, 31, 1, flags=NESTED, value=0)
    assert result(book, "herd-free").valid is False


def test_herd_free_unexercised() -> None:
    assert result(woken(-1, -1), "herd-free").unexercised == "nobody was woken"
    silent = Book(keys=("a",)).acquire(1, 2, 1)
    assert result(silent, "herd-free").unexercised == "the client does not tell how often it was woken"
    assert result(woken(1), "herd-free").unexercised == "never were two waiting at a release"
