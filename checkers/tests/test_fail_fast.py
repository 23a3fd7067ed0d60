"""Known histories for fail-fast."""

from typing import Any

import pytest

from checkers.properties.fail_fast import ANSWERED, SLOWEST
from checkers.row_format import F, Outcome
from checkers.tests.build import FAIL, INFO, Book
from checkers.tests.compare import GOOD, VALID, answers, known

NAME = "fail-fast"


def a_book(**facts: Any) -> Book:
    """Acquires wait for 100, the margin is 10."""
    return Book(**{"keys": ("a",), "bounds": {"fail-fast": 10}, "patience": 100, **facts})


def struck(kind: str) -> Book:
    book = a_book(fault_names=("freeze-holder",)).renew(10, 60, 1)
    return book.fault("freeze-holder", 11, 65, applied=15, kind=kind, owner=1, process=1)


UNENDED = a_book().renew(10, 0, 1, INFO).read(500, 501, 1, -1)
MISSED = {"unexercised": "pause-server never took effect"}
LONG = {"kinds": ["hung-call"]}

test_which_calls_are_too_long = known(
    NAME,
    ("an acquire may wait as long as it was told to", a_book().acquire(10, 120, 1), VALID),
    ("and no longer", a_book().acquire(10, 121, 1), LONG),
    ("as long as it likes", a_book(patience=0).acquire(10, 9999, 1), VALID),
    ("a call without an answer ends as well", a_book().renew(10, 0, 1, INFO, given_up=21), LONG),
    ("every call that is too long", a_book().renew(10, 60, 1).renew(70, 82, 1).renew(90, 99, 1), {"moments": [20, 80]}),
    ("frozen", struck("freeze"), VALID),
    ("stalled by a fault", struck("stall"), VALID),
    ("its call was made to hang", struck("call"), VALID),
    ("killed", struck("kill"), LONG),
    ("a call that never ended", UNENDED, {"valid": True, "unexercised": "no call ended"}),
    ("counters", a_book(bounds={NAME: 10**9}).renew(10, 3 * 10**7, 1).renew(20, 10**7, 2), {ANSWERED: 2, SLOWEST: 29}),
    ("no bound", a_book(bounds={}), {"unexercised": "the lock declares no bound"}),
    ("no fault", a_book(fault_names=("pause-server",)).renew(1, 2, 1), MISSED),
    ("a call that ended", a_book().renew(1, 2, 1), GOOD),
)


@pytest.mark.parametrize("f", [F.RENEW, F.RELEASE, F.KEEP_ALIVE])
@pytest.mark.parametrize("outcome", [Outcome.OK, FAIL])
def test_any_other_call_ends_within_the_margin(f: F, outcome: Outcome) -> None:
    assert answers(NAME, a_book().add(f, 10, 20, outcome, process=1), VALID) == VALID
    hung = {"kind": "hung-call", "at": 20, "rows": (0,)}
    assert answers(NAME, a_book().add(f, 10, 21, outcome, process=1), hung) == hung
