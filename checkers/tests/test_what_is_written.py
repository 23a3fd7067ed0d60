"""Known histories of stores, of lists that nothing may be lost from, and of jobs and sales that are done once."""

from typing import Any

import pytest

from checkers.check import applicable, missing
from checkers.engines import search
from checkers.history.view import View
from checkers.properties import fenced_store
from checkers.properties.fenced_store import STALE
from checkers.properties.updates import DUPLICATES, FORKS, JOBS, LOST, PER_JOBS
from checkers.row_format import LATE, NONE, SHARED, F, Reason
from checkers.tests.build import FAIL, GOOD, INFO, INVALID, VALID, Book, answers, known, result_on

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
    """Two hold when the first one writes."""
    book = Book(store="unfenced", keys=("a",), **facts).acquire(1, 2, 1, ttl=50, flags=flags)
    return book.acquire(3, 4, 2, ttl=50, flags=flags).write(5, 6, 1, 10)


def delayed(sent: int) -> Book:
    book = stale("fence-writes", fault_names=("delayed-write",)).write(sent, 0, 2, 30, INFO, token=2)
    return book.fault("delayed-write", 12, 20, target="requests of clients c2 to the store")


ONE = Book(store="fence-writes", keys=("a",)).acquire(1, 2, 1, token=1)
AT_ONCE = ONE.then().write(5, 9, 1, 10, token=1).write(6, 9, 1, 11, token=1).write(7, 9, 1, 10, token=1)
AT_ONCE.read(10, 11, 1, 11).read(12, 13, 1, 11)
# The counter was lost: worker 2 is granted token 3 after worker 1 had token 7.
WENT_BACK = Book(store="unfenced", keys=("a",)).acquire(1, 2, 1, ttl=5, token=7).release(6, 7, 1)
WENT_BACK.acquire(8, 10, 2, ttl=50, token=3).write(11, 12, 2, 20, token=3)
ACCEPTED, REFUSED = {"kinds": ["stale-write-accepted"]}, {**GOOD, STALE: 1}
TOLD = ("worker 1's write of 10, sent at 0.000 s, was accepted",)
REPORTED = {"kind": "stale-write-accepted", "at": 13, "holders": (0, 2), "told": TOLD}
OVERTAKEN = ONE.then().write(3, 4, 1, 10, token=1).release(5, 6, 1).acquire(7, 8, 2, token=2)
OVERTAKEN.write(9, 10, 1, 11, FAIL, token=1, flags=LATE)
UNREACHED = ONE.then().write(3, 4, 1, 10, FAIL, token=1, reason=Reason.UNAVAILABLE)
OWNER = Book(store="compare-owner", keys=("a",)).acquire(1, 2, 1).acquire(3, 4, 2)
OWNER.read(5, 6, 1, -1).read(7, 8, 2, -1).write(9, 10, 1, 10, FAIL).write(11, 12, 2, 20).read(13, 14, 1, 20)

test_what_a_store_accepts = known(
    FENCE,
    ("of an unfenced store with both grants", stale("unfenced", outcome=1), REPORTED),
    ("of a semaphore both hold", both(permits=2), VALID),
    ("two readers both hold", both(SHARED), VALID),
    ("after a writer", both(SHARED).acquire(7, 8, 3, ttl=50).write(9, 10, 1, 11), ACCEPTED),
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
    # A write that never reached the store says nothing about its bar, and was not accepted either.
    ("only refusals by the fence are evidence", UNREACHED, VALID),
    ("repeated values are searched", AT_ONCE, VALID),
    ("repeated values without an order", AT_ONCE.then().read(14, 15, 1, 10), {"kinds": ["no-order"]}),
    ("an unknown store mode", stale("of-tomorrow"), {"valid": None}),
)


@pytest.mark.parametrize("store", ["fence-writes", "fence-writes-strict", "fence-reads-and-writes", "compare-owner"])
def test_a_stale_write_must_be_refused(store: str) -> None:
    assert answers(FENCE, stale(store), REFUSED) == REFUSED
    accepted = {"valid": False, "holders": (0, 2)}
    assert answers(FENCE, stale(store, outcome=1), accepted) == accepted


@pytest.mark.parametrize("store", ["fence-writes", "fence-reads-and-writes", "compare-owner"])
def test_the_final_read_sees_the_last_accepted_write(store: str) -> None:
    assert answers(FENCE, stale(store).final(20, 21, 20), VALID) == VALID
    assert answers(FENCE, stale(store).final(20, 21, -1), INVALID) == INVALID


@pytest.mark.parametrize("store", ["compare-and-set", "idempotency-key"])
def test_a_store_that_looks_at_the_state_alone_knows_no_stale_holder(store: str) -> None:
    assert answers(FENCE, stale(store, outcome=1), VALID) == VALID
    no_holders = {"unexercised": f"the store mode {store} knows no holders"}
    assert answers(FENCE, stale(store), no_holders) == no_holders


def test_the_proof() -> None:
    proof = result_on(OWNER, FENCE).proof
    assert proof is not None
    assert (proof.form, len(proof.rows)) == ("order", 5)


def test_a_search_that_is_too_long_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fenced_store, "search", lambda ops, model: search.search(ops, model, seconds=0))
    result = result_on(stale("compare-owner"), FENCE)
    assert result.valid is None
    assert "budget" in str(result.reason)


UPDATES = "no-lost-update"


def final(value: int, length: int) -> Book:
    return OVERWRITTEN.then().final(40, 41, value, length)


def unanswered(sent: int) -> Book:
    """A write without an answer, and a fault on the way to the store until 38."""
    book = OVERWRITTEN.then(fault_names=("store-reply-lost",)).acquire(33, 34, 4).write(sent, 0, 4, 40, INFO, base=10)
    return book.fault("store-reply-lost", 20, 38, target="replies of the store to clients c1").final(50, 51, 10, 1)


# Worker 1 reads the empty list; worker 2 adds 20 and worker 3 adds 30; then worker 1 writes back its [10].
OVERWRITTEN = Book(workload="set", keys=("a",))
OVERWRITTEN.acquire(1, 2, 1).read(3, 4, 1, -1)
OVERWRITTEN.acquire(3, 10, 2).read(11, 12, 2, -1).write(13, 14, 2, 20, base=-1).release(15, 16, 2)
OVERWRITTEN.acquire(17, 18, 3).read(19, 20, 3, 20).write(21, 22, 3, 30, base=20).release(23, 24, 3)
OVERWRITTEN.write(30, 31, 1, 10, base=-1).release(32, 33, 1)
# As behind a fence on writes alone: the stale write lands between its successor's read and write.
BETWEEN = Book(workload="set", keys=("a",)).acquire(1, 2, 1).read(3, 4, 1, -1).acquire(3, 10, 2).read(11, 12, 2, -1)
BETWEEN.write(13, 14, 1, 10, base=-1).write(15, 16, 2, 20, base=-1).final(40, 41, 20, 1)
TWO_KEYS = Book(workload="set").acquire(1, 2, 1).write(3, 4, 1, 10, base=-1).acquire(3, 5, 2, key=1)
TWO_KEYS.write(6, 7, 2, 20, base=-1, key=1).final(40, 41, 10, 1).final(42, 43, 20, 1, key=1)
# A register's writes name no base: none of them is lost for that.
REGISTER = Book(keys=("a",)).acquire(1, 2, 1).write(3, 4, 1, 10).write(5, 6, 1, 11).final(7, 8, 11)
FORK = {"kind": "lost-update", "at": 30, "owners": (1, 2), LOST: 2, FORKS: 1, "unexercised": None}
NO_LIST = {"valid": True, "unexercised": "the workload register keeps no list of updates"}
# Each lost branch is judged by itself: what excuses the one does not excuse the other.
THREE = Book(workload="set", keys=("a",))
for owner in (1, 2, 3):
    THREE.acquire(owner, 5 + owner, owner).read(10, 11, owner, -1).write(20 + owner, 30, owner, owner, base=-1)
THREE.final(40, 41, 2, 1)

test_lists = known(
    UPDATES,
    ("a fork", final(10, 1), FORK),
    ("it names both writers, their reads, and what is left", final(10, 1), {"sent": (11, 3, 13, 30, 40)}),
    ("the stale write is lost", BETWEEN, {"at": 15, "owners": (1, 2)}),
    ("three branches are two forks", THREE, {"kinds": ["lost-update", "lost-update"]}),
    ("a list of another length", final(10, 2), {"kinds": ["lost-update", "corrupt-list"]}),
    ("an element that nobody wrote", final(99, 1), {"kinds": ["value-never-written"]}),
    ("what nothing overwrote", final(20, 1), {"kinds": ["vanished", "lost-update"]}),
    ("keys have lists of their own", TWO_KEYS, VALID),
    ("no final read", OVERWRITTEN, {"valid": True, "unexercised": "no final read of a"}),
    ("other workloads keep no list", REGISTER, NO_LIST),
    ("a fault met a write", unanswered(36), {"unexercised": None}),
    ("it met none", unanswered(39), {"unexercised": "store-reply-lost left no write without an answer"}),
)


def test_while_a_trial_runs_only_what_is_missing_besides_counts() -> None:
    assert missing(OVERWRITTEN.history(), [UPDATES]) == {}
    assert UPDATES in missing(Book(workload="set").acquire(1, 2, 1).history(), [UPDATES])


def jobs(*done: int) -> Book:
    """Two workers in turn, the second waiting for the first, one job each."""
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


SOLD = ("worker 3's write of 300",)
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


def test_what_a_history_shows_is_asked() -> None:
    assert all("no-duplicate" in applicable(View(book.history())) for book in (jobs(0), sales(NONE)))
