"""What each mechanism of a lock that is broken by design explains, and the nearest violation that it does not."""

from typing import Any

from checkers.history.view import View
from checkers.judging.excuse_parts import Incident
from checkers.judging.excuses_by_design import DESIGNS
from checkers.judging.excuses_by_fault import MECHANISMS
from checkers.properties.check_result import Violation
from checkers.row_format import F, Reason
from checkers.tests.build import FAIL, INFO, OK, Book, cases

MS = 1_000_000
TWICE, SMALLER, BY_HUNG = "granted-while-held", "token-not-larger", "kept-by-a-hung-holder"
BY_ANOTHER, RENEWED, CLOCK = "released-by-another", "renewed-anothers", "client-clock"
LEFT, MISSED = "left-behind", "not-recovered"
EMPTY = Book(keys=("a",), workers=8, ttl=40)
REFUSED: dict[str, Any] = {"outcome": FAIL, "reason": Reason.NOT_OWNER}


def explains(mechanism: str, book: Book, kind: str, *owners: int, at: int = 60) -> bool:
    """Whether the mechanism explains a violation of this kind by the grants of these owners, the earliest first."""
    history = book.history()
    view = View(history)
    holders = tuple(view.holds.by_owner[owner].row for owner in owners)
    rows = (*holders, *view.rows(F.WRITE)) or tuple(view.rows(F.ACQUIRE)[-1:])
    return MECHANISMS[mechanism](Incident(Violation(kind, at, rows, holders, ()), view, history.faults))


def two(**more: Any) -> Book:
    """Worker 1 is granted the lock at 10 until 50, and worker 2 at 60."""
    return EMPTY.then().acquire(9, 10, 1, sent=10, **more).acquire(11, 60, 2, sent=59)


def test_every_design_is_a_mechanism() -> None:
    assert DESIGNS.items() <= MECHANISMS.items()


@cases(
    "mechanism, kinds, others",
    (
        "no exclusion at all", "no-exclusion",
        ("overlap", TWICE, "lost-update", "done-twice", "sold-twice"), ("token-repeated", "not-recovered", "vanished"),
    ),
    (
        "a pool hands out its sessions to all", "not-the-session",
        (TWICE, "never-freed", "released-anothers"), ("token-repeated", "stale-read"),
    ),
    ("opposite order", "opposite-order", ("deadlock",), ("overlap",)),
    ("woken all", "woken-all", ("herd",), ("overlap",)),
    ("hash collision", "hash-collision", ("kept-by-another-name",), ("overlap",)),
)  # fmt: skip
def test_some_mechanisms_look_only_at_the_kind(mechanism: str, kinds: tuple[str, ...], others: tuple[str, ...]) -> None:
    assert all(explains(mechanism, two(), kind, 1, 2) for kind in kinds)
    assert not any(explains(mechanism, two(), kind, 1, 2) for kind in others)


def handed(sent: int, answered: int, outcome: Any = OK, lease: int = 20) -> Book:
    """Worker 1 holds from 10, worker 2 from 40, worker 3 from 60; worker 1 releases from `sent` to `answered`."""
    told = EMPTY.then().acquire(9, 10, 1, sent=10, ttl=lease).acquire(11, 40, 2, sent=39, ttl=40)
    return told.acquire(12, 60, 3, sent=59, ttl=40).release(sent, answered, 1, outcome)


# Worker 2's release frees its own lock, which worker 4 gets, and then worker 4's, which worker 3 gets.
FREED_IN_TURN = EMPTY.then().acquire(11, 40, 2, sent=39, ttl=90).acquire(12, 50, 4, sent=44, ttl=90)
FREED_IN_TURN.release(48, 52, 2).acquire(13, 60, 3, sent=51, ttl=90)
OTHER_KEY = (
    Book(keys=("a", "b"), workers=8)
    .acquire(9, 10, 1, sent=10, ttl=20, key=1).release(45, 47, 1, key=1)
    .acquire(11, 40, 2, sent=39, ttl=40).acquire(12, 60, 3, sent=59, ttl=40)
)  # fmt: skip


LATER = EMPTY.then().acquire(9, 10, 1, sent=10).acquire(11, 60, 2, sent=15).renew(61, 62, 2)
GAVE_BACK = two().release(20, 21, 1).renew(19, 23, 1)


def hung(kind: str = "stall", healed: int = 90, **more: Any) -> Book:
    return two(**more).fault("f", 20, healed, kind=kind, owner=1)


def kept_alive(session: int) -> Book:
    return hung("call", session=7).add(F.KEEP_ALIVE, 30, 31, session=session)


def left_behind(outcome: Any = INFO, alive: int = 30, key: int = 0) -> Book:
    """A release at 20, and later a sign of life of its session. Somebody asks from 40 on, after the fault."""
    told = Book(keys=("a", "b"), workers=8, ttl=40).acquire(9, 10, 1, sent=10, session=7, key=key)
    told.release(20, 21, 1, outcome, session=7, key=key).add(F.KEEP_ALIVE, alive, alive + 1, session=7)
    return told.fault("f", 15, 35).acquire(40, 55, 2, outcome=FAIL, reason=Reason.TIMEOUT)


WAITED = left_behind(OK).acquire(16, 18, 3, outcome=FAIL, reason=Reason.TIMEOUT)


def at_ttl(ttl: int) -> Book:
    return EMPTY.then().acquire(9, 10, 1, sent=10, ttl=ttl).acquire(11, 60, 2, sent=59, ttl=40)


ANSWERED_LATE, ANSWERED = (
    EMPTY.then().acquire(9, ret, 1, sent=10).write(56, 58, 1, 1).acquire(11, 57, 2, sent=52) for ret in (55, 49)
)
KEPT_ALIVE = two(session=7).add(F.KEEP_ALIVE, 45, 46, INFO, session=7)
ASKED_LATE = two(session=7).add(F.KEEP_ALIVE, 61, 62, session=7)
NOTICED_AT_ONCE = EMPTY.then().acquire(9, 55, 1, sent=10).lost(56, 1, sent=50).acquire(11, 57, 2, sent=52)
NO_LEASES = EMPTY.then(lease="none").acquire(9, 10, 1, sent=10).acquire(11, 60, 2, sent=59)


def clocks(*tokens: int) -> Book:
    """Worker 1 asks first, at 1 s, and gets the lock last, at 2.9 s. Worker 2 asks at 2 s and gets it at 2.5 s."""
    told = EMPTY.then(ttl=1000 * MS)
    told.acquire(1000 * MS, 2900 * MS, 1, token=tokens[0])
    return told.acquire(2000 * MS, 2500 * MS, 2, token=tokens[1])


def skewed(process: int, healed: int = 4000 * MS) -> Book:
    """Worker 2's token is far from what its clock would have shown; a fault moves the clock of `process`."""
    return clocks(3000 * MS, 7).fault("skew-workers", 500 * MS, healed, kind="skew", process=process)


def hit(begun: int, healed: int, kind: str) -> Book:
    return NO_LEASES.then().release(90, 91, 1).fault("f", begun, healed, kind=kind, owner=int(kind == "freeze"))


@cases(
    "mechanism, told, kind, owners, expected",
    ("and so is the release itself", BY_ANOTHER, handed(45, 47), "released-anothers", (1, 2), True),
    ("its lease could end between a look and the deletion", BY_ANOTHER, handed(25, 47), TWICE, (2, 3), True),
    ("or so it could without an answer", BY_ANOTHER, handed(25, 47, INFO), "overlap", (2, 3), True),
    ("not while its lease lasted: the answer came late", BY_ANOTHER, handed(25, 47, lease=60), TWICE, (2, 3), False),
    ("not one that was answered before", BY_ANOTHER, handed(35, 38), TWICE, (2, 3), False),
    ("not one that was sent after", BY_ANOTHER, handed(61, 62), TWICE, (2, 3), False),
    ("not one that was refused", BY_ANOTHER, handed(45, 47, FAIL), TWICE, (2, 3), False),
    ("who was not hands over", BY_ANOTHER, FREED_IN_TURN, TWICE, (4, 3), False),
    ("not of another key", BY_ANOTHER, OTHER_KEY, TWICE, (2, 3), False),
    ("acknowledged across the end of its lease", RENEWED, two().renew(45, 52, 1), TWICE, (1, 2), True),
    ("one in time prolongs for the next", RENEWED, two().renew(30, 31, 1).renew(53, 54, 1), TWICE, (1, 2), False),
    ("not one that was refused", RENEWED, two().renew(53, 54, 1, **REFUSED), TWICE, (1, 2), False),
    ("not the later holder's", RENEWED, LATER, "overlap", (1, 2), False),
    ("what has been released is not its own", RENEWED, GAVE_BACK, TWICE, (1, 2), True),
    ("nor is it by the kind of the violation", RENEWED, GAVE_BACK, "renewed-after-release", (1,), True),
    ("a lie is what its kind says", RENEWED, two().renew(61, 62, 1), "renewed-though-lost", (1, 2), True),
    ("its lie is found out the next time", RENEWED, two().renew(53, 54, 1), "refused-though-held", (1,), True),
    ("never freed after a kill", "never-expires", hung("kill"), "never-freed", (1,), True),
    ("freed late after a kill", "never-expires", hung("kill"), "freed-late", (1,), True),
    ("another died", "never-expires", hung("kill"), "never-freed", (2,), False),
    ("nobody died", "never-expires", two(), "never-freed", (1,), False),
    ("hung and renewed", "hung-but-renewed", hung().renew(30, 31, 1), BY_HUNG, (1,), True),
    ("what is renewed need not expire", "never-expires", hung().renew(30, 31, 1), BY_HUNG, (1,), False),
    ("the keep-alive of its session", "hung-but-renewed", kept_alive(7), BY_HUNG, (1,), True),
    ("the keep-alive of another session", "hung-but-renewed", kept_alive(8), BY_HUNG, (1,), False),
    ("its client had noticed", "gave-up", two().lost(30, 1), "nested-refused", (1,), True),
    ("its client had not", "gave-up", two(), "nested-refused", (1,), False),
    ("that explains no other token", "gave-up", two().lost(30, 1), "token-changed", (1,), False),
    ("not for a client that noticed", "outlived-ttl", two().lost(55, 1), "overlap", (1, 2), False),
    ("it noticed after it wrote", "outlived-ttl", two().write(52, 53, 1, 7).lost(55, 1), "lost-update", (1, 2), True),
    ("not for a service that lies", "outlived-ttl", two(), TWICE, (1, 2), False),
    ("not while renewals were acknowledged", "outlived-ttl", two().renew(30, 31, 1), "overlap", (1, 2), False),
    ("somebody asked, without an answer", "keepalive-died", KEPT_ALIVE, "overlap", (1, 2), False),
    ("somebody asked too late", "keepalive-died", ASKED_LATE, "overlap", (1, 2), True),
    ("an answer that came when the lease was over", "answer-past-ttl", ANSWERED_LATE, "overlap", (1, 2), True),
    ("one that came in time", "answer-past-ttl", ANSWERED, "overlap", (1, 2), False),
    ("nobody went in who noticed at once", "answer-past-ttl", NOTICED_AT_ONCE, "overlap", (1, 2), False),
    ("no server gave it", "went-ahead", at_ttl(0), "overlap", (1, 2), True),
    ("that explains no token", "went-ahead", at_ttl(0), "token-repeated", (1, 2), False),
    ("a server did", "went-ahead", at_ttl(40), "overlap", (1, 2), False),
    ("a lock without leases has no ttl to give", "went-ahead", NO_LEASES, "overlap", (1, 2), False),
    ("given by a clock", CLOCK, clocks(10**18 + 1001 * MS, 10**18 + 2001 * MS), SMALLER, (2, 1), True),
    ("the second is too small", CLOCK, clocks(3000 * MS, 7), SMALLER, (2, 1), False),
    ("nothing but the order of tokens", CLOCK, clocks(1001 * MS, 2001 * MS), "overlap", (2, 1), False),
    ("the clock of the second had been moved", CLOCK, skewed(process=2), SMALLER, (2, 1), True),
    ("it had been set right again", CLOCK, skewed(process=2, healed=1900 * MS), SMALLER, (2, 1), False),
    ("a release without an answer in a session that lives", LEFT, left_behind(), MISSED, (), True),
    ("that explains nothing else", LEFT, left_behind(), "never-freed", (), False),
    ("not in a session that was not heard of again", LEFT, left_behind(alive=19), MISSED, (), False),
    ("not of another key", LEFT, left_behind(key=1), MISSED, (), False),
    ("a wait that ended during the fault", LEFT, WAITED, MISSED, (), True),
    ("hit while it held", "session-lost", hit(20, 30, "failover"), "overlap", (1, 2), True),
    ("hit before", "session-lost", hit(5, 8, "failover"), "overlap", (1, 2), False),
    ("hit after the other was granted it", "session-lost", hit(61, 70, "failover"), "overlap", (1, 2), False),
    ("no session is lost with a worker", "session-lost", hit(20, 30, "freeze"), "overlap", (1, 2), False),
)
def test_a_mechanism_explains_only_its_cases(
    mechanism: str, told: Book, kind: str, owners: tuple[int, ...], expected: bool
) -> None:
    assert explains(mechanism, told, kind, *owners) is expected


def test_a_lease_is_outlived_from_its_end_on() -> None:
    assert explains("outlived-ttl", two(), "overlap", 1, 2, at=50)


@cases("left, explained", ("longer than a fault", 30, True), ("for a moment", 12, False))
def test_a_lock_that_another_name_keeps(left: int, explained: bool) -> None:
    told = Book(keys=("a", "b")).acquire(1, 2, 1, key=1).release(left, left + 1, 1, key=1)
    told.acquire(13, 70, 2)
    for kind in ("not-recovered", "freed-late"):
        assert explains("hash-collision", told, kind, 2) is explained
    assert not explains("hash-collision", told, "overlap", 2)


@cases("sent, given_up, explained", ("met", 15, 25, True), ("after", 23, 40, False))
def test_a_clock_set_during_a_wait_explains_a_missed_recovery(sent: int, given_up: int, explained: bool) -> None:
    told = EMPTY.then().acquire(9, 10, 1).acquire(sent, 0, 0, process=2, outcome=INFO, given_up=given_up)
    told.fault("clock-jump-forward", 4, 22, kind="clock", healing=20)
    assert explains("timers-set-back", told, "not-recovered", 1) is explained
    assert not explains("timers-set-back", told, "deadlock", 1)


@cases("tokens", ("in order", (5, 6)), ("against the answers", (6, 5)))
def test_answers_decide_the_first_holder_when_tokens_contradict_them(tokens: tuple[int, int]) -> None:
    told = EMPTY.then().acquire(9, 10, 1, sent=10, token=tokens[0]).acquire(11, 60, 2, sent=59, token=tokens[1])
    view = View(told.history())
    rows = sorted((grant.token, grant.row) for grant in view.holds)
    violation = Violation("overlap", 60, (), tuple(row for _, row in rows), ())
    assert [hold.owner for hold in Incident(violation, view).earlier] == [1]
