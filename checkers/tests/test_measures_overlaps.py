"""Two holders at once: definite, possible, around a clock fault."""

from checkers.measures.overlaps import clock_jump, definite_overlap, possible_overlap
from checkers.measures.subject import Subject
from checkers.models.model import Settings
from checkers.tests.build import FAIL, Book
from checkers.tests.fuzz_measures import measured
from checkers.wire import SHARED


def overlapping(**facts: object) -> Book:
    """The first holds [3, 20], the second [12, 16], on a: 4 together. Then a third one, alone, on b."""
    book = Book(ttl=100, **facts).acquire(1, 3, 1).acquire(4, 12, 2).release(16, 17, 2).release(20, 21, 1)
    return book.acquire(30, 31, 3, key=1).release(40, 41, 3, key=1)


def test_a_definite_overlap() -> None:
    found = definite_overlap(measured(overlapping()))
    assert found["pairs"] == 1
    assert found["longest"] == 4
    assert found.rows == ((0, 1),)
    assert found.alert == "two held at once for certain"
    assert found.unexercised is None
    assert found.property == "server-exclusion"


def test_the_definition_is_the_first_paragraph() -> None:
    found = definite_overlap(measured(overlapping()))
    assert found.definition.startswith("Pairs of grants of one key that were certainly in force together")
    assert "\n" not in found.definition
    assert "Source" not in found.definition


def test_a_lease_that_ended_is_no_overlap() -> None:
    book = Book(ttl=5).acquire(1, 3, 1).acquire(4, 12, 2).release(16, 17, 2).release(20, 21, 1)
    assert definite_overlap(measured(book))["pairs"] == 0
    # The first may have lasted until its release was answered, at 21.
    assert possible_overlap(measured(book))["pairs"] == 1


def test_what_is_definite_is_not_possible() -> None:
    assert possible_overlap(measured(overlapping()))["pairs"] == 0


def test_hand_overs_that_touch_are_possible() -> None:
    """Asked for at 4, before the release at 8 was answered at 9; granted after it."""
    book = Book(ttl=100).acquire(1, 3, 1).release(8, 9, 1).acquire(4, 10, 2).acquire(20, 21, 3, key=1)
    found = possible_overlap(measured(book))
    assert found["pairs"] == 1
    assert found["open"] == 2
    assert found.alert is None


def test_two_readers_are_no_pair() -> None:
    book = Book(ttl=100).acquire(1, 3, 1, flags=SHARED).acquire(1, 4, 2, flags=SHARED).acquire(5, 6, 3)
    found = definite_overlap(measured(book))
    assert found["pairs"] == 2  # the writer with each of them
    assert possible_overlap(measured(book))["pairs"] == 0


def test_why_it_says_nothing() -> None:
    assert definite_overlap(measured(Book().read(1, 2, 1, 5))).unexercised == "nobody asked for a lock"
    nobody = measured(Book().acquire(1, 2, 1, outcome=FAIL))
    assert definite_overlap(nobody).unexercised == "no lock was granted"
    assert definite_overlap(measured(overlapping(permits=2))).unexercised == "several may hold at once"
    alone = definite_overlap(measured(Book().acquire(1, 2, 1).release(3, 4, 1)))
    assert (alone["pairs"], alone.unexercised) == (0, "1 grant, 2 needed")


def struck(begun: int) -> Book:
    book = overlapping(fault_names=("clock-jump",))
    return book.fault("clock-jump", begun, begun + 2, kind="clock", target="redis1")


def test_a_double_grant_around_a_clock_jump() -> None:
    inside = clock_jump(measured(struck(5)))
    assert (inside["inside"], inside["outside"], inside["faults"]) == (1, 0, 1)
    assert inside.rows == ((0, 3, 1),)
    assert inside.alert == "granted twice around a clock fault"
    outside = clock_jump(measured(struck(50)))
    assert (outside["inside"], outside["outside"]) == (0, 1)
    assert clock_jump(measured(overlapping())).unexercised == "no clock was set"


def test_a_history_from_elsewhere_names_holders() -> None:
    """Owner 1 comes twice; between its holds, and after them, owner 2."""
    book = Book(trial="", ttl=0, store="", keys=("a",)).acquire(1, 2, 1).release(3, 4, 1).acquire(5, 6, 2)
    book.release(7, 8, 2).acquire(9, 10, 1).acquire(12, 13, 2).release(14, 15, 2).release(16, 17, 1)
    found = definite_overlap(measured(book))
    assert (found["pairs"], found["longest"], found.rows) == (1, 1, ((4, 5),))


def test_who_takes_it_twice_is_no_two_holders() -> None:
    book = Book(trial="", ttl=0, store="", keys=("a",)).acquire(1, 2, 1).acquire(3, 4, 1)
    assert definite_overlap(measured(book.release(6, 7, 1).release(8, 9, 1)))["pairs"] == 0
    assert definite_overlap(measured(book.acquire(10, 11, 2)))["pairs"] == 0


def test_settings_say_what_a_file_does_not() -> None:
    book = Book(trial="", ttl=0, store="", keys=("a",)).acquire(1, 3, 1).acquire(9, 10, 2)
    assert definite_overlap(Subject(book.history(), Settings()))["pairs"] == 1  # the first never released
    assert definite_overlap(Subject(book.history(), Settings(ttl=5)))["pairs"] == 0
    crowd = definite_overlap(Subject(book.history(), Settings(permits=2)))
    assert crowd.unexercised == "several may hold at once"
