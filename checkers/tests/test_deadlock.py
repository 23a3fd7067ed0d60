"""Known histories of two locks taken together."""

from typing import Any

from checkers.tests.build import FAIL, INFO, OK, Book, cases
from checkers.tests.compare import asking
from checkers.wire import SHARED, F

result = asking("deadlock-free")


def crossed(until: int, *, second: int = 0, outcome: Any = FAIL, flags: int = 0, **facts: Any) -> Book:
    """Worker 1 holds a and asks for b at 5, worker 2 holds b and asks for a at 7; worker 2 gives up at `until`."""
    book = Book(workload="transfer-opposite", ttl=10, **facts)
    book.acquire(1, 2, 1, key=0, flags=flags).acquire(3, 4, 2, key=1, flags=flags)
    book.acquire(5, 60, 0, process=1, key=1, outcome=FAIL, flags=flags)
    book.acquire(7, until, second, process=2, key=0, outcome=outcome, flags=flags)
    book.release(61, 62, 1, key=0, flags=flags)
    return book.release(until, until + 1, 2, key=1, flags=flags)


def test_two_that_wait_for_each_other_longer_than_a_lease() -> None:
    found = result(crossed(18))
    (violation,) = found.violations
    assert (violation.kind, violation.at, violation.holders) == ("deadlock", 17, (0, 1))
    assert found.counters["circles of waiting holders"] == 1
    told = " ".join(violation.story)
    assert "worker 1 was granted a at" in told
    assert "worker 1's acquire of b, sent at 0.000 s, was refused" in told
    assert violation.story[-1].startswith("So each of them waited")


def test_what_a_timeout_breaks_within_a_lease_is_counted_and_no_deadlock() -> None:
    found = result(crossed(17))
    assert found.valid
    assert found.counters["circles of waiting holders"] == 1


def test_time_in_which_the_machine_stood_still_does_not_count() -> None:
    assert result(crossed(18).add(F.STALL, 9, 10, process=3)).valid
    (violation,) = result(crossed(19).add(F.STALL, 9, 10, process=3)).violations
    assert violation.at == 18
    assert not result(crossed(18).add(F.STALL, 1, 7, process=3)).valid


def test_milliseconds_of_the_longest_circle() -> None:
    book = Book(ttl=10**9).acquire(1, 2, 1).acquire(1, 2, 2, key=1)
    book.acquire(5, 9_000_000, 0, process=1, key=1, outcome=FAIL).acquire(5, 7_000_005, 0, process=2, outcome=FAIL)
    book.release(10**8, 10**8, 1).release(10**8, 10**8, 2, key=1)
    assert result(book).counters["longest circle (ms)"] == 7


def test_in_one_order_nobody_waits_in_a_circle() -> None:
    book = Book(ttl=10).acquire(1, 2, 1).acquire(3, 30, 2).acquire(5, 6, 3, process=1, key=1)
    book.release(20, 21, 3, process=1, key=1).release(22, 23, 1).acquire(31, 32, 4, process=2, key=1)
    book.release(40, 41, 4, process=2, key=1).release(42, 43, 2)
    found = result(book)
    assert found.valid
    assert found.counters["circles of waiting holders"] == 0
    assert found.counters["acquires by a holder of another key"] == 2
    assert found.unexercised is None


@cases(
    "book, valid",
    ("who noticed that it had lost its first waits for nobody", crossed(30).lost(9, 1), True),
    ("readers wait for no reader", crossed(18, flags=SHARED), True),
    ("who was killed while it waited waits no more", crossed(18, outcome=INFO), True),
    ("who gets its second lock in the end has waited all the same", crossed(18, second=9, outcome=OK), False),
)
def test_who_waits(book: Book, valid: bool) -> None:
    assert result(book).valid is valid


def test_unexercised_where_nobody_takes_two() -> None:
    assert result(Book().acquire(1, 2, 1).release(3, 4, 1)).unexercised == "no holder asked for another lock"


def test_of_a_semaphore_nobody_knows_who_waits_for_whom() -> None:
    found = result(crossed(18, permits=2))
    assert found.valid
    assert found.unexercised == "several may hold at once"
