"""Known histories for both kinds of exclusion and for tokens."""

from typing import Any

import pytest

from checkers.engines import lease_schedule as schedule
from checkers.engines.lease_search import Search
from checkers.properties import exclusion
from checkers.tests.build import FAIL, INFO, Book, cases
from checkers.tests.compare import asking
from checkers.wire import F

result = asking("server-exclusion")


def two(second: tuple[int, int], **facts: Any) -> Book:
    """Worker 1 is granted at 10 (ttl 10, nothing released), worker 2 during `second`."""
    book = Book(keys=("a",), **facts)
    book.acquire(8, 10, 1, sent=9, ttl=10)
    return book.acquire(*second, 2, ttl=10)


def test_a_grant_at_the_deadline_is_legal_and_one_before_is_not() -> None:
    assert result(two((12, 19))).valid
    broken = result(two((12, 18)))
    assert broken.valid is False
    (violation,) = broken.violations
    assert violation.kind == "granted-while-held"
    assert violation.at == 18
    assert violation.holders == (0, 1)


def without_lease() -> Book:
    """Held until release or silence."""
    return Book(keys=("a",), lease="none", ttl=0).acquire(1, 2, 1).read(8, 9, 1, -1)


def endless() -> Book:
    """Granted for longer than there are numbers, from a renewal on."""
    return Book(keys=("a",)).acquire(8, 10, 1, ttl=(1 << 63) - 1).renew(11, 12, 1)


@cases(
    "book, valid",
    ("drift brings the deadline forward", two((12, 18), drift=0.2), True),
    ("grain brings the deadline forward", two((12, 18), grain=1), True),
    ("an acknowledged renewal is believed from its invocation", two((12, 24)).renew(14, 17, 1), True),
    ("an acknowledged renewal is believed", two((12, 23)).renew(14, 17, 1), False),
    ("a refused renewal extends nothing", two((12, 19)).renew(14, 17, 1, FAIL), True),
    ("an unanswered renewal extends nothing", two((12, 19)).renew(14, 17, 1, INFO), True),
    ("a renewal that lied: the lock had gone to another", two((12, 22)).renew(23, 25, 1), False),
    ("an unanswered release may have happened at once", two((12, 14)).release(14, 0, 1, INFO), True),
    ("but not earlier", two((12, 13)).release(14, 0, 1, INFO), False),
    ("a refused release releases nothing", two((12, 14)).release(12, 13, 1, FAIL), False),
    ("a lease that ends beyond all times", endless().acquire(12, 19, 2), False),
    ("unless it was released", endless().release(14, 15, 1).acquire(12, 19, 2), True),
    ("no lease, before the last event", without_lease().acquire(3, 8, 2), False),
    ("no lease, after the last event", without_lease().acquire(3, 9, 2), True),
    ("no lease, before the release", without_lease().release(12, 13, 1).acquire(3, 11, 2), False),
)
def test_what_ends_a_lease_and_what_extends_it(book: Book, valid: bool) -> None:
    assert result(book).valid is valid


def test_a_renewal_after_the_release_had_returned_is_a_contradiction() -> None:
    book = Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1).renew(5, 6, 1)
    assert [v.kind for v in result(book).violations] == ["renewed-after-release"]


def test_three_holds_squeezed_into_too_little_room() -> None:
    """Any two of them fit; only all three together do not."""
    book = Book(keys=("a",))
    book.acquire(1, 6, 1, ttl=10).acquire(2, 12, 2, ttl=10).acquire(3, 14, 3, ttl=10)
    (violation,) = result(book).violations
    assert violation.kind in ("granted-while-held", "no-room")
    book = Book(keys=("a",))
    book.acquire(1, 6, 1, ttl=7).acquire(2, 8, 2, ttl=7).acquire(3, 14, 3, ttl=7)
    (violation,) = result(book).violations
    assert violation.kind == "no-room"
    assert len(violation.holders) == 3


def test_every_overlapping_pair_is_reported() -> None:
    book = Book(keys=("a",)).acquire(1, 2, 1, ttl=100)
    for owner in (2, 3, 4):
        book.acquire(owner * 10, owner * 10 + 1, owner, ttl=3)
        book.release(owner * 10 + 2, owner * 10 + 3, owner)
    assert [v.holders for v in result(book).violations] == [(0, n) for n in (1, 3, 5)]


def test_a_session_ends_all_its_holds_at_once() -> None:
    """Session 7 gets the second key when session 9 leaves it, at 14: so until then it held the first one too."""

    def book(last: int) -> Book:
        result = Book(lease="session", ttl=10).add(F.SESSION_OPEN, 1, 1, session=7).add(F.SESSION_OPEN, 1, 1, session=9)
        result.acquire(2, 2, 1, session=9, key=1).add(F.KEEP_ALIVE, 10, 11, session=9)
        result.release(14, 15, 1, session=9, key=1)
        result.acquire(3, 4, 2, session=7).acquire(5, 20, 3, session=7, key=1)
        return result.acquire(6, last, 4, session=8)

    assert result(book(14)).valid
    (violation,) = result(book(13)).violations
    assert violation.kind == "no-room"
    assert set(violation.holders) == {2, 3, 4, 5}


def test_a_session_that_asks_again_has_given_up() -> None:
    book = Book(keys=("a",), lease="touch").acquire(1, 2, 1, ttl=50, session=7)
    assert result(book.acquire(5, 6, 2, ttl=50, session=7)).valid


def test_keys_are_judged_apart() -> None:
    book = Book().acquire(1, 2, 1).acquire(1, 2, 2, key=1)
    assert result(book).valid
    assert result(book, "holder-exclusion").valid


def test_too_many_movable_grants_are_unknown_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "BUDGET", 10)
    book = Book(keys=("a",))
    for owner in range(1, 15):
        book.acquire(owner, 400, owner, ttl=3 + owner)
    found = result(book)
    assert found.valid is None
    assert found.reason is not None
    assert found.reason.startswith("a: ")


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
    found = result(crowded(1_000, 3))
    assert found.valid is None
    assert found.reason == "a: 1000 grants without a certain moment overlap: too many orders to try"
    assert sum(looked_at) < 10_000 + schedule.PER_GRANT * 1_000


def test_all_keys_share_one_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusion, "SECONDS", -1.0)
    found = result(crowded(3, 1))
    assert found.valid is None
    assert found.reason == "a: the order of all grants was searched for too long"


@pytest.mark.parametrize("ttl", [0, -5])
def test_grants_without_a_ttl_fit_anywhere_and_that_is_seen_at_once(ttl: int, looked_at: list[int]) -> None:
    """As a lock of somebody else's recorded them: all are movable, eight of them open at a time."""
    book = Book(keys=("a",), ttl=ttl)
    for owner in range(1, 3_001):
        book.acquire(10 * owner, 10 * owner + 75, owner, ttl=ttl)
    assert result(book).valid
    assert sum(looked_at) < 30 * 3_000


def test_holders_overlap_from_return_to_release_or_loss() -> None:
    book = Book(keys=("a",)).acquire(1, 2, 1).release(10, 11, 1).acquire(5, 10, 2)
    assert result(book, "holder-exclusion").valid
    book = Book(keys=("a",)).acquire(1, 2, 1).release(11, 12, 1).acquire(5, 10, 2).release(15, 16, 2)
    (violation,) = result(book, "holder-exclusion").violations
    assert (violation.kind, violation.at, violation.holders) == ("overlap", 10, (0, 1))
    assert result(book.lost(10, 1), "holder-exclusion").valid


def test_a_killed_worker_holds_nothing_after_its_last_event() -> None:
    book = Book(keys=("a",)).acquire(1, 2, 1).read(4, 5, 1, -1).acquire(6, 7, 2).release(9, 10, 2)
    assert result(book, "holder-exclusion").valid
    assert result(book.write(8, 0, 1, 3, INFO), "holder-exclusion").valid is False


def test_tokens_must_increase_in_real_time() -> None:
    for second, kind in ((5, "token-repeated"), (4, "token-not-larger")):
        book = Book(keys=("a",)).acquire(1, 2, 1, token=5).acquire(3, 4, 2, token=second)
        assert [v.kind for v in result(book, "token-order").violations] == [kind]
    assert result(Book(keys=("a",)).acquire(1, 3, 1, token=5).acquire(3, 4, 2, token=4), "token-order").valid
    assert result(Book().acquire(1, 2, 1, token=5).acquire(3, 4, 2, token=4, key=1), "token-order").valid


def test_a_story_names_workers_times_and_the_freeze() -> None:
    book = Book(keys=("a",), ttl=10**9, fault_names=("freeze-holder",))
    second = 10**9
    book.acquire(1, second // 10, 1, ttl=second).acquire(second, 2 * second, 2, ttl=second, process=6)
    book.release(3 * second, 3 * second + 1, 1).release(3 * second, 3 * second + 1, 2)
    book.fault("freeze-holder", second // 5, 5 * second // 2, kind="freeze", owner=1)
    (violation,) = result(book, "holder-exclusion").violations
    story = " ".join(violation.story)
    assert "worker 1 was granted the lock at 0.100 s" in story
    assert "its lease ran out at 1.000 s while it was hit by freeze-holder" in story
    assert "worker 2 was granted the lock at 2.000 s" in story


# Exercise


def contended(**facts: Any) -> Book:
    book = Book(keys=("a",), **facts).acquire(1, 2, 1).release(6, 7, 1)
    return book.acquire(3, 8, 2).release(9, 10, 2)


@pytest.mark.parametrize("name", ["server-exclusion", "holder-exclusion"])
def test_unexercised(name: str) -> None:
    assert result(contended(), name).unexercised is None
    assert "grant" in str(result(Book().acquire(1, 2, 1), name).unexercised)
    alone = Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1).acquire(5, 6, 1 + 4).release(7, 8, 5)
    assert "hand-over" in str(result(alone, name).unexercised)
    polite = Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1).acquire(5, 6, 2).release(7, 8, 2)
    assert "contended" in str(result(polite, name).unexercised)


def test_unexercised_by_the_fault() -> None:
    book = contended(fault_names=("cut-client-drop",))
    assert result(book).unexercised == "cut-client-drop never took effect"
    book.fault("cut-client-drop", 100, 110)
    assert result(book).unexercised == "no operation met the fault"
    book.fault("cut-client-drop", 4, 5)
    assert result(book).unexercised is None
    assert result(book).counters["operations under a fault"] == 1


def test_counters() -> None:
    counted = result(contended().add(F.ACQUIRE, 6, 0, INFO)).counters
    assert counted["grants"] == 2
    assert counted["hand-overs"] == 1
    assert counted["contended acquires"] == 1
    assert counted["unknown outcomes"] == 1
    assert result(two((28, 30)).release(20, 21, 1)).counters["leases that expired while held"] == 1


def test_gap_and_overlap_at_hand_over() -> None:
    """Nobody inside for 7, 3 and 2 ms while somebody waited; two inside for 4 ms; and once nobody waited."""
    ms = 1_000_000
    book = Book(keys=("a",), ttl=10**12)
    for owner, (inv, ret, left) in enumerate(
        ((1, 2, 10), (5, 17, 20), (6, 23, 30), (7, 32, 40), (8, 36, 50), (60, 70, 80)), 1
    ):
        book.acquire(inv * ms, ret * ms, owner).release(left * ms, left * ms + 1, owner)
    counted = result(book, "holder-exclusion").counters
    assert counted["gap at hand-over (ms, median)"] == 3
    assert counted["longest overlap (ms)"] == 4
