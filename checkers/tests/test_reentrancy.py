"""Known histories of holders that acquire again."""

from typing import Any

from checkers.properties.reentrancy import AWAITED, NESTED_ACQUIRES
from checkers.properties.shared_counters import CONTENDED, GRANTS
from checkers.row_format import NESTED, NONE, Outcome, Reason
from checkers.tests.build import FAIL, INFO, OK, Book
from checkers.tests.compare import GOOD, VALID, known


def held(**inner: Any) -> Book:
    """Worker 1 holds from 2 to 30, for 100 at most; it acquires again from 4 to 5 and releases that at 8."""
    book = Book(keys=("a",), workload="nested", ttl=100).acquire(1, 2, 1, token=7).release(30, 31, 1)
    book.acquire(4, 5, 1, flags=NESTED, **{"token": 7, **inner})
    return book.release(8, 9, 1, flags=NESTED)


def refused(reason: Reason) -> Book:
    return held(outcome=FAIL, reason=reason)


def released(outcome: Outcome) -> Book:
    """Worker 2 is granted the lock at 12; worker 1's inner release at 8 ended so."""
    book = Book(keys=("a",), ttl=100).acquire(1, 2, 1).release(30, 31, 1).release(8, 9, 1, outcome, flags=NESTED)
    return book.acquire(6, 12, 2)


TAKEN_AGAIN = held().acquire(6, 32, 2).release(33, 34, 2)
TWO_RELEASES = held().acquire(9, 10, 1, token=7, flags=NESTED).release(10, 11, 1, flags=NESTED).acquire(6, 12, 2)
CHANGED = "worker 1's nested acquire, sent at 0.000 s, succeeded with token 8 at 0.000 s"


def late(token: int, ttl: int, another: int = NONE) -> Book:
    """Worker 1 holds from 31 to 50, its inner release is sent at 40; worker 2, that asked at 29, is granted at 42."""
    book = Book(keys=("a",), ttl=ttl).acquire(31, 32, 1, token=token).release(50, 51, 1)
    return book.release(40, 41, 1, flags=NESTED).acquire(29, 42, 2, token=another)


FREED = {"kind": "freed-by-inner-release", "at": 12, "told": ("worker 1's nested release, sent at",)}

test_reentrancy = known(
    "reentrancy",
    ("the same grant again", TAKEN_AGAIN, {**GOOD, NESTED_ACQUIRES: 1, AWAITED: 1}),
    ("refused as held", refused(Reason.HELD), {"kind": "nested-refused"}),
    ("refused as another's", refused(Reason.NOT_OWNER), {"kind": "nested-refused"}),
    ("timed out", refused(Reason.TIMEOUT), {"kind": "nested-refused"}),
    ("unavailable", refused(Reason.UNAVAILABLE), VALID),
    ("a timeout under a fault is nobody's refusal", refused(Reason.TIMEOUT).fault("cut-client-drop", 3, 4), VALID),
    ("another token", held(token=8), {"kind": "token-changed", "told": (CHANGED,)}),
    ("an inner release that frees the lock", held().acquire(6, 12, 2), FREED),
    ("a refused inner release frees nothing", released(FAIL), VALID),
    ("an unanswered one may", released(INFO), FREED),
    ("the latest inner release is to blame once", TWO_RELEASES, {"sent": (1, 10, 6)}),
    ("a grant before the outer one, answered late", late(7, 100, 6), VALID),
    ("a grant after the outer one, asked for before", late(7, 100, 8), {**FREED, "at": 42}),
    ("a lease that may have been over before the outer one", late(NONE, 3), VALID),
    ("a lease that cannot have been over", late(NONE, 100), {**FREED, "at": 42}),
    ("nothing nested", Book().acquire(1, 2, 1), {"unexercised": "nobody acquired again what it held"}),
    ("nobody waits", held(outcome=OK), {"valid": True, "unexercised": "nobody waited at an inner release"}),
)

# Neither a grant nor a release of its own, and its own hold is no contention.
test_server_exclusion = known(
    "server-exclusion", ("it is part of the outer hold", TAKEN_AGAIN, {"valid": True, GRANTS: 2, CONTENDED: 1})
)
