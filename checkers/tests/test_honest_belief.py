"""Known histories for honest belief: what a client thought after its lock was another's."""

from typing import Any

from checkers.check import check
from checkers.claims import Claim, Hazard, Verdict
from checkers.judging.judgement import judge
from checkers.properties.honest_belief import LONGEST, NOTICED
from checkers.tests.build import FAIL, Book, cases
from checkers.tests.compare import asking
from checkers.wire import SHARED, F

result = asking("honest-belief")


def two(bound: int = 5, **facts: Any) -> Book:
    """Worker 1 is granted at 10, worker 2 at 30; the bound is 5."""
    book = Book(keys=("a",), bounds={"honest-belief": bound}, **facts)
    return book.acquire(8, 10, 1, ttl=10).acquire(25, 30, 2, ttl=10)


def queued(lease: str, *tokens: int) -> Book:
    """Simultaneous requests."""
    book = Book(keys=("a",), bounds={"honest-belief": 0}, lease=lease)
    for owner, inv, ret, left, token in zip((1, 2), (1, 2), (10, 40), (50, 60), tokens or (-1, -1), strict=True):
        book.acquire(inv, ret, owner, ttl=3, token=token).release(left, left + 1, owner, FAIL)
    return book


def noticed(due: int) -> Book:
    """A late notice counts from when it was due: its process did not run in between."""
    return two().add(F.LOST, 90, 91, owner=1, process=1, sent=due)


def late() -> Book:
    """Its answer was overtaken."""
    return Book(keys=("a",), bounds={"honest-belief": 0}).acquire(8, 60, 1, sent=9, token=1)


def reading(flags: int) -> Book:
    book = Book(keys=("a",), bounds={"honest-belief": 0})
    return book.acquire(8, 10, 1, flags=SHARED).acquire(25, 30, 2, flags=flags).release(40, 41, 1)


def stalled(lease: str, process: int) -> Book:
    return two(lease=lease).release(37, 38, 1).add(F.STALL, 31, 33, process=process)


@cases(
    "book, at",
    ("up to the bound", two().release(35, 36, 1), []),
    ("beyond the bound", two().release(36, 37, 1), [35]),
    ("beyond a bound of nothing", two(bound=0).release(31, 32, 1), [30]),
    ("a late notice that was due in time", noticed(35), []),
    ("a late notice that was due too late", noticed(36), [35]),
    ("a dead client believes nothing", two().write(33, 34, 1, 7), []),
    ("a client that lives", two().write(33, 60, 1, 7), [35]),
    ("over when its answer arrived", late().lost(61, 1, sent=20).acquire(25, 30, 2, token=2), []),
    ("overtaken, and believed", late().acquire(25, 30, 2, token=2).release(70, 71, 1), [60]),
    ("simultaneous requests have no order", queued("grant"), []),
    ("but by tokens", queued("grant", 1, 2), [40]),
    ("1 had it when 2 got it, and still had it then", queued("none"), [40]),
    ("readers lose to no readers", reading(SHARED), []),
    ("readers lose to writers", reading(0), [30]),
    ("who holds one of several permits loses to nobody", two(permits=2).release(60, 61, 1), []),
    ("without a lease a client that is stalled cannot ask", stalled("none", 1), []),
    ("another is stalled", stalled("none", 2), [35]),
    ("stalled with a lease", stalled("grant", 1), [35]),
)
def test_beliefs(book: Book, at: list[int]) -> None:
    found = result(book)
    assert [(violation.kind, violation.at) for violation in found.violations] == [("believed-too-long", t) for t in at]
    assert all(violation.holders == (0, 1) for violation in found.violations)
    assert found.valid is not bool(at)


def test_counters() -> None:
    assert result(noticed(35)).counters[NOTICED] == 1
    assert result(late().acquire(25, 30, 2, token=2).release(70, 71, 1)).counters[LONGEST] == 1  # rounded up


def test_unexercised() -> None:
    assert result(Book().acquire(1, 2, 1)).unexercised == "the lock declares no bound"
    assert result(Book(bounds={"honest-belief": 1}).acquire(1, 2, 1)).unexercised == "1 grant, 2 needed"
    contended = Book(keys=("a",), bounds={"honest-belief": 1}).acquire(1, 2, 1).release(10, 11, 1).acquire(5, 12, 2)
    assert result(contended).unexercised is None


def test_the_story_names_both() -> None:
    (violation,) = result(two().release(37, 40, 1)).violations
    assert "worker 1 was granted" in violation.story[0]
    assert violation.story[-1].startswith("So a client believed")


class TestExcuses:
    """The server's clock is set ahead while worker 1 holds, or some other time."""

    def word(self, struck: int, mechanism: str = "expired-by-jump", kind: str = "clock", released: int = 19) -> Verdict:
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
        assert self.word(12) is Verdict.BROKEN_AS_DOCUMENTED
        assert self.word(12, "state-lost", "wipe") is Verdict.BROKEN_AS_DOCUMENTED
        assert self.word(17) is Verdict.VIOLATED
        assert self.word(12, "state-lost", "clock") is Verdict.VIOLATED
        assert self.word(12, "revoked-early", "pause") is Verdict.VIOLATED, "that takes a refusal"
