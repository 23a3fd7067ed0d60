"""Known histories of two locks that a service takes for one, and random ones against a restatement."""

from random import Random
from typing import Any

import pytest

from checkers.leases import INFINITY
from checkers.tests.build import FAIL, INFO, OK, Book
from checkers.tests.compare import asking
from checkers.verdict import Verdict
from checkers.wire import NESTED, F, Reason

BOUND = 5

verdict = asking("independence")


def held(**facts: Any) -> Book:
    """Worker 1 holds lock a from 2 to 20."""
    book = Book(**{"bounds": {"independence": BOUND}, "ttl": 100, **facts})
    return book.acquire(1, 2, 1).release(20, 21, 1)


def test_a_free_lock_that_is_given_at_once() -> None:
    found = verdict(held().acquire(3, 8, 2, key=1).release(9, 10, 2, key=1))
    assert found.valid
    assert found.unexercised is None
    assert found.counters["acquires of a free lock while another was held"] == 1


def test_a_free_lock_that_comes_with_the_release_of_another() -> None:
    (violation,) = verdict(held().acquire(3, 22, 2, key=1)).violations
    assert (violation.kind, violation.at, violation.holders) == ("kept-by-another-name", 8, (0,))
    assert "worker 1 was granted a at" in violation.story[0]
    assert violation.story[1].startswith("worker 2's acquire of b, sent at")


@pytest.mark.parametrize(
    ("reason", "valid"), [(Reason.HELD, False), (Reason.TIMEOUT, True), (Reason.UNAVAILABLE, True)]
)
def test_a_try_that_is_told_of_a_holder_whom_there_is_not(reason: Reason, valid: bool) -> None:
    assert verdict(held().acquire(3, 4, 0, process=2, outcome=FAIL, reason=reason, key=1)).valid is valid


@pytest.mark.parametrize("outcome", [OK, INFO])
def test_who_asks_for_it_too_may_have_it(outcome: Any) -> None:
    book = held().acquire(3, 22, 2, key=1)
    assert verdict(book.acquire(2, 30, 3, outcome=outcome, key=1)).valid
    book = held().acquire(3, 22, 2, key=1)
    assert not verdict(book.acquire(9, 30, 3, outcome=outcome, key=1)).valid


def test_who_had_it_before_has_it_until_the_release_is_certain() -> None:
    def after(outcome: Any) -> Verdict:
        book = held().acquire(1, 2, 4, process=3, key=1).release(4, 5, 4, outcome, process=3, key=1)
        return verdict(book.acquire(3, 22, 2, key=1))

    assert not after(OK).valid
    assert after(INFO).valid


def test_a_fault_or_a_stall_may_make_it_late() -> None:
    assert verdict(held().acquire(3, 22, 2, key=1).fault("cut-client-drop", 4, 5)).valid
    assert verdict(held().acquire(3, 22, 2, key=1).add(F.STALL, 4, 5, process=2)).valid
    assert not verdict(held().acquire(3, 22, 2, key=1).add(F.STALL, 4, 5, process=3)).valid


def test_what_shows_nothing() -> None:
    assert (
        verdict(held().acquire(22, 23, 2, key=1)).unexercised == "nobody asked for a free lock while another was held"
    )
    assert verdict(held(bounds={}).acquire(3, 4, 2, key=1)).unexercised == "the lock declares no bound"
    assert verdict(held().acquire(3, 30, 1, flags=NESTED, key=1)).valid


def test_against_a_restatement() -> None:
    rng = Random(7)
    seen = set()
    for _ in range(400):
        book, asked = Book(bounds={"independence": BOUND}, ttl=100), []
        for owner in range(1, rng.randint(3, 6)):
            inv = rng.randint(1, 20)
            ret, key = inv + rng.randint(1, 12), rng.randrange(2)
            outcome = rng.choice((OK, OK, OK, FAIL, INFO))
            reason = rng.choice((Reason.HELD, Reason.TIMEOUT, Reason.DENIED)) if outcome == FAIL else Reason.NONE
            book.acquire(inv, ret, owner, outcome=outcome, reason=reason, key=key)
            over = ret if outcome == FAIL else INFINITY
            if outcome == OK and rng.random() < 0.8:
                sent = ret + rng.randint(1, 5)
                over = sent + rng.randint(1, 3)
                book.release(sent, over, owner, key=key)
            asked.append((key, inv, ret, over, outcome, reason))
        valid = True
        for n, (key, inv, ret, _, outcome, reason) in enumerate(asked):
            others = [one for m, one in enumerate(asked) if m != n and one[0] == key]
            free = sum(not any(o[1] <= at < o[3] for o in others) for at in range(inv, ret))
            if outcome != INFO and reason != Reason.DENIED:
                valid &= not (free > BOUND or (reason == Reason.HELD and free == ret - inv))
        assert verdict(book).valid is valid, asked
        seen.add(valid)
    assert seen == {True, False}
