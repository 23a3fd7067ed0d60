"""Known histories for owner-release and crash-release."""

from typing import Any

import pytest

from checkers.properties.releases import CRASHED, SLOWEST, STALE_RELEASES, WAITED_FOR
from checkers.tests.build import FAIL, INFO, Book
from checkers.tests.compare import asking
from checkers.wire import NESTED, SHARED, F, Outcome, Reason

owner_release = asking("owner-release")
crash_release = asking("crash-release")


class TestOwnerRelease:
    def book(self, **more: Any) -> Book:
        """Worker 1 is granted at 10, worker 2 at 30."""
        return Book(keys=("a",)).acquire(8, 10, 1, ttl=10).acquire(25, 30, 2, **more)

    def test_an_acknowledged_release_of_what_another_has(self) -> None:
        (violation,) = owner_release(self.book().release(31, 32, 1)).violations
        assert (violation.kind, violation.at, violation.rows) == ("released-anothers", 31, (0, 1, 2))
        assert violation.holders == (0, 1)
        assert violation.story[-1].startswith("So a release was acknowledged")

    @pytest.mark.parametrize("outcome", [FAIL, INFO])
    def test_what_was_refused_or_not_answered_exercises_it(self, outcome: Outcome) -> None:
        found = owner_release(self.book().release(31, 32, 1, outcome))
        assert found.valid
        assert found.unexercised is None
        assert found.counters[STALE_RELEASES] == 1

    def test_a_release_sent_before_the_grant_returned_is_in_doubt(self) -> None:
        found = owner_release(self.book().release(30, 32, 1))
        assert found.valid
        assert found.unexercised == "nobody released what another held by then"

    def test_a_release_inside_a_hold_is_none(self) -> None:
        assert owner_release(self.book().release(40, 41, 1, flags=NESTED)).valid

    def test_the_witness_is_who_had_it_at_that_moment(self) -> None:
        """Worker 2 had gone by then, and worker 3 has it, whose grant came last."""
        book = self.book().release(31, 32, 2).acquire(33, 35, 3).release(36, 37, 1)
        (violation,) = owner_release(book).violations
        assert (violation.rows, violation.holders) == ((0, 3, 4), (0, 3))
        assert violation.story[-1] == "So a release was acknowledged although the lock was another's by then."

    def test_nobody_had_it_at_that_moment(self) -> None:
        book = self.book().release(31, 32, 2).acquire(33, 35, 3).release(36, 37, 3)
        (violation,) = owner_release(book.release(38, 39, 1)).violations
        assert violation.holders == (0, 1)  # who took it from worker 1
        assert violation.story[-1] == (
            "So a release was acknowledged although the lock had not been worker 1's since another was granted it."
        )

    @pytest.mark.parametrize(("sent", "by_then"), [(34, True), (35, False)])
    def test_a_lease_that_could_be_over_is_no_hold(self, sent: int, by_then: bool) -> None:
        (violation,) = owner_release(self.book().release(sent, 36, 1)).violations
        assert violation.story[-1].endswith("was another's by then.") is by_then

    def test_a_long_lease_that_began_before_others_is_found(self) -> None:
        book = self.book(ttl=90).acquire(40, 41, 3, ttl=2).release(50, 51, 1)
        (violation,) = owner_release(book).violations
        assert violation.holders == (0, 1)
        assert violation.story[-1].endswith("was another's by then.")

    def test_two_readers(self) -> None:
        book = Book(keys=("a",)).acquire(8, 10, 1, flags=SHARED).acquire(25, 30, 2, flags=SHARED)
        assert owner_release(book.release(31, 32, 1, flags=SHARED)).valid


class TestCrashRelease:
    """Worker 1 is granted at 10 for 10, and killed at 12. The bound is 5, so others must get it by 27."""

    def book(self, kind: str = "kill", healed: int = 60, process: int = 1, **facts: Any) -> Book:
        facts = {"bounds": {"crash-release": 5}, "fault_names": ("kill-holder",), **facts}
        book = Book(keys=("a",), **facts).acquire(9, 10, 1, ttl=10)
        book.fault("kill-holder", 11, healed, applied=12, kind=kind, owner=1, process=process)
        return book.read(11, 12, 1, -1)

    def test_in_time(self) -> None:
        found = crash_release(self.book().acquire(13, 27, 2))
        assert found.valid
        assert found.unexercised is None
        assert (found.counters[CRASHED], found.counters[WAITED_FOR]) == (1, 1)

    def test_too_late(self) -> None:
        (violation,) = crash_release(self.book().acquire(13, 28, 2)).violations
        assert (violation.kind, violation.at, violation.rows) == ("freed-late", 27, (0, 2))
        assert violation.story[-1].startswith("So what the dead holder held was freed later")

    def test_never(self) -> None:
        book = self.book().add(F.ACQUIRE, 13, 25, FAIL, process=2, reason=Reason.TIMEOUT)
        (violation,) = crash_release(book.add(F.ACQUIRE, 26, 90, FAIL, process=2)).violations
        assert (violation.kind, violation.at, violation.holders) == ("never-freed", 28, (0,))
        assert violation.rows == (0, 3)  # the one who waited then
        assert "worker 2's acquire" in violation.story[1]

    def test_who_was_not_in_line_did_not_wait(self) -> None:
        book = self.book().add(F.ACQUIRE, 13, 90, FAIL, process=2, reason=Reason.UNAVAILABLE)
        found = crash_release(book)
        assert found.valid
        assert found.unexercised == "nobody asked for long enough for what a dead or hung holder held"

    def test_an_unanswered_acquire_may_have_been_granted(self) -> None:
        book = self.book().add(F.ACQUIRE, 13, 90, FAIL, process=2)
        assert crash_release(book).valid is False
        found = crash_release(book.add(F.ACQUIRE, 26, 0, INFO, process=3))
        assert found.valid
        assert found.unexercised == "nobody asked for long enough for what a dead or hung holder held"

    def test_who_gets_it_in_time_shows_that_it_was_free_whatever_else_was_unanswered(self) -> None:
        early = self.book().add(F.ACQUIRE, 5, 0, INFO, process=3)
        assert crash_release(early.acquire(13, 27, 2)).unexercised is None
        late = crash_release(self.book().add(F.ACQUIRE, 5, 0, INFO, process=3).acquire(13, 28, 2))
        assert (late.valid, late.counters[WAITED_FOR]) == (True, 0)

    def test_the_ttl_counts_from_what_may_have_prolonged_it_last(self) -> None:
        book = self.book().renew(13, 0, 1, INFO).acquire(14, 28, 2)
        assert crash_release(book).valid
        session = Book(keys=("a",), bounds={"crash-release": 5}, lease="session")
        session.acquire(9, 10, 1, ttl=10, session=7).add(F.KEEP_ALIVE, 13, 14, session=7)
        session.fault("kill-holder", 12, 60, kind="kill", owner=1, process=1)
        assert crash_release(session.acquire(15, 29, 2, session=8)).valid

    def test_without_a_lease_there_is_no_ttl(self) -> None:
        assert crash_release(self.book(lease="none").acquire(13, 18, 2)).valid
        assert crash_release(self.book(lease="none").acquire(13, 19, 2)).valid is False

    def test_what_had_been_passed_on_before_is_no_crash(self) -> None:
        book = Book(keys=("a",), bounds={"crash-release": 5}, fault_names=("kill-holder",))
        book.acquire(1, 2, 1, ttl=3).acquire(7, 8, 2, ttl=30)
        book.fault("kill-holder", 9, 60, kind="kill", owner=1, process=1)
        found = crash_release(book.add(F.ACQUIRE, 9, 38, FAIL, process=3))
        assert found.valid
        assert found.unexercised == "no holder died, or hung for longer than the TTL"

    def test_readers_that_hold_beside_a_dead_one_keep_a_writer_waiting(self) -> None:
        """A writer asks from 13 to 35; the dead reader's lease is over at 22."""

        def beside() -> Book:
            """Whose lease is over at 26."""
            book = Book(keys=("a",), bounds={"crash-release": 5}, fault_names=("kill-holder",))
            book.acquire(9, 10, 1, ttl=10, flags=SHARED).read(11, 12, 1, -1).acquire(13, 35, 9)
            book.fault("kill-holder", 11, 60, applied=12, kind="kill", owner=1, process=1)
            return book.acquire(14, 16, 2, ttl=10, flags=SHARED)

        assert crash_release(beside()).valid is False
        assert crash_release(beside().renew(20, 21, 2)).valid  # and at 31
        assert crash_release(beside().release(28, 29, 2, flags=SHARED)).valid is False
        assert crash_release(beside().release(29, 30, 2, flags=SHARED)).valid

    def test_two_readers_that_died_keep_it_no_longer_than_the_one_who_held_last(self) -> None:
        book = Book(keys=("a",), bounds={"crash-release": 5}, fault_names=("kill-holder",))
        for owner, at in ((1, 9), (2, 13)):
            book.acquire(at, at + 1, owner, ttl=10, flags=SHARED)
            book.fault("kill-holder", at + 2, 60, kind="kill", owner=owner, process=owner)
        found = crash_release(book.acquire(14, 60, 3))
        assert sorted((violation.kind, violation.holders[0]) for violation in found.violations) == [
            ("freed-late", 0),
            ("freed-late", 1),
        ]

    @pytest.mark.parametrize("kind", ["stall", "call"])
    def test_a_hung_holder_that_keeps_it(self, kind: str) -> None:
        book = self.book(kind).renew(16, 17, 1).acquire(13, 70, 2)
        (violation,) = crash_release(book).violations
        assert (violation.kind, violation.at) == ("kept-by-a-hung-holder", 27)
        assert crash_release(self.book(kind, healed=27).acquire(13, 70, 2)).valid

    def test_an_acknowledged_renewal_kept_nobody_out_who_got_the_lock_in_time(self) -> None:
        def passed_on(got: int) -> Book:
            return self.book("stall", healed=60).renew(18, 19, 1).acquire(13, got, 2)

        assert crash_release(passed_on(24)).valid
        (violation,) = crash_release(passed_on(28)).violations
        assert (violation.kind, violation.at) == ("kept-by-a-hung-holder", 22)
        assert crash_release(self.book("stall", healed=25).renew(17, 18, 1).acquire(13, 26, 2)).valid  # until 27

    def test_a_short_stall_and_a_hung_renewal_are_no_crash(self) -> None:
        nobody = "no holder died, or hung for longer than the TTL"
        assert crash_release(self.book("stall", healed=22).acquire(13, 24, 2)).unexercised == nobody
        assert crash_release(self.book(process=1 + 4).acquire(13, 24, 2)).unexercised == nobody  # 4 workers: a renewal

    def test_unexercised(self) -> None:
        assert crash_release(self.book(bounds={})).unexercised == "the lock declares no bound"
        assert crash_release(self.book(permits=2)).unexercised == "several may hold at once"

    def test_the_slowest(self) -> None:
        book = Book(keys=("a",), bounds={"crash-release": 10**9}, fault_names=("kill-holder",), ttl=10**7)
        book.acquire(1, 2, 1).fault("kill-holder", 3, 10**9, kind="kill", owner=1, process=1)
        found = crash_release(book.acquire(5, 3 * 10**7 + 3, 2))
        assert found.counters[SLOWEST] == 20
