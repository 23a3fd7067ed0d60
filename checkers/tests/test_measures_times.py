"""Measures of holds against leases, of availability, recovery, fairness and latencies."""

from dataclasses import replace

import numpy as np

from checkers.measures.availability import availability_gap, deadlock, recovery_after_heal
from checkers.measures.fairness import bypass, starvation
from checkers.measures.holders import hold_versus_ttl
from checkers.measures.latency import acquire_latency, release_latency
from checkers.measures.measured_history import MeasuredHistory
from checkers.models.model import Settings
from checkers.row_format import SHARED, F, Reason
from checkers.tests.build import FAIL, INFO, Book, known


def kept_alive(lease: str) -> Book:
    """Session 7 is created at 1, with a TTL of 10, and kept alive at 8 and, when the holder has left, at 30."""
    book = Book(keys=("a",), lease=lease).add(F.SESSION_OPEN, 1, 2, session=7).add(F.KEEP_ALIVE, 8, 9, session=7)
    book.acquire(9, 10, 1, session=7).release(15, 16, 1, session=7).add(F.KEEP_ALIVE, 30, 31, session=7)
    return book.add(F.KEEP_ALIVE, 14, 15, session=8)


def passed(took: int, inv: int = 7, **more: int) -> Book:
    """Owner 2 asks at 5 but is granted the lock after owner 3, which asks at `inv`. Owner 2's release takes `took`."""
    book = Book(keys=("a",), ttl=1000).acquire(5, 50, 2, base=more.pop("queued", -1)).release(60, 60 + took, 2)
    return book.acquire(inv, inv + 1, 3, **more).release(inv + 2, inv + 3, 3)


def at_times(book: Book, *clock: tuple[int, int]) -> MeasuredHistory:
    """The book as a foreign history, with the times of each row."""
    return MeasuredHistory(replace(book.history(), clock=np.array(clock, np.int64)), Settings())


# Acquires and releases take 1, 2, 3 and 4; one acquire is given up after 2.
TIMED = Book(keys=("a",), ttl=1000)
for n in (1, 2, 3, 4):
    TIMED.acquire(10 * n, 11 * n, n).release(11 * n, 11 * n + n, n)
TIMED.acquire(60, 62, 0, outcome=FAIL, reason=Reason.TIMEOUT)
# Lock a is held in [2, 5] and from 20 on, and asked for in [3, 9] and [12, 20]: it is free in [5, 9] and [12, 20].
WANTED = Book(keys=("a",), ttl=50).acquire(1, 2, 1).release(5, 6, 1)
WANTED.acquire(3, 9, 0, process=2, outcome=FAIL, reason=Reason.TIMEOUT)
WANTED.acquire(12, 20, 3).release(30, 31, 3)
# The TTL is 10. Holders leave 8 before the end of the lease, 1 after it, 5 before it (renewed at 45), and 3 before it.
MARGINS = Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1).acquire(11, 12, 2).release(22, 23, 2).acquire(31, 32, 3)
MARGINS.renew(36, 37, 3).renew(45, 46, 3).release(50, 51, 3)
MARGINS.acquire(61, 62, 4).renew(65, 66, 4).renew(75, 76, 4).release(82, 83, 4)
OUTLIVED = Book(keys=("a",)).acquire(1, 2, 1).acquire(12, 13, 2).release(15, 16, 1)
NO_LEASE = {"unexercised": "no lease ends by itself"}
AT_ONCE = Book(keys=("a",)).acquire(1, 10, 1).release(10, 11, 1).acquire(1, 15, 2)
HEALED = WANTED.then().fault("pause-server", 7, 10).fault("pause-server", 14, 40)
# Released at 5; asked for from 10 to 90 in vain. The TTL is 10, the bound 20.
IN_VAIN = Book(keys=("a",), bounds={"recovery": 20}).acquire(1, 2, 1).release(5, 6, 1).acquire(3, 4, 2).release(5, 6, 2)
IN_VAIN.acquire(10, 0, 0, process=3, outcome=INFO).acquire(20, 90, 0, outcome=FAIL)
VAIN = {"alert": "somebody asked in vain until the end for what nobody held", "rows": ((4, 5),)}
HELD = Book(keys=("a",)).acquire(1, 2, 1).renew(50, 51, 1).acquire(10, 55, 0, outcome=FAIL)
NO_DELTA = {"unexercised": "nothing tells how long a request takes to the service"}
ONE_WORKER = Book().acquire(1, 2, 1, process=1).release(3, 4, 1).acquire(5, 6, 2, process=1)
PHASES = TIMED.then().fault("pause-server", 100, 200).acquire(99, 150, 7).acquire(199, 0, 0, outcome=INFO)
PHASES.acquire(300, 309, 8).acquire(400, 0, 0, outcome=INFO)
# Owner 2 asks at 5 and waits; owners 3, 4 and 5 ask later and go first. The slowest release takes 2.
QUEUE = Book(keys=("a",), ttl=1000).acquire(1, 2, 1).release(8, 10, 1).acquire(5, 50, 2).release(60, 61, 2)
for owner, inv in ((3, 11), (4, 21), (5, 31)):
    QUEUE.acquire(inv, inv + 1, owner).release(inv + 5, inv + 6, owner)
# Three workers: one gets 3 grants, one gets 1, and one asks in vain for 40.
UNEQUAL = Book(keys=("a",), ttl=1000)
for n, (inv, process) in enumerate(((1, 0), (11, 0), (21, 0), (31, 1)), 1):
    UNEQUAL.acquire(inv, inv + n, n, process=process).release(inv + 5, inv + 6, n, process=process)
UNEQUAL.acquire(2, 42, 0, process=2, outcome=FAIL, reason=Reason.TIMEOUT)
HELD_ONCE = Book(trial="", ttl=0).acquire(1, 2, 1).release(3, 4, 1)
PLACES = at_times(HELD_ONCE, (1000, 1500), (2000, 2007))
# The fault lies between the events at 2 and 5, which the file puts at 2000 and 5000, and before those at 7 and 10.
HELD_TWICE = Book(trial="", ttl=0).acquire(1, 2, 1).release(5, 6, 1).acquire(7, 10, 2).fault("cut", 3, 4)
ELSEWHERE = at_times(HELD_TWICE, (1000, 2000), (5000, 6000), (7000, 9000))

test_hold_versus_ttl = known(
    hold_versus_ttl,
    ("margins", MARGINS, {"holds": 4, "margin_min": -1, "margin_p50": 3, "margin_p90": 8}),
    ("holds beyond", MARGINS, {"outlived": 1, "met_another": 0, "beyond_twice_ttl": 1}),
    ("the longest hold", MARGINS, {"longest_hold": 21, "rows": ((8,),)}),
    ("its alert", MARGINS, {"alert": "1 of 4 holds lasted longer than 2 TTLs"}),
    ("outlived its lease and met another", OUTLIVED, {"outlived": 1, "met_another": 1}),
    ("keep-alives until the holder left", kept_alive("session"), {"margin_min": 3}),
    ("so do other requests", kept_alive("touch"), {"margin_min": 4}),
    ("no lease", Book(lease="none").acquire(1, 2, 1), NO_LEASE),
    ("no lease in a file", Book(trial="", ttl=0).acquire(1, 2, 1), NO_LEASE),
)

test_availability_gap = known(
    availability_gap,
    # The first wait counts too: nobody held the lock in [1, 2].
    ("gaps", WANTED, {"longest": 8, "total": 13, "asked": 15, "gaps": 3}),
    ("the share of time", WANTED, {"share": 13 / 15, "rows": ((3,),)}),
    ("nobody asked", Book(), {"unexercised": "nobody asked for a lock"}),
    ("a grant that is over at once ends a gap", AT_ONCE, {"longest": 9, "gaps": 2}),
)

test_recovery_after_heal = known(
    recovery_after_heal,
    ("after the first heal", HEALED, {"first@pause-server#1": 10, "gap@pause-server#1": 8}),
    ("after the second heal", HEALED, {"first@pause-server#2": None}),
    ("after each heal", HEALED, {"faults": 2, "recovered": 1, "unexercised": None}),
    ("no fault", WANTED, {"unexercised": "there was no fault to recover from"}),
    ("no heal", WANTED.then().fault("f", 7, 0), {"unexercised": "no fault was healed"}),
    ("nobody asked since", WANTED.then().fault("f", 7, 40), {"unexercised": "nobody asked for a lock after a heal"}),
    ("a fault in a file", ELSEWHERE, {"first@cut#1": 9000 - 4999}),
)

test_deadlock = known(
    deadlock,
    ("a lock that nobody gets any more", IN_VAIN, {"longest": 80, "allowed": 30, "keys": 1, **VAIN}),
    ("a holder is no deadlock", HELD, {"longest": 0, "alert": None}),
)

test_bypass = known(
    bypass,
    ("bypasses", QUEUE, {"bypasses": 3, "passed": 1, "most": 3, "acquires": 5, "delta": 2}),
    ("who was passed", QUEUE, {"rows": ((1,),), "alert": None, "property": "fifo"}),
    ("at nearly the same time", passed(2), {"bypasses": 0}),
    ("not at nearly the same time", passed(1), {"bypasses": 1}),
    ("who tells when it was queued needs no delta", passed(9, queued=6, base=8), {"bypasses": 1, "delta": None}),
    ("readers pass rightly", passed(1, 9, flags=SHARED), {"bypasses": 0}),
    ("no delta", Book(keys=("a",), ttl=1000).acquire(1, 2, 1), NO_DELTA),
)

test_starvation = known(
    starvation,
    ("starvation", UNEQUAL, {"workers": 3, "least_grants": 0, "most_grants": 3, "jain": 16 / 30}),
    ("waits", UNEQUAL, {"longest_wait": 40, "median_wait": 3, "longest_by_median": 40 / 3}),
    ("who waited longest", UNEQUAL, {"rows": ((1,),)}),
    ("one worker", ONE_WORKER, {"unexercised": "only one worker asked"}),
)

test_acquire_latency = known(
    acquire_latency,
    # Of five, one is done after 1; of four, one after 2, when another is given up; then one of two, and the last.
    ("answered", TIMED, {"answered@all": 4, "censored@all": 1}),
    ("latencies", TIMED, {"p50@all": 3, "p90@all": 4, "longest@all": 4, "rows": ((6,),)}),
    ("before", PHASES, {"answered@before": 4, "censored@before": 1, "p50@before": 3}),
    # Of two acquires, one is done after 51, and the other may never be.
    ("during", PHASES, {"p50@during": 51, "p90@during": None, "censored@during": 1}),
    ("after", PHASES, {"answered@after": 1, "p50@after": 9, "answered@all": 6}),
    ("no acquire", Book(), {"unexercised": "nobody asked for a lock"}),
    ("no answer", Book().acquire(5, 0, 0, outcome=INFO), {"unexercised": "none was answered"}),
    ("phases in a file", ELSEWHERE, {"answered@before": 1, "answered@after": 1}),
    ("times in a file", PLACES, {"p50@all": 500, "longest@all": 500}),
    ("no times", at_times(HELD_ONCE, (0, 0), (0, 0)), {"unexercised": "the file has no times"}),
    ("backwards", at_times(HELD_ONCE, (5, 4), (3, 6)), {"unexercised": "the times in the file run backwards"}),
)

test_release_latency = known(
    release_latency,
    ("releases", TIMED, {"p50@all": 2, "p90@all": 4, "censored@all": 0}),
    ("no release", Book(), {"unexercised": "nobody released anything"}),
    ("releases in a file", PLACES, {"p50@all": 7}),
)
