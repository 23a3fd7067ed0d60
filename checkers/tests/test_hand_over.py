"""Known histories for hand-over: how long a released lock stays free while somebody waits.

Who waits, gives up or gets no answer, stalls, readers and faults: those of `experience.hand_over`.
"""

from typing import Any

from checkers.properties.hand_over import JUDGED, SLOWEST
from checkers.row_format import SHARED, F, Reason
from checkers.tests.build import FAIL, INFO, OK, Book
from checkers.tests.compare import VALID, known

NAME = "hand-over"


def released(granted: int, **facts: Any) -> Book:
    """Worker 1 releases at 20, returned at 21; worker 2 has waited since 5, and is granted the lock. The bound is 5."""
    book = Book(keys=("a",), workers=4, **{"ttl": 50, "bounds": {NAME: 5, "recovery": 10}, **facts})
    return book.acquire(1, 2, 1).release(20, 21, 1).acquire(5, granted, 2, process=2)


def late(**facts: Any) -> Book:
    return released(30, **facts)


def cut_off(answered: int, **facts: Any) -> Book:
    """The service could not be reached at 22, when worker 3 was to keep its session alive, and was at this moment."""
    book = late(**facts).add(F.KEEP_ALIVE, 22, 22, FAIL, reason=Reason.UNAVAILABLE, session=7, process=3)
    outcome, reason = (OK, Reason.NONE) if answered else (FAIL, Reason.UNAVAILABLE)
    return book.add(F.KEEP_ALIVE, answered or 26, answered or 26, outcome, reason=reason, session=7, process=3)


def beside_another(reason: Reason) -> Book:
    """Worker 3 asked from 22 on, and at 26 it was told this."""
    return late().acquire(22, 26, 0, outcome=FAIL, reason=reason, process=3)


def twice_late(**facts: Any) -> Book:
    """Worker 2 releases at 45, returned at 46, and worker 1 gets it only at 55: sooner than worker 2 did."""
    return late(**facts).release(45, 46, 2).acquire(40, 55, 4, process=1)


def in_vain(count: int, *, bound: int = 40, early: int = 0) -> Book:
    """Two workers take turns, with leases of 20. Each releases at once, and the other, who waits, is granted the lock
    when the lease could have ended; after the release of this number already at its return.
    """
    book = Book(keys=("a",), workers=2, ttl=20, lease="grant", bounds={NAME: bound, "recovery": 100})
    before, at = 9, 10
    for number in range(1, count + 2):
        book.acquire(before, at, number, process=number % 2, sent=at - 1)
        if number <= count:
            book.release(at + 1, at + 2, number, process=number % 2)
        before, at = at, at + (4 if number == early else 20)
    return book


# Worker 2 is granted the lock at 23, and the release of worker 1, sent at 20, returns at 25.
AT_ONCE = Book(keys=("a",), workers=4, ttl=50, bounds={NAME: 5}).acquire(1, 2, 1).release(20, 25, 1)
AT_ONCE.acquire(5, 23, 2, process=2)
COUNTED = {JUDGED: 1, SLOWEST: 0, "unexercised": None}


def readers(writer: int, *released: Any) -> Book:
    """Two readers hold together, the second releases at 20, and a writer that waits since 7 is granted the lock then.
    released: what became of the first one's release at 10.
    """
    book = Book(keys=("a",), workers=4, ttl=5, lease="grant", bounds={NAME: 5, "recovery": 10})
    book.acquire(1, 2, 1, flags=SHARED).acquire(4, 5, 2, flags=SHARED).release(20, 21, 2)
    return book.release(10, 11, 1, *released).acquire(7, writer, 3)


# The writer has left, and another is granted the lock late.
AFTER_THEM = readers(22, INFO).release(30, 31, 3).acquire(25, 40, 4, process=0)
STORY = ("worker 1 was granted", "worker 2")
LONG_AGO = Book(keys=("a",), workers=4, ttl=5, bounds={NAME: 5, "recovery": 2}).fault("f", 1, 3)
LONG_AGO.acquire(4, 5, 1).release(20, 21, 1).acquire(6, 30, 2, process=2)

test_hand_over = known(
    NAME,
    ("within the bound", released(26), VALID),
    ("beyond it", released(27), {"kinds": ["handed-over-late"], "moments": [26], "told": STORY}),
    ("a reader got no answer", twice_late().acquire(6, 30, 0, outcome=INFO, process=3, flags=SHARED), VALID),
    ("a fault meanwhile", late().fault("f", 25, 28), VALID),
    ("a renewal got no answer", late().add(F.KEEP_ALIVE, 22, outcome=INFO, given_up=26, session=7, process=3), VALID),
    ("a keep-alive was answered slowly", late().add(F.KEEP_ALIVE, 22, 26, session=7, process=3), VALID),
    ("none took long", late().add(F.KEEP_ALIVE, 22, 23, session=7, process=3), {"moments": [27]}),
    ("the service could not be reached", cut_off(26), VALID),
    ("and never was again", cut_off(0), VALID),
    ("for longer than a TTL", cut_off(0, ttl=2), {"moments": [28]}),
    ("it could be again soon", cut_off(23), {"moments": [27]}),
    ("without a lease it waits for its turn", late(lease="none").renew(22, 26, 9, process=3), {"moments": [26]}),
    ("another found no service, and may have had it", beside_another(Reason.UNAVAILABLE), VALID),
    ("another gave up", beside_another(Reason.TIMEOUT), {"moments": [26]}),
    ("the trial had no answer", late(lease="none", silences=((22, 26),)), VALID),
    ("a fault long ago", LONG_AGO, {"moments": [26]}),
    ("counted", released(24), COUNTED),
    ("granted before the release returned", AT_ONCE, COUNTED),
    ("in time though stalled", released(24).add(F.STALL, 3, 30, process=3), COUNTED),
    ("late and stalled", late().add(F.STALL, 3, 30, process=3), {JUDGED: 0, SLOWEST: 0}),
    ("slow", released(3_000_021), {SLOWEST: 3, "unexercised": None}),
    ("one is in doubt", twice_late().acquire(6, 30, 0, outcome=INFO, process=3), {JUDGED: 1, "unexercised": None}),
    ("a reader's release got no answer", readers(30, INFO), VALID),
    ("a reader never released", readers(30, FAIL), VALID),
    ("it did", readers(30), {"moments": [26]}),
    ("it was over when a writer came in", AFTER_THEM, {"moments": [36]}),
    ("ten releases in vain", in_vain(10), {"kinds": ["released-in-vain"], "moments": [10 + 9 * 20 + 19]}),
    ("nine", in_vain(9), VALID),
    ("the lock is granted before, once", in_vain(12, early=7), VALID),
    ("nobody waits for long enough", in_vain(12, bound=100), VALID),
)
