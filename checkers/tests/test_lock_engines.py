"""The lock engines: how they tell what they find. That they find it: `fuzz_locks` and `fuzz_search`."""

import pytest

from checkers.engines import locks
from checkers.models.engine_answer import Engine
from checkers.models.model import Settings
from checkers.row_format import F, Reason
from checkers.tests.build import FAIL, INFO, Book

PLAIN, STRICT = Settings(), Settings(strict_try=True)


def refused(book: Book, inv: int, ret: int, owner: int, reason: Reason = Reason.HELD) -> Book:
    return book.add(F.TRY_ACQUIRE, inv, ret, FAIL, owner=owner, reason=reason)


def judged(engine: Engine, book: Book, settings: Settings = PLAIN) -> tuple[str, tuple[int, ...]]:
    """(kind, rows) of the only conflict, ("undecided", ()), or ("valid", order)."""
    answer = engine(book.history(), settings)
    if answer.conflicts:
        (conflict,) = answer.conflicts
        return conflict.kind, conflict.rows
    return ("undecided", ()) if answer.undecided else ("valid", tuple(answer.order().tolist()))


def test_two_holds_at_once_are_told_with_their_four_events() -> None:
    book = Book().acquire(1, 2, 7).acquire(1, 3, 8).release(4, 5, 7).release(8, 9, 8)
    assert judged(locks.mutex, book) == ("overlap", (0, 2, 3, 1))
    assert judged(locks.reentrant_mutex, book) == ("overlap", (0, 2, 3, 1))
    assert judged(locks.semaphore, book) == ("overlap", (0, 2, 3, 1))
    assert judged(locks.semaphore, book, Settings(permits=2))[0] == "valid"


def test_who_never_released_holds_for_ever() -> None:
    book = Book().acquire(1, 2, 7).acquire(5, 6, 8)
    assert judged(locks.mutex, book) == ("overlap", (0, 1))
    book.release(3, 4, 7, INFO)
    assert judged(locks.mutex, book)[0] == "valid"


@pytest.mark.parametrize("engine", [locks.mutex, locks.rwlock, locks.semaphore])
def test_a_second_acquire_by_the_holder_is_a_verdict(engine: Engine) -> None:
    book = Book().acquire(1, 2, 7).acquire(3, 4, 7)
    assert judged(engine, book)[0] == "second-acquire"
    assert judged(engine, book)[1] == (0, 1)
    assert judged(locks.reentrant_mutex, book)[0] == "valid"


@pytest.mark.parametrize("engine", [locks.mutex, locks.rwlock, locks.semaphore, locks.reentrant_mutex])
def test_a_release_by_somebody_who_holds_nothing_is_a_verdict(engine: Engine) -> None:
    assert judged(engine, Book().release(1, 2, 7)) == ("release-by-another", (0,))
    book = Book().acquire(1, 2, 8).release(3, 4, 7)
    assert judged(engine, book) == ("release-by-another", (1,))
    assert judged(engine, Book().acquire(1, 2, 7).release(3, 4, 7).release(5, 6, 7)) == ("release-by-another", (2,))
    assert judged(engine, Book().acquire(1, 2, 7).release(3, 4, 7).release(5, 6, 7, FAIL))[0] == "valid"


def test_an_unanswered_release_is_believed_where_it_is_needed_and_else_left_out() -> None:
    again = Book().acquire(1, 2, 7).release(3, 0, 7, INFO).acquire(5, 6, 7)
    assert judged(locks.mutex, again) == ("valid", (0, 1, 2))
    retried = Book().acquire(1, 2, 7).release(3, 0, 7, INFO).release(6, 7, 7)
    assert judged(locks.mutex, retried) == ("valid", (0, 2))
    retried.acquire(4, 5, 8)
    assert judged(locks.mutex, retried)[0] == "overlap"


def test_an_owner_whose_operations_overlap_is_left_to_the_search_and_no_other_key_with_it() -> None:
    book = Book().acquire(1, 5, 7).release(3, 6, 7).acquire(1, 2, 8, key=1).acquire(3, 4, 8, key=1)
    answer = locks.mutex(book.history(), Settings())
    assert list(answer.undecided) == [0]
    assert [conflict.key for conflict in answer.conflicts] == [1]


def test_a_refused_try_is_evidence_only_if_asked_for_and_refused_because_held() -> None:
    book = refused(Book().acquire(1, 2, 7).release(3, 4, 7), 6, 7, 8)
    assert judged(locks.mutex, book)[0] == "valid"
    assert judged(locks.mutex, book, STRICT) == ("refused-while-free", (0, 1, 2))
    other = refused(Book().acquire(1, 2, 7).release(3, 4, 7), 6, 7, 8, Reason.UNAVAILABLE)
    assert judged(locks.mutex, other, STRICT)[0] == "valid"
    met = refused(Book().acquire(1, 2, 7).release(3, 6, 7), 6, 7, 8)
    assert judged(locks.mutex, met, STRICT) == ("valid", (0, 2, 1))


def test_permits_are_counted() -> None:
    book = Book().acquire(1, 2, 7).acquire(3, 4, 7).acquire(5, 6, 8).release(8, 9, 7)
    assert judged(locks.semaphore, book, Settings(permits=3))[0] == "valid"
    kind, rows = judged(locks.semaphore, book, Settings(permits=2))
    assert kind == "too-many"
    assert set(rows) == {0, 1, 2, 3}
    tried = refused(Book().acquire(1, 2, 7).acquire(3, 4, 8), 5, 6, 9)
    assert judged(locks.semaphore, tried, Settings(permits=2, strict_try=True))[0] == "valid"
    assert judged(locks.semaphore, tried, Settings(permits=3, strict_try=True))[0] == "refused-while-free"
