"""Known histories for honest belief: what a client thought after its lock was another's."""

from typing import Any

from checkers.claims import Claim, Hazard, Verdict
from checkers.properties.honest_belief import LONGEST, NOTICED
from checkers.row_format import SHARED, F
from checkers.tests.build import FAIL, Book, cases
from checkers.tests.compare import DOCUMENTED, VALID, known, result_on

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


def reading(flags: int) -> Book:
    book = Book(keys=("a",), bounds={"honest-belief": 0})
    return book.acquire(8, 10, 1, flags=SHARED).acquire(25, 30, 2, flags=flags).release(40, 41, 1)


def stalled(lease: str, process: int) -> Book:
    return two(lease=lease).release(37, 38, 1).add(F.STALL, 31, 33, process=process)


def alone(**facts: Any) -> Book:
    """Nobody else asks: sent at 9, its lease can end at 19, and the bound is 5."""
    return Book(keys=("a",), **{"bounds": {NAME: 5}, **facts}).acquire(8, 10, 1, sent=9, ttl=10)


def under(fault: str) -> Book:
    book = Book(keys=("a",), bounds={NAME: 1}, fault_names=(fault,), claims=(Claim(NAME, under=("*",)),), ttl=90)
    return book.acquire(1, 2, 1).release(10, 11, 1).acquire(5, 12, 2).fault(fault, 6, 8)


def cut_short(mechanism: str, kind: str) -> Book:
    """The server's clock is set ahead while worker 1 holds, or its data are lost."""
    hazards = (Hazard(NAME, ("f",), mechanism),)
    book = Book(keys=("a",), bounds={NAME: 0}, fault_names=("f",), claims=(Claim("server-exclusion"),), hazards=hazards)
    book.acquire(8, 10, 1, sent=9, ttl=10).acquire(14, 15, 2).release(19, 20, 1)
    return book.fault("f", 12, 60, kind=kind, healing=12)


def past_lease(at: int) -> dict[str, object]:
    return {"kinds": ["believed-past-lease"], "moments": [at]}


# The answer to the first was overtaken.
OVERTAKEN = Book(keys=("a",), bounds={"honest-belief": 0}).acquire(8, 60, 1, sent=9, token=1)
OVERTAKEN.acquire(25, 30, 2, token=2).release(70, 71, 1)


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


test_honest_belief = known(
    NAME,
    ("released within the bound", alone().release(24, 25, 1), VALID),
    ("released beyond it", alone().release(25, 26, 1), past_lease(24)),
    ("nobody knows what a dead client believed", alone().write(30, 31, 1, 7), VALID),
    ("the server's clock may run fast", alone(drift=0.25).release(23, 24, 1), past_lease(22)),
    ("pings may keep a session alive", alone(lease="touch").release(90, 91, 1), VALID),
    (
        "no bound is declared",
        alone(bounds={}).release(90, 91, 1),
        {"valid": True, "unexercised": "the lock declares no bound"},
    ),
    ("noticed", noticed(35), {NOTICED: 1}),
    ("rounded up", OVERTAKEN, {LONGEST: 1}),
    ("one grant", Book(bounds={NAME: 1}).acquire(1, 2, 1), {"unexercised": "1 grant, 2 needed"}),
    ("the story names the first", two().release(37, 40, 1), {"told": ("worker 1 was granted",)}),
    ("a jump cuts a lease short", cut_short("expired-by-jump", "clock"), DOCUMENTED),
    ("lost data cut a lease short", cut_short("state-lost", "wipe"), DOCUMENTED),
    ("a frozen holder exercises it", under("freeze-holder"), {"word": Verdict.UNEXERCISED}),
    ("slow links do not", under("slow-links"), {"word": Verdict.NOT_APPLICABLE}),
    ("nor does no fault", under("none"), {"word": Verdict.NOT_APPLICABLE}),
)
