"""Recovery after the last heal."""

from dataclasses import replace

from checkers.check import check
from checkers.tests.build import FAIL, INFO, Book
from checkers.tests.compare import asking
from checkers.wire import F, Reason

NOBODY = "nobody asked for the lock, or could have got it, after the last heal"


def healed(**facts: object) -> Book:
    """A fault from 10 to 20; the bound is 30; the history goes on until 100."""
    book = (
        Book(keys=("a",), bounds={"recovery": 30}, fault_names=("pause-server",), **facts)
        .acquire(1, 2, 1)
        .release(9, 10, 1)
    )
    return book.fault("pause-server", 10, 20).read(99, 100, 1, -1)


result = asking("recovery")


def test_in_time() -> None:
    found = result(healed().acquire(15, 50, 2))
    assert found.valid
    assert found.unexercised is None
    assert found.counters["keys asked for after the heal"] == 1


def test_too_late_or_never() -> None:
    late = result(healed().acquire(15, 51, 2))
    assert [(v.kind, v.at) for v in late.violations] == [("not-recovered", 50)]
    never = result(healed().add(F.ACQUIRE, 15, 45, FAIL).add(F.ACQUIRE, 46, 0, INFO))
    assert never.valid is False


def test_who_gave_up_before_the_bound_and_what_came_after_it() -> None:
    """Refused at 40, long before 50, when the bound had passed."""
    gave_up = healed().add(F.ACQUIRE, 15, 40, FAIL)
    assert result(gave_up).unexercised == NOBODY
    again = result(healed().add(F.ACQUIRE, 15, 40, FAIL).acquire(60, 61, 2))
    assert (again.unexercised, again.counters["slowest recovery (ms)"]) == (None, 0), "it counts from the next request"
    assert result(healed().add(F.ACQUIRE, 15, 49, FAIL).acquire(51, 97, 2)).valid is False
    assert result(healed().add(F.ACQUIRE, 15, 40, FAIL).add(F.ACQUIRE, 60, 61, FAIL)).valid is False
    assert result(healed().add(F.ACQUIRE, 15, 40, FAIL).acquire(49, 52, 2)).valid is False
    busy = healed().add(F.ACQUIRE, 15, 40, FAIL).acquire(60, 61, 2).add(F.ACQUIRE, 65, 95, FAIL)
    assert result(busy).valid, "it was refused because somebody had it"
    assert result(healed().add(F.ACQUIRE, 15, 40, FAIL).add(F.ACQUIRE, 98, 0, INFO)).unexercised == NOBODY


def test_unexercised() -> None:
    assert result(healed()).unexercised == NOBODY
    assert result(Book().acquire(1, 2, 1)).unexercised == "the lock declares no bound"
    assert result(Book(bounds={"recovery": 5}).acquire(1, 2, 1)).unexercised == "there was no fault to recover from"
    unhealed = Book(bounds={"recovery": 5}, fault_names=("pause-server",)).acquire(1, 2, 1).fault("pause-server", 1, 0)
    assert result(unhealed).unexercised == "the fault was never healed"
    one_of_two = healed().add(F.ACQUIRE, 15, 95, FAIL).fault("kill-server", 12, 0, applied=13)
    assert result(one_of_two).unexercised == "the fault was never healed"


def test_a_live_holder_is_no_failure_to_recover() -> None:
    """Worker 2 holds and renews all the time; worker 3, whose client fell silent before the heal, does not count."""
    held = healed().acquire(11, 12, 2).renew(40, 41, 2).renew(95, 96, 2).add(F.ACQUIRE, 15, 95, FAIL)
    assert result(held).unexercised == NOBODY
    silent = healed().acquire(11, 12, 3).renew(14, 15, 3).add(F.ACQUIRE, 15, 95, FAIL)
    assert result(silent).valid is False


class TestStory:
    """A fault from 10 to 20 s; the bound is 30 s."""

    def told(self, book: Book, errors: tuple[str, ...] = ("",)) -> str:
        unit = 10**9
        facts = replace(book.facts, bounds={"recovery": 30 * unit}, ttl=unit)
        scaled = Book()
        scaled.facts = facts
        scaled.rows = [(row[0] * unit, row[1] * unit, *row[2:]) for row in book.rows]
        for fault in book.faults:
            scaled.fault(fault.name, fault.begun * unit, fault.healed * unit)
        history = scaled.history()
        history.columns["error"][:] = [len(errors) - 1 if row[13] == FAIL else 0 for row in sorted(scaled.rows)]
        (found,) = check(replace(history, errors=errors), ["recovery"])
        return found.violations[0].story[-1]

    def test_the_heal_the_bound_who_asked_and_the_last_answer(self) -> None:
        book = healed().add(F.ACQUIRE, 15, 25, FAIL, process=2, reason=Reason.TIMEOUT)
        book.add(F.ACQUIRE, 30, 48, FAIL, process=3, reason=Reason.HELD).add(F.ACQUIRE, 49, 0, INFO, process=6)
        assert self.told(book) == (
            "So nobody got the lock within the bound that it declares, 30 s from 19.000 s on, when pause-server was "
            "healed; until 49.000 s workers 2 and 3 asked 3 times, and the last call that returned, worker 3's, "
            "failed (held) at 47.000 s."
        )

    def test_the_text_of_an_error(self) -> None:
        book = healed().add(F.ACQUIRE, 15, 25, FAIL, process=2).add(F.ACQUIRE, 30, 95, FAIL, process=3)
        assert self.told(book, ("", "no\nroom")).endswith('worker 2\'s, failed at 24.000 s: "no\\nroom".')

    def test_the_moment_from_which_the_bound_counts(self) -> None:
        assert (
            "30 s from 49.000 s on, when somebody asked for it, after pause-server was healed at 19.000 s"
            in self.told(healed().add(F.ACQUIRE, 50, 0, INFO))
        )
        silent = healed().acquire(11, 12, 3).release(24, 25, 3).add(F.ACQUIRE, 15, 95, FAIL)
        assert "when the last of those left who had got it before pause-server was healed" in self.told(silent)

    def test_who_was_refused_at_once_asked_as_well(self) -> None:
        told = self.told(healed().add(F.ACQUIRE, 25, 25, FAIL, process=2).add(F.ACQUIRE, 60, 61, FAIL, process=3))
        assert "until 54.000 s worker 2 asked 1 time" in told

    def test_nobody_was_answered(self) -> None:
        assert self.told(healed().add(F.ACQUIRE, 15, 0, INFO, process=1).add(F.ACQUIRE, 20, 95, FAIL)).endswith(
            "until 49.000 s worker 0 asked 1 time and had no answer."
        )

    def test_who_got_it_too_late(self) -> None:
        assert self.told(healed().acquire(15, 51, 2)).endswith(
            "asked 1 time and had no answer; worker 2 got it at 50.000 s."
        )
