"""Known histories for honest belief: what a client thought after its lock was another's."""

from typing import Any

import pytest

from checkers.belief import LONGEST, NOTICED
from checkers.check import check
from checkers.claims import Claim, Hazard, Word
from checkers.judgement import judge
from checkers.tests.build import FAIL, Book
from checkers.tests.compare import asking
from checkers.wire import SHARED, F

verdict = asking("honest-belief")


def two(bound: int = 5, **facts: Any) -> Book:
    """Worker 1 is granted at 10, worker 2 at 30; the bound is 5."""
    book = Book(keys=("a",), bounds={"honest-belief": bound}, **facts)
    return book.acquire(8, 10, 1, ttl=10).acquire(25, 30, 2, ttl=10)


def test_up_to_the_bound_and_no_longer() -> None:
    assert verdict(two().release(35, 36, 1)).valid
    broken = verdict(two().release(36, 37, 1))
    (violation,) = broken.violations
    assert (violation.kind, violation.at, violation.holders) == ("believed-too-long", 35, (0, 1))
    assert verdict(two(bound=0).release(31, 32, 1)).valid is False


def test_a_late_notice_counts_from_when_it_was_due() -> None:
    """Its process did not run in between: the first thing that it did was to look at its clock."""
    late = two().add(F.LOST, 90, 91, owner=1, process=1, sent=35)
    assert verdict(late).valid
    assert verdict(late).counters[NOTICED] == 1
    assert verdict(two().add(F.LOST, 90, 91, owner=1, process=1, sent=36)).valid is False


def test_a_dead_client_believes_nothing() -> None:
    assert verdict(two().write(33, 34, 1, 7)).valid
    assert verdict(two().write(33, 60, 1, 7)).valid is False


def test_what_was_over_when_its_answer_arrived_was_never_believed() -> None:
    book = Book(keys=("a",), bounds={"honest-belief": 0})
    book.acquire(8, 60, 1, sent=9, token=1).lost(61, 1, sent=20).acquire(25, 30, 2, token=2)
    assert verdict(book).valid


def test_an_answer_that_was_overtaken_and_is_believed() -> None:
    book = Book(keys=("a",), bounds={"honest-belief": 0})
    book.acquire(8, 60, 1, sent=9, token=1).acquire(25, 30, 2, token=2).release(70, 71, 1)
    (violation,) = verdict(book).violations
    assert violation.at == 60
    assert verdict(book).counters[LONGEST] == 1  # rounded up


def test_simultaneous_requests_have_an_order_only_where_something_tells_it() -> None:
    def queued(lease: str, *tokens: int) -> Book:
        book = Book(keys=("a",), bounds={"honest-belief": 0}, lease=lease)
        for owner, inv, ret, left, token in zip((1, 2), (1, 2), (10, 40), (50, 60), tokens or (-1, -1), strict=True):
            book.acquire(inv, ret, owner, ttl=3, token=token).release(left, left + 1, owner, FAIL)
        return book

    assert verdict(queued("grant")).valid
    assert verdict(queued("grant", 1, 2)).valid is False
    assert verdict(queued("none")).valid is False  # 1 had it when 2 got it, and still had it then


def test_readers_lose_to_writers_only() -> None:
    def shared(flags: int) -> Book:
        book = Book(keys=("a",), bounds={"honest-belief": 0})
        return book.acquire(8, 10, 1, flags=SHARED).acquire(25, 30, 2, flags=flags).release(40, 41, 1)

    assert verdict(shared(SHARED)).valid
    assert verdict(shared(0)).valid is False


def test_who_holds_one_of_several_permits_loses_to_nobody() -> None:
    assert verdict(two(permits=2).release(60, 61, 1)).valid


def test_unexercised() -> None:
    assert verdict(Book().acquire(1, 2, 1)).unexercised == "the lock declares no bound"
    assert verdict(Book(bounds={"honest-belief": 1}).acquire(1, 2, 1)).unexercised == "1 grant, 2 needed"
    contended = Book(keys=("a",), bounds={"honest-belief": 1}).acquire(1, 2, 1).release(10, 11, 1).acquire(5, 12, 2)
    assert verdict(contended).unexercised is None


@pytest.mark.parametrize("gap", [0, 1])
def test_the_story_names_both(gap: int) -> None:
    (violation,) = verdict(two().release(36 + gap, 40, 1)).violations
    assert "worker 1 was granted" in violation.story[0]
    assert violation.story[-1].startswith("So a client believed")


class TestExcuses:
    """The server's clock is set ahead while worker 1 holds, or some other time."""

    def word(self, struck: int, mechanism: str = "expired-by-jump", kind: str = "clock", released: int = 19) -> Word:
        facts: Any = {
            "fault_names": ("f",),
            "claims": (Claim("server-exclusion"),),
            "hazards": (Hazard("honest-belief", ("f",), mechanism),),
        }
        book = Book(keys=("a",), bounds={"honest-belief": 0}, **facts)
        book.acquire(8, 10, 1, sent=9, ttl=10).acquire(14, 15, 2).release(released, released + 1, 1)
        history = book.fault("f", struck, 60, kind=kind, healing=struck).history()
        return judge(check(history, ["honest-belief"])[0], history).word

    def test_a_lease_that_was_cut_short(self) -> None:
        assert self.word(12) is Word.BROKEN_AS_DOCUMENTED
        assert self.word(12, "state-lost", "wipe") is Word.BROKEN_AS_DOCUMENTED

    def test_other_faults_do_not_cut_a_lease_short(self) -> None:
        assert self.word(17) is Word.VIOLATED
        assert self.word(12, "state-lost", "clock") is Word.VIOLATED

    def test_revoked_early_takes_a_refusal(self) -> None:
        assert self.word(12, "revoked-early", "pause") is Word.VIOLATED


@pytest.mark.parametrize(("lease", "stalled", "valid"), [("none", 1, True), ("none", 2, False), ("grant", 1, False)])
def test_without_a_lease_a_client_that_is_stalled_cannot_ask(lease: str, stalled: int, valid: bool) -> None:
    book = two(lease=lease).release(37, 38, 1).add(F.STALL, 31, 33, process=stalled)
    found = verdict(book)
    assert found.valid is valid
    assert [violation.at for violation in found.violations] == ([] if valid else [35])
