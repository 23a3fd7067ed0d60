"""Known histories of locks that are more than a mutex: queues, permits, readers, two locks at once, nested holds."""

from typing import Any

from checkers.check import applicable
from checkers.history.view import View
from checkers.properties.exclusion import MOST_INSIDE
from checkers.properties.fifo_and_deadlock import BOTH, BYPASSES, CROWDED, CYCLES, LONGEST, PER_RELEASES, QUEUED, WAKES
from checkers.properties.independence_and_sharing import AWAITED, BESIDE, NESTED_ACQUIRES, READERS
from checkers.properties.shared_counters import CONTENDED, GRANTS
from checkers.row_format import NESTED, NONE, SHARED, F, Reason
from checkers.tests.build import FAIL, GOOD, INFO, INVALID, OK, VALID, Book, known


def queue(early: tuple[int, int, int], late: tuple[int, int, int], **more: Any) -> Book:
    """Worker 1 holds until 20. Two others wait, each with its times (asked, in the queue, granted)."""
    book = Book(keys=("a",), ttl=100, **more).acquire(1, 3, 1, base=2).release(20, 21, 1)
    for owner, (inv, queued, ret) in enumerate((early, late), 2):
        book.acquire(inv, ret, owner, base=queued).release(ret + 4, ret + 5, owner)
    return book


def overtaken(reader: int = 0, **more: Any) -> Book:
    """Worker 3, which asked later, is granted the lock before worker 2."""
    book = queue((5, 6, 28), (7, 8, 22), **more)
    book.rows = [(*row[:-1], SHARED) if row[5] == reader else row for row in book.rows]
    return book


def woken(*wakes: int) -> Book:
    """Worker 1 holds until 20. The others wait, and are woken as often as `wakes` says."""
    book = Book(keys=("a",), ttl=100).acquire(1, 2, 1, value=0).release(20, 21, 1)
    for owner, times in enumerate(wakes, 2):
        ret = 20 + 4 * owner
        book.acquire(owner + 2, ret, owner, value=times).release(ret + 1, ret + 2, owner)
    return book


ASKED = ("worker 2 asked for the lock at 0.000 s; it was in the queue by 0.000 s",)
SEVERAL = {"valid": True, "unexercised": "several may hold at once, so that nobody knows who was first"}
UNTOLD = {"unexercised": "the grants do not tell when they were queued"}
SILENT = {"unexercised": "the client does not tell how often it was woken"}

test_fifo = known(
    "fifo",
    ("in order", queue((5, 6, 22), (7, 8, 28)), {**GOOD, QUEUED: 1, BYPASSES: 0}),
    ("overtaken", overtaken(), {"told": ASKED, "kind": "overtaken", "at": 22, "owners": (3, 2), BYPASSES: 1}),
    ("readers pass one another", overtaken(reader=3), VALID),
    ("permits", overtaken(permits=2), SEVERAL),
    ("not behind", queue((5, 0, 22), (7, 0, 28)), {"unexercised": "nobody was queued behind another"}),
    ("untold", Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1), UNTOLD),
)

test_herd_free = known(
    "herd-free",
    ("one wake for each that left", woken(1, 1), {**GOOD, WAKES: 2, PER_RELEASES: 66, CROWDED: 1}),
    ("as many as can be", woken(1, 2), VALID),
    ("a herd", woken(1, 3), {"kind": "herd", "at": 32, "told": ("it was woken 3 times",)}),
    ("a nested acquire has no place in the queue", woken(1, 3).acquire(30, 31, 1, flags=NESTED, value=0), INVALID),
    ("nobody woken", woken(-1, -1), {"unexercised": "nobody was woken"}),
    ("wakes untold", Book(keys=("a",)).acquire(1, 2, 1), SILENT),
    ("one waits", woken(1), {"unexercised": "never were two waiting at a release"}),
)

PERMITS, HOLDERS = "permits", "holder-exclusion"


def three(third: int) -> Book:
    """Two permits, both taken from 4 on. The first is released at 20; a third acquire returns at `third`."""
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


def refused(inv: int, ret: int, reason: Reason = Reason.TIMEOUT, book: Book | None = None) -> Book:
    return (book or READING.then()).acquire(inv, ret, 0, process=3, outcome=FAIL, flags=SHARED, reason=reason)


def downgraded(renewed: int, worker: int = 1) -> Book:
    """Worker 1, a writer, asks at 10 to become a reader, and is told at 14 that it is. It renews at `renewed`."""
    book = Book(keys=("a",), ttl=100).acquire(1, 2, 1).release(10, 14, 1).renew(renewed, renewed + 1, 1)
    return book.acquire(10, 10, 2, sent=10, process=worker, flags=SHARED).release(40, 41, 2, flags=SHARED)


def turned_away(at: int, worker: int = 1) -> Book:
    """Worker 3 asks to read as well, and is refused as held."""
    return refused(at, at + 1, Reason.HELD, downgraded(9, worker))


def tokens(first: int, second: int, token: int = 5) -> Book:
    return Book(keys=("a",)).acquire(1, 2, 1, token=5, flags=first).acquire(3, 4, 2, token=token, flags=second)


# Workers 1 and 2 read, both inside from 4 to 20.
READING = Book(keys=("a",), workload="share", ttl=100)
READING.acquire(1, 2, 1, flags=SHARED).acquire(3, 4, 2, flags=SHARED)
READING.release(20, 21, 1, flags=SHARED).release(20, 22, 2, flags=SHARED)
ONE_READER = {"unexercised": "no more than 1 readers inside at once, 2 needed"}
STORY = ("worker 1 was granted the lock for reading at", "worker 3 asked for the lock for reading")
AFTER_A_FAULT = refused(10, 20).fault("cut-client-drop", 2, 9)
WRITTEN = READING.then().acquire(18, 19, 4).release(30, 31, 4)
REPEATED = {"kinds": ["token-repeated"]}

test_sharing = known(
    "sharing",
    ("readers inside together", READING, {**GOOD, READERS: 2}),
    ("one alone", Book(keys=("a",)).acquire(1, 2, 1, flags=SHARED).release(3, 4, 1, flags=SHARED), ONE_READER),
    ("timed out", refused(6, 9), {"kind": "reader-refused", "at": 9, "holders": (0, 1), "told": STORY}),
    ("a timeout after a fault", AFTER_A_FAULT, INVALID),
    ("a timeout while the service may recover", AFTER_A_FAULT.then(bounds={"recovery": 3}), VALID),
    ("a timeout under a stall", refused(6, 9).add(F.STALL, 5, 6, process=3), VALID),
    ("a timeout under another's stall", refused(6, 9).add(F.STALL, 5, 6, process=2), INVALID),
    ("while a writer becomes a reader", turned_away(11), VALID),
    ("when it is one", turned_away(15), {"kind": "reader-refused", "at": 16}),
    ("when another reads", turned_away(11, worker=2), {"kind": "reader-refused", "at": 12}),
    ("refused as held under a fault", refused(10, 20, Reason.HELD).fault("cut-client-drop", 2, 11), INVALID),
)

test_readers_exclude_writers_alone = known(
    SERVER,
    ("readers exclude no readers", READING, VALID),
    ("readers exclude a writer", WRITTEN, {"kinds": ["granted-while-held", "granted-while-held"]}),
    ("a renewal overtakes the downgrade of its writer", downgraded(11), VALID),
    ("another's reader is no downgrade", downgraded(11, worker=2), {"kinds": ["granted-while-held"]}),
    ("a renewal after the downgrade was acknowledged", downgraded(15), INVALID),
    ("a writer that comes in between", downgraded(11).acquire(5, 13, 3), {"kinds": ["granted-while-held"]}),
    ("a reader among readers contends with nobody", READING, {CONTENDED: 0}),
    ("a writer does", READING.then().acquire(10, 23, 4), {CONTENDED: 1}),
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


def crossed(until: int, *, outcome: Any = FAIL, flags: int = 0, **facts: Any) -> Book:
    """Worker 1 holds a and asks for b at 5, worker 2 holds b and asks for a at 7; worker 2 gives up at `until`."""
    book = Book(workload="transfer-opposite", ttl=10, **facts)
    book.acquire(1, 2, 1, key=0, flags=flags).acquire(3, 4, 2, key=1, flags=flags)
    book.acquire(5, 60, 0, process=1, key=1, outcome=FAIL, flags=flags)
    book.acquire(7, until, 0, process=2, key=0, outcome=outcome, flags=flags)
    book.release(61, 62, 1, key=0, flags=flags)
    return book.release(until, until + 1, 2, key=1, flags=flags)


def told_to_wait(patience: float, lasted: float) -> Book:
    """Two wait for each other's lock, with leases of 2 s, told to wait `patience` s. One gives up after `lasted` s."""
    second = 10**9
    book = Book(ttl=2 * second).acquire(1, 2, 1).acquire(3, 4, 2, key=1)
    for process, key, waits in ((1, 1, 9.0), (2, 0, lasted)):
        until, told = 5 + int(waits * second), int(patience * second)
        book.acquire(5, until, 0, process=process, key=key, outcome=FAIL, ttl=told)
        book.release(until, until + 1, process, key=1 - key)
    return book


LONG = Book(ttl=10**9).acquire(1, 2, 1).acquire(1, 2, 2, key=1)
LONG.acquire(5, 9_000_000, 0, process=1, key=1, outcome=FAIL).acquire(5, 7_000_005, 0, process=2, outcome=FAIL)
LONG.release(10**8, 10**8, 1).release(10**8, 10**8, 2, key=1)
IN_ORDER = Book(ttl=10).acquire(1, 2, 1).acquire(3, 30, 2).acquire(5, 6, 3, process=1, key=1)
IN_ORDER.release(20, 21, 3, process=1, key=1).release(22, 23, 1).acquire(31, 32, 4, process=2, key=1)
IN_ORDER.release(40, 41, 4, process=2, key=1).release(42, 43, 2)
IN_CIRCLE = {"told": ("worker 1 was granted lock A at", "worker 1 had asked for lock B at 0.000 s and was refused")}

test_circles = known(
    "deadlock-free",
    ("for longer than a lease", crossed(18), {"kind": "deadlock", "at": 17, "holders": (0, 1), CYCLES: 1, **IN_CIRCLE}),
    ("what a timeout breaks within a lease is counted", crossed(17), {"valid": True, CYCLES: 1}),
    ("time in which the machine stood still", crossed(18).add(F.STALL, 9, 10, process=3), VALID),
    ("and longer than that", crossed(19).add(F.STALL, 9, 10, process=3), {"at": 18}),
    ("time in which the service had no answer", crossed(18).renew(9, 10, 3), VALID),
    ("nor had the trial", crossed(18, silences=((9, 10),)), VALID),
    ("it was found late", told_to_wait(4.0, 2.9), {"valid": True, CYCLES: 1, LONGEST: 2900}),
    ("it was not found", told_to_wait(4.0, 3.9), {"kind": "deadlock", "at": 5 + 3 * 10**9}),
    ("they wait for no longer than anybody", told_to_wait(0, 2.1), {"kind": "deadlock", "at": 5 + 2 * 10**9}),
    ("a stall before it", crossed(18).add(F.STALL, 1, 7, process=3), INVALID),
    ("milliseconds of the longest", LONG, {LONGEST: 7}),
    ("in one order nobody waits in a circle", IN_ORDER, {**GOOD, CYCLES: 0, BOTH: 2}),
    ("who noticed that it had lost its first waits for nobody", crossed(30).lost(9, 1), VALID),
    ("readers wait for no reader", crossed(18, flags=SHARED), VALID),
    ("who was killed while it waited waits no more", crossed(18, outcome=INFO), VALID),
    ("nobody takes two", Book().acquire(1, 2, 1).release(3, 4, 1), {"unexercised": "no holder asked for another lock"}),
    ("permits", crossed(18, permits=2), {"valid": True, "unexercised": "several may hold at once"}),
)


# Worker 1 holds lock a from 2 to 20; the bound is 5.
FIRST_HELD = Book(bounds={"independence": 5}, ttl=100)
FIRST_HELD.acquire(1, 2, 1).release(20, 21, 1)
# Lock b is granted only with the release of lock a.
LATE = FIRST_HELD.then().acquire(3, 22, 2, key=1)
BOTH_TOLD = {"told": ("worker 1 was granted lock A at", "worker 2 had asked for lock B at")}
NOBODY = {"unexercised": "nobody asked for a free lock while another was held"}

test_independence = known(
    "independence",
    ("given at once", FIRST_HELD.then().acquire(3, 8, 2, key=1).release(9, 10, 2, key=1), {**GOOD, BESIDE: 1}),
    ("with the release of another", LATE, {"kind": "kept-by-another-name", "at": 8, "holders": (0,), **BOTH_TOLD}),
    ("late by a fault", FIRST_HELD.then().acquire(3, 22, 2, key=1).fault("cut-client-drop", 4, 5), VALID),
    ("late by a stall", FIRST_HELD.then().acquire(3, 22, 2, key=1).add(F.STALL, 4, 5, process=2), VALID),
    ("another's stall", FIRST_HELD.then().acquire(3, 22, 2, key=1).add(F.STALL, 4, 5, process=3), INVALID),
    ("when nothing was held", FIRST_HELD.then().acquire(22, 23, 2, key=1), NOBODY),
    ("no bound", FIRST_HELD.then(bounds={}).acquire(3, 4, 2, key=1), {"unexercised": "the lock declares no bound"}),
    ("nested", FIRST_HELD.then().acquire(3, 30, 1, flags=NESTED, key=1), VALID),
)


def nested(**inner: Any) -> Book:
    """Worker 1 holds from 2 to 30, for 100 at most; it acquires again from 4 to 5 and releases that at 8."""
    book = Book(keys=("a",), workload="nested", ttl=100).acquire(1, 2, 1, token=7).release(30, 31, 1)
    book.acquire(4, 5, 1, flags=NESTED, **{"token": 7, **inner})
    return book.release(8, 9, 1, flags=NESTED)


# Worker 2 is granted the lock at 12. Worker 1's inner release at 8 is refused, or gets no answer.
NOT_RELEASED, MAYBE_RELEASED = (
    Book(ttl=100).acquire(1, 2, 1).release(30, 31, 1).release(8, 9, 1, outcome, flags=NESTED).acquire(6, 12, 2)
    for outcome in (FAIL, INFO)
)
TAKEN_AGAIN = nested().acquire(6, 32, 2).release(33, 34, 2)
TWO_RELEASES = nested().acquire(9, 10, 1, token=7, flags=NESTED).release(10, 11, 1, flags=NESTED).acquire(6, 12, 2)
CHANGED = "worker 1's nested acquire, sent at 0.000 s, succeeded with token 8 at 0.000 s"


def late(token: int, ttl: int, another: int = NONE) -> Book:
    """Worker 1 holds from 31 to 50; its inner release is sent at 40. Worker 2 asks at 29 and is granted at 42."""
    book = Book(keys=("a",), ttl=ttl).acquire(31, 32, 1, token=token).release(50, 51, 1)
    return book.release(40, 41, 1, flags=NESTED).acquire(29, 42, 2, token=another)


FREED = {"kind": "freed-by-inner-release", "at": 12, "told": ("worker 1's nested release, sent at",)}

test_reentrancy = known(
    "reentrancy",
    ("the same grant again", TAKEN_AGAIN, {**GOOD, NESTED_ACQUIRES: 1, AWAITED: 1}),
    ("refused as held", nested(outcome=FAIL, reason=Reason.HELD), {"kind": "nested-refused"}),
    ("refused as another's", nested(outcome=FAIL, reason=Reason.NOT_OWNER), {"kind": "nested-refused"}),
    ("timed out", nested(outcome=FAIL, reason=Reason.TIMEOUT), {"kind": "nested-refused"}),
    ("unavailable", nested(outcome=FAIL, reason=Reason.UNAVAILABLE), VALID),
    ("a timeout under a fault", nested(outcome=FAIL, reason=Reason.TIMEOUT).fault("cut-client-drop", 3, 4), VALID),
    ("another token", nested(token=8), {"kind": "token-changed", "told": (CHANGED,)}),
    ("an inner release that frees the lock", nested().acquire(6, 12, 2), FREED),
    ("a refused inner release frees nothing", NOT_RELEASED, VALID),
    ("an unanswered one may", MAYBE_RELEASED, FREED),
    ("the latest inner release is to blame once", TWO_RELEASES, {"sent": (1, 10, 6)}),
    ("a grant before the outer one, answered late", late(7, 100, 6), VALID),
    ("a grant after the outer one, asked for before", late(7, 100, 8), {**FREED, "at": 42}),
    ("a lease that may have been over before the outer one", late(NONE, 3), VALID),
    ("a lease that cannot have been over", late(NONE, 100), {**FREED, "at": 42}),
    ("nothing nested", Book().acquire(1, 2, 1), {"unexercised": "nobody acquired again what it held"}),
    ("nobody waits", nested(outcome=OK), {"valid": True, "unexercised": "nobody waited at an inner release"}),
)

# A nested acquire is no grant and its release no release of its own; its own hold is no contention.
test_a_nested_acquire_is_part_of_the_outer_hold = known(
    "server-exclusion", ("it is part of the outer hold", TAKEN_AGAIN, {"valid": True, GRANTS: 2, CONTENDED: 1})
)
