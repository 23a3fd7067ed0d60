"""Recovery after the last heal."""

from __future__ import annotations

from checkers.check import check
from checkers.tests.build import FAIL, INFO, Book
from checkers.verdict import Verdict
from checkers.wire import F

NOBODY = "nobody asked for the lock, or could have got it, after the last heal"


def healed(**facts: object) -> Book:
    """A fault from 10 to 20; the bound is 30; the history goes on until 100."""
    book = (
        Book(keys=("a",), bounds={"recovery": 30}, fault_names=("pause-server",), **facts)
        .acquire(1, 2, 1)
        .release(9, 10, 1)
    )
    return book.fault("pause-server", 10, 20).read(99, 100, 1, -1)


def verdict(book: Book) -> Verdict:
    return check(book.history(), ["recovery"])[0]


def test_in_time() -> None:
    found = verdict(healed().acquire(15, 50, 2))
    assert found.valid
    assert found.unexercised is None
    assert found.counters["keys asked for after the heal"] == 1


def test_too_late_or_never() -> None:
    late = verdict(healed().acquire(15, 51, 2))
    assert [(v.kind, v.at) for v in late.violations] == [("not-recovered", 50)]
    never = verdict(healed().add(F.ACQUIRE, 15, 45, FAIL).add(F.ACQUIRE, 46, 0, INFO))
    assert never.valid is False


def test_the_bound_counts_from_the_first_request() -> None:
    assert verdict(healed().acquire(60, 80, 2)).valid
    assert verdict(healed().acquire(60, 91, 2)).valid is False


def test_a_history_that_ends_too_soon_says_nothing() -> None:
    found = verdict(healed().add(F.ACQUIRE, 75, 0, INFO))
    assert found.valid
    assert found.unexercised == NOBODY


def test_unexercised() -> None:
    assert verdict(healed()).unexercised == NOBODY
    assert verdict(Book().acquire(1, 2, 1)).unexercised == "the lock declares no bound"
    assert verdict(Book(bounds={"recovery": 5}).acquire(1, 2, 1)).unexercised == "there was no fault to recover from"
    unhealed = Book(bounds={"recovery": 5}, fault_names=("pause-server",)).acquire(1, 2, 1).fault("pause-server", 1, 0)
    assert verdict(unhealed).unexercised == "the fault was never healed"


def test_a_live_holder_is_no_failure_to_recover() -> None:
    """Worker 2 holds and renews all the time; worker 3, whose client fell silent before the heal, does not count."""
    held = healed().acquire(11, 12, 2).renew(40, 41, 2).renew(95, 96, 2).add(F.ACQUIRE, 15, 95, FAIL)
    assert verdict(held).unexercised == NOBODY
    silent = healed().acquire(11, 12, 3).renew(14, 15, 3).add(F.ACQUIRE, 15, 95, FAIL)
    assert verdict(silent).valid is False
