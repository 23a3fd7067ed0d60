"""Known histories of readers and writers."""

from checkers.properties.shared_counters import CONTENDED
from checkers.properties.sharing import READERS
from checkers.row_format import SHARED, F, Reason
from checkers.tests.build import FAIL, Book, cases
from checkers.tests.compare import GOOD, INVALID, VALID, answers, result_on

SERVER, HOLDERS, TOKENS = "server-exclusion", "holder-exclusion", "token-order"


def reading(**facts: object) -> Book:
    """Workers 1 and 2 read, both inside from 4 to 20."""
    book = Book(**{"keys": ("a",), "workload": "share", "ttl": 100, **facts})
    book.acquire(1, 2, 1, flags=SHARED).acquire(3, 4, 2, flags=SHARED)
    return book.release(20, 21, 1, flags=SHARED).release(20, 22, 2, flags=SHARED)


def refused(inv: int, ret: int, reason: Reason = Reason.TIMEOUT, **facts: object) -> Book:
    return reading(**facts).acquire(inv, ret, 0, process=3, outcome=FAIL, flags=SHARED, reason=reason)


def under(reason: Reason = Reason.TIMEOUT, healed: int = 9, **facts: object) -> Book:
    return refused(10, 20, reason, **facts).fault("cut-client-drop", 2, healed)


def tokens(first: int, second: int, token: int = 5) -> Book:
    return Book(keys=("a",)).acquire(1, 2, 1, token=5, flags=first).acquire(3, 4, 2, token=token, flags=second)


ALONE = Book(keys=("a",)).acquire(1, 2, 1, flags=SHARED).release(3, 4, 1, flags=SHARED)
ONE_READER = {"unexercised": "no more than 1 readers inside at once, 2 needed"}
KEPT_OUT = {"kind": "reader-refused", "at": 9, "holders": (0, 1)}
WRITTEN = reading().acquire(18, 19, 4).release(30, 31, 4)
REPEATED = {"kinds": ["token-repeated"]}


@cases(
    "name, book, expected",
    ("readers inside together", "sharing", reading(), {**GOOD, READERS: 2}),
    ("one alone", "sharing", ALONE, ONE_READER),
    ("timed out", "sharing", refused(6, 9), KEPT_OUT),
    ("a timeout after a fault", "sharing", under(), INVALID),
    ("a timeout while the service may recover", "sharing", under(bounds={"recovery": 3}), VALID),
    ("a timeout under a stall", "sharing", refused(6, 9).add(F.STALL, 5, 6, process=3), VALID),
    ("a timeout under another's stall", "sharing", refused(6, 9).add(F.STALL, 5, 6, process=2), INVALID),
    ("refused as held under a fault", "sharing", under(Reason.HELD, 11), INVALID),
    ("readers exclude no readers", SERVER, reading(), VALID),
    ("readers exclude a writer", SERVER, WRITTEN, {"kinds": ["granted-while-held", "granted-while-held"]}),
    ("readers may share a token", TOKENS, tokens(SHARED, SHARED), VALID),
    ("a writer shares none with a reader", TOKENS, tokens(SHARED, 0), REPEATED),
    ("a reader shares none with a writer", TOKENS, tokens(0, SHARED), REPEATED),
    ("of readers it must not be smaller", TOKENS, tokens(SHARED, SHARED, 4), {"kinds": ["token-not-larger"]}),
    ("a reader among readers contends with nobody", SERVER, reading(), {CONTENDED: 0}),
    ("a writer does", SERVER, reading().acquire(10, 23, 4), {CONTENDED: 1}),
)
def test_sharing(name: str, book: Book, expected: dict[str, object]) -> None:
    assert answers(name, book, expected) == expected


def test_the_story_tells_of_readers() -> None:
    (violation,) = result_on(refused(6, 9), "sharing").violations
    assert "worker 1 was granted the lock for reading at" in violation.story[0]
    assert violation.story[-2].startswith("worker 3's shared acquire")
