"""Known histories of two locks: taken together, and taken for one by a service."""

from typing import Any

from checkers.properties.deadlock_free import BOTH, CYCLES, LONGEST
from checkers.properties.independence import BESIDE
from checkers.row_format import NESTED, SHARED, F
from checkers.tests.build import FAIL, INFO, Book
from checkers.tests.compare import GOOD, INVALID, VALID, known


def crossed(until: int, *, outcome: Any = FAIL, flags: int = 0, **facts: Any) -> Book:
    """Worker 1 holds a and asks for b at 5, worker 2 holds b and asks for a at 7; worker 2 gives up at `until`."""
    book = Book(workload="transfer-opposite", ttl=10, **facts)
    book.acquire(1, 2, 1, key=0, flags=flags).acquire(3, 4, 2, key=1, flags=flags)
    book.acquire(5, 60, 0, process=1, key=1, outcome=FAIL, flags=flags)
    book.acquire(7, until, 0, process=2, key=0, outcome=outcome, flags=flags)
    book.release(61, 62, 1, key=0, flags=flags)
    return book.release(until, until + 1, 2, key=1, flags=flags)


def stalled(until: int, begun: int, ended: int) -> Book:
    return crossed(until).add(F.STALL, begun, ended, process=3)


def told_to_wait(patience: float, lasted: float) -> Book:
    """Two wait for each other's lock, for as long as they were told, with leases of 2 s; one gives up after so long."""
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
STORY = ("worker 1 was granted a at", "worker 1's acquire of b, sent at 0.000 s, was refused")

test_circles = known(
    "deadlock-free",
    (
        "for longer than a lease",
        crossed(18),
        {"kind": "deadlock", "at": 17, "holders": (0, 1), CYCLES: 1, "told": STORY},
    ),
    ("what a timeout breaks within a lease is counted", crossed(17), {"valid": True, CYCLES: 1}),
    ("time in which the machine stood still", stalled(18, 9, 10), VALID),
    ("and longer than that", stalled(19, 9, 10), {"at": 18}),
    ("time in which the service had no answer", crossed(18).renew(9, 10, 3), VALID),
    ("nor had the trial", crossed(18, silences=((9, 10),)), VALID),
    ("it was found late", told_to_wait(4.0, 2.9), {"valid": True, CYCLES: 1, LONGEST: 2900}),
    ("it was not found", told_to_wait(4.0, 3.9), {"kind": "deadlock", "at": 5 + 3 * 10**9}),
    ("they wait for no longer than anybody", told_to_wait(0, 2.1), {"kind": "deadlock", "at": 5 + 2 * 10**9}),
    ("a stall before it", stalled(18, 1, 7), INVALID),
    ("milliseconds of the longest", LONG, {LONGEST: 7}),
    ("in one order nobody waits in a circle", IN_ORDER, {**GOOD, CYCLES: 0, BOTH: 2}),
    ("who noticed that it had lost its first waits for nobody", crossed(30).lost(9, 1), VALID),
    ("readers wait for no reader", crossed(18, flags=SHARED), VALID),
    ("who was killed while it waited waits no more", crossed(18, outcome=INFO), VALID),
    ("nobody takes two", Book().acquire(1, 2, 1).release(3, 4, 1), {"unexercised": "no holder asked for another lock"}),
    ("permits", crossed(18, permits=2), {"valid": True, "unexercised": "several may hold at once"}),
)


def held(**facts: Any) -> Book:
    """Worker 1 holds lock a from 2 to 20; the bound is 5."""
    book = Book(**{"bounds": {"independence": 5}, "ttl": 100, **facts})
    return book.acquire(1, 2, 1).release(20, 21, 1)


# Lock b comes with the release of a.
LATE = held().acquire(3, 22, 2, key=1)
BOTH_TOLD = ("worker 1 was granted a at", "worker 2's acquire of b, sent at")
NOBODY = {"unexercised": "nobody asked for a free lock while another was held"}

test_independence = known(
    "independence",
    ("given at once", held().acquire(3, 8, 2, key=1).release(9, 10, 2, key=1), {**GOOD, BESIDE: 1}),
    (
        "with the release of another",
        LATE,
        {"kind": "kept-by-another-name", "at": 8, "holders": (0,), "told": BOTH_TOLD},
    ),
    ("late by a fault", held().acquire(3, 22, 2, key=1).fault("cut-client-drop", 4, 5), VALID),
    ("late by a stall", held().acquire(3, 22, 2, key=1).add(F.STALL, 4, 5, process=2), VALID),
    ("another's stall", held().acquire(3, 22, 2, key=1).add(F.STALL, 4, 5, process=3), INVALID),
    ("when nothing was held", held().acquire(22, 23, 2, key=1), NOBODY),
    ("no bound", held(bounds={}).acquire(3, 4, 2, key=1), {"unexercised": "the lock declares no bound"}),
    ("nested", held().acquire(3, 30, 1, flags=NESTED, key=1), VALID),
)
