"""Known histories for both kinds of exclusion and for tokens."""

from typing import Any

import pytest

from checkers.engines import lease_schedule as schedule
from checkers.engines.lease_schedule import Search
from checkers.properties import exclusion
from checkers.properties.exclusion import GAP, OVERLAP
from checkers.properties.shared_counters import CONTENDED, EXPIRED, GRANTS, HAND_OVERS, UNANSWERED, UNDER_FAULT
from checkers.row_format import F
from checkers.tests.build import FAIL, INFO, INVALID, VALID, Book, cases, known, result_on

MS = 1_000_000
SERVER, HOLDERS, TOKENS = "server-exclusion", "holder-exclusion", "token-order"


def two(second: tuple[int, int], **facts: Any) -> Book:
    """Worker 1 is granted at 10 (ttl 10, nothing released), worker 2 during `second`."""
    book = Book(keys=("a",), **facts)
    book.acquire(8, 10, 1, sent=9, ttl=10)
    return book.acquire(*second, 2, ttl=10)


def given_up(second: int) -> Book:
    """There is no lease. Worker 1's client last said at 20 that it holds, and at 40 that it gave its session up."""
    book = Book(keys=("a",), lease="none").acquire(1, 2, 1).lost(40, 1, base=20)
    return book.acquire(3, second, 2).release(60, 61, 2)


def cut(*begun: int) -> Book:
    book = WAITED.then(fault_names=("cut-client-drop",))
    for at in begun:
        book.fault("cut-client-drop", at, at + 1)
    return book


WAITED = Book(keys=("a",)).acquire(1, 2, 1).release(6, 7, 1)
WAITED.acquire(3, 8, 2).release(9, 10, 2)
# Granted for longer than there are numbers, from a renewal on.
ENDLESS = Book(keys=("a",)).acquire(8, 10, 1, ttl=(1 << 63) - 1).renew(11, 12, 1)
# Held until release or silence.
WITHOUT_LEASE = Book(keys=("a",), lease="none", ttl=0).acquire(1, 2, 1).read(8, 9, 1, -1)
# Any two of them fit; only all three together do not.
THREE = Book(keys=("a",), ttl=7).acquire(1, 6, 1).acquire(2, 8, 2).acquire(3, 14, 3)
# Each of three is granted inside the hold of the first.
FOUR = Book(keys=("a",), ttl=3).acquire(1, 2, 1, ttl=100)
for owner in (2, 3, 4):
    FOUR.acquire(owner * 10, owner * 10 + 1, owner).release(owner * 10 + 2, owner * 10 + 3, owner)
# Session 7 gets the second key when session 9 leaves it, at 14: so until then it held the first one too.
ONE_SESSION = Book(lease="session", ttl=10).add(F.SESSION_OPEN, 1, 1, session=7).add(F.SESSION_OPEN, 1, 1, session=9)
ONE_SESSION.acquire(2, 2, 1, session=9, key=1).add(F.KEEP_ALIVE, 10, 11, session=9).release(14, 15, 1, session=9, key=1)
ONE_SESSION.acquire(3, 4, 2, session=7).acquire(5, 20, 3, session=7, key=1).acquire(6, 13, 4, session=8)
INSIDE = Book(keys=("a",)).acquire(1, 2, 1).release(11, 12, 1).acquire(5, 10, 2).release(15, 16, 2)
AFTER_ITS_RELEASE = Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1).renew(5, 6, 1)
ASKED_AGAIN = Book(keys=("a",), lease="touch").acquire(1, 2, 1, ttl=50, session=7).acquire(5, 6, 2, ttl=50, session=7)
TWO_KEYS = Book().acquire(1, 2, 1).acquire(1, 2, 2, key=1)
STORY = (
    "worker 1 was granted the lock at 0.100 s",
    "its lease ran out at 1.000 s while it was hit by freeze-holder",
    "worker 2 was granted the lock at 2.000 s",
)
TOKEN, LEFT = Book().acquire(1, 2, 1, token=5), Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1)
COUNTED = {GRANTS: 2, HAND_OVERS: 1, CONTENDED: 1, UNANSWERED: 1}
HELD, NO_ROOM = {"kind": "granted-while-held"}, {"kind": "no-room"}
# Nobody inside for 7, 3 and 2 ms while somebody waited; two inside for 4 ms; and once nobody waited.
HANDED_OVER = Book(keys=("a",), ttl=10**12)
TIMES = ((1, 2, 10), (5, 17, 20), (6, 23, 30), (7, 32, 40), (8, 36, 50), (60, 70, 80))
for owner, (inv, ret, left) in enumerate(TIMES, 1):
    HANDED_OVER.acquire(inv * MS, ret * MS, owner).release(left * MS, left * MS + 1, owner)
# For more than the second that its lease lasts.
FROZEN = Book(keys=("a",), ttl=1000 * MS, fault_names=("freeze-holder",))
FROZEN.acquire(1, 100 * MS, 1, ttl=1000 * MS).acquire(1000 * MS, 2000 * MS, 2, ttl=1000 * MS, process=6)
FROZEN.release(3000 * MS, 3000 * MS + 1, 1).release(3000 * MS, 3000 * MS + 1, 2)
FROZEN.fault("freeze-holder", 200 * MS, 2500 * MS, kind="freeze", owner=1)

test_server_exclusion = known(
    SERVER,
    ("a grant at the deadline", two((12, 19)), VALID),
    ("a grant before it", two((12, 18)), {**HELD, "at": 18, "holders": (0, 1)}),
    ("drift brings the deadline forward", two((12, 18), drift=0.2), VALID),
    ("grain brings the deadline forward", two((12, 18), grain=1), VALID),
    ("an acknowledged renewal is believed", two((12, 23)).renew(14, 17, 1), INVALID),
    ("a refused release releases nothing", two((12, 14)).release(12, 13, 1, FAIL), INVALID),
    ("a lease that ends beyond all times", ENDLESS.then().acquire(12, 19, 2), INVALID),
    ("unless it was released", ENDLESS.then().release(14, 15, 1).acquire(12, 19, 2), VALID),
    ("no lease, before what was done last", WITHOUT_LEASE.then().acquire(3, 7, 2), INVALID),
    ("no lease, after it was sent", WITHOUT_LEASE.then().acquire(3, 8, 2), VALID),
    ("no lease, before a renewal that was true", WITHOUT_LEASE.then().renew(9, 12, 1).acquire(3, 8, 2), INVALID),
    ("a session that may have been given up", given_up(21), VALID),
    ("a client that is sure has not", given_up(19), {**HELD, "at": 19}),
    ("nor one whose session answers", given_up(21).renew(22, 23, 1), {**HELD, "at": 21}),
    ("a renewal after the release had returned", AFTER_ITS_RELEASE, {"kinds": ["renewed-after-release"]}),
    ("three too close", THREE, {**NO_ROOM, "holders": (0, 1, 2)}),
    ("every overlapping pair", FOUR, {"kinds": ["granted-while-held"] * 3}),
    ("a session ends all its holds at once", ONE_SESSION, {**NO_ROOM, "holders": (2, 3, 5, 4)}),
    ("a session that asks again has given up", ASKED_AGAIN, VALID),
    ("keys are judged apart", TWO_KEYS, VALID),
    ("no fault", cut(), {"unexercised": "cut-client-drop never took effect"}),
    ("a fault that met nothing", cut(100), {"unexercised": "no operation met the fault"}),
    ("a fault", cut(100, 4), {"unexercised": None, UNDER_FAULT: 1}),
    ("counters", WAITED.then().add(F.ACQUIRE, 6, 0, INFO), COUNTED),
    ("an expired lease", two((28, 30)).release(20, 21, 1), {EXPIRED: 1}),
)

# Worker 1 died, and the answer to its renewal came late.
DEAD, DEAD_INSIDE = (Book(keys=("a",)).acquire(1, 2, 1, ttl=6).renew(sent, 15, 1) for sent in (3, 11))
for book in (DEAD, DEAD_INSIDE):
    book.acquire(4, 10, 2).release(20, 21, 2)

test_holder_exclusion = known(
    HOLDERS,
    ("clients inside two keys", TWO_KEYS, VALID),
    ("who died is inside until it did something last, not until it was answered", DEAD.write(8, 16, 1, 7), VALID),
    ("or was prolonged", DEAD_INSIDE, {"kind": "overlap", "at": 10, "holders": (0, 1)}),
    ("who gave its session up is inside until it was last sure that it holds", given_up(21), VALID),
    ("while it is sure nobody else may be", given_up(19), {"kind": "overlap", "at": 19, "holders": (0, 1)}),
    ("nor while it does anything", given_up(21).write(22, 23, 1, 7), {"kind": "overlap", "at": 21}),
    ("released after the other came in", INSIDE, {"kind": "overlap", "at": 10, "holders": (0, 1)}),
    ("the story names workers, times and the freeze", FROZEN, {"told": STORY}),
    ("gap and overlap at hand-over", HANDED_OVER, {GAP: 3, OVERLAP: 4}),
)

test_tokens = known(
    TOKENS,
    ("the same token", TOKEN.then().acquire(3, 4, 2, token=5), {"kinds": ["token-repeated"]}),
    ("a smaller token", TOKEN.then().acquire(3, 4, 2, token=4), {"kinds": ["token-not-larger"]}),
    ("a smaller token of another key", TOKEN.then().acquire(3, 4, 2, token=4, key=1), VALID),
)


def crowded(grants: int, ttl: int) -> Book:
    """No two can be told apart by time, and each may have come first."""
    book = Book(keys=("a",), ttl=ttl)
    for owner in range(1, grants + 1):
        book.acquire(owner, grants + owner, owner, ttl=ttl)
    return book


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many movable grants were looked at for each set of them."""
    settle, looked = Search._settle, list[int]()

    def counting(search: Search, mask: int, end: int, path: Any, bits: Any) -> Any:
        looked.append(len(bits))
        return settle(search, mask, end, path, bits)

    monkeypatch.setattr(Search, "_settle", counting)
    return looked


def test_the_work_for_many_movable_grants_is_bounded(looked_at: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget counts what each set of movable grants costs, so that hundreds of them cannot take hours."""
    monkeypatch.setattr(schedule, "BUDGET", 10_000)
    found = result_on(crowded(1_000, 3), SERVER)
    assert found.valid is None
    assert found.reason == "a: 1000 grants without a certain moment overlap: too many orders to try"
    assert sum(looked_at) < 10_000 + schedule.PER_GRANT * 1_000


def test_all_keys_share_one_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusion, "SECONDS", -1.0)
    found = result_on(crowded(3, 1), SERVER)
    assert found.valid is None
    assert found.reason == "a: the order of all grants was searched for too long"


@pytest.mark.parametrize("ttl", [0, -5])
def test_grants_without_a_ttl_fit_anywhere_and_that_is_seen_at_once(ttl: int, looked_at: list[int]) -> None:
    """As a lock of somebody else's recorded them: all are movable, eight of them open at a time."""
    book = Book(keys=("a",), ttl=ttl)
    for owner in range(1, 3_001):
        book.acquire(10 * owner, 10 * owner + 75, owner, ttl=ttl)
    assert result_on(book, SERVER).valid
    assert sum(looked_at) < 30 * 3_000


@pytest.mark.parametrize("name", [SERVER, HOLDERS])
@cases(
    "book, unexercised",
    ("contended", WAITED, None),
    ("one grant", Book().acquire(1, 2, 1), "1 grant, 2 needed"),
    ("one worker", LEFT.then().acquire(5, 6, 5).release(7, 8, 5), "no hand-overs, 1 needed"),
    ("polite", LEFT.then().acquire(5, 6, 2).release(7, 8, 2), "no contended acquires, 1 needed"),
)
def test_what_exercises_both(name: str, book: Book, unexercised: str | None) -> None:
    assert result_on(book, name).unexercised == unexercised
