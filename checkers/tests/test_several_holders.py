"""Known histories of semaphores, and of readers and writers."""

from typing import Any

from checkers.check import applicable
from checkers.history.view import View
from checkers.properties.exclusion import MOST_INSIDE
from checkers.properties.shared_counters import CONTENDED
from checkers.properties.sharing import READERS
from checkers.row_format import SHARED, F, Reason
from checkers.tests.build import FAIL, Book
from checkers.tests.compare import GOOD, INVALID, VALID, known

PERMITS, HOLDERS = "permits", "holder-exclusion"


def three(third: int) -> Book:
    """Two permits, both taken from 4 on; the first is released at 20, a third acquire returns at `third`."""
    book = Book(keys=("a",), permits=2, ttl=100)
    book.acquire(1, 2, 1, token=1).acquire(3, 4, 2, token=2).acquire(5, third, 3, token=3)
    return book.release(20, 21, 1).release(40, 41, 2).release(42, 43, 3)


EMPTY = Book(keys=("a",), permits=3).acquire(1, 2, 1).acquire(3, 4, 2).release(8, 9, 1).release(8, 9, 2)
NOT_ALL = {"unexercised": "no more than 2 inside at once, 3 needed", MOST_INSIDE: 2}

test_permits = known(
    PERMITS,
    ("as many as there are", three(21), GOOD),
    ("one more granted", three(19), {"kind": "too-many-granted", "at": 19, "holders": (0, 1, 2)}),
    ("unexercised until all were taken", EMPTY, NOT_ALL),
)

test_holder_exclusion = known(
    HOLDERS,
    ("one more inside", three(19), {"kind": "too-many-inside", "at": 19, "holders": (0, 1, 2)}),
    ("unexercised until all permits were taken", EMPTY, NOT_ALL),
)


def test_a_semaphore_is_asked_for_permits_and_not_for_exclusion() -> None:
    assert applicable(View(three(21).history()))[:2] == (PERMITS, HOLDERS)


SERVER, TOKENS = "server-exclusion", "token-order"


def reading(**facts: object) -> Book:
    """Workers 1 and 2 read, both inside from 4 to 20."""
    book = Book(**{"keys": ("a",), "workload": "share", "ttl": 100, **facts})
    book.acquire(1, 2, 1, flags=SHARED).acquire(3, 4, 2, flags=SHARED)
    return book.release(20, 21, 1, flags=SHARED).release(20, 22, 2, flags=SHARED)


def refused(inv: int, ret: int, reason: Reason = Reason.TIMEOUT, **facts: object) -> Book:
    return reading(**facts).acquire(inv, ret, 0, process=3, outcome=FAIL, flags=SHARED, reason=reason)


def under(reason: Reason = Reason.TIMEOUT, healed: int = 9, **facts: object) -> Book:
    return refused(10, 20, reason, **facts).fault("cut-client-drop", 2, healed)


def downgraded(renewed: int, worker: int = 1) -> Book:
    """Worker 1's writer asks at 10 to become a reader, and is told at 14 that it is; it was renewed at `renewed`."""
    book = Book(keys=("a",), ttl=100).acquire(1, 2, 1).release(10, 14, 1).renew(renewed, renewed + 1, 1)
    return book.acquire(10, 10, 2, sent=10, process=worker, flags=SHARED).release(40, 41, 2, flags=SHARED)


def turned_away(at: int, **more: Any) -> Book:
    """Worker 3 asks to read as well."""
    return downgraded(9, **more).acquire(at, at + 1, 0, process=3, outcome=FAIL, flags=SHARED, reason=Reason.HELD)


def tokens(first: int, second: int, token: int = 5) -> Book:
    return Book(keys=("a",)).acquire(1, 2, 1, token=5, flags=first).acquire(3, 4, 2, token=token, flags=second)


ONE_READER = {"unexercised": "no more than 1 readers inside at once, 2 needed"}
STORY = ("worker 1 was granted the lock for reading at", "worker 3's shared acquire")
WRITTEN = reading().acquire(18, 19, 4).release(30, 31, 4)
REPEATED = {"kinds": ["token-repeated"]}

test_sharing = known(
    "sharing",
    ("readers inside together", reading(), {**GOOD, READERS: 2}),
    ("one alone", Book(keys=("a",)).acquire(1, 2, 1, flags=SHARED).release(3, 4, 1, flags=SHARED), ONE_READER),
    ("timed out", refused(6, 9), {"kind": "reader-refused", "at": 9, "holders": (0, 1), "told": STORY}),
    ("a timeout after a fault", under(), INVALID),
    ("a timeout while the service may recover", under(bounds={"recovery": 3}), VALID),
    ("a timeout under a stall", refused(6, 9).add(F.STALL, 5, 6, process=3), VALID),
    ("a timeout under another's stall", refused(6, 9).add(F.STALL, 5, 6, process=2), INVALID),
    ("while a writer becomes a reader", turned_away(11), VALID),
    ("when it is one", turned_away(15), {"kind": "reader-refused", "at": 16}),
    ("when another reads", turned_away(11, worker=2), {"kind": "reader-refused", "at": 12}),
    ("refused as held under a fault", under(Reason.HELD, 11), INVALID),
)

test_readers_exclude_writers_alone = known(
    SERVER,
    ("readers exclude no readers", reading(), VALID),
    ("readers exclude a writer", WRITTEN, {"kinds": ["granted-while-held", "granted-while-held"]}),
    ("a renewal overtakes the downgrade of its writer", downgraded(11), VALID),
    ("another's reader is no downgrade", downgraded(11, worker=2), {"kinds": ["granted-while-held"]}),
    ("a renewal after the downgrade was acknowledged", downgraded(15), INVALID),
    ("a writer that comes in between", downgraded(11).acquire(5, 13, 3), {"kinds": ["granted-while-held"]}),
    ("a reader among readers contends with nobody", reading(), {CONTENDED: 0}),
    ("a writer does", reading().acquire(10, 23, 4), {CONTENDED: 1}),
)

test_renewals_of_a_writer = known(
    "honest-renewal",
    ("one overtakes its downgrade", downgraded(11), VALID),
    ("one after it was acknowledged", downgraded(15), {"kinds": ["renewed-though-lost"]}),
    ("another's reader is no downgrade", downgraded(11, worker=2), {"kinds": ["renewed-though-lost"]}),
)

test_tokens_of_readers = known(
    TOKENS,
    ("readers may share a token", tokens(SHARED, SHARED), VALID),
    ("a writer shares none with a reader", tokens(SHARED, 0), REPEATED),
    ("a reader shares none with a writer", tokens(0, SHARED), REPEATED),
    ("of readers it must not be smaller", tokens(SHARED, SHARED, 4), {"kinds": ["token-not-larger"]}),
)
