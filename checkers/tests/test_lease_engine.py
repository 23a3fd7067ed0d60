"""Known histories for the model `lease`: verdict, blame, witness and proof."""

import ast
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from checkers.engines import lease_sessions
from checkers.engines.leases import lease
from checkers.linearizability import decide
from checkers.models.model import Settings, Unusable
from checkers.proofs import lease_events, lease_least, lease_proof
from checkers.proofs.lease_least import certify
from checkers.proofs.lease_proof import certify as proven
from checkers.row_format import NESTED, SHARED, F, Reason
from checkers.tests import fuzz_leases
from checkers.tests.brute_leases import possible
from checkers.tests.build import FAIL, INFO, Book, cases


def said(book: Book, **settings: Any) -> tuple[str, tuple[int, ...]]:
    """The kind and the rows of the only conflict, or ``valid`` and the order. Asserts that the proof is accepted."""
    history, options = book.history(), Settings(**settings)
    answer = lease(history, options)
    assert not answer.undecided
    if not answer.conflicts:
        order = tuple(answer.order().tolist())
        assert certify(history, options, True, order) is None
        return "valid", order
    (conflict,) = answer.conflicts
    assert proven(history, options, False, conflict.rows) is None
    return conflict.kind, conflict.rows


def test_the_settings_bring_a_ttl_and_a_drift() -> None:
    def book() -> Book:
        return Book(keys=("a",), ttl=0).acquire(10, 10, 1).acquire(12, 19, 2)

    assert (said(book(), ttl=9)[0], said(book(), ttl=10)[0]) == ("valid", "granted-inside-a-hold")
    assert said(book(), ttl=10, drift=0.1)[0] == "valid"
    with pytest.raises(Unusable, match=r"row 0: .*TTL"):
        lease(book().history(), Settings())


def test_a_history_that_does_not_fit_the_lease_model_is_refused() -> None:
    for facts in ({"lease": "none"}, {"lease": "quorum"}, {"permits": 2}):
        with pytest.raises(Unusable):
            lease(ONE.then(**facts).history(), Settings())
    with pytest.raises(Unusable, match="reader"):
        lease(ONE.then().acquire(30, 31, 2, ttl=10, flags=SHARED).history(), Settings())
    history = ONE.history()
    with pytest.raises(Unusable, match="times"):
        lease(replace(history, clock=np.zeros((1, 2), np.int64)), Settings())


def test_an_operation_of_an_unclear_attempt_is_refused() -> None:
    for book in (
        ONE.then().release(12, 13, 1, INFO).acquire(14, 15, 1, ttl=10),
        ONE.then().release(12, 15, 1).acquire(14, 16, 1, ttl=10),
        Book(keys=("a",)).acquire(1, 0, 1, outcome=INFO).renew(3, 4, 1),
        Book(keys=("a",)).acquire(1, 4, 1).renew(3, 5, 1),
    ):
        with pytest.raises(Unusable, match=r"row [12]: "):
            lease(book.history(), Settings())


def ordered(*tokens: int) -> Book:
    book = Book(keys=("a",), ttl=10).acquire(4, 9, 1, token=tokens[0])
    return book.acquire(1, 9, 2, ttl=5, token=tokens[1]).release(9, 10, 2)


def freed(first: int, other: int) -> Book:
    """The release of key 1 gets no answer. If executed, it freed key 1 and prolonged session 7, which holds key 0."""
    book = Book(lease="touch", ttl=10).acquire(1, 1, 1, session=7).acquire(2, 2, 2, session=7, key=1)
    book.release(8, 0, 2, INFO, session=7, key=1)
    return book.acquire(3, other, 3, session=8, key=1).acquire(3, first, 4, session=9)


def both(second: int) -> Book:
    """Session 7 holds both keys; session 8 is granted the second key at `second`."""
    book = Book(lease="session", ttl=10).add(F.SESSION_OPEN, 1, 2, session=7).acquire(3, 4, 1, session=7)
    return book.acquire(5, 6, 2, session=7, key=1).acquire(8, second, 3, session=8, key=1)


def closed(at: int, second: int) -> Book:
    """Session 7's closing returns at `at`. A grant at 5 and a keep-alive at 9 contradict a closing before them."""
    book = Book(lease="session", ttl=10).add(F.SESSION_CLOSE, 2, at, session=7).acquire(4, 5, 1, session=7)
    return book.add(F.KEEP_ALIVE, 9, 9, session=7).acquire(9, second, 2, session=8)


ONE = Book(keys=("a",), ttl=0).acquire(10, 10, 1, ttl=10)
INSIDE, RENEWAL, RELEASE, VALID = "granted-inside-a-hold", "renewal-lied", "release-lied", "valid"
THREE = Book(keys=("a",), ttl=7).acquire(1, 6, 1).acquire(2, 8, 2).acquire(3, 14, 3)
# One owner holds two keys and releases the first.
KEPT = Book(ttl=10).acquire(1, 2, 1).acquire(1, 2, 1, key=1).release(3, 4, 1).acquire(5, 6, 2).acquire(5, 6, 3, key=1)
NESTED_TOO = ONE.then().acquire(11, 12, 1, flags=NESTED).release(13, 14, 1, flags=NESTED).acquire(15, 19, 2, ttl=10)
AGAIN = ONE.then().release(12, 13, 1).acquire(13, 14, 1, ttl=10).release(15, 16, 1)
# The acknowledged release prolongs the session.
TOUCHED = Book(lease="touch", ttl=10).acquire(1, 2, 1, session=7).acquire(5, 6, 2, session=7, key=1)
TOUCHED.release(8, 9, 2, session=7, key=1).acquire(10, 17, 3, session=8)
# Each session would have to end before the other gets its second key, both at one instant.
CROSSED = Book(lease="session", ttl=10).acquire(4, 4, 1, session=7).acquire(4, 4, 2, session=8, key=1)
CROSSED.acquire(5, 5, 3, session=8).acquire(5, 5, 4, session=7, key=1)
ELSEWHERE = Book(lease="grant", ttl=10).add(F.SESSION_OPEN, 1, 2, session=7).acquire(8, 9, 1, session=7)
ELSEWHERE.acquire(10, 11, 2, session=8)
# The first acquire gets no answer, but its release does.
RELEASED = Book(lease="touch", ttl=3).acquire(1, 0, 1, outcome=INFO, session=7).acquire(2, 2, 2, session=7, key=1)
RELEASED.release(5, 6, 1, session=7).acquire(6, 6, 3, session=8, key=1)
ENDLESS = Book(lease="session").add(F.SESSION_OPEN, 1, 2, session=7, ttl=(1 << 63) - 1)
ENDLESS.acquire(3, 4, 1, session=7).acquire(30, 31, 2, session=8)


@cases(
    "book, kind, rows",
    ("a grant inside a hold", ONE.then().acquire(12, 19, 2, ttl=10), INSIDE, (0, 1)),
    ("a grant after it", ONE.then().acquire(12, 20, 2, ttl=10), VALID, (0, 1)),
    ("a renewal in time is believed", ONE.then().renew(15, 16, 1).acquire(17, 24, 2, ttl=10), INSIDE, (0, 1, 2)),
    ("one that did not lies", ONE.then().acquire(12, 22, 2, ttl=10).renew(24, 25, 1), RENEWAL, (0, 1, 2)),
    # At the very deadline, the renewal may have found the lease expired.
    ("at the deadline", ONE.then().renew(15, 20, 1).acquire(17, 24, 2, ttl=10), RENEWAL, None),
    ("lost early", ONE.then().renew(15, 19, 1, FAIL), "lost-early", (0, 1)),
    ("lost in the end", ONE.then().renew(15, 20, 1, FAIL), VALID, None),
    ("not reached", ONE.then().renew(15, 16, 1, FAIL, reason=Reason.UNAVAILABLE), VALID, None),
    ("timed out", ONE.then().renew(15, 16, 1, FAIL, reason=Reason.TIMEOUT), VALID, None),
    ("a release lied", ONE.then().acquire(25, 26, 2, ttl=10).release(28, 29, 1), RELEASE, (0, 1, 2)),
    ("released by a stranger", Book(keys=("a",)).release(2, 3, 1), RELEASE, (0,)),
    ("unanswered", ONE.then().acquire(11, 0, 2, outcome=INFO, ttl=10), VALID, (0,)),
    ("asked again after its release", AGAIN, VALID, None),
    ("the key that it kept", KEPT, INSIDE, None),
    ("nested ones are part of their grant", NESTED_TOO, INSIDE, None),
    ("three that fit pair by pair only", THREE, INSIDE, (0, 1, 2)),
    ("tokens in another order", ordered(2, 1), VALID, None),
    ("tokens in order", ordered(1, 2), INSIDE, None),
    ("touch prolongs everything", TOUCHED, RENEWAL, None),
    ("an unanswered release prolonged", freed(18, 8), VALID, None),
    ("an unanswered release left alone", freed(12, 12), VALID, None),
    ("an unanswered release freed, and did not prolong", freed(12, 8), INSIDE, None),
    ("a session ends all its holds at once", both(10), INSIDE, None),
    ("a session ended all its holds", both(11), VALID, None),
    # The late third grant shows that session 7 still existed then.
    ("a session was still there", both(11).acquire(14, 15, 4, session=7), INSIDE, None),
    ("a session was there until then", both(14).acquire(14, 15, 4, session=7), VALID, None),
    ("two sessions cannot end before each other", CROSSED, INSIDE, None),
    ("sessions of histories from elsewhere", ELSEWHERE, VALID, None),
    ("closed at the end", closed(9, 9), VALID, None),
    ("closed before it was granted", closed(4, 30), RELEASE, None),
    # Session 7 did not end at 9: it was closed before, or not at all.
    ("closed and kept alive", closed(4, 9), RENEWAL, None),
    ("an acknowledged release prolongs, whatever became of its acquire", RELEASED, RENEWAL, (0, 1, 2, 3)),
    ("a session longer than there are numbers", ENDLESS, INSIDE, None),
)
def test_each_known_history_gets_its_verdict_and_rows(book: Book, kind: str, rows: tuple[int, ...] | None) -> None:
    found = said(book)
    assert found == (kind, found[1] if rows is None else rows)


def test_a_conflict_names_only_the_owners_that_contradict_each_other() -> None:
    book = Book(keys=("a",), ttl=10)
    for number in range(1, 40):
        book.acquire(number * 20, number * 20 + 1, number).renew(number * 20 + 3, number * 20 + 4, number)
        book.release(number * 20 + 9, number * 20 + 10, number)
    book.acquire(505, 506, 77).release(512, 513, 77)
    assert {int(book.history().columns["owner"][row]) for row in said(book)[1]} <= {25, 77}


def test_two_closings_of_one_session_are_distinguished() -> None:
    for second, valid in ((11, False), (12, True)):
        book = Book(lease="session", ttl=10).add(F.SESSION_CLOSE, 2, 4, session=7).acquire(8, 9, 1, session=7)
        book.add(F.KEEP_ALIVE, 9, 9, session=7).add(F.SESSION_CLOSE, 12, 0, INFO, session=7)
        answer = fuzz_leases.in_mode(book.acquire(10, second, 2, session=8).history(), "told")
        assert bool(answer.conflicts) is not valid


@pytest.mark.parametrize("early", [True, False])
def test_a_keep_alive_may_be_refused_before_the_creation_of_its_session_is_answered(early: bool) -> None:
    """An early keep-alive may be refused, as there may be no session yet. An acknowledged one prolongs the session."""
    inv = 5 if early else 6
    book = Book(lease="session", ttl=10).add(F.SESSION_OPEN, 3, 6, session=7).acquire(8, 9, 1, session=7)
    refused = book.then().add(F.KEEP_ALIVE, inv, 8, FAIL, session=7, reason=Reason.NOT_OWNER).history()
    assert decide(refused, "lease").valid is early
    kept = book.add(F.KEEP_ALIVE, inv, 8, session=7).acquire(inv + 9, inv + 9, 2, session=8).history()
    assert decide(kept, "lease").valid is False


def test_impossible_sessions_are_refused() -> None:
    book = Book(lease="session", ttl=10).acquire(8, 9, 1, session=7).add(F.SESSION_CLOSE, 1, 2, session=7)
    with pytest.raises(Unusable, match="created"):
        lease(book.add(F.SESSION_OPEN, 3, 6, session=7).history(), Settings())


def test_a_spent_budget_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    no_time = lease(both(10).history(), Settings(budget=0))
    monkeypatch.setattr(lease_sessions, "WORK", 5)
    for answer in (no_time, lease(both(10).history(), Settings())):
        assert (answer.conflicts, set(answer.undecided)) == ((), {0, 1})


def test_wrong_proofs_are_not_accepted() -> None:
    history = ONE.then().renew(15, 16, 1).acquire(17, 25, 2, ttl=10).history()
    order = lease(history, Settings()).order().tolist()
    assert certify(history, Settings(), True, order) is None
    for wrong in (order[1:], order[::-1], [*order, order[0]], []):
        assert certify(history, Settings(), True, wrong) is not None
    assert certify(history, Settings(), False, order) is not None
    broken = ONE.then().acquire(12, 19, 2, ttl=10).history()
    assert certify(broken, Settings(), True, [0, 1]) is not None
    assert certify(broken, Settings(), False, [0]) is not None


def test_a_proof_with_a_needless_row_is_not_certified_as_minimal() -> None:
    book = ONE.then().renew(11, 12, 1).acquire(13, 14, 2, ttl=10).renew(15, 16, 2)
    history = book.acquire(40, 41, 3, ttl=10).history()
    assert proven(history, Settings(), False, (0, 2)) is None
    assert "row 1 may be" in str(certify(history, Settings(), False, (0, 1, 2)))
    assert "row 4 may be" in str(certify(history, Settings(), False, (0, 2, 4)))
    assert certify(history, Settings(), False, (0, 2)) is None
    judged = decide(history, "lease")
    assert (judged.valid, judged.rows, judged.minimal) == (False, (0, 2), True)


def test_minimal_is_claimed_only_where_it_was_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_least, "FEW", 1)
    judged = decide(ONE.then().acquire(12, 13, 2, ttl=10).history(), "lease")
    assert (judged.valid, judged.rows, judged.minimal) == (False, (0, 1), False)


def test_the_verifier_is_small_and_shares_nothing_with_the_engine() -> None:
    for module in (lease_proof, lease_events, lease_least):
        source = Path(str(module.__file__)).read_text()
        assert len(source.splitlines()) <= 100
        names = {node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)}
        assert not any(name and ("engines" in name or "holds_and" in name) for name in names)


def test_exhaustive_search_loses_nothing_by_skipping_instants() -> None:
    for number in range(40):
        case = fuzz_leases.single(Random(f"e{number}"))
        for mode in ("blind", "told", "full"):
            assert possible(case, mode) == possible(case, mode, every_instant=True), (mode, case)
