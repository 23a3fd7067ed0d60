"""Known histories of exclusion, tokens, stores, lists that may lose no update, and jobs that are done only once."""

from typing import Any

import pytest

from checkers.check import applicable, missing
from checkers.engines import lease_schedule as schedule
from checkers.engines import search
from checkers.history.view import View
from checkers.properties.exclusion import GAP, OVERLAP
from checkers.properties.fenced_store import STALE
from checkers.properties.shared_counters import CONTENDED, EXPIRED, GRANTS, HAND_OVERS, UNANSWERED, UNDER_FAULT
from checkers.properties.updates import DUPLICATES, FORKS, JOBS, LOST, PER_JOBS
from checkers.row_format import LATE, NONE, SHARED, F, Reason
from checkers.tests.build import FAIL, GOOD, INFO, INVALID, VALID, Book, cases, known, result_on, there

MS = 1_000_000
SERVER, HOLDERS, TOKENS = "server-exclusion", "holder-exclusion", "token-order"


def two(second: tuple[int, int], **facts: Any) -> Book:
    """Worker 1 is granted the lock at 10 (TTL 10), worker 2 during `second`. Nobody releases it."""
    book = Book(keys=("a",), **facts)
    book.acquire(8, 10, 1, sent=9, ttl=10)
    return book.acquire(*second, 2, ttl=10)


def given_up(second: int) -> Book:
    """There is no lease. Worker 1's client last said at 20 that it holds; at 40 it said that it gave its session up."""
    book = Book(keys=("a",), lease="none").acquire(1, 2, 1).lost(40, 1, base=20)
    return book.acquire(3, second, 2).release(60, 61, 2)


def cut(*begun: int) -> Book:
    book = WAITED.then(fault_names=("cut-client-drop",))
    for at in begun:
        book.fault("cut-client-drop", at, at + 1)
    return book


WAITED = Book(keys=("a",)).acquire(1, 2, 1).release(6, 7, 1)
WAITED.acquire(3, 8, 2).release(9, 10, 2)
# From the renewal on, the lease would end beyond the largest number.
ENDLESS = Book(keys=("a",)).acquire(8, 10, 1, ttl=(1 << 63) - 1).renew(11, 12, 1)
# Without a lease, worker 1 holds until its release or its last operation.
WITHOUT_LEASE = Book(keys=("a",), lease="none", ttl=0).acquire(1, 2, 1).read(8, 9, 1, -1)
# Any two of them fit; only all three together do not.
THREE = Book(keys=("a",), ttl=7).acquire(1, 6, 1).acquire(2, 8, 2).acquire(3, 14, 3)
# Each of three is granted inside the hold of the first.
FOUR = Book(keys=("a",), ttl=3).acquire(1, 2, 1, ttl=100)
for owner in (2, 3, 4):
    FOUR.acquire(owner * 10, owner * 10 + 1, owner).release(owner * 10 + 2, owner * 10 + 3, owner)
# Session 7 is granted the second key when session 9 releases it, at 14, so it held the first key until then too.
ONE_SESSION = Book(lease="session", ttl=10).add(F.SESSION_OPEN, 1, 1, session=7).add(F.SESSION_OPEN, 1, 1, session=9)
ONE_SESSION.acquire(2, 2, 1, session=9, key=1).add(F.KEEP_ALIVE, 10, 11, session=9).release(14, 15, 1, session=9, key=1)
ONE_SESSION.acquire(3, 4, 2, session=7).acquire(5, 20, 3, session=7, key=1).acquire(6, 13, 4, session=8)
INSIDE = Book(keys=("a",)).acquire(1, 2, 1).release(11, 12, 1).acquire(5, 10, 2).release(15, 16, 2)
AFTER_ITS_RELEASE = Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1).renew(5, 6, 1)
ASKED_AGAIN = Book(keys=("a",), lease="touch").acquire(1, 2, 1, ttl=50, session=7).acquire(5, 6, 2, ttl=50, session=7)
TWO_KEYS = Book().acquire(1, 2, 1).acquire(1, 2, 2, key=1)
STORY = (
    "at 0.100 s worker 1 was frozen by freeze-holder from 0.200 s to 2.500 s worker 1's lease ran out at 1.000 s",
    "So worker 1 and worker 2 were both inside the lock from 2.000 s to 3.000 s.",
)
NOT_RUN = two((28, 30), fault_names=("kill-holder",)).add(F.STALL, 15, 35, process=1).lost(35, 1).release(40, 41, 2)
STALLED = ("worker 1 got no CPU time at 0.000 s worker 1's lease ran out at 0.000 s", "kill-holder had no part in it.")
STALE_RELEASE = two((13, 14)).acquire(1, 2, 3, ttl=3).release(11, 12, 3).fault("f", 4, 11, kind="freeze", owner=3)
TOKEN, LEFT = Book().acquire(1, 2, 1, token=5), Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1)
HELD, NO_ROOM = {"kind": "granted-while-held"}, {"kind": "no-room"}
AWAY = {"told": ("worker 1's release, sent at 0.000 s, failed (unavailable) at",)}
# While somebody waited, nobody was inside for 7, 3 and 2 ms. Two were inside for 4 ms. Once nobody waited.
HANDED_OVER = Book(keys=("a",), ttl=10**12)
TIMES = ((1, 2, 10), (5, 17, 20), (6, 23, 30), (7, 32, 40), (8, 36, 50), (60, 70, 80))
for owner, (inv, ret, left) in enumerate(TIMES, 1):
    HANDED_OVER.acquire(inv * MS, ret * MS, owner).release(left * MS, left * MS + 1, owner)
# Worker 1 is frozen in its renewal for longer than its lease of 1 s. Meanwhile links are slow, which explains nothing.
FROZEN = Book(keys=("a",), ttl=1000 * MS, fault_names=("freeze-holder",))
FROZEN.acquire(1, 100 * MS, 1, ttl=1000 * MS).acquire(1000 * MS, 2000 * MS, 2, ttl=1000 * MS, process=6)
FROZEN.release(3000 * MS, 3000 * MS + 1, 1).release(3000 * MS, 3000 * MS + 1, 2)
FROZEN.fault("freeze-holder", 200 * MS, 2500 * MS, kind="freeze", owner=1, process=5).fault("slow", MS, 900 * MS)

test_server_exclusion = known(
    SERVER,
    ("a grant at the deadline", two((12, 19)), VALID),
    ("a grant before it", two((12, 18)), {**HELD, "at": 18, "holders": (0, 1)}),
    ("drift brings the deadline forward", two((12, 18), drift=0.2), VALID),
    ("grain brings the deadline forward", two((12, 18), grain=1), VALID),
    ("an acknowledged renewal is believed", two((12, 23)).renew(14, 17, 1), INVALID),
    ("a release that fails releases nothing", two((12, 14)).release(12, 13, 1, FAIL, reason=Reason.UNAVAILABLE), AWAY),
    ("a lease that ends beyond all times", ENDLESS.then().acquire(12, 19, 2), INVALID),
    ("unless it was released", ENDLESS.then().release(14, 15, 1).acquire(12, 19, 2), VALID),
    ("no lease, before what was done last", WITHOUT_LEASE.then().acquire(3, 7, 2), INVALID),
    ("no lease, after it was sent", WITHOUT_LEASE.then().acquire(3, 8, 2), VALID),
    ("no lease, before a renewal that was true", WITHOUT_LEASE.then().renew(9, 12, 1).acquire(3, 8, 2), INVALID),
    ("a session that may have been given up", given_up(21), VALID),
    ("a client that is sure has not", given_up(19), {**HELD, "at": 19}),
    ("nor one whose session answers", given_up(21).renew(22, 23, 1), {**HELD, "at": 21}),
    ("a renewal after the release had returned", AFTER_ITS_RELEASE, {"kinds": ["renewed-after-release"]}),
    ("after a release for an earlier grant", STALE_RELEASE, {"told": ("3 was frozen by f", "its earlier grant")}),
    ("three too close", THREE, {**NO_ROOM, "holders": (0, 1, 2), "told": ("or longer from then on",)}),
    ("every overlapping pair", FOUR, {"kinds": ["granted-while-held"] * 3}),
    ("a session ends all its holds at once", ONE_SESSION, {**NO_ROOM, "holders": (2, 3, 5, 4)}),
    ("a session that asks again has given up", ASKED_AGAIN, VALID),
    ("keys are judged apart", TWO_KEYS, VALID),
    ("no fault", cut(), {"unexercised": "cut-client-drop never took effect"}),
    ("a fault that met nothing", cut(100), {"unexercised": "no operation met the fault"}),
    ("a fault", cut(100, 4), {"unexercised": None, UNDER_FAULT: 1}),
    ("counters", WAITED.then().add(F.ACQUIRE, 6, 0, INFO), {GRANTS: 2, HAND_OVERS: 1, CONTENDED: 1, UNANSWERED: 1}),
    ("an expired lease", two((28, 30)).release(20, 21, 1), {EXPIRED: 1}),
)

# Worker 1 died. The answer to its renewal, sent at 3 or at 11, came late.
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
    ("the story says when the machine did not run a holder", NOT_RUN, {"told": STALLED}),
    ("gap and overlap at hand-over", HANDED_OVER, {GAP: 3, OVERLAP: 4}),
)

test_tokens = known(
    TOKENS,
    ("the same token", TOKEN.then().acquire(3, 4, 2, token=5), {"kinds": ["token-repeated"]}),
    ("a smaller token", TOKEN.then().acquire(3, 4, 2, token=4), {"kinds": ["token-not-larger"]}),
    ("a smaller token of another key", TOKEN.then().acquire(3, 4, 2, token=4, key=1), VALID),
)


def crowded(grants: int, ttl: int) -> Book:
    """Time orders no two of these grants: each may have come first."""
    book = Book(keys=("a",), ttl=ttl)
    for owner in range(1, grants + 1):
        book.acquire(owner, grants + owner, owner, ttl=ttl)
    return book


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For each set of movable grants, the number of grants that the search looked at."""
    settle, looked = schedule.Search._settle, list[int]()

    def counting(search: schedule.Search, mask: int, end: int, path: Any, bits: Any) -> Any:
        looked.append(len(bits))
        return settle(search, mask, end, path, bits)

    monkeypatch.setattr(schedule.Search, "_settle", counting)
    return looked


def test_the_work_for_many_movable_grants_is_bounded(looked_at: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "BUDGET", 10_000)
    found = result_on(crowded(1_000, 3), SERVER)
    assert found.valid is None
    assert found.reason == "a: 1000 grants without a certain moment overlap: too many orders to try"
    assert sum(looked_at) < 10_000 + schedule.PER_GRANT * 1_000


def test_all_keys_share_one_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkers.properties.exclusion.SECONDS", -1.0)
    found = result_on(crowded(3, 1), SERVER)
    assert found.valid is None
    assert found.reason == "a: the order of all grants was searched for too long"


@pytest.mark.parametrize("ttl", [0, -5])
def test_grants_without_a_ttl_are_found_to_fit_without_a_long_search(ttl: int, looked_at: list[int]) -> None:
    """As a foreign lock recorded them: all are movable, and eight are open at a time."""
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
def test_only_contended_hand_overs_exercise_exclusion(name: str, book: Book, unexercised: str | None) -> None:
    assert result_on(book, name).unexercised == unexercised


FENCE = "fenced-store"


def stale(store: str, outcome: Any = FAIL, **more: Any) -> Book:
    """Worker 1 (token 1) loses the lock to worker 2 (token 2), who writes 20; then worker 1 writes 10."""
    token: dict[str, Any] = {"token": 1} if store.startswith("fence") else {}
    later: dict[str, Any] = {"token": 2} if token else {}
    book = Book(store=store, keys=("a",), fault_names=more.pop("fault_names", ("none",)))
    book.acquire(1, 2, 1, ttl=5, **token).read(3, 4, 1, -1, **token)
    book.acquire(5, 10, 2, sent=9, ttl=50, **later).write(11, 12, 2, 20, **later)
    return book.write(13, 14, 1, 10, outcome, **token, **more)


def both(flags: int = 0, **facts: Any) -> Book:
    """Two workers hold the lock when the first one writes."""
    book = Book(store="unfenced", keys=("a",), **facts).acquire(1, 2, 1, ttl=50, flags=flags)
    return book.acquire(3, 4, 2, ttl=50, flags=flags).write(5, 6, 1, 10)


def delayed(sent: int) -> Book:
    book = stale("fence-writes", fault_names=("delayed-write",)).write(sent, 0, 2, 30, INFO, token=2)
    return book.fault("delayed-write", 12, 20, target="requests of clients c2 to the store")


STRICT, STATE = "fence-writes-strict", ("compare-and-set", "idempotency-key")
LOOKS = ("fence-writes", STRICT, "fence-reads-and-writes", "compare-owner")
ONE = Book(store="fence-writes", keys=("a",)).acquire(1, 2, 1, token=1)
AT_ONCE = ONE.then().write(5, 9, 1, 10, token=1).write(6, 9, 1, 11, token=1).write(7, 9, 1, 10, token=1)
AT_ONCE.read(10, 11, 1, 11).read(12, 13, 1, 11)
# The token counter was lost: worker 2 is granted token 3 after worker 1 had token 7.
WENT_BACK = Book(store="unfenced", keys=("a",)).acquire(1, 2, 1, ttl=5, token=7).release(6, 7, 1)
WENT_BACK.acquire(8, 10, 2, ttl=50, token=3).write(11, 12, 2, 20, token=3)
ACCEPTED, REFUSED, WRITER = {"kinds": ["stale-write-accepted"]}, {**GOOD, STALE: 1}, {"told": ("for writing at",)}
REPORTED = {**ACCEPTED, "at": 13, "holders": (0, 2), "told": ("1's write of 10, sent at 0.000 s, was accepted",)}
OVERTAKEN = ONE.then().write(3, 4, 1, 10, token=1).release(5, 6, 1).acquire(7, 8, 2, token=2)
OVERTAKEN.write(9, 10, 1, 11, FAIL, token=1, flags=LATE)
UNREACHED = ONE.then().write(3, 4, 1, 10, FAIL, token=1, reason=Reason.UNAVAILABLE)
OWNER = Book(store="compare-owner", keys=("a",)).acquire(1, 2, 1).acquire(3, 4, 2)
OWNER.read(5, 6, 1, -1).read(7, 8, 2, -1).write(9, 10, 1, 10, FAIL).write(11, 12, 2, 20).read(13, 14, 1, 20)

test_a_store_that_accepts_a_stale_write_is_reported = known(
    FENCE,
    ("of an unfenced store with both grants", stale("unfenced", outcome=1), REPORTED),
    ("of a semaphore both hold", both(permits=2), VALID),
    ("two readers both hold", both(SHARED), VALID),
    ("after a writer", both(SHARED).acquire(7, 8, 3, ttl=50).write(9, 10, 1, 11), WRITER),
    ("a store without a fence goes by time", WENT_BACK, VALID),
    ("where tokens went back", WENT_BACK.then().write(13, 14, 1, 10, token=7), ACCEPTED),
    ("no stale attempt", ONE.then().write(3, 4, 1, 10, token=1), {"unexercised": "no stale attempts, 1 needed"}),
    ("a late one", OVERTAKEN, {"unexercised": None}),
    ("a fault that met a write", delayed(15), {"unexercised": None}),
    ("one that met none", delayed(25), {"unexercised": "delayed-write left no write without an answer"}),
    ("what a guard of the lock service refuses", stale("guarded"), {**VALID, "unexercised": None}),
    ("what a guard of the lock service accepts", stale("guarded", outcome=1), ACCEPTED),
    ("an unanswered stale write", stale("unfenced", INFO), VALID),
    ("and a read that proves it", stale("unfenced", INFO).read(15, 16, 2, 10), ACCEPTED),
    ("a refused value", stale("fence-writes").read(15, 16, 2, 10, token=2), {"kinds": ["refused-value-read"]}),
    # A write that never reached the store was not accepted, and says nothing about the store's bar.
    ("only refusals by the fence are evidence", UNREACHED, VALID),
    ("repeated values are searched", AT_ONCE, VALID),
    ("repeated values without an order", AT_ONCE.then().read(14, 15, 1, 10), {"kinds": ["no-order"]}),
    ("an unknown store mode", stale("of-tomorrow"), {"valid": None}),
    *((f"{store}: refused", stale(store), REFUSED) for store in LOOKS),
    *((f"{store}: accepted", stale(store, outcome=1), {"valid": False, "holders": (0, 2)}) for store in LOOKS),
    *((f"{store}: the last one is read", stale(store).final(20, 21, 20), VALID) for store in LOOKS if store != STRICT),
    *((f"{store}: nothing is read", stale(store).final(20, 21, -1), INVALID) for store in LOOKS if store != STRICT),
    # They look at the state alone.
    *((f"{store}: no holder is stale", stale(store, outcome=1), VALID) for store in STATE),
    *((store, stale(store), {"unexercised": f"the store mode {store} knows no holders"}) for store in STATE),
)


def test_a_valid_store_history_comes_with_an_order_as_proof() -> None:
    proof = there(result_on(OWNER, FENCE).proof)
    assert (proof.form, len(proof.rows)) == ("order", 5)


def test_a_search_that_is_too_long_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkers.properties.fenced_store.search", lambda ops, of: search.search(ops, of, seconds=0))
    result = result_on(stale("compare-owner"), FENCE)
    assert result.valid is None
    assert "budget" in str(result.reason)


UPDATES = "no-lost-update"


def final(value: int, length: int) -> Book:
    return OVERWRITTEN.then().final(40, 41, value, length)


def unanswered(sent: int) -> Book:
    """A write, sent at `sent`, gets no answer. A fault loses replies of the store from 20 to 38."""
    book = OVERWRITTEN.then(fault_names=("store-reply-lost",)).acquire(33, 34, 4).write(sent, 0, 4, 40, INFO, base=10)
    return book.fault("store-reply-lost", 20, 38, target="replies of the store to clients c1").final(50, 51, 10, 1)


# Worker 1 reads the empty list; worker 2 adds 20 and worker 3 adds 30; then worker 1 writes back its [10].
OVERWRITTEN = Book(workload="set", keys=("a",))
OVERWRITTEN.acquire(1, 2, 1).read(3, 4, 1, -1)
OVERWRITTEN.acquire(3, 10, 2).read(11, 12, 2, -1).write(13, 14, 2, 20, base=-1).release(15, 16, 2)
OVERWRITTEN.acquire(17, 18, 3).read(19, 20, 3, 20).write(21, 22, 3, 30, base=20).release(23, 24, 3)
OVERWRITTEN.write(30, 31, 1, 10, base=-1).release(32, 33, 1)
# A fence on writes alone allows this: the stale write lands between its successor's read and write.
BETWEEN = Book(workload="set", keys=("a",)).acquire(1, 2, 1).read(3, 4, 1, -1).acquire(3, 10, 2).read(11, 12, 2, -1)
BETWEEN.write(13, 14, 1, 10, base=-1).write(15, 16, 2, 20, base=-1).final(40, 41, 20, 1)
TWO_LISTS = Book(workload="set").acquire(1, 2, 1).write(3, 4, 1, 10, base=-1).acquire(3, 5, 2, key=1)
TWO_LISTS.write(6, 7, 2, 20, base=-1, key=1).final(40, 41, 10, 1).final(42, 43, 20, 1, key=1)
# Writes to a register name no base. None of them counts as lost for that.
REGISTER = Book(keys=("a",)).acquire(1, 2, 1).write(3, 4, 1, 10).write(5, 6, 1, 11).final(7, 8, 11)
FORK = {"kind": "lost-update", "at": 30, "owners": (1, 2), LOST: 2, FORKS: 1, "unexercised": None}
NO_LIST = {"valid": True, "unexercised": "the workload register keeps no list of updates"}
# Each lost branch is judged separately: an excuse for one does not excuse another.
BRANCHES = Book(workload="set", keys=("a",))
for owner in (1, 2, 3):
    BRANCHES.acquire(owner, 5 + owner, owner).read(10, 11, owner, -1).write(20 + owner, 30, owner, owner, base=-1)
BRANCHES.final(40, 41, 2, 1)

test_lists = known(
    UPDATES,
    ("a fork", final(10, 1), FORK),
    ("it names both writers, their reads, and what is left", final(10, 1), {"sent": (11, 3, 13, 30, 40)}),
    ("the stale write is lost", BETWEEN, {"at": 15, "owners": (1, 2)}),
    ("three branches are two forks", BRANCHES, {"kinds": ["lost-update", "lost-update"]}),
    ("a list of another length", final(10, 2), {"kinds": ["lost-update", "corrupt-list"]}),
    ("an element that nobody wrote", final(99, 1), {"kinds": ["value-never-written"]}),
    ("what nothing overwrote", final(20, 1), {"kinds": ["vanished", "lost-update"]}),
    ("keys have lists of their own", TWO_LISTS, VALID),
    ("no final read", OVERWRITTEN, {"valid": True, "unexercised": "no final read of a"}),
    ("other workloads keep no list", REGISTER, NO_LIST),
    ("a fault met a write", unanswered(36), {"unexercised": None}),
    ("it met none", unanswered(39), {"unexercised": "store-reply-lost left no write without an answer"}),
)


def test_a_running_trial_counts_no_final_read_as_missing() -> None:
    assert missing(OVERWRITTEN.history(), [UPDATES]) == {}
    assert UPDATES in missing(Book(workload="set").acquire(1, 2, 1).history(), [UPDATES])


def jobs(*done: int) -> Book:
    """Workers do one job each, in turn; each waits for the lock while the one before it holds the lock."""
    book = Book(workload="once", keys=("a",))
    for owner, job in enumerate(done, 1):
        at = 10 * owner
        book.acquire(at - 8, at + 1, owner).add(F.EFFECT, at + 2, at + 2, owner=owner, process=owner, value=job)
        book.release(at + 4, at + 5, owner)
    return book


def sales(*bases: int) -> Book:
    book = Book(workload="inventory", keys=("a",))
    for owner, base in enumerate(bases, 1):
        at = 10 * owner
        book.acquire(at - 8, at + 1, owner).read(at + 2, at + 2, owner, base)
        book.write(at + 3, at + 4, owner, 100 * owner, base=base).release(at + 5, at + 6, owner)
    return book


SOLD = ("worker 3's write of element 300 to the list ending in 100, sent at",)
TWICE = {"kinds": ["done-twice", "done-twice"], DUPLICATES: 2, PER_JOBS: 1000}

test_jobs_and_sales = known(
    "no-duplicate",
    ("each job once", jobs(0, 1, 2), {**GOOD, JOBS: 3}),
    ("a job done again, and again", jobs(0, 1, 1, 1), TWICE),
    ("the two that did it", jobs(0, 1, 1), {"owners": (2, 3), "told": ("worker 2 did job 1 at 0.000 s",)}),
    ("two sales from one list", sales(NONE, 100, 100), {"kind": "sold-twice", "at": 33, "told": SOLD}),
    ("no job", jobs(), {"unexercised": "no jobs done, 2 needed"}),
    ("one job", jobs(3), {"unexercised": "1 job done, 2 needed"}),
)

test_sales_are_a_list_of_updates = known(UPDATES, ("too", sales(NONE, 100).final(60, 61, 200, 2), GOOD))


def test_histories_of_jobs_and_sales_are_checked_for_duplicates() -> None:
    assert all("no-duplicate" in applicable(View(book.history())) for book in (jobs(0), sales(NONE)))
