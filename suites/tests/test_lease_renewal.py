"""Lease renewal renews in time, and notices losses when they are due, and stalls. A gate catches holders."""

import shutil
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import pytest

from checkers.row_format import CLOCK_IS, NONE, SHARED, WORD, Action, F, Gate, Outcome, Reason
from checkers.tests.build import cases
from suites.lock import Grant, Indeterminate, Refused, now
from suites.tests.bench import MS, SOON, TTL, Believing, Bench, Fake, FakeSession, at_work, await_, held, raising
from suites.worker import gates, recorder, wall_clock
from suites.worker.lease_renewal import RunDelays
from suites.worker.process_spec import Spec

MOST = 2  # refused renewals: one that was due while the first was under way is sent all the same


class TestRenewal:
    def test_a_lock_is_renewed_every_third_of_its_ttl_while_it_is_held(self, bench: Bench[Fake]) -> None:
        holding = bench.hold()
        rows = bench.await_rows(F.RENEW, 4, Outcome.OK)[:4]
        # Renewals come at fixed times from the start: a slow machine may be late, but none is early, or in between.
        assert [row["inv"] - bench.begun >= (n + 1) * TTL / 3 * 1e9 for n, row in enumerate(rows)] == [True] * 4
        assert set(rows["owner"]) == {holding.grant.owner}
        assert set(rows["token"]) == {holding.grant.token}
        await_(lambda: gates.rounds(bench.page, Gate.IN_RENEWAL) >= 4)
        assert gates.rounds(bench.page, Gate.AFTER_ACQUIRE) == 0

    def test_an_acknowledged_renewal_prolongs_the_belief_from_its_request(self, bench: Bench[Fake]) -> None:
        holding = bench.hold()
        first = holding.expires
        (row, *_) = bench.await_rows(F.RENEW, 1, Outcome.OK)
        await_(lambda: holding.expires > first)
        believed = holding.grant.expires - holding.grant.sent
        assert row["inv"] + believed <= (expires := holding.expires)
        assert expires - believed in bench.rows(F.RENEW)["inv"].tolist()

    def test_a_renewal_without_an_answer_prolongs_nothing_and_ends_the_process_number(self, bench: Bench[Fake]) -> None:
        bench.client.answer = raising(Indeterminate("no answer"))
        holding = bench.hold()
        rows = bench.await_rows(F.RENEW, 2, Outcome.INFO)[:2]
        assert holding.expires == holding.grant.expires
        assert rows["process"].tolist() == [5, 5 + bench.spec.step]
        assert recorder.read_errors(bench.spec.recording) == ["no answer"]

    def test_a_refusal_ends_the_belief_at_once(self, bench: Bench[Fake]) -> None:
        bench.client.answer = raising(Refused(Reason.NOT_OWNER))
        holding = bench.hold()
        (lost,) = bench.await_rows(F.LOST, 1, Outcome.OK)
        renewal = bench.rows(F.RENEW)[0]
        assert (renewal["outcome"], renewal["reason"]) == (Outcome.FAIL, Reason.NOT_OWNER)
        assert renewal["ret"] <= lost["sent"] <= lost["ret"]
        await_(lambda: not bench.renewal.believes(holding))
        bench.client.answer = lambda: None
        again = bench.hold()
        await_(lambda: bench.count(F.RENEW, again) >= 2)
        assert bench.count(F.RENEW, holding) <= MOST, "what is lost is not renewed any more"

    def test_a_renewal_due_before_the_loss_is_sent_all_the_same(self, bench: Bench[Fake]) -> None:
        """A frozen client does the same: its timer fires when it is thawed, whatever has happened meanwhile."""
        thawed = threading.Event()
        bench.client.answer = lambda: thawed.wait(SOON)
        first = bench.hold()
        (under_way,) = bench.await_rows(F.RENEW, 1)
        await_(lambda: now() > under_way["inv"] + TTL / 3 * 1e9)  # the next one is due
        first.expires = now()
        bench.await_rows(F.LOST, 1)
        await_(lambda: first.over)
        assert len(bench.rows(F.RENEW)) == 1
        thawed.set()
        bench.await_rows(F.RENEW, 2, Outcome.OK)
        second = bench.hold()
        rows = bench.await_rows(F.RENEW, 3)
        assert rows["owner"].tolist()[:3] == [first.grant.owner, first.grant.owner, second.grant.owner]

    def test_an_unavailable_server_is_no_refusal(self, bench: Bench[Fake]) -> None:
        bench.client.answer = raising(Refused(Reason.UNAVAILABLE))
        holding = bench.hold()
        assert bench.await_rows(F.RENEW, 2, Outcome.FAIL)[0]["reason"] == Reason.UNAVAILABLE
        assert bench.renewal.believes(holding)
        assert bench.rows(F.LOST).size == 0

    def test_a_bug_of_the_adapter_is_kept_for_the_main_thread(self, spec: Spec) -> None:
        with at_work(spec, Fake(), broken=ZeroDivisionError) as bench:
            bench.client.answer = raising(ZeroDivisionError("a bug"))
            bench.hold()
            await_(lambda: bench.renewal.broken is not None)


class TestSeveralAtOnce:
    def test_each_of_several_holdings_is_renewed(self, bench: Bench[Fake]) -> None:
        holdings = [bench.hold(), bench.hold(flags=SHARED)]
        await_(lambda: (bench.rows(F.RENEW)["flags"] == SHARED).sum() >= 2)
        rows = bench.rows(F.RENEW)
        begin = rows["flags"].tolist().index(SHARED) - 1  # the first was taken before the other
        rows = rows[begin : begin + 4]
        assert rows["flags"].tolist() == [0, SHARED] * 2
        assert rows["owner"].tolist() == [holding.grant.owner for holding in holdings] * 2
        await_(lambda: all(holding.expires > holding.grant.expires for holding in holdings))

    def test_the_loss_of_one_is_not_the_loss_of_the_other(self, bench: Bench[Fake]) -> None:
        first, second = bench.hold(), bench.hold()

        def answer() -> None:
            if bench.rows(F.RENEW)["owner"].tolist()[-1] == first.grant.owner:
                raise Refused(Reason.NOT_OWNER)

        bench.client.answer = answer
        (lost,) = bench.await_rows(F.LOST, 1)
        assert lost["owner"] == first.grant.owner
        before = bench.count(F.RENEW, second)
        await_(lambda: bench.count(F.RENEW, second) >= before + 3)
        assert bench.count(F.RENEW, first, Outcome.FAIL) <= MOST
        assert bench.renewal.believes(second)

    def test_without_renewal_each_holding_is_lost_when_its_lease_ends(self, bench: Bench[Fake]) -> None:
        bench.client.renewed = False
        long, short = bench.hold(ttl=2 * TTL), bench.hold(ttl=TTL)
        rows = bench.await_rows(F.LOST, 2)
        due = dict(zip(rows["owner"].tolist(), rows["sent"].tolist(), strict=True))
        assert due == {each.grant.owner: each.grant.expires for each in (short, long)}
        assert bench.rows(F.RENEW).size == 0

    def test_a_holding_let_go_while_another_is_renewed_is_neither_renewed_nor_lost(self, bench: Bench[Fake]) -> None:
        def answer() -> None:
            for other in bench.renewal.held[1:]:
                bench.renewal.let_go(other, bench.main)

        bench.client.answer = answer
        first, second = bench.hold(), bench.hold()
        await_(lambda: second not in bench.renewal.held)
        assert set(bench.await_rows(F.RENEW, len(bench.rows(F.RENEW)) + 1)["owner"]) == {first.grant.owner}
        assert bench.rows(F.LOST).size == 0

    def test_a_session_is_kept_alive_once_for_all(self, in_session: Bench[FakeSession]) -> None:
        holdings = [in_session.hold(), in_session.hold()]
        row = in_session.await_rows(F.KEEP_ALIVE, 1, Outcome.OK)[0]
        await_(lambda: all(one.expires >= row["inv"] + one.grant.ttl for one in holdings))
        in_session.client.answer = raising(Refused(Reason.NOT_OWNER))
        lost = in_session.await_rows(F.LOST, 2)
        assert in_session.rows(F.KEEP_ALIVE)[-1]["session"] == 71
        assert set(lost["owner"]) == {holding.grant.owner for holding in holdings}
        assert (in_session.rows(F.KEEP_ALIVE)["outcome"] == Outcome.FAIL).sum() == 1


class TestLoss:
    def test_a_loss_is_due_at_the_expiry_and_noticed_no_earlier_and_recorded_once(self, bench: Bench[Fake]) -> None:
        over = threading.Event()
        bench.client.answer = lambda: over.wait(SOON)  # no answer to a renewal until the test is over
        holding = bench.hold(ttl=TTL)
        (lost,) = bench.await_rows(F.LOST, 1, Outcome.OK)
        grant = holding.grant
        assert lost["inv"] >= lost["sent"] == grant.expires
        assert lost["base"] == NONE, "it is not asked"
        assert (lost["owner"], lost["token"], lost["key"], lost["process"]) == (grant.owner, grant.token, 0, 5)
        await_(lambda: holding.over)
        bench.renewal.lose(holding, bench.main)
        bench.renewal.let_go(holding, bench.main)
        assert bench.rows(F.LOST).size == 1, "whoever notices"
        over.set()

    def test_the_main_thread_notices_before_it_releases(self, spec: Spec) -> None:
        bench = Bench(spec, Fake())  # no thread of lease renewal runs
        holding = bench.hold(ttl=0.02)
        await_(lambda: now() > holding.expires)
        bench.renewal.let_go(holding, bench.main)
        (lost,) = bench.rows(F.LOST)
        assert (lost["process"], lost["sent"]) == (bench.main.number, holding.expires)
        assert bench.renewal.held == ()

    def test_a_loss_that_the_client_reports_is_recorded_with_its_last_moment_of_belief(self, spec: Spec) -> None:
        client = Believing()
        with at_work(spec, client) as bench:
            holding = bench.hold()
            sure = now()
            assert bench.renewal.believes(holding)
            client.believes = False
            turned = now()
            (lost,) = bench.await_rows(F.LOST, 1)
            never = bench.hold(ttl=1000 * TTL)
            assert bench.await_rows(F.LOST, 2)[1]["base"] == never.grant.sent, "it never said that it holds"
        assert turned <= lost["sent"] < holding.expires, "when it was noticed, since the lease was not over"
        assert sure <= lost["base"] <= turned, "when it last said that it holds"


class TestSession:
    def test_a_session_without_a_holding_is_kept_alive_until_it_is_gone(self, in_session: Bench[FakeSession]) -> None:
        in_session.await_rows(F.KEEP_ALIVE, 2, Outcome.OK)
        in_session.client.answer = raising(Refused(Reason.NOT_OWNER))
        in_session.await_rows(F.KEEP_ALIVE, 1, Outcome.FAIL)
        in_session.client.answer = lambda: None
        before = in_session.silent(F.KEEP_ALIVE)
        assert in_session.client.acquire("k", 0) is not None
        rows = in_session.await_rows(F.KEEP_ALIVE, before + 1)
        assert rows["session"].tolist() == [71] * before + [72] * (len(rows) - before)
        assert set(rows["owner"]) == {0}
        assert in_session.rows(F.RENEW).size == 0

    @pytest.mark.parametrize("session", [72, 0])
    def test_a_keep_alive_across_two_sessions_is_unknown(self, in_session: Bench[FakeSession], session: int) -> None:
        """Before the request is sent, the main thread gives the session up, and opens another, or none (0)."""

        def answer() -> None:
            if in_session.renewal.held:
                in_session.client.session = session

        in_session.client.answer = answer
        holding = in_session.hold()
        rows = in_session.await_rows(F.KEEP_ALIVE, 1, Outcome.INFO)
        (row,) = rows[rows["outcome"] == Outcome.INFO]
        assert row["session"] == 71
        assert holding.expires == holding.grant.expires
        in_session.client.answer, in_session.client.session = lambda: None, 72
        (other, *_) = in_session.await_rows(F.KEEP_ALIVE, len(rows) + 1)[len(rows) :]
        assert (other["session"], other["process"]) == (72, row["process"] + in_session.spec.step)

    def test_each_session_is_recorded_once(self, in_session: Bench[FakeSession]) -> None:
        client = in_session.client
        for session, opened in [(71, 1)] * 3 + [(0, 1)] + [(73, 12345)] * 3:
            client.session, client.opened = session, opened
            in_session.renewal.note_session(in_session.main)
        rows = in_session.rows(F.SESSION_OPEN)
        assert (rows["session"].tolist(), rows["inv"].tolist()[1]) == ([71, 73], 12345)
        assert rows["ttl"].tolist() == [round(TTL * 1e9)] * 2
        assert set(rows["outcome"]) == {Outcome.OK}


class TestTheGate:
    @cases("action, later", ("hangs", Action.STALL, 0.0), ("dies", Action.DIE, TTL / 3))
    def test_a_renewal_that_hangs_is_sent_when_it_is_thawed_and_one_that_dies_begins_anew(
        self, bench: Bench[Fake], action: Action, later: float
    ) -> None:
        """A renewal that begins anew sends nothing that was due before: its first request waits a third of a TTL."""
        gates.arm(bench.page, Gate.IN_RENEWAL, action, lambda: True)
        holding = bench.hold()
        caught = held(bench.page, Gate.IN_RENEWAL)
        gates.disarm(bench.page, Gate.IN_RENEWAL, lambda: True)
        assert (caught.owner, caught.key, caught.process) == (holding.grant.owner, 0, 1 + 4)
        before = bench.silent(F.RENEW)
        thawed = now()
        gates.thaw(bench.page, Gate.IN_RENEWAL)
        gates.arm(bench.page, Gate.IN_RENEWAL, Action.CALL, lambda: True)  # does not wait for a thread that has gone
        gates.disarm(bench.page, Gate.IN_RENEWAL, lambda: True)
        first = bench.await_rows(F.RENEW, before + 1)[before]
        assert first["owner"] == caught.owner
        assert first["inv"] >= thawed + later * 1e9
        bench.await_rows(F.RENEW, before + 2)

    def test_a_client_waiting_in_a_session_is_caught_at_a_gate_of_its_own(self, in_session: Bench[FakeSession]) -> None:
        gates.arm(in_session.page, Gate.WHILE_WAITING, Action.STALL, lambda: True)
        in_session.await_rows(F.KEEP_ALIVE, 2, Outcome.OK)
        assert gates.caught(in_session.page, Gate.WHILE_WAITING) is None
        in_session.renewal.awaited = 0
        caught = held(in_session.page, Gate.WHILE_WAITING)
        assert (caught.owner, caught.key) == (in_session.client.session, 0)
        before = in_session.silent(F.KEEP_ALIVE)
        thawed = now()
        gates.thaw(in_session.page, Gate.WHILE_WAITING)
        assert in_session.await_rows(F.KEEP_ALIVE, before + 1)[before]["inv"] >= thawed

    def test_the_renewal_gate_catches_only_holders_in_their_session(self, in_session: Bench[FakeSession]) -> None:
        def nobody_is_caught() -> None:
            """The gate catches nobody in a round that began after this call."""
            in_session.await_rows(F.KEEP_ALIVE, len(in_session.rows(F.KEEP_ALIVE)) + 2)
            assert gates.caught(in_session.page, Gate.IN_RENEWAL) is None

        gates.arm(in_session.page, Gate.IN_RENEWAL, Action.STALL, lambda: True)
        nobody_is_caught()
        gates.disarm(in_session.page, Gate.IN_RENEWAL, lambda: True)
        old = in_session.hold()
        in_session.client.session = 72
        nobody_is_caught()  # now no round is under way that began in the other session
        gates.arm(in_session.page, Gate.IN_RENEWAL, Action.STALL, lambda: True)
        nobody_is_caught()
        in_session.renewal.lose(old, in_session.main)
        in_session.client.session = old.grant.session
        nobody_is_caught()
        assert in_session.hold().grant.owner == held(in_session.page, Gate.IN_RENEWAL).owner
        gates.thaw(in_session.page, Gate.IN_RENEWAL)


def test_the_sentinel_records_when_it_did_not_run(spec: Spec) -> None:
    """Whatever keeps the thread from running is recorded from its last sign of life to the next."""

    class Slow(Fake):
        began = ended = 0

        def belief(self, _: Grant) -> bool:
            if not self.began:
                self.began = now()
                while now() < self.began + 300 * MS:
                    pass
                self.ended = now()
            return True

    client = Slow()
    with at_work(spec, client) as bench:
        bench.hold()
        await_(lambda: client.ended > 0)
        await_(lambda: any(r["inv"] <= client.began and r["ret"] >= client.ended for r in bench.rows(F.STALL)))


class TestTheSentinel:
    def test_a_long_wait_for_a_cpu_is_recorded(self, bench: Bench[Fake], monkeypatch: pytest.MonkeyPatch) -> None:
        waits = [int(60e9)]  # ns; far longer than the sentinel takes until its next look
        monkeypatch.setattr(RunDelays, "longest", lambda _: waits.pop() if waits else 0)
        await_(lambda: any(row["ret"] - row["inv"] >= 60e9 for row in bench.rows(F.STALL)))

    def test_the_sentinel_records_a_stall_that_lasts_until_the_worker_ends(self, bench: Bench[Fake]) -> None:
        changed = bench.renewal._changed
        stalled, wait = threading.Event(), changed.wait

        def late(pause: float | None = None) -> bool:
            came = wait(pause)
            stalled.set()
            bench.renewal._closing.wait(SOON)
            time.sleep(0.5)
            return came

        with patch.object(changed, "wait", late):
            assert stalled.wait(SOON)
            before = len(bench.rows(F.STALL))
            bench.renewal.close()
        assert len(bench.rows(F.STALL)) > before

    def test_the_sentinel_does_not_wait_for_a_client_that_hangs(self, in_session: Bench[FakeSession]) -> None:
        hangs = threading.Event()
        in_session.client.answer = lambda: hangs.wait(SOON)
        in_session.await_rows(F.KEEP_ALIVE, 1)
        with patch("suites.worker.lease_renewal._LAST_ANSWER", 0.01):
            in_session.renewal.close()
        assert in_session.rows(F.KEEP_ALIVE)["outcome"].tolist() == [Outcome.PENDING]
        assert not in_session.renewal._sentinel.is_alive()
        hangs.set()

    @pytest.mark.parametrize(("waited", "noted"), [(1_200 * MS, True), (400 * MS, False)])
    def test_the_sentinel_records_a_long_wait_for_a_cpu_just_before_the_end(
        self, bench: Bench[Fake], monkeypatch: pytest.MonkeyPatch, waited: int, noted: bool
    ) -> None:
        """A wait counts when it ends. One that ends just after a look may be longer than the time since that look."""
        monkeypatch.setattr("suites.worker.lease_renewal.STALLED", SOON)  # nothing else is noted
        before = len(bench.rows(F.STALL))
        monkeypatch.setattr(RunDelays, "longest", lambda _: waited if bench.renewal._closing.is_set() else 0)
        bench.renewal.close()
        stalls = bench.rows(F.STALL)[before:]
        assert [row["ret"] - row["inv"] >= waited for row in stalls[-1:]] == [True] * noted

    def test_the_wall_clock_follows_the_control_page_again_if_it_missed_its_time(self, bench: Bench[Fake]) -> None:
        real = time.time()
        for by in (-9000, 36000, 0):
            wall_clock.move(bench.page, int(by * 1e9))
            await_(lambda: wall_clock.follows(bench.page))
            WORD.pack_into(bench.page, CLOCK_IS, int((by + 0.1) * 1e9))  # as if the machine had stalled meanwhile
            await_(lambda: wall_clock.follows(bench.page))
            assert time.time() - real == pytest.approx(by, abs=SOON)
            assert datetime.now(UTC).timestamp() - real == pytest.approx(by, abs=SOON)


def test_run_delays_count_how_long_threads_waited_since_the_last_look(tmp_path: Path) -> None:
    def told(**waited: int) -> None:
        for thread in tmp_path.iterdir():
            shutil.rmtree(thread)
        for thread_, ns in waited.items():
            (tmp_path / thread_).mkdir()
            (tmp_path / thread_ / "schedstat").write_text(f"17 {ns} 3\n")

    told(main=900, watch=50)
    (tmp_path / "ended").mkdir()
    delays = RunDelays(tmp_path)
    told(main=900, watch=80, new=20)
    assert delays.longest() == 30
    told(main=950)
    assert (delays.longest(), delays.longest()) == (50, 0)
    assert RunDelays(tmp_path / "no such system").longest() == 0
