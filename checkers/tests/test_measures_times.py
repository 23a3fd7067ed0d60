"""Holds against leases, availability, recovery, fairness and latencies."""

from dataclasses import replace

import numpy as np

from checkers.measures.availability import availability_gap, deadlock, recovery_after_heal
from checkers.measures.fairness import bypass, starvation
from checkers.measures.holds import hold_versus_ttl
from checkers.measures.latency import acquire_latency, release_latency
from checkers.measures.subject import Subject
from checkers.models.model import Settings
from checkers.tests.build import FAIL, INFO, Book
from checkers.tests.fuzz_measures import measured
from checkers.wire import SHARED, F, Reason


def test_margins() -> None:
    """TTL 10: left 8 before the end, 1 after it, and, renewed at 45, 5 before."""
    book = Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1).acquire(11, 12, 2).release(22, 23, 2)
    book.acquire(31, 32, 3).renew(36, 37, 3).renew(45, 46, 3).release(50, 51, 3)
    book.acquire(61, 62, 4).renew(65, 66, 4).renew(75, 76, 4).release(82, 83, 4)
    found = hold_versus_ttl(measured(book))
    assert found["holds"] == 4
    assert (found["margin_min"], found["margin_p50"], found["margin_p90"]) == (-1, 3, 8)
    assert (found["outlived"], found["met_another"], found["beyond_twice_ttl"]) == (1, 0, 1)
    assert found["longest_hold"] == 21
    assert found.rows == ((8,),)
    assert found.alert == "1 of 4 holds lasted longer than 2 TTLs"


def test_a_hold_that_outlived_its_lease_and_met_another() -> None:
    book = Book(keys=("a",)).acquire(1, 2, 1).acquire(12, 13, 2).release(15, 16, 1)
    found = hold_versus_ttl(measured(book))
    assert (found["outlived"], found["met_another"]) == (1, 1)


def test_keep_alives_count_until_the_holder_left() -> None:
    """Created at 1, TTL 10, kept alive at 8 and, when it had left, at 30."""
    for lease, margin in (("session", 3), ("touch", 4)):
        book = Book(keys=("a",), lease=lease).add(F.SESSION_OPEN, 1, 2, session=7).add(F.KEEP_ALIVE, 8, 9, session=7)
        book.acquire(9, 10, 1, session=7).release(15, 16, 1, session=7).add(F.KEEP_ALIVE, 30, 31, session=7)
        book.add(F.KEEP_ALIVE, 14, 15, session=8)
        assert hold_versus_ttl(measured(book))["margin_min"] == margin


def test_locks_without_leases() -> None:
    assert hold_versus_ttl(measured(Book(lease="none").acquire(1, 2, 1))).unexercised == "no lease ends by itself"
    foreign = Book(trial="", ttl=0).acquire(1, 2, 1)
    assert hold_versus_ttl(measured(foreign)).unexercised == "no lease ends by itself"


def wanted() -> Book:
    """a is held in [2, 5] and from 20 on, and asked for in [3, 9] and [12, 20]: nobody's in [5, 9] and [12, 20]."""
    book = Book(keys=("a",), ttl=50).acquire(1, 2, 1).release(5, 6, 1)
    book.acquire(3, 9, 0, process=2, outcome=FAIL, reason=Reason.TIMEOUT)
    return book.acquire(12, 20, 3).release(30, 31, 3)


def test_availability_gaps() -> None:
    found = availability_gap(measured(wanted()))
    # The first wait counts too: nobody had it in [1, 2].
    assert (found["longest"], found["total"], found["asked"], found["gaps"]) == (8, 13, 15, 3)
    assert found["share"] == 13 / 15
    assert found.rows == ((3,),)
    assert availability_gap(measured(Book())).unexercised == "nobody asked for a lock"


def test_a_grant_ends_a_gap_though_it_is_over_at_once() -> None:
    book = Book(keys=("a",)).acquire(1, 10, 1).release(10, 11, 1).acquire(1, 15, 2)
    found = availability_gap(measured(book))
    assert (found["longest"], found["gaps"]) == (9, 2)


def test_recovery_after_each_heal() -> None:
    book = wanted().fault("pause-server", 7, 10).fault("pause-server", 14, 40)
    found = recovery_after_heal(measured(book))
    assert found["first@pause-server#1"] == 10
    assert found["gap@pause-server#1"] == 8
    assert found["first@pause-server#2"] is None
    assert (found["faults"], found["recovered"]) == (2, 1)
    assert found.unexercised is None
    assert recovery_after_heal(measured(wanted())).unexercised == "there was no fault to recover from"
    unhealed = recovery_after_heal(measured(wanted().fault("pause-server", 7, 0)))
    assert unhealed.unexercised == "no fault was healed"
    nobody = recovery_after_heal(measured(wanted().fault("pause-server", 7, 40)))
    assert nobody.unexercised == "nobody asked for a lock after a heal"


def test_a_lock_that_nobody_gets_any_more() -> None:
    """Released at 5; asked for from 10 to 90 in vain. The TTL is 10, the bound 20."""
    book = Book(keys=("a",), bounds={"recovery": 20}).acquire(1, 2, 1).release(5, 6, 1).acquire(3, 4, 2)
    book.release(5, 6, 2).acquire(10, 0, 0, process=3, outcome=INFO).acquire(20, 90, 0, outcome=FAIL)
    found = deadlock(measured(book))
    assert (found["longest"], found["allowed"], found["keys"]) == (80, 30, 1)
    assert found.alert == "somebody asked in vain until the end for what nobody held"
    assert found.rows == ((4, 5),)


def test_a_holder_is_no_deadlock() -> None:
    book = Book(keys=("a",)).acquire(1, 2, 1).renew(50, 51, 1).acquire(10, 55, 0, outcome=FAIL)
    found = deadlock(measured(book))
    assert (found["longest"], found.alert) == (0, None)


def queue() -> Book:
    """Owner 2 asks at 5 and waits; 3, 4 and 5 ask later and go first. A release takes 2."""
    book = Book(keys=("a",), ttl=1000).acquire(1, 2, 1).release(8, 10, 1).acquire(5, 50, 2).release(60, 61, 2)
    for owner, inv in ((3, 11), (4, 21), (5, 31)):
        book.acquire(inv, inv + 1, owner).release(inv + 5, inv + 6, owner)
    return book


def test_bypasses() -> None:
    found = bypass(measured(queue()))
    assert (found["bypasses"], found["passed"], found["most"]) == (3, 1, 3)
    assert (found["acquires"], found["delta"]) == (5, 2)
    assert found.rows == ((1,),)
    assert found.alert is None
    assert found.property == "fifo"


def test_asked_for_at_nearly_the_same_time_is_no_bypass() -> None:
    book = Book(keys=("a",), ttl=1000).acquire(5, 50, 2).release(60, 62, 2).acquire(7, 8, 3).release(9, 10, 3)
    assert bypass(measured(book))["bypasses"] == 0
    book = Book(keys=("a",), ttl=1000).acquire(5, 50, 2).release(60, 61, 2).acquire(7, 8, 3).release(9, 10, 3)
    assert bypass(measured(book))["bypasses"] == 1


def test_who_tells_when_it_was_queued_needs_no_delta() -> None:
    book = Book(keys=("a",), ttl=1000).acquire(5, 50, 2, base=6).release(60, 69, 2).acquire(7, 8, 3, base=8)
    found = bypass(measured(book.release(9, 10, 3)))
    assert (found["bypasses"], found["delta"]) == (1, None)


def test_readers_pass_rightly() -> None:
    book = Book(keys=("a",), ttl=1000).acquire(5, 50, 2).release(60, 61, 2)
    assert bypass(measured(book.acquire(9, 10, 3, flags=SHARED).release(11, 12, 3)))["bypasses"] == 0
    alone = Book(keys=("a",), ttl=1000).acquire(1, 2, 1)
    assert bypass(measured(alone)).unexercised == "nothing tells how long a request takes to the service"


def test_starvation() -> None:
    """Three workers: one gets 3, one 1; one asks in vain for 40."""
    book = Book(keys=("a",), ttl=1000)
    for n, (inv, process) in enumerate(((1, 0), (11, 0), (21, 0), (31, 1)), 1):
        book.acquire(inv, inv + n, n, process=process).release(inv + 5, inv + 6, n, process=process)
    book.acquire(2, 42, 0, process=2, outcome=FAIL, reason=Reason.TIMEOUT)
    found = starvation(measured(book))
    assert (found["workers"], found["least_grants"], found["most_grants"]) == (3, 0, 3)
    assert found["jain"] == 16 / 30
    assert (found["longest_wait"], found["median_wait"]) == (40, 3)
    assert found["longest_by_median"] == 40 / 3
    assert found.rows == ((1,),)
    one = Book().acquire(1, 2, 1, process=1).release(3, 4, 1).acquire(5, 6, 2, process=1)
    assert starvation(measured(one)).unexercised == "only one worker asked"


def timed() -> Book:
    """Took 1, 2, 3 and 4; one was given up after 2; a fault is there in [100, 200]."""
    book = Book(keys=("a",), ttl=1000)
    for n in (1, 2, 3, 4):
        book.acquire(10 * n, 11 * n, n).release(11 * n, 11 * n + n, n)
    return book.acquire(60, 62, 0, outcome=FAIL, reason=Reason.TIMEOUT)


def test_latencies() -> None:
    found = acquire_latency(measured(timed()))
    # Of five, 1 is done after 1; then 1 of 4 after 2, where one is given up; then 1 of 2, and the last.
    assert (found["answered@all"], found["censored@all"]) == (4, 1)
    assert (found["p50@all"], found["p90@all"], found["longest@all"]) == (3, 4, 4)
    assert found.rows == ((6,),)
    releases = release_latency(measured(timed()))
    assert (releases["p50@all"], releases["p90@all"], releases["censored@all"]) == (2, 4, 0)


def test_phases() -> None:
    book = timed().fault("pause-server", 100, 200).acquire(99, 150, 7).acquire(199, 0, 0, outcome=INFO)
    book.acquire(300, 309, 8).acquire(400, 0, 0, outcome=INFO)
    found = acquire_latency(measured(book))
    assert (found["answered@before"], found["censored@before"], found["p50@before"]) == (4, 1, 3)
    # One of two: half are done after 51, and the other may never be.
    assert (found["p50@during"], found["p90@during"], found["censored@during"]) == (51, None, 1)
    assert (found["answered@after"], found["p50@after"]) == (1, 9)
    assert found["answered@all"] == 6


def test_nothing_to_time() -> None:
    assert acquire_latency(measured(Book())).unexercised == "nobody asked for a lock"
    assert release_latency(measured(Book())).unexercised == "nobody released anything"
    assert acquire_latency(measured(Book().acquire(5, 0, 0, outcome=INFO))).unexercised == "none was answered"


def test_faults_of_histories_from_elsewhere() -> None:
    """Between the events at 2 and 5, which the file puts at 2000 and 5000, and those at 7 and 10."""
    book = Book(trial="", ttl=0).acquire(1, 2, 1).release(5, 6, 1).acquire(7, 10, 2).fault("cut", 3, 4)
    clock = np.array(((1000, 2000), (5000, 6000), (7000, 9000)), np.int64)
    elsewhere = Subject(replace(book.history(), clock=clock), Settings())
    assert recovery_after_heal(elsewhere)["first@cut#1"] == 9000 - 4999
    found = acquire_latency(elsewhere)
    assert (found["answered@before"], found["answered@after"]) == (1, 1)


def places(*clock: tuple[int, int]) -> Subject:
    """From elsewhere: granted at places [1, 2], released at [3, 4], at these times."""
    history = Book(trial="", ttl=0).acquire(1, 2, 1).release(3, 4, 1).history()
    return Subject(replace(history, clock=np.array(clock, np.int64)), Settings())


def test_times_of_histories_from_elsewhere() -> None:
    found = acquire_latency(places((1000, 1500), (2000, 2007)))
    assert (found["p50@all"], found["longest@all"]) == (500, 500)
    assert release_latency(places((1000, 1500), (2000, 2007)))["p50@all"] == 7
    assert acquire_latency(places((0, 0), (0, 0))).unexercised == "the file has no times"
    assert acquire_latency(places((5, 4), (3, 6))).unexercised == "the times in the file run backwards"
