"""Known histories for owner-release and crash-release."""

from typing import Any

from checkers.properties.releases import CRASHED, SLOWEST, STALE_RELEASES, WAITED_FOR
from checkers.row_format import SHARED, F, Reason
from checkers.tests.build import FAIL, INFO, Book
from checkers.tests.compare import GOOD, INVALID, VALID, known, result_on


def two(flags: int = 0, **more: Any) -> Book:
    """Worker 1 is granted at 10 for 10, worker 2 at 30."""
    return Book(keys=("a",)).acquire(8, 10, 1, ttl=10, flags=flags).acquire(25, 30, 2, flags=flags, **more)


LIE = {"kind": "released-anothers", "at": 31, "rows": (0, 1, 2), "holders": (0, 1)}
ANOTHERS = {"told": ("So a release was acknowledged although the lock was another's by then.",)}
NOT_ITS_OWN = {
    "holders": (0, 1),  # who took it from worker 1
    "told": ("So a release was acknowledged although the lock had not been worker 1's since another was granted it.",),
}
EXERCISED = {**GOOD, STALE_RELEASES: 1}
IN_DOUBT = {"valid": True, "unexercised": "nobody released what another held by then"}
LONG_LEASE = two(ttl=90).acquire(40, 41, 3, ttl=2).release(50, 51, 1)
# Worker 2 has gone by 32, and worker 3 has it from 35 on.
THREE = two().release(31, 32, 2).acquire(33, 35, 3).release(36, 37, 1)

test_owner_release = known(
    "owner-release",
    ("acknowledged though another has it", two().release(31, 32, 1), LIE),
    ("refused", two().release(31, 32, 1, FAIL), EXERCISED),
    ("not answered", two().release(31, 32, 1, INFO), EXERCISED),
    ("sent before the grant returned", two().release(30, 32, 1), IN_DOUBT),
    ("who had it at that moment", THREE, {"rows": (0, 3, 4), "holders": (0, 3), **ANOTHERS}),
    ("when it could be over", two().release(35, 36, 1), NOT_ITS_OWN),
    ("a long lease that began before others", LONG_LEASE, {"holders": (0, 1), **ANOTHERS}),
)


# Crashes: worker 1 is granted at 10 for 10, and killed at 12. The bound is 5, so others must get it by 27.

FACTS: dict[str, Any] = {"keys": ("a",), "bounds": {"crash-release": 5}, "fault_names": ("kill-holder",)}


def crash(kind: str = "kill", healed: int = 60, process: int = 1, **facts: Any) -> Book:
    book = Book(**{**FACTS, **facts}).acquire(9, 10, 1, ttl=10)
    book.fault("kill-holder", 11, healed, applied=12, kind=kind, owner=1, process=process)
    return book.read(11, 12, 1, -1)


def hung(healed: int = 60) -> Book:
    return crash("stall", healed)


def refused(inv: int, ret: int, reason: Reason = Reason.NONE, process: int = 2, book: Book | None = None) -> Book:
    return (book or crash()).add(F.ACQUIRE, inv, ret, FAIL, process=process, reason=reason)


def unanswered(inv: int, book: Book | None = None) -> Book:
    return (book or crash()).add(F.ACQUIRE, inv, 0, INFO, process=3)


# A writer asks from 13 to 35; the dead reader's lease is over at 22, that of the other at 26.
BESIDE = Book(**FACTS).acquire(9, 10, 1, ttl=10, flags=SHARED).read(11, 12, 1, -1).acquire(13, 35, 9)
BESIDE.fault("kill-holder", 11, 60, applied=12, kind="kill", owner=1, process=1)
BESIDE.acquire(14, 16, 2, ttl=10, flags=SHARED)
SLOW = Book(**{**FACTS, "bounds": {"crash-release": 10**9}}, ttl=10**7).acquire(1, 2, 1)
SLOW.fault("kill-holder", 3, 10**9, kind="kill", owner=1, process=1).acquire(5, 3 * 10**7 + 3, 2)
WAITED = ("worker 2's acquire",)
NEVER = {"kind": "never-freed", "at": 28, "holders": (0,), "rows": (0, 3), "told": WAITED}  # the one who waited then
NOT_LONG = {"valid": True, "unexercised": "nobody asked for long enough for what a dead or hung holder held"}
NO_CRASH = {"valid": True, "unexercised": "no holder died, or hung for longer than the TTL"}
HUNG = {"kind": "kept-by-a-hung-holder", "at": 27}
SESSION = Book(**FACTS, lease="session").acquire(9, 10, 1, ttl=10, session=7).add(F.KEEP_ALIVE, 13, 14, session=7)
SESSION.fault("kill-holder", 12, 60, kind="kill", owner=1, process=1).acquire(15, 29, 2, session=8)


def silent(answered: int, granted: int, **facts: Any) -> Book:
    """Worker 2 asks to keep its session alive at 16, and has its first answer at `answered`; it gets the lock so late.

    Worker 1's session can end at 24 by what is recorded of it.
    """
    book = Book(**{**FACTS, "lease": "session", **facts}).acquire(9, 10, 1, ttl=10, session=7)
    book.add(F.KEEP_ALIVE, 13, 14, session=7, process=1).fault("kill-holder", 12, 60, kind="kill", owner=1, process=1)
    book.add(F.KEEP_ALIVE, 16, 0, INFO, session=8, process=2, given_up=min(answered, 19))
    if answered > 19:
        book.add(F.KEEP_ALIVE, 20, 20, FAIL, session=8, process=2, reason=Reason.UNAVAILABLE)
        book.add(F.KEEP_ALIVE, 21, answered, session=8, process=2)
    return book.acquire(15, granted, 2, session=8)


# Worker 2 had it when worker 1 was killed.
PASSED_ON_BEFORE = Book(**FACTS).acquire(1, 2, 1, ttl=3).acquire(7, 8, 2, ttl=30)
PASSED_ON_BEFORE.fault("kill-holder", 9, 60, kind="kill", owner=1, process=1).add(F.ACQUIRE, 9, 38, FAIL, process=3)
# Worker 1's lease could end at 20, before its answer came; worker 2 holds from 18 on.
ANSWERED_LATE, ANSWERED = (Book(**FACTS).acquire(9, ret, 1, sent=10, ttl=10) for ret in (25, 19))
for book in (ANSWERED_LATE, ANSWERED):
    book.acquire(11, 18, 2, ttl=90)
    book.fault("kill-holder", 26, 60, kind="kill", owner=1, process=1).add(F.ACQUIRE, 27, 70, FAIL, process=3)
BOTH_DIED = Book(**FACTS)
for owner, at in ((1, 9), (2, 13)):
    BOTH_DIED.acquire(at, at + 1, owner, ttl=10, flags=SHARED)
    BOTH_DIED.fault("kill-holder", at + 2, 60, kind="kill", owner=owner, process=owner)
BOTH_DIED.acquire(14, 60, 3)

test_crash_release = known(
    "crash-release",
    ("in time", crash().acquire(13, 27, 2), {**GOOD, CRASHED: 1, WAITED_FOR: 1}),
    ("too late", crash().acquire(13, 28, 2), {"kind": "freed-late", "at": 27, "rows": (0, 2)}),
    ("never", refused(26, 90, book=refused(13, 25, Reason.TIMEOUT)), NEVER),
    ("who was not in line did not wait", refused(13, 90, Reason.UNAVAILABLE), NOT_LONG),
    ("an unanswered acquire may have been granted", unanswered(26, refused(13, 90)), NOT_LONG),
    ("who gets it late after an unanswered one", unanswered(5).acquire(13, 28, 2), {"valid": True, WAITED_FOR: 0}),
    ("the TTL counts from the last keep-alive", SESSION, VALID),
    ("an election may have given it all of its time anew", silent(22, 37), VALID),
    ("not more than that", silent(22, 38), {"kind": "freed-late", "at": 37}),
    ("without an answer the election may have come within a TTL", silent(19, 44), VALID),
    ("of one that was killed nobody knows whether it had an answer", silent(0, 30), INVALID),
    ("where leases are the grants', the silence is all", silent(27, 32, lease="grant"), VALID),
    ("and nothing after it", silent(27, 33, lease="grant"), INVALID),
    ("late without a lease", crash(lease="none").acquire(13, 19, 2), INVALID),
    ("it took long to die", crash(lease="none").add(F.STALL, 12, 30, process=1).acquire(13, 35, 2), VALID),
    ("what had been passed on before", PASSED_ON_BEFORE, NO_CRASH),
    ("another reader's renewed lease, until 31", BESIDE.then().renew(20, 21, 2), VALID),
    ("another reader's early release", BESIDE.then().release(28, 29, 2, flags=SHARED), INVALID),
    ("who died with a late answer kept nobody out", ANSWERED_LATE, NO_CRASH),
    ("who died with one in time may have", ANSWERED, {"kinds": ["never-freed"]}),
    ("two readers that died", BOTH_DIED, {"kinds": ["freed-late", "freed-late"]}),
    ("a long call", crash("call").renew(16, 17, 1).acquire(13, 70, 2), HUNG),
    ("passed on in time though renewed", hung().renew(18, 19, 1).acquire(13, 24, 2), VALID),
    ("passed on too late", hung().renew(18, 19, 1).acquire(13, 28, 2), {**HUNG, "at": 22}),
    ("renewed until the bound", hung(25).renew(17, 18, 1).acquire(13, 26, 2), VALID),
    ("a short stall is no crash", hung(22).acquire(13, 24, 2), NO_CRASH),
    ("nor is a hung renewal, of 4 workers", crash(process=1 + 4).acquire(13, 24, 2), NO_CRASH),
    ("no bound", crash(bounds={}), {"unexercised": "the lock declares no bound"}),
    ("permits", crash(permits=2), {"unexercised": "several may hold at once"}),
    ("the slowest", SLOW, {SLOWEST: 20}),
)


def test_each_reader_that_died_is_told() -> None:
    violations = result_on(BOTH_DIED, "crash-release").violations
    assert sorted(violation.holders[0] for violation in violations) == [0, 1]
