"""Known histories of promises with a bound: calls, hand-overs, and recovery after the last heal."""

from dataclasses import replace
from typing import Any

from checkers.check import check
from checkers.properties import fail_fast, hand_over, recovery
from checkers.row_format import SHARED, F, Reason
from checkers.tests.build import FAIL, GOOD, INFO, OK, VALID, Book, cases, known


def struck(kind: str) -> Book:
    book = CALLS.then(fault_names=("freeze-holder",)).renew(10, 60, 1)
    return book.fault("freeze-holder", 11, 65, applied=15, kind=kind, owner=1, process=1)


# Acquires may wait for 100; the margin of each call is 10.
CALLS = Book(keys=("a",), bounds={"fail-fast": 10}, patience=100)

EARLY = CALLS.then().add(F.ACQUIRE, 10, 99, FAIL, reason=Reason.TIMEOUT, process=1)
UNENDED = CALLS.then().renew(10, 0, 1, INFO).read(500, 501, 1, -1)
OTHERS = CALLS.then().renew(10, 20, 1).release(20, 30, 1, FAIL).add(F.KEEP_ALIVE, 30, 40, process=1)
# Worker 2 hangs, and worker 3 was killed at 20.
HANGS = UNENDED.then().add(F.ACQUIRE, 10, 0, INFO, process=2)
HANGS.fault("f", 20, 30, kind="kill", owner=9, process=3)
MISSED = {"unexercised": "pause-server never took effect"}
LONG = {"kinds": ["hung-call"]}
TWO_CALLS = {fail_fast.ANSWERED: 2, fail_fast.SLOWEST: 29}

test_a_call_that_exceeds_its_bound_is_reported = known(
    "fail-fast",
    ("an acquire may wait as long as it was told to", CALLS.then().acquire(10, 120, 1), VALID),
    ("and no longer", CALLS.then().acquire(10, 121, 1), {**LONG, "told": ("worker 1 asked for the lock at 0.000 s",)}),
    ("any other call no longer", CALLS.then().release(10, 21, 1), {"kind": "hung-call", "at": 20, "rows": (0,)}),
    ("as long as it likes", CALLS.then(patience=0).acquire(10, 9999, 1), VALID),
    ("a call without an answer ends as well", CALLS.then().renew(10, 0, 1, INFO, given_up=21), LONG),
    ("any other within the margin", OTHERS, VALID),
    ("each that is too long", OTHERS.then().renew(40, 51, 1).release(60, 71, 1), {"moments": [50, 70]}),
    ("never answered", HANGS, {**LONG, "moments": [120]}),
    ("its worker did more, or was killed", HANGS.then().acquire(600, 601, 2).release(10, 0, 3, INFO), VALID),
    ("frozen", struck("freeze"), VALID),
    ("stalled by a fault", struck("stall"), VALID),
    ("its call was made to hang", struck("call"), VALID),
    ("killed", struck("kill"), LONG),
    ("a call that never ended", UNENDED, {"valid": True, "unexercised": "no call ended"}),
    ("counters", CALLS.then(bounds={"fail-fast": 10**9}).renew(10, 3 * 10**7, 1).renew(20, 10**7, 2), TWO_CALLS),
    ("no bound", CALLS.then(bounds={}), {"unexercised": "the lock declares no bound"}),
    ("no fault", CALLS.then(fault_names=("pause-server",)).renew(1, 2, 1), MISSED),
    ("a call that ended", CALLS.then().renew(1, 2, 1), GOOD),
    ("it gave up too early", EARLY, {"kinds": ["gave-up-early"], "moments": [99]}),
    ("in time", EARLY.then(patience=99), VALID),
    ("when told to", CALLS.then().add(F.ACQUIRE, 9, 29, FAIL, reason=Reason.TIMEOUT, ttl=29, process=1), VALID),
    ("a fault may have ended it", EARLY.then().fault("f", 1, 11), VALID),
    ("its patience is not known", EARLY.then(patience=0), VALID),
)


def released(granted: int) -> Book:
    """Worker 1's release lasts from 20 to 21. Worker 2 waits since 5, and is granted the lock. The bound is 5."""
    book = Book(keys=("a",), workers=4, ttl=50, bounds={"hand-over": 5, "recovery": 10})
    return book.acquire(1, 2, 1).release(20, 21, 1).acquire(5, granted, 2, process=2)


LATE = released(30)


def cut_off(answered: int, **facts: Any) -> Book:
    """Worker 3's keep-alive at 22 cannot reach the service. The next one can at `answered`; 0: it fails too, at 26."""
    book = LATE.then(**facts).add(F.KEEP_ALIVE, 22, 22, FAIL, reason=Reason.UNAVAILABLE, session=7, process=3)
    outcome, reason = (OK, Reason.NONE) if answered else (FAIL, Reason.UNAVAILABLE)
    return book.add(F.KEEP_ALIVE, answered or 26, answered or 26, outcome, reason=reason, session=7, process=3)


def in_vain(count: int, *, bound: int = 40, early: int = 0) -> Book:
    """Two workers take turns, with leases of 20. Each releases at once, but the other, which waits, is granted the lock
    only when the lease could have ended. After release number `early` it is granted the lock soon.
    """
    book = Book(keys=("a",), workers=2, ttl=20, lease="grant", bounds={"hand-over": bound, "recovery": 100})
    before, at = 9, 10
    for number in range(1, count + 2):
        book.acquire(before, at, number, process=number % 2, sent=at - 1)
        if number <= count:
            book.release(at + 1, at + 2, number, process=number % 2)
        before, at = at, at + (4 if number == early else 20)
    return book


# Worker 2 releases at 45, returned at 46, and worker 1 gets it only at 55: sooner than worker 2 did.
TWICE_LATE = LATE.then().release(45, 46, 2).acquire(40, 55, 4, process=1)
# Worker 3's acquire of 22 fails at 26, for this reason.
UNREACHED, GAVE_UP = (
    LATE.then().acquire(22, 26, 0, outcome=FAIL, reason=reason, process=3)
    for reason in (Reason.UNAVAILABLE, Reason.TIMEOUT)
)
# Worker 2 is granted the lock at 23. Worker 1's release, sent at 20, returns at 25.
BEFORE_ITS_RETURN = Book(keys=("a",), workers=4, ttl=50, bounds={"hand-over": 5}).acquire(1, 2, 1).release(20, 25, 1)
BEFORE_ITS_RETURN.acquire(5, 23, 2, process=2)
NO_ANSWER = LATE.then().add(F.KEEP_ALIVE, 22, outcome=INFO, given_up=26, session=7, process=3)
ONE_JUDGED = {hand_over.JUDGED: 1, "unexercised": None}
COUNTED = {**ONE_JUDGED, hand_over.SLOWEST: 0}


# Worker 1 has released at 21. Worker 2 tries.
FREE = Book(keys=("a",), workers=4, ttl=50, bounds={"hand-over": 5}).acquire(1, 2, 1).release(20, 21, 1)
TRIED, SOON = (FREE.then().add(F.TRY_ACQUIRE, at, at + 1, FAIL, reason=Reason.HELD, process=2) for at in (27, 26))


def readers(writer: int, *released: Any) -> Book:
    """Two readers hold, and release at 10 (with the outcome `released`) and at 20. A writer waits from 7 on."""
    book = Book(keys=("a",), workers=4, ttl=5, lease="grant", bounds={"hand-over": 5, "recovery": 10})
    book.acquire(1, 2, 1, flags=SHARED).acquire(4, 5, 2, flags=SHARED).release(20, 21, 2)
    return book.release(10, 11, 1, *released).acquire(7, writer, 3)


# The writer has released, and worker 0 is granted the lock late.
AFTER_THEM = readers(22, INFO).release(30, 31, 3).acquire(25, 40, 4, process=0)
STORY = ("worker 1", "worker 2")
AT_26 = {"moments": [26]}
LONG_AGO = Book(keys=("a",), workers=4, ttl=5, bounds={"hand-over": 5, "recovery": 2}).fault("f", 1, 3)
TWO_PERMITS = released(30).then(permits=2).acquire(3, 4, 3, process=3)  # worker 3 holds to the end
UNRELEASED = TWO_PERMITS.then().release(5, 0, 3, INFO).acquire(6, 9, 4, process=0)  # 3 and 4 may hold all the while
LONG_AGO.acquire(4, 5, 1).release(20, 21, 1).acquire(6, 30, 2, process=2)

test_hand_over = known(
    "hand-over",
    ("within the bound", released(26), VALID),
    ("beyond it", released(27), {"kinds": ["handed-over-late"], "moments": [26], "told": STORY}),
    ("a reader got no answer", TWICE_LATE.then().acquire(6, 30, 0, outcome=INFO, process=3, flags=SHARED), VALID),
    ("a reader got none much later", LATE.then().acquire(27, 29, 0, outcome=INFO, process=3, flags=SHARED), AT_26),
    ("a fault meanwhile", LATE.then().fault("f", 25, 28), VALID),
    ("a fault after the bound", LATE.then().fault("f", 27, 28), AT_26),
    ("a renewal got no answer", NO_ANSWER, VALID),
    ("a keep-alive was answered slowly", LATE.then().add(F.KEEP_ALIVE, 22, 26, session=7, process=3), VALID),
    ("none took long", LATE.then().add(F.KEEP_ALIVE, 22, 23, session=7, process=3), {"moments": [27]}),
    ("the service could not be reached", cut_off(26), VALID),
    ("and never was again", cut_off(0), VALID),
    ("for longer than a TTL", cut_off(0, ttl=2), {"moments": [28]}),
    ("it could be again soon", cut_off(23), {"moments": [27]}),
    ("without a lease it waits for its turn", LATE.then(lease="none").renew(22, 26, 9, process=3), {"moments": [26]}),
    ("another found no service, and may have had it", UNREACHED, VALID),
    ("another gave up", GAVE_UP, {"moments": [26]}),
    ("the trial had no answer", LATE.then(lease="none", silences=((22, 26),)), VALID),
    ("a fault long ago", LONG_AGO, {"moments": [26]}),
    ("counted", released(24), COUNTED),
    ("granted before the release returned", BEFORE_ITS_RETURN, COUNTED),
    ("in time though stalled", released(24).add(F.STALL, 3, 30, process=3), COUNTED),
    ("late and stalled", LATE.then().add(F.STALL, 3, 30, process=3), {hand_over.JUDGED: 0, hand_over.SLOWEST: 0}),
    ("slow", released(3_000_021), {hand_over.SLOWEST: 3, "unexercised": None}),
    ("one is in doubt", TWICE_LATE.then().acquire(6, 30, 0, outcome=INFO, process=3), ONE_JUDGED),
    ("a reader's release got no answer", readers(30, INFO), VALID),
    ("a reader never released", readers(30, FAIL), VALID),
    ("it did", readers(30), {"moments": [26]}),
    ("it was over when a writer came in", AFTER_THEM, {"moments": [36]}),
    ("one of two permits", TWO_PERMITS, AT_26),
    ("from a grant on", released(30).then(permits=2).acquire(22, 23, 3, process=3), {"moments": [10, 28]}),
    ("a try of a free lock", TRIED, {"kinds": ["refused-while-free"], "moments": [28], hand_over.TRIED: 1}),
    ("beside another", TRIED.then().acquire(20, 29, 0, outcome=INFO, process=3), {"kinds": [], hand_over.TRIED: 0}),
    ("within the bound", SOON, {"kinds": [], hand_over.TRIED: 0}),
    ("its release got no answer", UNRELEASED, VALID),
    ("nobody knows who has it", TWO_PERMITS.then().acquire(6, 30, 0, outcome=INFO, process=0), VALID),
    ("ten releases in vain", in_vain(10), {"kinds": ["released-in-vain"], "moments": [10 + 9 * 20 + 19]}),
    ("nine", in_vain(9), VALID),
    ("the lock is granted before, once", in_vain(12, early=7), VALID),
    ("nobody waits for long enough", in_vain(12, bound=100), VALID),
)


def refused(inv: int, ret: int, book: Book | None = None) -> Book:
    return (book or HEALED.then()).add(F.ACQUIRE, inv, ret, FAIL)


# A fault from 10 to 20; the bound is 30; the history goes on until 100.
HEALED = Book(keys=("a",), bounds={"recovery": 30}, fault_names=("pause-server",))
HEALED.acquire(1, 2, 1).release(9, 10, 1).fault("pause-server", 10, 20).read(99, 100, 1, -1)
NOBODY = "nobody asked for the lock, or could have got it, after the last heal"
HELD = refused(15, 95, HEALED.then().acquire(11, 12, 2).renew(40, 41, 2).renew(95, 96, 2))
# From the heal to the grant at 55 it took 35; for 5 or 4 of these a worker did not run.
STALLED, STALLED_LESS = (HEALED.then().acquire(15, 55, 2).add(F.STALL, 30, end, process=3) for end in (35, 34))


def again_and_again(apart: int, length: int) -> Book:
    """Acquires from 20 on, `apart` from each other, each refused after `length`."""
    book = HEALED.then()
    for at in range(20, 90, apart):
        refused(at, at + length, book)
    return book


# As for one lock among many: an acquire at the heal gets no answer, and the next one comes long after the heal.
SELDOM_ASKED = HEALED.then().add(F.ACQUIRE, 19, 21, INFO, process=1, given_up=21)
NOT_ASKED = {"valid": True, "unexercised": None, recovery.SLOWEST: 0}
SELDOM = SELDOM_ASKED.then().add(F.ACQUIRE, 70, 70, FAIL, process=3, reason=Reason.UNAVAILABLE).acquire(71, 72, 2)


def hung(last: int) -> Book:
    """Worker 2's acquire of 30 never returns. Another worker's last operation ends at `last`, the final read at 100."""
    book = Book(bounds={"recovery": 30}, fault_names=("pause-server",)).acquire(1, 2, 1).release(9, 10, 1)
    book.fault("pause-server", 10, 20).add(F.ACQUIRE, 30, 0, INFO, process=2)
    return book.add(F.ACQUIRE, last - 1, last, FAIL, process=3, key=1).final(99, 100, -1)


# A reader asks at 15 and holds from 25 to 40. Worker 3 asks at 20 to write, and is granted the lock.
READ = HEALED.then().acquire(15, 25, 2, flags=SHARED).release(39, 40, 2, flags=SHARED)
WRITTEN_LATE, WRITTEN = (READ.then().acquire(20, granted, 3) for granted in (71, 70))
# Worker 2 holds one of two permits, and nobody gets the other.
PERMITS = refused(21, 95, HEALED.then(permits=2).acquire(15, 21, 2).release(90, 91, 2))
# Worker 1's acquires fail from 21 to 52. Worker 2 is granted the lock.
SERVED = HEALED.then(patience=3).acquire(24, 25, 2).release(26, 27, 2)
SERVED.add(F.ACQUIRE, 19, 0, INFO, process=1, given_up=21)
UNSERVED = SERVED.then().add(F.ACQUIRE, 22, 38, FAIL, process=5, reason=Reason.UNAVAILABLE)
UNSERVED.add(F.ACQUIRE, 42, 52, FAIL, process=5, reason=Reason.UNAVAILABLE)
SELDOM_ASKING = SERVED.then().add(F.ACQUIRE, 51, 52, FAIL, process=5, reason=Reason.UNAVAILABLE)
NEVER_HEALED = {"unexercised": "the fault was never healed"}

test_recovery = known(
    "recovery",
    ("in time", HEALED.then().acquire(15, 50, 2), {**GOOD, recovery.ASKED: 1}),
    ("too late", HEALED.then().acquire(15, 51, 2), {"kinds": ["not-recovered"], "moments": [50]}),
    ("who gave up before the bound", refused(15, 40), {"unexercised": NOBODY}),
    ("it counts from the next request", refused(15, 40).acquire(60, 61, 2), NOT_ASKED),
    ("a bound beyond the end", refused(15, 40).add(F.ACQUIRE, 98, 0, INFO), {"unexercised": NOBODY}),
    ("no bound", Book().acquire(1, 2, 1), {"unexercised": "the lock declares no bound"}),
    ("no fault", Book(bounds={"recovery": 5}).acquire(1, 2, 1), {"unexercised": "there was no fault to recover from"}),
    ("one of two", refused(15, 95).fault("kill-server", 12, 0, applied=13), NEVER_HEALED),
    ("a live holder is no failure to recover", HELD, {"unexercised": NOBODY}),
    ("nobody asked before it was refused", SELDOM, NOT_ASKED),
    ("nobody asked before somebody waited", SELDOM_ASKED.then().acquire(48, 52, 2), NOT_ASKED),
    ("refused again and again", again_and_again(5, 1), {"moments": [50]}),
    ("refused at times, but late", again_and_again(30, 10), {"moments": [80]}),
    ("nobody waits after its death", hung(58), {"unexercised": NOBODY}),
    ("who hangs waits for as long as others live", hung(62), {"moments": [60]}),
    ("time in which the machine stalled does not count", STALLED, VALID),
    ("one of two permits never comes back", PERMITS, {"kinds": ["not-recovered"], "moments": [51]}),
    ("it does", PERMITS.then().acquire(22, 45, 4), VALID),
    ("readers alone get in", WRITTEN_LATE, {"kinds": ["not-recovered"], "moments": [70]}),
    ("and a writer", WRITTEN, VALID),
    ("one worker has no answer", UNSERVED, {"kinds": ["not-recovered"], "moments": [51]}),
    ("it asks seldom", SELDOM_ASKING, VALID),
    ("it waited for as long as it was told", UNSERVED.then(patience=2), VALID),
    ("it has one", UNSERVED.then().add(F.ACQUIRE, 40, 41, FAIL, process=1, reason=Reason.HELD), VALID),
    ("nor time in which the trial had no answer", STALLED_LESS.then(silences=((39, 40),)), VALID),
)


def told(book: Book, errors: tuple[str, ...] = ("",)) -> str:
    """The last sentence of the story. The times of the book become seconds; the bound is 30 s."""
    unit = 10**9
    scaled = Book()
    scaled.facts = replace(book.facts, bounds={"recovery": 30 * unit}, ttl=unit)
    scaled.rows = [(row[0] * unit, row[1] * unit, *row[2:]) for row in book.rows]
    for fault in book.faults:
        scaled.fault(fault.name, fault.begun * unit, fault.healed * unit)
    history = scaled.history()
    history.columns["error"][:] = [len(errors) - 1 if row[13] == FAIL else 0 for row in sorted(scaled.rows)]
    (result,) = check(replace(history, errors=errors), ["recovery"])
    return result.violations[0].story[-1]


BOTH_REFUSED = HEALED.then().add(F.ACQUIRE, 15, 25, FAIL, process=2, reason=Reason.TIMEOUT)
BOTH_REFUSED.add(F.ACQUIRE, 30, 48, FAIL, process=3, reason=Reason.HELD).add(F.ACQUIRE, 49, 0, INFO, process=6)
ALL = "had been undone. Up to 49.000 s worker 3's call was the last to return: it failed (held) at 47.000 s."
ASKED_LATER = "30 s from 49.000 s on, when somebody asked for it, after pause-server had been undone at 19.000 s"
WITH_TEXT = HEALED.then().add(F.ACQUIRE, 15, 25, FAIL, process=2).add(F.ACQUIRE, 30, 95, FAIL, process=3)
LEFT = refused(15, 95, HEALED.then().acquire(11, 12, 3).release(24, 25, 3))
AT_ONCE = HEALED.then().add(F.ACQUIRE, 25, 25, FAIL, process=2).add(F.ACQUIRE, 30, 61, FAIL, process=3)
UNWANTED = HEALED.then().add(F.ACQUIRE, 20, 35, FAIL, process=2).add(F.ACQUIRE, 43, 90, FAIL, process=3)
UNANSWERED = refused(20, 95, HEALED.then().add(F.ACQUIRE, 15, 0, INFO, process=1))


@cases(
    "book, part",
    ("the heal, the bound, who asked, and the last answer", BOTH_REFUSED, ALL),
    ("the text of an error", WITH_TEXT, 'it failed at 24.000 s: "no\\nroom".'),
    ("somebody asked later", HEALED.then().add(F.ACQUIRE, 50, 0, INFO), ASKED_LATER),
    ("somebody left later", LEFT, "when the last of those left who had got it before pause-server had been undone"),
    ("a stall", STALLED_LESS, "not counting 4.000 s in which the machine did not run some worker or server. Up"),
    ("nobody asked for some time", UNWANTED, "had been undone, not counting 3.000 s in which nobody asked for it."),
    ("who was refused at once asked as well", AT_ONCE, "So workers 2 and 3 asked 2 times, and nobody got"),
    ("nobody was answered", UNANSWERED, "Up to 49.000 s there was no answer."),
    ("got too late", HEALED.then().acquire(15, 51, 2), "no answer. The next grant was worker 2's, at 50.000 s."),
)
def test_the_story_names_the_askers_and_the_last_answer(book: Book, part: str) -> None:
    assert part in told(book, ("", "no\nroom") if book is WITH_TEXT else ("",))
