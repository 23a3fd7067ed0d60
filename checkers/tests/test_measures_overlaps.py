"""Two holders at once: definite, possible, around a clock fault."""

from typing import Any

from checkers.measures.measured_history import MeasuredHistory
from checkers.measures.overlaps import clock_jump, definite_overlap, possible_overlap
from checkers.models.model import Settings
from checkers.row_format import SHARED
from checkers.tests.build import FAIL, Book
from checkers.tests.compare import known, measured


def overlapping(**facts: object) -> Book:
    """The first holds [3, 20], the second [12, 16], on a: 4 together. Then a third one, alone, on b."""
    book = Book(ttl=100, **facts).acquire(1, 3, 1).acquire(4, 12, 2).release(16, 17, 2).release(20, 21, 1)
    return book.acquire(30, 31, 3, key=1).release(40, 41, 3, key=1)


def struck(begun: int) -> Book:
    book = overlapping(fault_names=("clock-jump",))
    return book.fault("clock-jump", begun, begun + 2, kind="clock", target="redis1")


def foreign() -> Book:
    return Book(trial="", ttl=0, store="", keys=("a",))


def twice() -> Book:
    return foreign().acquire(1, 2, 1).acquire(3, 4, 1).release(6, 7, 1).release(8, 9, 1)


def kept(**settings: Any) -> MeasuredHistory:
    """The first never released: settings say what a file does not."""
    return MeasuredHistory(foreign().acquire(1, 3, 1).acquire(9, 10, 2).history(), Settings(**settings))


# The first may have lasted until its release was answered, at 21.
ENDED = Book(ttl=5).acquire(1, 3, 1).acquire(4, 12, 2).release(16, 17, 2).release(20, 21, 1)
# Asked for at 4, before the release at 8 was answered at 9; granted after it.
TOUCHING = Book(ttl=100).acquire(1, 3, 1).release(8, 9, 1).acquire(4, 10, 2).acquire(20, 21, 3, key=1)
READERS = Book(ttl=100).acquire(1, 3, 1, flags=SHARED).acquire(1, 4, 2, flags=SHARED).acquire(5, 6, 3)
# Owner 1 comes twice; between its holds, and after them, owner 2.
AGAIN = foreign().acquire(1, 2, 1).release(3, 4, 1).acquire(5, 6, 2).release(7, 8, 2).acquire(9, 10, 1)
AGAIN.acquire(12, 13, 2).release(14, 15, 2).release(16, 17, 1)
ALERT = {"alert": "two held at once for certain", "unexercised": None, "property": "server-exclusion"}
SEVERAL = {"unexercised": "several may hold at once"}

test_definite_overlap = known(
    definite_overlap,
    ("definite", overlapping(), {"pairs": 1, "longest": 4, "rows": ((0, 1),), **ALERT}),
    ("a lease that ended is no overlap", ENDED, {"pairs": 0}),
    ("a writer with each of two readers", READERS, {"pairs": 2}),
    ("nobody asked", Book().read(1, 2, 1, 5), {"unexercised": "nobody asked for a lock"}),
    ("refused", Book().acquire(1, 2, 1, outcome=FAIL), {"unexercised": "no lock was granted"}),
    ("permits", overlapping(permits=2), SEVERAL),
    ("alone", Book().acquire(1, 2, 1), {"pairs": 0, "unexercised": "1 grant, 2 needed"}),
    ("holders of a file come again", AGAIN, {"pairs": 1, "longest": 1, "rows": ((4, 5),)}),
    ("one that takes it twice", twice(), {"pairs": 0}),
    ("one that takes it twice, and another", twice().acquire(10, 11, 2), {"pairs": 0}),
    ("held for ever", kept(), {"pairs": 1}),
    ("held for as long as settings say", kept(ttl=5), {"pairs": 0}),
    ("permits of settings", kept(permits=2), SEVERAL),
)

test_possible_overlap = known(
    possible_overlap,
    ("it may have ended later", ENDED, {"pairs": 1}),
    ("what is definite is not possible", overlapping(), {"pairs": 0}),
    ("hand-overs that touch are possible", TOUCHING, {"pairs": 1, "open": 2, "alert": None}),
    ("two readers are no pair", READERS, {"pairs": 0}),
)

test_clock_jump = known(
    clock_jump,
    ("around a clock jump", struck(5), {"inside": 1, "outside": 0, "faults": 1, "rows": ((0, 3, 1),)}),
    ("which is an alert", struck(5), {"alert": "granted twice around a clock fault"}),
    ("away from it", struck(50), {"inside": 0, "outside": 1}),
    ("no clock was set", overlapping(), {"unexercised": "no clock was set"}),
)


def test_the_definition_is_the_first_paragraph() -> None:
    found = definite_overlap(measured(overlapping()))
    assert found.definition.startswith("Pairs of grants of one key that were certainly in force together")
    assert "\n" not in found.definition
    assert "Source" not in found.definition
