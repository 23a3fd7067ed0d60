"""What each mechanism explains, and what it does not: before the fault, of another key, holder, node or kind."""

from dataclasses import replace
from typing import Any

import pytest

from checkers.check import check
from checkers.claims import ANY, Hazard, Verdict
from checkers.history.history import FaultInterval
from checkers.history.view import View
from checkers.judging.judgement import judge
from checkers.judging.mechanisms import MECHANISMS, nodes_of
from checkers.properties.check_result import Violation
from checkers.tests.build import FAIL, INFO, OK, Book, cases
from checkers.wire import NESTED, F, Outcome, Reason

SERVER, HOLDER, TOKENS, UPDATES = "server-exclusion", "holder-exclusion", "token-order", "no-lost-update"


def word(book: Book, name: str = SERVER) -> Verdict:
    history = book.history()
    return judge(check(history, [name])[0], history).word


def facts(mechanism: str, name: str = SERVER, nodes: tuple[str, ...] = (ANY,), **more: Any) -> dict[str, Any]:
    hazard = Hazard(name, ("f",), mechanism, nodes=nodes)
    return {"keys": ("a",), "fault_names": ("f",), "hazards": (hazard,), "workers": 8, **more}


def given_away(mechanism: str, name: str = SERVER, *, until: int = 50, **more: Any) -> Book:
    """Worker 1 is granted at 10 a lease until 50; its release at 40 is refused. Worker 2 was granted it at 30."""
    book = Book(**facts(mechanism, name, **more)).acquire(9, 10, 1, sent=9, ttl=until - 9)
    book.release(40, 41, 1, FAIL, reason=Reason.NOT_OWNER)
    return book.acquire(11, 30, 2, sent=29, ttl=50).release(60, 61, 2)


def clock(book: Book, begun: int, applied: int, healing: int = 80, healed: int = 81, **more: Any) -> Book:
    more = {"kind": "clock", "target": "redis1: 61 s forward", **more}
    return book.fault("f", begun, healed, applied=applied, healing=healing, **more)


VIOLATED, DOCUMENTED = Verdict.VIOLATED, Verdict.BROKEN_AS_DOCUMENTED


class TestClocks:
    @pytest.mark.parametrize("name", [SERVER, HOLDER])
    @cases(
        "begun, applied, expected",
        ("while the lease was in force", 20, 21, DOCUMENTED),
        ("the grant came before the proof", 29, 33, DOCUMENTED),
        ("the lease was taken when the clock had been set already", 5, 8, VIOLATED),
        ("it was given away before", 31, 32, VIOLATED),
        ("it never came", 0, 0, VIOLATED),
    )
    def test_a_jump_explains_a_lost_lease(self, name: str, begun: int, applied: int, expected: Verdict) -> None:
        assert word(clock(given_away("expired-by-jump", name), begun, applied), name) is expected

    def test_the_earlier_holder_may_be_the_one_whose_answer_came_later(self) -> None:
        """Its token says that it was: worker 1's grant is the one that the jump ended."""
        book = Book(**facts("expired-by-jump")).acquire(9, 35, 1, sent=9, ttl=51, token=4)
        book.release(40, 41, 1, FAIL, reason=Reason.NOT_OWNER)
        book.acquire(11, 30, 2, sent=29, ttl=50, token=5).release(60, 61, 2)
        assert word(clock(book, 20, 21)) is DOCUMENTED

    @cases(
        "begun, expected",
        ("between", 20, DOCUMENTED),
        ("before either asked", 5, VIOLATED),
        ("both had been granted by then", 37, VIOLATED),
    )
    def test_a_jump_between_two_concurrent_acquires_without_token(self, begun: int, expected: Verdict) -> None:
        book = Book(**facts("expired-by-jump")).acquire(9, 35, 1, sent=9, ttl=51)
        book.acquire(11, 30, 2, sent=29, ttl=50).release(60, 61, 2)
        assert word(clock(book, begun, begun + 1)) is expected

    @cases(
        "mechanism, times, expected",
        ("a jump, by its heal", "jump", (5, 6, 20, 21), VIOLATED),
        ("a clock that is set right is a jump as well", "return", (5, 6, 20, 21), DOCUMENTED),
        ("set right later", "return", (5, 6, 31, 32), VIOLATED),
        ("set right before", "return", (5, 6, 7, 8), VIOLATED),
        ("never set right", "return", (5, 6, 0, 0), VIOLATED),
        ("a clock that is set back ends no lease", "return", (20, 21), VIOLATED),
        ("a drift all the time", "drift", (5, 6, 70, 70), DOCUMENTED),
        ("a drift to the grant", "drift", (5, 6, 11, 11), DOCUMENTED),
        ("a drift that goes on", "drift", (5, 6, 0, 0), DOCUMENTED),
        ("a drift before the grant", "drift", (5, 6, 8, 8), VIOLATED),
        ("a drift after the loss", "drift", (31, 32, 70, 70), VIOLATED),
    )
    def test_what_was_done_to_a_clock(self, mechanism: str, times: tuple[int, ...], expected: Verdict) -> None:
        assert word(clock(given_away(f"expired-by-{mechanism}"), *times)) is expected

    def test_the_lock_must_rest_on_that_node(self) -> None:
        for target, expected in (("redis1: 61 s forward", DOCUMENTED), ("redis12: x", VIOLATED)):
            book = given_away("expired-by-jump", nodes=("redis1",))
            assert word(clock(book, 20, 21, target=target)) is expected

    def test_only_a_clock(self) -> None:
        for mechanism in ("expired-by-jump", "expired-by-return", "expired-by-drift"):
            assert word(clock(given_away(mechanism), 20, 21, 20, 21, kind="pause")) is VIOLATED

    def test_a_jump_explains_nothing_of_another_key(self) -> None:
        """The jump met a lease of key b; key a was given away twice, both times after it."""
        book = Book(**facts("expired-by-jump", keys=("a", "b")))
        book.acquire(9, 10, 5, sent=9, ttl=60, key=1).release(75, 76, 5, key=1)
        book.acquire(24, 25, 1, sent=24, ttl=40).release(45, 46, 1, FAIL, reason=Reason.NOT_OWNER)
        book.acquire(26, 30, 2, sent=29, ttl=50).release(60, 61, 2)
        assert word(clock(book, 20, 21)) is VIOLATED

    def test_one_excused_pair_excuses_no_other(self) -> None:
        book = clock(given_away("expired-by-jump"), 20, 21)
        assert word(book) is DOCUMENTED
        book.acquire(32, 35, 3, sent=34, ttl=50).release(62, 63, 3)  # beside worker 2, who came after the jump
        assert word(book) is VIOLATED

    def test_a_holder_that_stays_past_its_own_lease_has_nobody_to_blame(self) -> None:
        """Worker 1's lease ended at 25 anyhow; it is still inside when worker 2 comes at 30."""
        book = clock(given_away("expired-by-jump", HOLDER, until=25), 20, 21)
        assert word(book, SERVER) is not VIOLATED
        assert word(book, HOLDER) is VIOLATED

    def test_the_later_holders_lease_is_not_the_one_that_was_lost(self) -> None:
        """Worker 1's lease ended at 25 anyhow; the jump at 29 met that of worker 2 alone."""
        assert word(clock(given_away("expired-by-jump", HOLDER, until=25), 29, 29), HOLDER) is VIOLATED

    @pytest.mark.parametrize(("jumped", "expected"), [(20, DOCUMENTED), (32, VIOLATED)])
    def test_an_update_is_lost_by_the_jump_that_met_the_lease(self, jumped: int, expected: Verdict) -> None:
        """Worker 1's lease ends at 30. It writes at 28, and worker 2 at 35, both onto the empty list."""
        book = Book(**facts("expired-by-jump", UPDATES, store="unfenced", workload="set"))
        book.acquire(9, 10, 1, sent=9, ttl=21).read(11, 12, 1, -1)
        book.acquire(11, 25, 2, sent=24, ttl=50).read(26, 27, 2, -1)
        book.write(28, 29, 1, 5, base=-1).write(35, 36, 2, 6, base=-1).final(90, 91, 6, 1)
        assert word(clock(book, jumped, jumped), UPDATES) is expected

    def test_only_what_follows_from_a_lease_that_is_gone(self) -> None:
        book = clock(given_away("expired-by-jump"), 20, 21)
        history = book.history()
        (result,) = check(history, [SERVER])
        (violation, *_) = result.violations
        explains = MECHANISMS["expired-by-jump"]
        assert explains(violation, View(history), history.faults)
        for kind in ("needless-refusal", "token-repeated", "value-never-written", "not-recovered"):
            assert not explains(replace(violation, kind=kind), View(history), history.faults)

    def test_a_stale_write_in_time_and_one_that_is_too_late(self) -> None:
        for sent, expected in ((35, DOCUMENTED), (55, VIOLATED)):
            book = clock(given_away("expired-by-jump", "fenced-store", store="unfenced"), 20, 21)
            assert word(book.write(sent, sent + 1, 1, 7), "fenced-store") is expected

    def test_a_store_that_lies_is_not_the_clock(self) -> None:
        book = clock(given_away("expired-by-jump", "fenced-store", store="fence-writes"), 20, 21)
        book.write(31, 32, 2, 20, token=2).read(33, 34, 1, 99)
        assert word(book, "fenced-store") is VIOLATED


class TestStateLost:
    @pytest.mark.parametrize("kind", ["wipe", "failover"])
    @pytest.mark.parametrize("name", [SERVER, HOLDER])
    @cases(
        "begun, applied, expected",
        ("in time", 20, 25, DOCUMENTED),
        ("granted after it", 5, 8, VIOLATED),
        ("given away before it", 31, 32, VIOLATED),
    )
    def test_a_lease_in_force_is_lost(self, kind: str, name: str, begun: int, applied: int, expected: Verdict) -> None:
        book = given_away("state-lost", name).fault("f", begun, 80, applied=applied, kind=kind, target="redis1")
        assert word(book, name) is expected

    def test_a_restart_with_its_data_loses_nothing(self) -> None:
        book = given_away("state-lost").fault("f", 20, 80, applied=25, kind="restart", target="redis1")
        assert word(book) is VIOLATED

    @pytest.mark.parametrize(
        ("begun", "applied", "token", "expected"),
        [
            (20, 25, 1, DOCUMENTED),
            (20, 25, 7, DOCUMENTED),  # the same again
            (5, 8, 1, VIOLATED),
            (62, 63, 1, VIOLATED),
        ],
    )
    def test_the_counter_goes_back(self, begun: int, applied: int, token: int, expected: Verdict) -> None:
        """Worker 1 had token 7 and released long ago; worker 2 gets a smaller one."""
        book = Book(**facts("state-lost", TOKENS)).acquire(9, 10, 1, token=7, ttl=50).release(14, 15, 1)
        book.acquire(12, 40, 2, sent=39, token=token, ttl=50).release(60, 61, 2)
        book.fault("f", begun, 80, applied=applied, kind="wipe", target="redis1")
        assert word(book, TOKENS) is expected

    def test_with_tokens_that_went_back_the_order_of_holders_is_that_of_time(self) -> None:
        book = Book(**facts("state-lost")).acquire(9, 10, 1, sent=9, ttl=40, token=7)
        book.release(40, 41, 1, FAIL, reason=Reason.NOT_OWNER)
        book.acquire(11, 30, 2, sent=29, ttl=50, token=3).release(60, 61, 2)
        assert word(book.fault("f", 20, 80, applied=25, kind="wipe", target="redis1")) is DOCUMENTED

    def test_a_token_that_repeats_without_a_loss_between(self) -> None:
        """Both were granted after the loss."""
        book = Book(**facts("state-lost", TOKENS)).acquire(9, 10, 1, token=7, ttl=50).release(14, 15, 1)
        book.acquire(12, 40, 2, sent=39, token=7, ttl=50).release(60, 61, 2)
        assert word(book.fault("f", 3, 80, applied=5, kind="wipe"), TOKENS) is VIOLATED


def kept_alive() -> Book:
    """Two sessions, each prolonged once."""
    book = Book(**facts("revoked-early", lease="session", ttl=50))
    for session in (1, 2):
        book.add(F.KEEP_ALIVE, 11 + session, 12 + session, session=session, process=session)
    return book


class TestRevokedEarly:
    @staticmethod
    def revoked() -> Book:
        """Session 1's lease was prolonged at 12, to 62 at least; at 40 the service says that it is gone."""
        book = kept_alive()
        book.acquire(9, 10, 1, sent=9, ttl=50, session=1)
        book.release(40, 41, 1, FAIL, reason=Reason.NOT_OWNER, session=1)
        return book.acquire(11, 30, 2, sent=29, ttl=50, session=2).release(60, 61, 2, session=2)

    @pytest.mark.parametrize(
        ("kind", "begun", "healing", "expected"),
        [
            ("pause", 5, 25, DOCUMENTED),
            ("pause", 5, 35, VIOLATED),  # it came back only after the second grant
            ("disk", 5, 35, DOCUMENTED),  # a disk lets it go on now and then
            ("disk", 32, 70, VIOLATED),
            ("kill", 5, 25, VIOLATED),
        ],
    )
    def test_a_server_that_stood_still_comes_back(self, kind: str, begun: int, healing: int, expected: Verdict) -> None:
        book = self.revoked().fault("f", begun, healing + 1, healing=healing, kind=kind, target="etcd1 (leader)")
        assert word(book) is expected

    @pytest.mark.parametrize(("answered", "expected"), [(20, DOCUMENTED), (27, VIOLATED)])
    def test_a_holder_that_asked_for_nothing_is_told_late(self, answered: int, expected: Verdict) -> None:
        """Its lease lasts until 70 or longer; the server comes back at 25, and the next that is heard comes at 81."""
        book = kept_alive().acquire(9, 10, 1, sent=9, ttl=50, session=1)
        book.add(F.KEEP_ALIVE, answered - 1, answered, session=1, process=1)
        book.release(80, 81, 1, FAIL, reason=Reason.NOT_OWNER, session=1)
        book.acquire(11, 30, 2, sent=29, ttl=50, session=2).release(60, 61, 2, session=2)
        assert word(book.fault("f", 5, 26, healing=25, kind="pause", target="etcd1 (leader)")) is expected

    def test_a_holder_alone_is_told_so_too(self) -> None:
        view = View(self.revoked().fault("f", 5, 26, healing=25, kind="pause", target="etcd1 (leader)").history())
        first, second = (view.holds.by_owner[owner].row for owner in (1, 2))
        for row, expected in ((first, True), (second, False)):
            violation = Violation("nested-refused", 41, (row,), (row,), ())
            assert MECHANISMS["revoked-early"](violation, view, view.history.faults) is expected

    def test_the_service_must_have_said_so(self) -> None:
        book = kept_alive().acquire(9, 10, 1, sent=9, ttl=50, session=1).release(40, 41, 1, session=1)
        book.acquire(11, 30, 2, sent=29, ttl=50, session=2).release(60, 61, 2, session=2)
        book.fault("f", 5, 26, healing=25, kind="pause", target="etcd1 (leader)")
        assert word(book) is VIOLATED


class TestLateDelivery:
    @staticmethod
    def overtaken(*, sent: int = 12, outcome: Outcome = INFO) -> Book:
        """Worker 1 writes 5 onto the empty list and hears nothing; worker 2 writes 6 onto the empty list; 5 remains."""
        book = Book(**facts("late-delivery", UPDATES, store="unfenced", workload="set"))
        book.acquire(9, 10, 1, ttl=50).read(11, 11, 1, -1).write(sent, 14, 1, 5, outcome, base=-1).release(15, 16, 1)
        book.acquire(13, 20, 2, ttl=50).read(21, 22, 2, -1).write(23, 24, 2, 6, base=-1).release(25, 26, 2)
        return book.final(90, 91, 5, 1)

    def test_a_write_that_was_held_on_its_way(self) -> None:
        assert word(self.overtaken().fault("f", 11, 80), UPDATES) is DOCUMENTED

    @pytest.mark.parametrize(("begun", "healed"), [(13, 80), (5, 11)])
    def test_a_write_sent_outside_of_the_fault_is_not_late(self, begun: int, healed: int) -> None:
        assert word(self.overtaken().fault("f", begun, healed), UPDATES) is VIOLATED

    def test_only_the_link_and_not_what_was_done_to_a_worker_meanwhile(self) -> None:
        assert word(self.overtaken().fault("f", 11, 80, kind="stall"), UPDATES) is VIOLATED

    def test_an_answered_write_is_not_late(self) -> None:
        assert word(self.overtaken(outcome=OK).fault("f", 11, 80), UPDATES) is VIOLATED

    def test_a_write_sent_after_its_successors_is_not_late(self) -> None:
        """Two were inside at once, and the second to write is the one without an answer."""
        assert word(self.overtaken(sent=24).fault("f", 11, 80), UPDATES) is VIOLATED


def test_nodes_are_named_by_words() -> None:
    def named(target: str) -> frozenset[str]:
        return nodes_of(FaultInterval("f", "clock", target, 1, 2, 3, 4))

    assert named("redis1, redis4: 61 s forward") == {"redis1", "redis4"}
    assert named("etcd2 (leader) from etcd1, etcd3") == {"etcd1", "etcd2", "etcd3"}
    assert named("all links of redis") == frozenset()


def test_a_violation_without_holders_is_never_excused() -> None:
    history = clock(given_away("expired-by-jump"), 20, 21).history()
    for kind in ("granted-while-held", "overlap", "lost-update", "token-repeated", "not-recovered"):
        for mechanism in MECHANISMS.values():
            assert not mechanism(Violation(kind, 60, (), (), ()), View(history), history.faults)


@pytest.mark.parametrize(("wiped", "expected"), [(5, DOCUMENTED), (9, VIOLATED)])
def test_a_lost_lease_explains_what_a_reentrant_holder_is_told(wiped: int, expected: Verdict) -> None:
    """Worker 1 holds until 20; at 8 it is refused a nested acquire."""
    book = Book(**facts("state-lost", "reentrancy")).acquire(1, 2, 1, ttl=50).release(20, 21, 1)
    book.acquire(7, 8, 1, outcome=FAIL, flags=NESTED, reason=Reason.NOT_OWNER)
    assert word(book.fault("f", wiped, wiped + 1, kind="wipe", target="redis1"), "reentrancy") == expected
