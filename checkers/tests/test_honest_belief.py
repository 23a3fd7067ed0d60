"""Known histories for honest belief: what a client thought after its lock was another's."""

from typing import Any

from checkers.check import check
from checkers.claims import Claim, Hazard, Verdict
from checkers.judging.judgement import judge
from checkers.properties.honesty import LONGEST, NOTICED
from checkers.row_format import SHARED, F
from checkers.tests.build import FAIL, Book, cases
from checkers.tests.compare import answers, result_on

NAME = "honest-belief"


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
    ("simultaneous requests have no order", queued("grant"), []),
    ("but by tokens", queued("grant", 1, 2), [40]),
    ("readers lose to no readers", reading(SHARED), []),
    ("who holds one of several permits loses to nobody", two(permits=2).release(60, 61, 1), []),
    ("without a lease a client that is stalled cannot ask", stalled("none", 1), []),
    ("stalled with a lease", stalled("grant", 1), [35]),
)
def test_beliefs_beside_another(book: Book, at: list[int]) -> None:
    found = [violation for violation in result_on(book, NAME).violations if violation.kind == "believed-too-long"]
    assert [violation.at for violation in found] == at
    assert all(violation.holders == (0, 1) for violation in found)


def alone(ttl: int = 10, bound: int = 5, **facts: Any) -> Book:
    """Nobody else asks: sent at 9, its lease can end at 19, and the bound is 5."""
    return Book(keys=("a",), bounds={NAME: bound}, **facts).acquire(8, 10, 1, sent=9, ttl=ttl)


@cases(
    "book, at",
    ("released within the bound", alone().release(24, 25, 1), []),
    ("released beyond it", alone().release(25, 26, 1), [24]),
    ("nobody knows what a dead client believed", alone().write(30, 31, 1, 7), []),
    ("the server's clock may run fast", alone(ttl=10, drift=0.25).release(23, 24, 1), [22]),
    ("pings may keep a session alive", alone(lease="touch").release(90, 91, 1), []),
    ("no bound is declared", Book(keys=("a",)).acquire(8, 10, 1, ttl=10).release(90, 91, 1), []),
)
def test_beliefs_beyond_the_lease(book: Book, at: list[int]) -> None:
    expected: dict[str, object] = {"valid": not at, "kinds": ["believed-past-lease"] * len(at), "moments": at}
    assert answers(NAME, book, expected) == expected


@cases(
    "faults, word",
    ("a holder is frozen past its lease", ("freeze-holder",), Verdict.UNEXERCISED),
    ("nothing makes a lease end", ("slow-links",), Verdict.NOT_APPLICABLE),
    ("no fault", ("none",), Verdict.NOT_APPLICABLE),
)
def test_it_is_exercised_where_a_lease_ends(faults: tuple[str, ...], word: Verdict) -> None:
    book = Book(keys=("a",), bounds={NAME: 1}, fault_names=faults, claims=(Claim(NAME, under=("*",)),), ttl=90)
    book.acquire(1, 2, 1).release(10, 11, 1).acquire(5, 12, 2)
    for fault in faults:
        book.fault(fault, 6, 8)
    history = book.history()
    assert judge(check(history, [NAME])[0], history).word is word


OVERTAKEN = late().acquire(25, 30, 2, token=2).release(70, 71, 1)


@cases(
    "book, expected",
    ("noticed", noticed(35), {NOTICED: 1}),
    ("rounded up", OVERTAKEN, {LONGEST: 1}),
    ("no bound", Book().acquire(1, 2, 1), {"unexercised": "the lock declares no bound"}),
    ("one grant", Book(bounds={NAME: 1}).acquire(1, 2, 1), {"unexercised": "1 grant, 2 needed"}),
)
def test_exercise(book: Book, expected: dict[str, object]) -> None:
    assert answers(NAME, book, expected) == expected


def test_the_story_names_the_first() -> None:
    (violation,) = result_on(two().release(37, 40, 1), NAME).violations
    assert "worker 1 was granted" in violation.story[0]


@cases(
    "struck, mechanism, kind, expected",
    ("a jump", 12, "expired-by-jump", "clock", Verdict.BROKEN_AS_DOCUMENTED),
    ("lost data", 12, "state-lost", "wipe", Verdict.BROKEN_AS_DOCUMENTED),
)
def test_a_lease_that_was_cut_short(struck: int, mechanism: str, kind: str, expected: Verdict) -> None:
    """The server's clock is set ahead while worker 1 holds, or some other time."""
    facts: Any = {
        "fault_names": ("f",),
        "claims": (Claim("server-exclusion"),),
        "hazards": (Hazard(NAME, ("f",), mechanism),),
    }
    book = Book(keys=("a",), bounds={NAME: 0}, **facts).acquire(8, 10, 1, sent=9, ttl=10).acquire(14, 15, 2)
    history = book.release(19, 20, 1).fault("f", struck, 60, kind=kind, healing=struck).history()
    assert judge(check(history, [NAME])[0], history).word is expected
