"""What each mechanism of a lock that is broken by design explains, and the nearest thing that it does not."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.designs import DESIGNS
from checkers.excuses import in_order
from checkers.mechanisms import MECHANISMS
from checkers.tests.build import FAIL, INFO, OK, Book
from checkers.verdict import Violation
from checkers.view import View
from checkers.wire import F, Reason

MS = 1_000_000


def explains(mechanism: str, book: Book, kind: str, *owners: int, at: int = 60) -> bool:
    """Whether it explains a violation of this kind between the grants of these owners, the earliest first."""
    history = book.history()
    view = View(history)
    holders = tuple(view.by_owner[owner].row for owner in owners)
    return MECHANISMS[mechanism](Violation(kind, at, holders, holders, ()), view, history.faults)


def book(**facts: Any) -> Book:
    return Book(keys=("a",), workers=8, **{"ttl": 40, **facts})


def two(**more: Any) -> Book:
    """Granted at 10 until 50, and at 60."""
    return book().acquire(9, 10, 1, sent=10, **more).acquire(11, 60, 2, sent=59)


def test_every_design_is_a_mechanism() -> None:
    assert DESIGNS.items() <= MECHANISMS.items()


class TestNoExclusion:
    @pytest.mark.parametrize("kind", ["overlap", "granted-while-held", "lost-update", "done-twice", "sold-twice"])
    def test_it_explains_that_two_were_inside(self, kind: str) -> None:
        assert explains("no-exclusion", two(), kind, 1, 2)

    @pytest.mark.parametrize("kind", ["token-repeated", "not-recovered", "vanished"])
    def test_and_nothing_else(self, kind: str) -> None:
        assert not explains("no-exclusion", two(), kind, 1, 2)


class TestReleasedByAnother:
    def book(self, sent: int, answered: int, outcome: Any = OK, lease: int = 20) -> Book:
        """Worker 1 held from 10, worker 2 from 40, and worker 3 from 60; worker 1's release was on its way."""
        told = book().acquire(9, 10, 1, sent=10, ttl=lease).acquire(11, 40, 2, sent=39, ttl=40)
        return told.acquire(12, 60, 3, sent=59, ttl=40).release(sent, answered, 1, outcome)

    def test_it_was_sent_when_the_lock_was_anothers(self) -> None:
        assert explains("released-by-another", self.book(45, 47), "granted-while-held", 2, 3)
        assert explains("released-by-another", self.book(45, 47), "released-anothers", 1, 2)

    def test_its_lease_could_end_between_a_look_and_the_deletion(self) -> None:
        assert explains("released-by-another", self.book(25, 47), "granted-while-held", 2, 3)
        assert explains("released-by-another", self.book(25, 47, INFO), "overlap", 2, 3)

    def test_not_while_its_lease_lasted(self) -> None:
        """Who hands over in time frees his own lock, though its answer comes when another has it."""
        assert not explains("released-by-another", self.book(25, 47, lease=60), "granted-while-held", 2, 3)

    def test_not_one_that_was_answered_before(self) -> None:
        assert not explains("released-by-another", self.book(35, 38), "granted-while-held", 2, 3)

    def test_not_one_that_was_sent_after(self) -> None:
        assert not explains("released-by-another", self.book(61, 62), "granted-while-held", 2, 3)

    def test_not_one_that_was_refused(self) -> None:
        told = self.book(45, 47, FAIL)
        assert not explains("released-by-another", told, "granted-while-held", 2, 3)

    def test_not_the_release_of_one_of_the_two(self) -> None:
        assert not explains("released-by-another", self.book(45, 47), "granted-while-held", 1, 2)

    def test_one_that_was_freed_by_another_frees_the_next(self) -> None:
        """Worker 1 frees worker 2's, which worker 4 gets; worker 2 then frees worker 4's, which worker 3 gets."""
        told = book().acquire(9, 10, 1, sent=10, ttl=5).acquire(11, 40, 2, sent=39, ttl=90)
        told.release(43, 44, 1).acquire(12, 50, 4, sent=44, ttl=90)
        told.release(48, 52, 2).acquire(13, 60, 3, sent=51, ttl=90)
        assert explains("released-by-another", told, "granted-while-held", 4, 3)

    def test_and_else_it_hands_over(self) -> None:
        told = book().acquire(11, 40, 2, sent=39, ttl=90).acquire(12, 50, 4, sent=44, ttl=90)
        told.release(48, 52, 2).acquire(13, 60, 3, sent=51, ttl=90)
        assert not explains("released-by-another", told, "granted-while-held", 4, 3)

    def test_not_of_another_key(self) -> None:
        told = Book(keys=("a", "b"), workers=8).acquire(9, 10, 1, sent=10, ttl=20, key=1).release(45, 47, 1, key=1)
        told.acquire(11, 40, 2, sent=39, ttl=40).acquire(12, 60, 3, sent=59, ttl=40)
        assert not explains("released-by-another", told, "granted-while-held", 2, 3)


class TestRenewedAnothers:
    @pytest.mark.parametrize(("asked", "answered", "expected"), [(45, 52, True), (53, 54, True), (30, 31, False)])
    def test_a_renewal_was_acknowledged_too_late(self, asked: int, answered: int, expected: bool) -> None:
        assert explains("renewed-anothers", two().renew(asked, answered, 1), "granted-while-held", 1, 2) is expected

    def test_one_in_time_prolongs_for_the_next(self) -> None:
        told = two().renew(30, 31, 1).renew(53, 54, 1)
        assert not explains("renewed-anothers", told, "granted-while-held", 1, 2)

    def test_not_one_that_was_refused(self) -> None:
        told = two().renew(53, 54, 1, FAIL, reason=Reason.NOT_OWNER)
        assert not explains("renewed-anothers", told, "granted-while-held", 1, 2)

    def test_not_the_later_holders(self) -> None:
        told = book().acquire(9, 10, 1, sent=10).acquire(11, 60, 2, sent=15).renew(61, 62, 2)
        assert not explains("renewed-anothers", told, "overlap", 1, 2)

    def test_nor_is_what_has_been_released_its_own(self) -> None:
        told = two().release(20, 21, 1).renew(19, 23, 1)
        assert explains("renewed-anothers", told, "granted-while-held", 1, 2)
        assert explains("renewed-anothers", told, "renewed-after-release", 1)
        in_time = two().release(20, 24, 1).renew(19, 23, 1)
        assert not explains("renewed-anothers", in_time, "granted-while-held", 1, 2)

    def test_a_lie_is_what_its_kind_says(self) -> None:
        assert explains("renewed-anothers", two().renew(61, 62, 1), "renewed-though-lost", 1, 2)

    @pytest.mark.parametrize(("asked", "expected"), [(53, True), (30, False)])
    def test_and_what_it_told_wrongly_is_refused_the_next_time(self, asked: int, expected: bool) -> None:
        assert explains("renewed-anothers", two().renew(asked, asked + 1, 1), "refused-though-held", 1) is expected


class TestCrashes:
    def test_nobody_frees_what_the_dead_held(self) -> None:
        for kind in ("never-freed", "freed-late"):
            told = two().fault("f", 20, 90, kind="kill", owner=1)
            assert explains("never-expires", told, kind, 1)
            assert not explains("never-expires", told, kind, 2)
        assert not explains("never-expires", two(), "never-freed", 1)

    def test_nor_what_who_hangs_holds_but_that_is_not_for_being_renewed(self) -> None:
        told = two().fault("f", 20, 90, kind="stall", owner=1)
        assert explains("never-expires", told, "kept-by-a-hung-holder", 1)
        assert not explains("hung-but-renewed", told, "kept-by-a-hung-holder", 1)
        told.renew(30, 31, 1)
        assert explains("hung-but-renewed", told, "kept-by-a-hung-holder", 1)
        assert not explains("never-expires", told, "kept-by-a-hung-holder", 1)


class TestGaveUp:
    @pytest.mark.parametrize(("noticed", "expected"), [(30, True), (None, False), (60 + 200 * MS, False)])
    def test_its_own_client_had_noticed(self, noticed: int | None, *, expected: bool) -> None:
        told = two() if noticed is None else two().lost(noticed, 1)
        assert explains("gave-up", told, "nested-refused", 1) is expected
        assert not explains("gave-up", told, "token-changed", 1)


class TestLeftBehind:
    def book(self, outcome: Any = INFO, alive: int = 30, key: int = 0) -> Book:
        """A release at 20, and a sign of life of its session later; somebody asked from 40 on, after the fault."""
        told = Book(keys=("a", "b"), workers=8, ttl=40).acquire(9, 10, 1, sent=10, session=7, key=key)
        told.release(20, 21, 1, outcome, session=7, key=key).add(F.KEEP_ALIVE, alive, alive + 1, session=7)
        return told.fault("f", 15, 35).acquire(40, 55, 2, outcome=FAIL, reason=Reason.TIMEOUT)

    def explained(self, told: Book, kind: str = "not-recovered") -> bool:
        view = View(told.history())
        row = view.rows(F.ACQUIRE)[-1]
        return MECHANISMS["left-behind"](Violation(kind, 60, (row,), (), ()), view, view.history.faults)

    def test_a_release_without_an_answer_in_a_session_that_lives(self) -> None:
        assert self.explained(self.book())
        assert not self.explained(self.book(), "never-freed")

    def test_not_one_that_was_answered_nor_in_a_session_that_was_not_heard_of_again(self) -> None:
        assert not self.explained(self.book(OK))
        assert not self.explained(self.book(alive=19))

    def test_not_of_another_key(self) -> None:
        assert not self.explained(self.book(key=1))

    @pytest.mark.parametrize(("inv", "ret", "expected"), [(16, 18, True), (36, 38, False)])
    def test_a_wait_that_ended_during_the_fault(self, inv: int, ret: int, expected: bool) -> None:
        told = self.book(OK).acquire(inv, ret, 3, outcome=FAIL, reason=Reason.TIMEOUT)
        assert self.explained(told) is expected

    def test_a_renewal_before_or_after_is_none_while_it_hung(self) -> None:
        told = two().fault("f", 20, 40, kind="stall", owner=1).renew(15, 16, 1).renew(45, 46, 1)
        assert not explains("hung-but-renewed", told, "kept-by-a-hung-holder", 1)

    def test_the_keep_alive_of_its_session_renews_it(self) -> None:
        for session, expected in ((7, True), (8, False)):
            told = two(session=7).fault("f", 20, 90, kind="call", owner=1)
            told.add(F.KEEP_ALIVE, 30, 31, session=session)
            assert explains("hung-but-renewed", told, "kept-by-a-hung-holder", 1) is expected


class TestTheClock:
    @pytest.mark.parametrize(("at", "expected"), [(60, True), (50, True), (49, False)])
    def test_the_earlier_lease_was_over(self, at: int, expected: bool) -> None:
        assert explains("outlived-ttl", two(), "overlap", 1, 2, at=at) is expected

    def test_whose_answer_was_slow(self) -> None:
        """Worker 2 was granted it first, and told last."""
        told = book().acquire(9, 52, 1, sent=51).acquire(1, 60, 2, sent=10)
        assert explains("outlived-ttl", told, "overlap", 1, 2)

    def test_not_for_a_client_that_noticed(self) -> None:
        assert not explains("outlived-ttl", two().lost(55, 1), "overlap", 1, 2)

    def test_not_for_a_service_that_lies(self) -> None:
        assert not explains("outlived-ttl", two(), "granted-while-held", 1, 2)

    def test_not_while_renewals_were_acknowledged(self) -> None:
        assert not explains("outlived-ttl", two().renew(30, 31, 1), "overlap", 1, 2)

    @pytest.mark.parametrize(("asked", "outcome", "expected"), [(19, OK, True), (45, INFO, False), (61, OK, True)])
    def test_nobody_asked_to_keep_it_alive(self, asked: int, outcome: Any, expected: bool) -> None:
        told = two(session=7).add(F.KEEP_ALIVE, asked, asked + 1, outcome, session=7)
        assert explains("keepalive-died", told, "overlap", 1, 2) is expected

    def test_somebody_elses_keep_alive_does_not_count(self) -> None:
        told = two(session=7).add(F.KEEP_ALIVE, 45, 46, session=8)
        assert explains("keepalive-died", told, "overlap", 1, 2)

    def test_an_answer_that_came_when_the_lease_was_over(self) -> None:
        late = book().acquire(9, 55, 1, sent=10).write(56, 58, 1, 1).acquire(11, 57, 2, sent=52)
        assert explains("answer-past-ttl", late, "overlap", 1, 2)
        in_time = book().acquire(9, 49, 1, sent=10).write(56, 58, 1, 1).acquire(11, 57, 2, sent=52)
        assert not explains("answer-past-ttl", in_time, "overlap", 1, 2)

    def test_nobody_went_in_who_noticed_at_once(self) -> None:
        late = book().acquire(9, 55, 1, sent=10).lost(56, 1, sent=50).acquire(11, 57, 2, sent=52)
        assert not explains("answer-past-ttl", late, "overlap", 1, 2)


class TestTheService:
    def test_no_server_gave_it(self) -> None:
        for ttl, expected in ((0, True), (40, False)):
            told = book().acquire(9, 10, 1, sent=10, ttl=ttl).acquire(11, 60, 2, sent=59, ttl=40)
            assert explains("went-ahead", told, "overlap", 1, 2) is expected
            assert not explains("went-ahead", told, "token-repeated", 1, 2)

    def test_a_lock_without_leases_has_no_ttl_to_give(self) -> None:
        told = book(lease="none").acquire(9, 10, 1, sent=10).acquire(11, 60, 2, sent=59)
        assert not explains("went-ahead", told, "overlap", 1, 2)

    @pytest.mark.parametrize(("begun", "healed", "expected"), [(20, 30, True), (5, 8, False), (61, 70, False)])
    def test_the_earlier_session_was_hit(self, begun: int, healed: int, expected: bool) -> None:
        told = Book(keys=("a",), workers=8, lease="none").acquire(9, 10, 1, sent=10).acquire(11, 60, 2, sent=59)
        told.fault("f", begun, healed, kind="failover").release(90, 91, 1)
        assert explains("session-lost", told, "overlap", 1, 2) is expected

    @pytest.mark.parametrize(("begun", "healed", "expected"), [(20, 30, True), (5, 8, False), (61, 70, False)])
    def test_the_session_was_hit_before_its_grant_was_answered(self, begun: int, healed: int, expected: bool) -> None:
        told = Book(keys=("a",), workers=8, lease="none").acquire(9, 60, 1, sent=10).acquire(32, 40, 2, sent=32)
        told.fault("f", begun, healed, kind="failover").release(90, 91, 1)
        assert explains("session-lost", told, "overlap", 1, 2) is expected

    def test_no_session_is_lost_with_a_worker(self) -> None:
        told = Book(keys=("a",), workers=8, lease="none").acquire(9, 10, 1, sent=10).acquire(11, 60, 2, sent=59)
        told.fault("f", 20, 30, kind="freeze", owner=1).release(90, 91, 1)
        assert not explains("session-lost", told, "overlap", 1, 2)

    def test_a_pool_hands_out_its_sessions_to_all(self) -> None:
        for kind in ("granted-while-held", "never-freed", "released-anothers"):
            assert explains("not-the-session", two(), kind, 1, 2)
        for kind in ("token-repeated", "stale-read"):
            assert not explains("not-the-session", two(), kind, 1, 2)


class TestNumbersAndOrder:
    def clocks(self, *tokens: int) -> Book:
        """Each waited for 500 ms, the next beginning while it did; the first to ask got it last."""
        told = book(ttl=1000 * MS)
        told.acquire(1000 * MS, 2900 * MS, 1, token=tokens[0])
        return told.acquire(2000 * MS, 2500 * MS, 2, token=tokens[1])

    def test_tokens_that_a_clock_gave(self) -> None:
        off = 10**18
        assert explains("client-clock", self.clocks(off + 1001 * MS, off + 2001 * MS), "token-not-larger", 2, 1)

    def test_not_those_that_none_can_have_given(self) -> None:
        assert not explains("client-clock", self.clocks(1, 3000 * MS), "token-not-larger", 2, 1)
        assert not explains("client-clock", self.clocks(3000 * MS, 7), "token-not-larger", 2, 1)

    def test_nor_anything_but_the_order_of_tokens(self) -> None:
        assert not explains("client-clock", self.clocks(1001 * MS, 2001 * MS), "overlap", 2, 1)

    def test_kinds_that_say_it_all(self) -> None:
        kinds = {"opposite-order": "deadlock", "woken-all": "herd", "hash-collision": "kept-by-another-name"}
        for mechanism, kind in kinds.items():
            assert explains(mechanism, two(), kind, 1, 2)
            assert not explains(mechanism, two(), "overlap", 1, 2)

    @pytest.mark.parametrize(("left", "explained"), [(30, True), (12, False)])
    def test_a_lock_that_another_name_keeps_for_longer_than_a_fault_does(self, left: int, explained: bool) -> None:
        told = Book(keys=("a", "b")).acquire(1, 2, 1, key=1).release(left, left + 1, 1, key=1)
        told.acquire(13, 70, 2)
        for kind in ("not-recovered", "freed-late"):
            assert explains("hash-collision", told, kind, 2) is explained
        assert not explains("hash-collision", told, "overlap", 2)

    @pytest.mark.parametrize(("sent", "given_up", "explained"), [(15, 25, True), (21, 40, True), (23, 40, False)])
    def test_a_wait_that_a_clock_was_set_in(self, sent: int, given_up: int, explained: bool) -> None:
        told = book().acquire(9, 10, 1).acquire(sent, 0, 0, process=2, outcome=INFO)
        told.rows[-1] = (sent, given_up, *told.rows[-1][2:])
        told.fault("clock-jump-forward", 4, 22, kind="clock", healing=20)
        assert explains("timers-set-back", told, "not-recovered", 1) is explained
        assert not explains("timers-set-back", told, "deadlock", 1)

    def test_where_tokens_contradict_the_answers_these_tell_who_was_first(self) -> None:
        for tokens, expected in (((5, 6), [1, 2]), ((6, 5), [1, 2])):
            told = book().acquire(9, 10, 1, sent=10, token=tokens[0]).acquire(11, 60, 2, sent=59, token=tokens[1])
            view = View(told.history())
            rows = sorted((grant.token, grant.row) for grant in view.grants)
            violation = Violation("overlap", 60, (), tuple(row for _, row in rows), ())
            assert [window.grant.owner for window in in_order(violation, view)] == expected
