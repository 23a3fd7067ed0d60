"""Recovery after the last heal."""

from dataclasses import replace

from checkers.check import check
from checkers.properties.recovery import ASKED, SLOWEST
from checkers.row_format import F, Reason
from checkers.tests.build import FAIL, INFO, Book, cases
from checkers.tests.compare import GOOD, VALID, known

NOBODY = "nobody asked for the lock, or could have got it, after the last heal"


def healed(**facts: object) -> Book:
    """A fault from 10 to 20; the bound is 30; the history goes on until 100."""
    book = (
        Book(keys=("a",), bounds={"recovery": 30}, fault_names=("pause-server",), **facts)
        .acquire(1, 2, 1)
        .release(9, 10, 1)
    )
    return book.fault("pause-server", 10, 20).read(99, 100, 1, -1)


def refused(inv: int, ret: int, book: Book | None = None) -> Book:
    return (book or healed()).add(F.ACQUIRE, inv, ret, FAIL)


def gave_up() -> Book:
    """Refused at 40, long before 50, when the bound had passed."""
    return refused(15, 40)


# Worker 2 holds and renews all the time.
HELD = refused(15, 95, healed().acquire(11, 12, 2).renew(40, 41, 2).renew(95, 96, 2))
# A worker did not run for 5 or 4 of the 35 from the heal to the grant at 55.
STALLED, STALLED_LESS = (healed().acquire(15, 55, 2).add(F.STALL, 30, end, process=3) for end in (35, 34))


def again_and_again(apart: int, length: int) -> Book:
    """Refused from 20 on, so far apart, and each time so late."""
    book = healed()
    for at in range(20, 90, apart):
        refused(at, at + length, book)
    return book


def seldom() -> Book:
    """A lock among many: asked for just at the heal, without an answer, and long after it for the next time."""
    return healed().add(F.ACQUIRE, 19, 21, INFO, process=1, given_up=21)


NOT_ASKED = {"valid": True, "unexercised": None, SLOWEST: 0}
SELDOM = seldom().add(F.ACQUIRE, 70, 70, FAIL, process=3, reason=Reason.UNAVAILABLE).acquire(71, 72, 2)


def hung(last: int) -> Book:
    """Worker 2 asks at 30 and never returns; the last that another one does ends then, and the final reads at 100."""
    book = Book(bounds={"recovery": 30}, fault_names=("pause-server",)).acquire(1, 2, 1).release(9, 10, 1)
    book.fault("pause-server", 10, 20).add(F.ACQUIRE, 30, 0, INFO, process=2)
    return book.add(F.ACQUIRE, last - 1, last, FAIL, process=3, key=1).final(99, 100, -1)


NEVER_HEALED = {"unexercised": "the fault was never healed"}

test_recovery = known(
    "recovery",
    ("in time", healed().acquire(15, 50, 2), {**GOOD, ASKED: 1}),
    ("too late", healed().acquire(15, 51, 2), {"kinds": ["not-recovered"], "moments": [50]}),
    ("who gave up before the bound", gave_up(), {"unexercised": NOBODY}),
    ("it counts from the next request", gave_up().acquire(60, 61, 2), {"unexercised": None, SLOWEST: 0}),
    ("a bound beyond the end", gave_up().add(F.ACQUIRE, 98, 0, INFO), {"unexercised": NOBODY}),
    ("no bound", Book().acquire(1, 2, 1), {"unexercised": "the lock declares no bound"}),
    ("no fault", Book(bounds={"recovery": 5}).acquire(1, 2, 1), {"unexercised": "there was no fault to recover from"}),
    ("one of two", refused(15, 95).fault("kill-server", 12, 0, applied=13), NEVER_HEALED),
    ("a live holder is no failure to recover", HELD, {"unexercised": NOBODY}),
    ("nobody asked before it was refused", SELDOM, NOT_ASKED),
    ("nobody asked before somebody waited", seldom().acquire(48, 52, 2), NOT_ASKED),
    ("refused again and again", again_and_again(5, 1), {"moments": [50]}),
    ("refused at times, but late", again_and_again(30, 10), {"moments": [80]}),
    ("nobody waits after its death", hung(58), {"unexercised": NOBODY}),
    ("who hangs waits for as long as others live", hung(62), {"moments": [60]}),
    ("time in which the machine stalled does not count", STALLED, VALID),
)


def told(book: Book, errors: tuple[str, ...] = ("",)) -> str:
    """The conclusion, of a fault from 10 to 20 s and a bound of 30 s."""
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


BOTH_REFUSED = healed().add(F.ACQUIRE, 15, 25, FAIL, process=2, reason=Reason.TIMEOUT)
BOTH_REFUSED.add(F.ACQUIRE, 30, 48, FAIL, process=3, reason=Reason.HELD).add(F.ACQUIRE, 49, 0, INFO, process=6)
ALL = (
    "So nobody got the lock within the bound that it declares, 30 s from 19.000 s on, when pause-server was healed; "
    "until 49.000 s workers 2 and 3 asked 3 times, and the last call that returned, worker 3's, failed (held) at "
    "47.000 s."
)
WITH_TEXT = healed().add(F.ACQUIRE, 15, 25, FAIL, process=2).add(F.ACQUIRE, 30, 95, FAIL, process=3)
LEFT = refused(15, 95, healed().acquire(11, 12, 3).release(24, 25, 3))
AT_ONCE = healed().add(F.ACQUIRE, 25, 25, FAIL, process=2).add(F.ACQUIRE, 30, 61, FAIL, process=3)
UNWANTED = healed().add(F.ACQUIRE, 20, 35, FAIL, process=2).add(F.ACQUIRE, 43, 90, FAIL, process=3)
UNANSWERED = refused(20, 95, healed().add(F.ACQUIRE, 15, 0, INFO, process=1))


@cases(
    "book, part",
    ("the heal, the bound, who asked, and the last answer", BOTH_REFUSED, ALL),
    ("the text of an error", WITH_TEXT, 'worker 2\'s, failed at 24.000 s: "no\\nroom".'),
    (
        "somebody asked later",
        healed().add(F.ACQUIRE, 50, 0, INFO),
        "30 s from 49.000 s on, when somebody asked for it, after pause-server was healed at 19.000 s",
    ),
    ("somebody left later", LEFT, "when the last of those left who had got it before pause-server was healed"),
    (
        "the machine stalled",
        STALLED_LESS,
        "healed, the 4.000 s aside in which the machine did not run some worker; until",
    ),
    ("nobody asked for some time", UNWANTED, "healed, the 3.000 s aside in which nobody asked for it; until 52.000 s"),
    ("who was refused at once asked as well", AT_ONCE, "until 54.000 s workers 2 and 3 asked 2 times"),
    ("nobody was answered", UNANSWERED, "until 49.000 s worker 0 asked 1 time and had no answer."),
    (
        "who got it too late",
        healed().acquire(15, 51, 2),
        "asked 1 time and had no answer; worker 2 got it at 50.000 s.",
    ),
)
def test_what_is_told(book: Book, part: str) -> None:
    assert part in told(book, ("", "no\nroom") if book is WITH_TEXT else ("",))
