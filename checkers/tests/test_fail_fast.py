"""Known histories for fail-fast."""

from typing import Any

import pytest

from checkers.properties.fail_fast import ANSWERED, SLOWEST
from checkers.tests.build import FAIL, INFO, Book, cases
from checkers.tests.compare import asking
from checkers.wire import F, Outcome

result = asking("fail-fast")


def a_book(**facts: Any) -> Book:
    """Acquires wait for 100, the margin is 10."""
    return Book(**{"keys": ("a",), "bounds": {"fail-fast": 10}, "patience": 100, **facts})


@pytest.mark.parametrize("f", [F.RENEW, F.RELEASE, F.KEEP_ALIVE])
@pytest.mark.parametrize("outcome", [Outcome.OK, FAIL])
def test_any_other_call_ends_within_the_margin(f: F, outcome: Outcome) -> None:
    assert result(a_book().add(f, 10, 20, outcome, process=1)).valid
    (violation,) = result(a_book().add(f, 10, 21, outcome, process=1)).violations
    assert (violation.kind, violation.at, violation.rows) == ("hung-call", 20, (0,))
    assert violation.story[-1].startswith("So a call took longer")


def unanswered() -> Book:
    """It has no answer, and ended at 21."""
    book = a_book().renew(10, 0, 1, INFO)
    book.rows[0] = (10, 21, *book.rows[0][2:])
    return book


def stalled(process: int, *until: int) -> Book:
    """A renewal from 10 to 30; the sentinel missed the time from 15, from 16, ... on."""
    book = a_book().renew(10, 30, 1)
    for begun, end in enumerate(until, 15):
        book.add(F.STALL, begun, end, process=process)
    return book


def struck(kind: str, owner: int = 1) -> Book:
    book = a_book(fault_names=("freeze-holder",)).renew(10, 60, 1)
    return book.fault("freeze-holder", 11, 65, applied=15, kind=kind, owner=owner, process=owner)


@cases(
    "book, rows",
    ("an acquire may wait as long as it was told to", a_book().acquire(10, 120, 1), []),
    ("and no longer", a_book().acquire(10, 121, 1), [0]),
    ("as long as it likes", a_book(patience=0).acquire(10, 9999, 1), []),
    ("a call without an answer ends as well", unanswered(), [0]),
    ("every call that is too long", a_book().renew(10, 60, 1).renew(70, 82, 1).renew(90, 99, 1), [0, 1]),
    ("what the sentinel of its own worker missed", stalled(1 + 4, 25), []),
    ("what that of another missed", stalled(2, 25), [0]),
    ("what that missed is not enough", stalled(1, 24), [0]),
    ("overlapping lapses count once", stalled(1, 20, 24), [0]),
    ("frozen", struck("freeze"), []),
    ("stalled by a fault", struck("stall"), []),
    ("its call was made to hang", struck("call"), []),
    ("another was frozen", struck("freeze", 2), [0]),
    ("killed", struck("kill"), [0]),
)
def test_which_calls_are_too_long(book: Book, rows: list[int]) -> None:
    found = result(book)
    assert [violation.rows for violation in found.violations] == [(row,) for row in rows]
    assert found.valid is not bool(rows)


def test_a_call_that_never_ended_is_not_judged() -> None:
    found = result(a_book().renew(10, 0, 1, INFO).read(500, 501, 1, -1))
    assert found.valid
    assert found.unexercised == "no call ended"


def test_counters() -> None:
    found = result(a_book(bounds={"fail-fast": 10**9}).renew(10, 3 * 10**7, 1).renew(20, 10**7, 2))
    assert found.counters[ANSWERED] == 2
    assert found.counters[SLOWEST] == 29


def test_unexercised() -> None:
    assert result(a_book(bounds={})).unexercised == "the lock declares no bound"
    assert result(a_book(fault_names=("pause-server",)).renew(1, 2, 1)).unexercised == "pause-server never took effect"
    assert result(a_book().renew(1, 2, 1)).unexercised is None
