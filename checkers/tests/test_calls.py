"""Known histories for fail-fast."""

from typing import Any

import pytest

from checkers.calls import ANSWERED, SLOWEST
from checkers.tests.build import FAIL, INFO, Book
from checkers.tests.compare import asking
from checkers.wire import F, Outcome

verdict = asking("fail-fast")


def a_book(**facts: Any) -> Book:
    """Acquires wait for 100, the margin is 10."""
    return Book(**{"keys": ("a",), "bounds": {"fail-fast": 10}, "patience": 100, **facts})


@pytest.mark.parametrize("f", [F.RENEW, F.RELEASE, F.KEEP_ALIVE])
@pytest.mark.parametrize("outcome", [Outcome.OK, FAIL])
def test_any_other_call_ends_within_the_margin(f: F, outcome: Outcome) -> None:
    assert verdict(a_book().add(f, 10, 20, outcome, process=1)).valid
    (violation,) = verdict(a_book().add(f, 10, 21, outcome, process=1)).violations
    assert (violation.kind, violation.at, violation.rows) == ("hung-call", 20, (0,))
    assert violation.story[-1].startswith("So a call took longer")


def test_an_acquire_may_wait_as_long_as_it_was_told_to() -> None:
    assert verdict(a_book().acquire(10, 120, 1)).valid
    (violation,) = verdict(a_book().acquire(10, 121, 1)).violations
    assert violation.at == 120
    assert verdict(a_book(patience=0).acquire(10, 9999, 1)).valid


def test_a_call_without_an_answer_ends_as_well() -> None:
    book = a_book().renew(10, 0, 1, INFO)
    unanswered = book.rows[0]
    book.rows[0] = (10, 21, *unanswered[2:])
    assert verdict(book).valid is False


def test_a_call_that_never_ended_is_not_judged() -> None:
    found = verdict(a_book().renew(10, 0, 1, INFO).read(500, 501, 1, -1))
    assert found.valid
    assert found.unexercised == "no call ended"


def test_every_call_that_is_too_long_is_reported() -> None:
    book = a_book().renew(10, 60, 1).renew(70, 82, 1).renew(90, 99, 1)
    found = verdict(book)
    assert [violation.rows for violation in found.violations] == [(0,), (1,)]
    assert found.counters[ANSWERED] == 3


def test_what_the_sentinel_of_its_own_worker_missed_does_not_count() -> None:
    book = a_book().renew(10, 30, 1).add(F.STALL, 15, 25, process=1 + 4)
    assert verdict(book).valid
    assert verdict(a_book().renew(10, 30, 1).add(F.STALL, 15, 25, process=2)).valid is False
    assert verdict(a_book().renew(10, 30, 1).add(F.STALL, 15, 24, process=1)).valid is False


def test_overlapping_lapses_count_once() -> None:
    book = a_book().renew(10, 30, 1).add(F.STALL, 15, 20, process=1).add(F.STALL, 16, 24, process=1)
    assert verdict(book).valid is False


@pytest.mark.parametrize("kind", ["freeze", "stall", "call"])
def test_a_fault_on_the_worker_excuses_its_calls(kind: str) -> None:
    def struck(owner: int, kind: str) -> Book:
        book = a_book(fault_names=("freeze-holder",)).renew(10, 60, 1)
        return book.fault("freeze-holder", 11, 65, applied=15, kind=kind, owner=owner, process=owner)

    assert verdict(struck(1, kind)).valid
    assert verdict(struck(2, kind)).valid is False
    assert verdict(struck(1, "kill")).valid is False


def test_the_slowest() -> None:
    found = verdict(a_book(bounds={"fail-fast": 10**9}).renew(10, 3 * 10**7, 1).renew(20, 10**7, 2))
    assert found.counters[SLOWEST] == 29


def test_unexercised() -> None:
    assert verdict(a_book(bounds={})).unexercised == "the lock declares no bound"
    assert verdict(a_book(fault_names=("pause-server",)).renew(1, 2, 1)).unexercised == "pause-server never took effect"
    assert verdict(a_book().renew(1, 2, 1)).unexercised is None
