"""Known histories of the store in each mode."""

from typing import Any

import pytest

from checkers.engines import search
from checkers.properties import fenced_store
from checkers.properties.fenced_store import STALE
from checkers.row_format import LATE, SHARED, Reason
from checkers.tests.build import FAIL, INFO, Book
from checkers.tests.compare import GOOD, INVALID, VALID, answers, known, result_on

NAME = "fenced-store"


def stale(store: str, outcome: Any = FAIL, **more: Any) -> Book:
    """Worker 1 (token 1) loses the lock to worker 2 (token 2), who writes 20; then worker 1 writes 10."""
    token: dict[str, Any] = {"token": 1} if store.startswith("fence") else {}
    later: dict[str, Any] = {"token": 2} if token else {}
    book = Book(store=store, keys=("a",), fault_names=more.pop("fault_names", ("none",)))
    book.acquire(1, 2, 1, ttl=5, **token).read(3, 4, 1, -1, **token)
    book.acquire(5, 10, 2, sent=9, ttl=50, **later).write(11, 12, 2, 20, **later)
    return book.write(13, 14, 1, 10, outcome, **token, **more)


def one() -> Book:
    return Book(store="fence-writes", keys=("a",)).acquire(1, 2, 1, token=1)


def both(flags: int = 0, **facts: Any) -> Book:
    """Two hold when the first one writes."""
    book = Book(store="unfenced", keys=("a",), **facts).acquire(1, 2, 1, ttl=50, flags=flags)
    return book.acquire(3, 4, 2, ttl=50, flags=flags).write(5, 6, 1, 10)


def went_back() -> Book:
    """The counter was lost: worker 2 is granted token 3 after worker 1 had token 7."""
    book = Book(store="unfenced", keys=("a",)).acquire(1, 2, 1, ttl=5, token=7).release(6, 7, 1)
    return book.acquire(8, 10, 2, ttl=50, token=3).write(11, 12, 2, 20, token=3)


def delayed(sent: int) -> Book:
    book = stale("fence-writes", fault_names=("delayed-write",)).write(sent, 0, 2, 30, INFO, token=2)
    return book.fault("delayed-write", 12, 20, target="requests of clients c2 to the store")


def at_once() -> Book:
    book = one().write(5, 9, 1, 10, token=1).write(6, 9, 1, 11, token=1).write(7, 9, 1, 10, token=1)
    return book.read(10, 11, 1, 11).read(12, 13, 1, 11)


ACCEPTED, REFUSED = {"kinds": ["stale-write-accepted"]}, {**GOOD, STALE: 1}
TOLD = ("worker 1's write of 10, sent at 0.000 s, was accepted",)
REPORTED = {"kind": "stale-write-accepted", "at": 13, "holders": (0, 2), "told": TOLD}
OVERTAKEN = one().write(3, 4, 1, 10, token=1).release(5, 6, 1).acquire(7, 8, 2, token=2)
OVERTAKEN.write(9, 10, 1, 11, FAIL, token=1, flags=LATE)
UNREACHED = one().write(3, 4, 1, 10, FAIL, token=1, reason=Reason.UNAVAILABLE)
OWNER = Book(store="compare-owner", keys=("a",)).acquire(1, 2, 1).acquire(3, 4, 2)
OWNER.read(5, 6, 1, -1).read(7, 8, 2, -1).write(9, 10, 1, 10, FAIL).write(11, 12, 2, 20).read(13, 14, 1, 20)

test_what_a_store_accepts = known(
    NAME,
    ("of an unfenced store with both grants", stale("unfenced", outcome=1), REPORTED),
    ("of a semaphore both hold", both(permits=2), VALID),
    ("two readers both hold", both(SHARED), VALID),
    ("after a writer", both(SHARED).acquire(7, 8, 3, ttl=50).write(9, 10, 1, 11), ACCEPTED),
    ("a store without a fence goes by time", went_back(), VALID),
    ("where tokens went back", went_back().write(13, 14, 1, 10, token=7), ACCEPTED),
    ("no stale attempt", one().write(3, 4, 1, 10, token=1), {"unexercised": "no stale attempts, 1 needed"}),
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
    ("repeated values are searched", at_once(), VALID),
    ("repeated values without an order", at_once().read(14, 15, 1, 10), {"kinds": ["no-order"]}),
    ("an unknown store mode", stale("of-tomorrow"), {"valid": None}),
)


@pytest.mark.parametrize("store", ["fence-writes", "fence-writes-strict", "fence-reads-and-writes", "compare-owner"])
def test_a_stale_write_must_be_refused(store: str) -> None:
    assert answers(NAME, stale(store), REFUSED) == REFUSED
    accepted = {"valid": False, "holders": (0, 2)}
    assert answers(NAME, stale(store, outcome=1), accepted) == accepted


@pytest.mark.parametrize("store", ["fence-writes", "fence-reads-and-writes", "compare-owner"])
def test_the_final_read_sees_the_last_accepted_write(store: str) -> None:
    assert answers(NAME, stale(store).final(20, 21, 20), VALID) == VALID
    assert answers(NAME, stale(store).final(20, 21, -1), INVALID) == INVALID


@pytest.mark.parametrize("store", ["compare-and-set", "idempotency-key"])
def test_a_store_that_looks_at_the_state_alone_knows_no_stale_holder(store: str) -> None:
    assert answers(NAME, stale(store, outcome=1), VALID) == VALID
    no_holders = {"unexercised": f"the store mode {store} knows no holders"}
    assert answers(NAME, stale(store), no_holders) == no_holders


def test_the_proof() -> None:
    proof = result_on(OWNER, NAME).proof
    assert proof is not None
    assert (proof.form, len(proof.rows)) == ("order", 5)


def test_a_search_that_is_too_long_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fenced_store, "search", lambda ops, model: search.search(ops, model, seconds=0))
    result = result_on(stale("compare-owner"), NAME)
    assert result.valid is None
    assert "budget" in str(result.reason)
