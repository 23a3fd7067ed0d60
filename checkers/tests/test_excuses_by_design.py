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
TWICE = "granted-while-held"
EMPTY = Book(keys=("a",), workers=8, ttl=40)
REFUSED: dict[str, Any] = {"outcome": FAIL, "reason": Reason.NOT_OWNER}


def explains(mechanism: str, book: Book, kind: str, *owners: int, at: int = 60) -> bool:
    """Whether the mechanism explains a violation of this kind by the grants of these owners, the earliest first."""
    history = book.history()
    view = View(history)
    holders = tuple(view.holds.by_owner[owner].row for owner in owners)
    rows = (*holders, *view.rows(F.WRITE))
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


@cases(
    "told, kind, owners, expected",
    ("and so is the release itself", handed(45, 47), "released-anothers", (1, 2), True),
    ("its lease could end between a look and the deletion", handed(25, 47), TWICE, (2, 3), True),
    ("or so it could without an answer", handed(25, 47, INFO), "overlap", (2, 3), True),
    ("not while its lease lasted: the answer came late", handed(25, 47, lease=60), TWICE, (2, 3), False),
    ("not one that was answered before", handed(35, 38), TWICE, (2, 3), False),
    ("not one that was sent after", handed(61, 62), TWICE, (2, 3), False),
    ("not one that was refused", handed(45, 47, FAIL), TWICE, (2, 3), False),
    ("who was not hands over", FREED_IN_TURN, TWICE, (4, 3), False),
    ("not of another key", OTHER_KEY, TWICE, (2, 3), False),
)
def test_released_by_another(told: Book, kind: str, owners: tuple[int, ...], expected: bool) -> None:
    assert explains("released-by-another", told, kind, *owners) is expected


LATER = EMPTY.then().acquire(9, 10, 1, sent=10).acquire(11, 60, 2, sent=15).renew(61, 62, 2)
GAVE_BACK = two().release(20, 21, 1).renew(19, 23, 1)


@cases(
    "told, kind, owners, expected",
    ("acknowledged across the end of its lease", two().renew(45, 52, 1), TWICE, (1, 2), True),
    ("one in time prolongs for the next", two().renew(30, 31, 1).renew(53, 54, 1), TWICE, (1, 2), False),
    ("not one that was refused", two().renew(53, 54, 1, **REFUSED), TWICE, (1, 2), False),
    ("not the later holder's", LATER, "overlap", (1, 2), False),
    ("what has been released is not its own", GAVE_BACK, TWICE, (1, 2), True),
    ("nor is it by the kind of the violation", GAVE_BACK, "renewed-after-release", (1,), True),
    ("a lie is what its kind says", two().renew(61, 62, 1), "renewed-though-lost", (1, 2), True),
    ("what it told wrongly is refused the next time", two().renew(53, 54, 1), "refused-though-held", (1,), True),
)
def test_renewed_anothers(told: Book, kind: str, owners: tuple[int, ...], expected: bool) -> None:
    assert explains("renewed-anothers", told, kind, *owners) is expected


def hung(kind: str = "stall", healed: int = 90, **more: Any) -> Book:
    return two(**more).fault("f", 20, healed, kind=kind, owner=1)


def kept_alive(session: int) -> Book:
    return hung("call", session=7).add(F.KEEP_ALIVE, 30, 31, session=session)


@cases(
    "told, mechanism, kind, owner, expected",
    ("never freed after a kill", hung("kill"), "never-expires", "never-freed", 1, True),
    ("freed late after a kill", hung("kill"), "never-expires", "freed-late", 1, True),
    ("another died", hung("kill"), "never-expires", "never-freed", 2, False),
    ("nobody died", two(), "never-expires", "never-freed", 1, False),
    ("hung and renewed", hung().renew(30, 31, 1), "hung-but-renewed", "kept-by-a-hung-holder", 1, True),
    ("what is renewed need not expire", hung().renew(30, 31, 1), "never-expires", "kept-by-a-hung-holder", 1, False),
    ("the keep-alive of its session", kept_alive(7), "hung-but-renewed", "kept-by-a-hung-holder", 1, True),
    ("the keep-alive of another session", kept_alive(8), "hung-but-renewed", "kept-by-a-hung-holder", 1, False),
    ("its client had noticed", two().lost(30, 1), "gave-up", "nested-refused", 1, True),
    ("its client had not", two(), "gave-up", "nested-refused", 1, False),
    ("that explains no other token", two().lost(30, 1), "gave-up", "token-changed", 1, False),
)  # fmt: skip
def test_a_death_or_hang_explains_its_cases(told: Book, mechanism: str, kind: str, owner: int, expected: bool) -> None:
    assert explains(mechanism, told, kind, owner) is expected


def left_behind(outcome: Any = INFO, alive: int = 30, key: int = 0) -> Book:
    """A release at 20, and later a sign of life of its session. Somebody asks from 40 on, after the fault."""
    told = Book(keys=("a", "b"), workers=8, ttl=40).acquire(9, 10, 1, sent=10, session=7, key=key)
    told.release(20, 21, 1, outcome, session=7, key=key).add(F.KEEP_ALIVE, alive, alive + 1, session=7)
    return told.fault("f", 15, 35).acquire(40, 55, 2, outcome=FAIL, reason=Reason.TIMEOUT)


WAITED = left_behind(OK).acquire(16, 18, 3, outcome=FAIL, reason=Reason.TIMEOUT)


@cases(
    "told, kind, expected",
    ("a release without an answer in a session that lives", left_behind(), "not-recovered", True),
    ("that explains nothing else", left_behind(), "never-freed", False),
    ("not in a session that was not heard of again", left_behind(alive=19), "not-recovered", False),
    ("not of another key", left_behind(key=1), "not-recovered", False),
    ("a wait that ended during the fault", WAITED, "not-recovered", True),
)
def test_a_request_left_behind_excuses_only_a_missed_recovery_of_its_key(told: Book, kind: str, expected: bool) -> None:
    view = View(told.history())
    row = view.rows(F.ACQUIRE)[-1]
    assert (
        MECHANISMS["left-behind"](Incident(Violation(kind, 60, (row,), (), ()), view, view.history.faults)) is expected
    )


def at_ttl(ttl: int) -> Book:
    return EMPTY.then().acquire(9, 10, 1, sent=10, ttl=ttl).acquire(11, 60, 2, sent=59, ttl=40)


ANSWERED_LATE, ANSWERED = (
    EMPTY.then().acquire(9, ret, 1, sent=10).write(56, 58, 1, 1).acquire(11, 57, 2, sent=52) for ret in (55, 49)
)
KEPT_ALIVE = two(session=7).add(F.KEEP_ALIVE, 45, 46, INFO, session=7)
ASKED_LATE = two(session=7).add(F.KEEP_ALIVE, 61, 62, session=7)
NOTICED_AT_ONCE = EMPTY.then().acquire(9, 55, 1, sent=10).lost(56, 1, sent=50).acquire(11, 57, 2, sent=52)
NO_LEASES = EMPTY.then(lease="none").acquire(9, 10, 1, sent=10).acquire(11, 60, 2, sent=59)


@cases(
    "mechanism, told, kind, at, expected",
    ("just after it", "outlived-ttl", two(), "overlap", 50, True),
    ("not for a client that noticed", "outlived-ttl", two().lost(55, 1), "overlap", 60, False),
    ("it noticed after it wrote", "outlived-ttl", two().write(52, 53, 1, 7).lost(55, 1), "lost-update", 60, True),
    ("not for a service that lies", "outlived-ttl", two(), TWICE, 60, False),
    ("not while renewals were acknowledged", "outlived-ttl", two().renew(30, 31, 1), "overlap", 60, False),
    ("somebody asked, without an answer", "keepalive-died", KEPT_ALIVE, "overlap", 60, False),
    ("somebody asked too late", "keepalive-died", ASKED_LATE, "overlap", 60, True),
    ("an answer that came when the lease was over", "answer-past-ttl", ANSWERED_LATE, "overlap", 60, True),
    ("one that came in time", "answer-past-ttl", ANSWERED, "overlap", 60, False),
    ("nobody went in who noticed at once", "answer-past-ttl", NOTICED_AT_ONCE, "overlap", 60, False),
    ("no server gave it", "went-ahead", at_ttl(0), "overlap", 60, True),
    ("that explains no token", "went-ahead", at_ttl(0), "token-repeated", 60, False),
    ("a server did", "went-ahead", at_ttl(40), "overlap", 60, False),
    ("a lock without leases has no ttl to give", "went-ahead", NO_LEASES, "overlap", 60, False),
)  # fmt: skip
def test_a_missed_ttl_explains_only_its_cases(mechanism: str, told: Book, kind: str, at: int, expected: bool) -> None:
    assert explains(mechanism, told, kind, 1, 2, at=at) is expected


@cases(
    "begun, healed, kind, expected",
    ("hit while it held", 20, 30, "failover", True),
    ("hit before", 5, 8, "failover", False),
    ("hit after the other was granted it", 61, 70, "failover", False),
    ("no session is lost with a worker", 20, 30, "freeze", False),
)
def test_a_session_that_was_lost(begun: int, healed: int, kind: str, expected: bool) -> None:
    told = NO_LEASES.then()
    told.fault("f", begun, healed, kind=kind, owner=1 if kind == "freeze" else 0).release(90, 91, 1)
    assert explains("session-lost", told, "overlap", 1, 2) is expected


def clocks(*tokens: int) -> Book:
    """Worker 1 asks first, at 1 s, and gets the lock last, at 2.9 s. Worker 2 asks at 2 s and gets it at 2.5 s."""
    told = EMPTY.then(ttl=1000 * MS)
    told.acquire(1000 * MS, 2900 * MS, 1, token=tokens[0])
    return told.acquire(2000 * MS, 2500 * MS, 2, token=tokens[1])


def skewed(process: int, healed: int = 4000 * MS) -> Book:
    """Worker 2's token is far from what its clock would have shown; a fault moves the clock of `process`."""
    return clocks(3000 * MS, 7).fault("skew-workers", 500 * MS, healed, kind="skew", process=process)


@cases(
    "told, kind, expected",
    ("given by a clock", clocks(10**18 + 1001 * MS, 10**18 + 2001 * MS), "token-not-larger", True),
    ("the second is too small", clocks(3000 * MS, 7), "token-not-larger", False),
    ("nothing but the order of tokens", clocks(1001 * MS, 2001 * MS), "overlap", False),
    ("the clock of the second had been moved", skewed(process=2), "token-not-larger", True),
    ("it had been set right again", skewed(process=2, healed=1900 * MS), "token-not-larger", False),
)
def test_tokens_of_a_clients_clock(told: Book, kind: str, expected: bool) -> None:
    assert explains("client-clock", told, kind, 2, 1) is expected


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
