"""What reached the store too late, was refused for nothing, was lost, or was read though it never was there."""

import pytest

from checkers.measures.stale import (
    dirty_value,
    lost_update,
    needless_rejection,
    stale_write,
    unfenced_stale_write,
)
from checkers.tests.build import FAIL, INFO, Book
from checkers.tests.fuzz_measures import measured
from checkers.wire import Reason


def fenced(mode: str = "fence-writes") -> Book:
    """Token 2 is accepted at [3, 4]; writes and a read under token 1 follow."""
    return Book(store=mode, keys=("a",)).write(3, 4, 2, 20, token=2)


def test_stale_writes() -> None:
    book = fenced().write(5, 6, 1, 10, token=1).write(7, 8, 1, 11, FAIL, token=1).read(9, 10, 1, 20, token=1)
    found = stale_write(measured(book))
    assert (found["accepted"], found["refused"]) == (1, 1)
    assert found.rows == ((0, 1),)
    assert found.alert == "a stale access was accepted"


def test_stale_reads_count_where_reads_carry_tokens() -> None:
    book = fenced("fence-reads-and-writes").read(9, 10, 1, 20, token=1)
    assert stale_write(measured(book))["accepted"] == 1


def test_a_write_at_the_same_time_is_not_stale() -> None:
    found = stale_write(measured(fenced().write(4, 6, 1, 10, token=1)))
    assert found["accepted"] == 0
    assert found.unexercised == "nobody sent anything under a token that a larger one had overtaken"


def test_keys_are_apart() -> None:
    book = Book(store="fence-writes").write(3, 4, 2, 20, token=2).write(5, 6, 1, 10, token=1, key=1)
    assert stale_write(measured(book))["accepted"] == 0


@pytest.mark.parametrize("measure", [stale_write, needless_rejection])
def test_a_store_without_tokens(measure: object) -> None:
    assert callable(measure)
    assert measure(measured(Book().write(1, 2, 1, 1))).unexercised == "the store looks at no tokens"


def test_needless_rejections() -> None:
    """Refused at [1, 2], before anything larger was sent; and at [5, 6], after."""
    book = fenced().write(1, 2, 1, 10, FAIL, token=1).write(5, 6, 1, 11, FAIL, token=1)
    found = needless_rejection(measured(book))
    assert (found["needless"], found["refused"]) == (1, 2)
    assert found.rows == ((0,),)
    assert needless_rejection(measured(fenced())).unexercised == "nothing was refused"


def test_an_unknown_write_may_be_why() -> None:
    book = Book(store="fence-writes", keys=("a",)).write(1, 0, 2, 20, INFO, token=2).write(5, 6, 1, 10, FAIL, token=1)
    assert needless_rejection(measured(book))["needless"] == 0


def test_a_strict_store_may_refuse_the_same_token() -> None:
    for mode, needless in (("fence-writes", 1), ("fence-writes-strict", 0)):
        book = fenced(mode).write(5, 6, 2, 21, FAIL, token=2)
        assert needless_rejection(measured(book))["needless"] == needless


def unfenced() -> Book:
    """Owner 1 holds from 2 on, owner 2, who certainly came later, from 12 on."""
    return Book(store="unfenced", keys=("a",), ttl=5).acquire(1, 2, 1).acquire(10, 12, 2)


def test_a_write_sent_late() -> None:
    found = unfenced_stale_write(measured(unfenced().write(13, 14, 1, 7)))
    assert (found["sent_late"], found["landed_late"], found["in_flight"]) == (1, 0, 0)
    assert found.rows == ((1, 2),)
    assert found.alert


def test_a_write_that_landed_late() -> None:
    """Sent at 8, answered at 20; in between the later holder read what was there before."""
    book = unfenced().write(3, 4, 1, 5).write(8, 20, 1, 7)
    assert unfenced_stale_write(measured(book))["in_flight"] == 1
    found = unfenced_stale_write(measured(book.read(13, 14, 2, 5)))
    assert (found["sent_late"], found["landed_late"], found["in_flight"]) == (0, 1, 0)
    assert found.rows == ((3, 4, 2),)


def test_a_read_sent_before_proves_nothing() -> None:
    book = unfenced().write(3, 4, 1, 5).write(8, 20, 1, 7).read(11, 14, 2, 5)
    assert unfenced_stale_write(measured(book))["landed_late"] == 0


def test_the_initial_value_is_older_than_all() -> None:
    book = unfenced().write(8, 20, 1, 7).read(13, 14, 2, -1)
    assert unfenced_stale_write(measured(book))["landed_late"] == 1


def test_an_unknown_write_must_have_been_read() -> None:
    book = unfenced().write(13, 0, 1, 7, INFO)
    assert unfenced_stale_write(measured(book))["sent_late"] == 0
    assert unfenced_stale_write(measured(book.read(30, 31, 2, 7)))["sent_late"] == 1


def test_no_write_near_the_hand_over() -> None:
    found = unfenced_stale_write(measured(unfenced().write(3, 4, 1, 7)))
    assert found.unexercised == "no write came near the moment at which another was given the lock"
    assert unfenced_stale_write(measured(fenced())).unexercised == "the store is no store without a fence"


def test_lost_updates() -> None:
    book = Book(workload="set", keys=("a",)).write(1, 2, 1, 10).write(3, 4, 2, 20).final(9, 10, 20, 1)
    found = lost_update(measured(book))
    assert (found["lost"], found["acknowledged"]) == (1, 2)
    assert found.rows == ((0,),)
    assert lost_update(measured(Book())).unexercised == "nobody keeps a list of updates"


def test_dirty_values() -> None:
    book = Book(keys=("a",)).write(1, 2, 1, 5, FAIL).read(3, 4, 2, 5).write(5, 6, 1, 6, FAIL).write(7, 0, 1, 6, INFO)
    book.read(8, 9, 2, 6).read(10, 11, 2, 99).write(12, 13, 1, 8, FAIL, reason=Reason.UNAVAILABLE)
    found = dirty_value(measured(book))
    assert (found["reads"], found["failed_writes"]) == (
        1,
        3,
    )  # the unknown write of 6 may have happened; 99 is nobody's
    assert found.rows == ((0, 1),)
    assert dirty_value(measured(Book().write(1, 2, 1, 5, FAIL))).unexercised == "nothing was read"
    assert dirty_value(measured(Book().read(1, 2, 1, 5))).unexercised == "no write was refused or failed"
