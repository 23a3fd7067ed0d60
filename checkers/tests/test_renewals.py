"""Known histories for honest renewal: grants that are renewed, and sessions that are kept alive."""

from typing import Any

import pytest

from checkers.check import check
from checkers.claims import Claim, Hazard, Verdict
from checkers.judging.judgement import judge
from checkers.properties.honest_renewal import REFUSED, RENEWED
from checkers.tests.build import FAIL, INFO, Book
from checkers.tests.compare import asking
from checkers.wire import F, Outcome, Reason

LOST: Any = {"outcome": FAIL, "reason": Reason.NOT_OWNER}

result = asking("honest-renewal")


def one(**facts: Any) -> Book:
    """Worker 1 asked at 9 and is granted at 10, for 10."""
    return Book(keys=("a",), **facts).acquire(8, 10, 1, sent=9, ttl=10)


class TestAcknowledged:
    def test_although_the_lock_was_anothers(self) -> None:
        (violation,) = result(one().acquire(20, 30, 2).renew(31, 32, 1)).violations
        assert (violation.kind, violation.at, violation.rows) == ("renewed-though-lost", 31, (0, 1, 2))
        assert violation.story[-1].startswith("So a renewal was acknowledged")

    def test_after_the_lease_but_before_anybody_else(self) -> None:
        """Expiry may come late."""
        found = result(one().renew(40, 41, 1))
        assert found.valid
        assert found.unexercised is None
        assert found.counters[RENEWED] == 1

    @pytest.mark.parametrize("outcome", [FAIL, INFO])
    def test_anything_else_is_no_lie(self, outcome: Outcome) -> None:
        reason = Reason.NOT_OWNER if outcome == FAIL else Reason.NONE
        assert result(one().acquire(20, 30, 2).renew(31, 32, 1, outcome, reason=reason)).valid

    def test_after_its_own_release_and_anothers_grant(self) -> None:
        assert result(one().release(11, 12, 1).acquire(13, 14, 2).renew(15, 16, 1)).valid is False


class TestRefused:
    def test_before_the_earliest_end(self) -> None:
        (violation,) = result(one().renew(17, 18, 1, **LOST)).violations
        assert (violation.kind, violation.at, violation.holders) == ("refused-though-held", 18, (0,))
        assert violation.story[-1].startswith("So a renewal was refused")

    def test_at_the_earliest_end(self) -> None:
        found = result(one().renew(17, 19, 1, **LOST))
        assert found.valid
        assert found.counters[REFUSED] == 1

    def test_drift_and_grain_bring_the_end_forward(self) -> None:
        assert result(one(drift=0.25).renew(16, 17, 1, **LOST)).valid
        assert result(one(grain=2).renew(16, 17, 1, **LOST)).valid

    def test_after_the_release_was_sent(self) -> None:
        assert result(one().release(16, 20, 1).renew(15, 17, 1, **LOST)).valid
        assert result(one().release(17, 20, 1).renew(15, 16, 1, **LOST)).valid is False
        assert result(one().release(16, 20, 1, FAIL).renew(15, 17, 1, **LOST)).valid is False

    def test_a_server_that_cannot_be_reached_says_nothing_of_the_lease(self) -> None:
        found = result(one().renew(11, 12, 1, FAIL, reason=Reason.UNAVAILABLE))
        assert found.valid
        assert found.unexercised == "no renewal was answered"

    def test_a_lock_without_a_lease(self) -> None:
        assert result(one(lease="none").renew(11, 12, 1, **LOST)).valid


class TestSession:
    def book(self, lease: str = "session") -> Book:
        """Session 7 is asked for at 1, for 10; worker 1 is granted in it at 5."""
        book = Book(keys=("a", "b"), lease=lease, ttl=10).add(F.SESSION_OPEN, 1, 2, session=7)
        return book.acquire(4, 5, 1, session=7, ttl=10)

    def test_a_keep_alive_refused_too_early(self) -> None:
        (violation,) = result(self.book().add(F.KEEP_ALIVE, 9, 10, session=7, **LOST)).violations
        assert (violation.kind, violation.holders) == ("refused-though-held", (1,))
        assert result(self.book().add(F.KEEP_ALIVE, 9, 11, session=7, **LOST)).valid

    def test_an_acknowledged_keep_alive_prolongs_it(self) -> None:
        book = self.book().add(F.KEEP_ALIVE, 6, 7, session=7)
        assert result(book.add(F.KEEP_ALIVE, 14, 15, session=7, **LOST)).valid is False

    def test_only_where_requests_touch_it_does_a_grant(self) -> None:
        for lease, valid in (("session", True), ("touch", False)):
            assert result(self.book(lease).add(F.KEEP_ALIVE, 11, 13, session=7, **LOST)).valid is valid

    @pytest.mark.parametrize(("before", "valid"), [(4, True), (11, False), (14, True)])
    def test_with_a_grain_a_sign_of_life_may_be_unknown_but_not_two(self, before: int, *, valid: bool) -> None:
        """The last was sent at 14. Its lease, 20 - 3 after the one before and the grain, ends at 24, 31 or 21."""
        book = Book(lease="session", ttl=20, grain=3).add(F.SESSION_OPEN, 1, 2, session=7)
        book.add(F.KEEP_ALIVE, before, before + 1, session=7).add(F.KEEP_ALIVE, 14, 15, session=7)
        assert result(book.add(F.KEEP_ALIVE, 24, 25, session=7, **LOST)).valid is valid

    def test_a_closed_one_may_be_refused(self) -> None:
        book = self.book().add(F.SESSION_CLOSE, 8, 0, INFO, session=7)
        assert result(book.add(F.KEEP_ALIVE, 9, 10, session=7, **LOST)).valid

    def test_alive_although_its_lock_was_anothers(self) -> None:
        book = self.book().acquire(20, 21, 2, session=8)
        assert result(book.add(F.KEEP_ALIVE, 22, 23, session=7)).valid is False

    def test_it_outlives_what_was_released(self) -> None:
        book = self.book().release(15, 16, 1, session=7).acquire(20, 21, 2, session=8)
        assert result(book.add(F.KEEP_ALIVE, 22, 23, session=7)).valid

    @pytest.mark.parametrize(
        ("asked", "held", "told", "released", "valid"),
        [
            (12, 11, 41, 50, False),
            (9, 11, 41, 50, False),  # before it came the other: inside a hold
            (9, 15, 41, 50, True),  # or after it had ended by itself
            (12, 11, 41, 41, True),
            (12, 11, 60, 50, True),
        ],
        ids=["asked-later", "asked-first", "may-have-been-first", "released-as-told", "told-after"],
    )
    def test_a_grant_on_a_lease_that_was_called_over(
        self, asked: int, held: int, told: int, released: int, *, valid: bool
    ) -> None:
        """Session 7 of worker 2 is created at 3, for 10; worker 1 holds from `held` on, and keeps its own alive."""
        book = Book(keys=("a",), lease="session", ttl=10)
        book.add(F.SESSION_OPEN, 1, 2, session=8).add(F.SESSION_OPEN, 3, 4, session=7)
        book.acquire(10, held, 1, session=8, ttl=10)
        for sent in (19, 28, 37, 46):
            book.add(F.KEEP_ALIVE, sent, sent + 1, session=8)
        book.add(F.KEEP_ALIVE, told - 1, told, session=7, **LOST).release(released, released + 1, 1, session=8)
        found = result(book.acquire(asked, 61, 2, session=7, ttl=10))
        assert found.valid is valid
        if not valid:
            (violation,) = found.violations
            assert violation.kind == "granted-though-over"
            assert violation.story[-1] == "So the lock was granted on a lease that the service had called over."

    def test_between_two_grants_there_is_nobody_to_name(self) -> None:
        book = Book(lease="session", ttl=10).add(F.SESSION_OPEN, 1, 2, session=7)
        (violation,) = result(book.add(F.KEEP_ALIVE, 9, 10, session=7, **LOST)).violations
        assert violation.holders == ()
        assert "keep-alive" in violation.story[0]


def test_unexercised() -> None:
    assert result(one()).unexercised == "no renewal was answered"
    missed = one(fault_names=("freeze-holder",)).renew(11, 12, 1)
    assert result(missed).unexercised == "freeze-holder never took effect"


@pytest.mark.parametrize(
    ("mechanism", "kind", "struck", "word"),
    [
        ("expired-by-jump", "clock", 12, Verdict.BROKEN_AS_DOCUMENTED),
        ("state-lost", "wipe", 12, Verdict.BROKEN_AS_DOCUMENTED),
        ("revoked-early", "pause", 12, Verdict.BROKEN_AS_DOCUMENTED),
        ("revoked-early", "pause", 17, Verdict.VIOLATED),
        ("expired-by-jump", "wipe", 12, Verdict.VIOLATED),
    ],
)
def test_what_excuses_a_refusal_too_early(mechanism: str, kind: str, struck: int, word: Verdict) -> None:
    hazards = (Hazard("honest-renewal", ("f",), mechanism),)
    book = one(fault_names=("f",), claims=(Claim("server-exclusion"),), hazards=hazards).renew(15, 16, 1, **LOST)
    history = book.fault("f", struck, struck + 1, kind=kind, healing=struck).history()
    assert judge(check(history, ["honest-renewal"])[0], history).word is word
