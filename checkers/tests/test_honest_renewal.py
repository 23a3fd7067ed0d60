"""Known histories for honest renewal: grants that are renewed, and sessions that are kept alive."""

from typing import Any

from checkers.claims import Claim, Hazard
from checkers.properties.honest_renewal import REFUSED, RENEWED
from checkers.row_format import F, Reason
from checkers.tests.build import FAIL, INFO, Book
from checkers.tests.compare import DOCUMENTED, GOOD, INVALID, VALID, VIOLATED, known

NAME = "honest-renewal"
LOST: Any = {"outcome": FAIL, "reason": Reason.NOT_OWNER}


def one(**facts: Any) -> Book:
    """Worker 1 asked at 9 and is granted at 10, for 10."""
    return Book(keys=("a",), **facts).acquire(8, 10, 1, sent=9, ttl=10)


def two() -> Book:
    return one().acquire(20, 30, 2)


def session(lease: str = "session") -> Book:
    """Session 7 is asked for at 1, for 10; worker 1 is granted in it at 5."""
    book = Book(keys=("a", "b"), lease=lease, ttl=10).add(F.SESSION_OPEN, 1, 2, session=7)
    return book.acquire(4, 5, 1, session=7, ttl=10)


def refused(inv: int, ret: int, book: Book | None = None) -> Book:
    return (book or session()).add(F.KEEP_ALIVE, inv, ret, session=7, **LOST)


def grained(before: int) -> Book:
    """The last was sent at 14. Its lease, 20 - 3 after the one before and the grain, ends at 24, 31 or 21."""
    book = Book(lease="session", ttl=20, grain=3).add(F.SESSION_OPEN, 1, 2, session=7)
    book.add(F.KEEP_ALIVE, before, before + 1, session=7).add(F.KEEP_ALIVE, 14, 15, session=7)
    return refused(24, 25, book)


def called_over(asked: int, held: int, told: int, released: int) -> Book:
    """Session 7 of worker 2 is created at 3, for 10; worker 1 holds from `held` on, and keeps its own alive."""
    book = Book(keys=("a",), lease="session", ttl=10)
    book.add(F.SESSION_OPEN, 1, 2, session=8).add(F.SESSION_OPEN, 3, 4, session=7)
    book.acquire(10, held, 1, session=8, ttl=10)
    for sent in (19, 28, 37, 46):
        book.add(F.KEEP_ALIVE, sent, sent + 1, session=8)
    refused(told - 1, told, book).release(released, released + 1, 1, session=8)
    return book.acquire(asked, 61, 2, session=7, ttl=10)


def excused(mechanism: str, kind: str, struck: int) -> Book:
    """Refused too early, at 16, beside what a hazard names."""
    hazards = (Hazard(NAME, ("f",), mechanism),)
    book = one(fault_names=("f",), claims=(Claim("server-exclusion"),), hazards=hazards).renew(15, 16, 1, **LOST)
    return book.fault("f", struck, struck + 1, kind=kind, healing=struck)


def passed_on(book: Book) -> Book:
    return book.acquire(20, 21, 2, session=8).add(F.KEEP_ALIVE, 22, 23, session=7)


NO_GRANT = refused(9, 10, Book(lease="session", ttl=10).add(F.SESSION_OPEN, 1, 2, session=7))
GIVEN_BACK = one().release(11, 12, 1).acquire(13, 14, 2).renew(15, 16, 1)
UNREACHED = one().renew(11, 12, 1, FAIL, reason=Reason.UNAVAILABLE)
LIE = {"kind": "renewed-though-lost", "at": 31, "rows": (0, 1, 2)}
EARLY = {"kind": "refused-though-held", "at": 18, "holders": (0,)}
NO_ANSWER = {"valid": True, "unexercised": "no renewal was answered, and no release refused"}
OVER = {"kind": "granted-though-over"}

test_renewals = known(
    NAME,
    ("acknowledged although the lock was another's", two().renew(31, 32, 1), LIE),
    ("acknowledged after the lease: expiry may come late", one().renew(40, 41, 1), {**GOOD, RENEWED: 1}),
    ("refused is no lie", two().renew(31, 32, 1, **LOST), VALID),
    ("unanswered is no lie", two().renew(31, 32, 1, INFO), VALID),
    ("acknowledged after its release and another's grant", GIVEN_BACK, INVALID),
    ("refused before the earliest end", one().renew(17, 18, 1, **LOST), EARLY),
    ("refused at the earliest end", one().renew(17, 19, 1, **LOST), {"valid": True, REFUSED: 1}),
    ("drift brings the end forward", one(drift=0.25).renew(16, 17, 1, **LOST), VALID),
    ("refused after the release was sent", one().release(16, 20, 1).renew(15, 17, 1, **LOST), VALID),
    ("a server that cannot be reached says nothing", UNREACHED, NO_ANSWER),
    ("no lease", one(lease="none").renew(11, 12, 1, **LOST), VALID),
    ("a release refused too early", one().release(16, 18, 1, **LOST), {"kind": "refused-though-held", "holders": (0,)}),
    ("a release while unavailable", one().release(16, 18, 1, FAIL, reason=Reason.UNAVAILABLE), NO_ANSWER),
    ("a release refused when its session was over", session().release(8, 11, 1, session=7, **LOST), VALID),
    ("a keep-alive refused too early", refused(9, 10), {"kind": "refused-though-held", "holders": (1,)}),
    ("a grant prolongs no session", refused(11, 13), VALID),
    ("but where requests touch it", refused(11, 13, session("touch")), INVALID),
    ("a keep-alive is told where nothing was granted", NO_GRANT, {"told": ("keep-alive",)}),
    ("with a grain a sign of life may be unknown", grained(4), VALID),
    ("two may not", grained(11), INVALID),
    ("a closed one", refused(9, 10, session().add(F.SESSION_CLOSE, 8, 0, INFO, session=7)), VALID),
    ("alive although its lock was another's", passed_on(session()), INVALID),
    ("it outlives what was released", passed_on(session().release(15, 16, 1, session=7)), VALID),
    ("granted on a lease that was called over", called_over(12, 11, 41, 50), OVER),
    ("before it came the other: inside a hold", called_over(9, 11, 41, 50), OVER),
    ("or after it had ended by itself", called_over(9, 15, 41, 50), VALID),
    ("released as it was told", called_over(12, 11, 41, 41), VALID),
    ("what a jump excuses", excused("expired-by-jump", "clock", 12), DOCUMENTED),
    ("what lost data excuse", excused("state-lost", "wipe", 12), DOCUMENTED),
    ("a lease that was revoked", excused("revoked-early", "pause", 12), DOCUMENTED),
    ("a lease that was revoked later", excused("revoked-early", "pause", 17), VIOLATED),
    ("lost data are no jump", excused("expired-by-jump", "wipe", 12), VIOLATED),
)
