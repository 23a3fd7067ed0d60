"""A worker records its rounds and acquires in order, and lets nothing be written after an unknown write."""

import signal
import socket
import threading
import time
from dataclasses import replace
from itertools import product
from unittest.mock import Mock, patch

import pytest

from checkers import row_format
from checkers.row_format import NONE, SHARED, F, Outcome, Reason
from checkers.tests.build import cases, there
from infra.store import store
from infra.store.store import StoreError, Unavailable, Unknown
from suites.lanes.lane import WORKLOADS
from suites.lock import Grant, Indeterminate, LockError, Refused, now
from suites.locks.grants import BadGrant
from suites.tests import bench
from suites.tests.bench import Fake, FakeSession, MakeWorker, Rich, a_worker, await_, kinds, lock_of, rows, store_of
from suites.worker import lease_renewal, store_client, worker
from suites.worker.critical_section import Section
from suites.worker.process_spec import Process, Spec
from suites.worker.recorder import read_errors
from suites.worker.worker import BRIEF, SOON, Worker
from suites.workloads.one_lock import STEPS_AS_READER, Share
from suites.workloads.workload import Stopped


class OfALibrary(Exception):
    """An error that a client library has of its own."""


@pytest.fixture
def at_work(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> Worker:
    monkeypatch.setattr(worker, "LATE_SHARE", 1.0)
    return a_worker(spec, Fake, monkeypatch)


class TestWriting:
    def test_a_round_is_recorded_in_order_and_fields_that_the_client_omits_stay_empty(self, at_work: Worker) -> None:
        at_work._round()
        updates = ["READ", "WRITE"] * (len(store_of(at_work).bases) - 1)  # one of the writes comes late
        assert kinds(at_work) == ["ACQUIRE", *updates, "READ", "RELEASE", "WRITE"]
        assert set(rows(at_work)["outcome"]) == {Outcome.OK}
        assert rows(at_work)[-1]["flags"] == 2
        assert (rows(at_work)[0]["value"], rows(at_work)[0]["base"]) == (NONE, NONE)

    @pytest.mark.parametrize(("in_line", "number"), [(True, 0), (True, 1), (False, 0)])
    def test_the_first_in_line_waits(self, at_work: Worker, in_line: bool, number: int) -> None:
        at_work.spec = replace(at_work.spec, number=number)
        at_work._in_line = in_line
        first = []
        for _ in range(2):
            with patch.object(Section, "work") as work:
                at_work._round()
            first.append(work.call_args_list[0].args[0])
        last_comes_at = worker._APART * at_work.spec.pace * (at_work.spec.count - 1)
        assert [seconds == last_comes_at for seconds in first] == [in_line and number == 0, False]

    @pytest.mark.parametrize(("error", "outcome"), [(Unknown("lost"), Outcome.INFO), (Unavailable("no"), Outcome.FAIL)])
    def test_no_write_after_an_unanswered_read(self, at_work: Worker, error: StoreError, outcome: Outcome) -> None:
        store_of(at_work).fails["read"] = error
        at_work._round()
        assert rows(at_work)[rows(at_work)["f"] == F.READ]["outcome"].tolist() == [outcome]
        if outcome is Outcome.INFO:
            assert store_of(at_work).bases == [], "not even late"

    @pytest.mark.parametrize("answered", [True, False])
    def test_a_write_that_is_refused_or_unknown_ends_the_section(self, at_work: Worker, answered: bool) -> None:
        store_of(at_work).refuses_writes = answered
        store_of(at_work).fails |= {} if answered else {"write": Unknown("lost")}
        at_work._round()
        write, release, *late = rows(at_work)[2:]
        assert (write["f"], release["f"], write["reason"]) == (F.WRITE, F.RELEASE, Reason.STALE_TOKEN * answered)
        assert release["process"] == write["process"] + at_work.spec.step * (not answered), "it is never used again"
        assert len(late) == answered, "after an unknown write nothing is written, not even late"

    def test_a_worker_that_no_longer_believes_touches_nothing(self, at_work: Worker) -> None:
        holding = lease_renewal.Holding(bench.grant("k", 9, ttl=-1), 0)
        section = Section(at_work, holding)
        for access in (section.read, section.write):
            with pytest.raises(Stopped):
                access()
        (lost,) = rows(at_work)
        assert (lost["f"], lost["sent"], lost["value"]) == (F.LOST, holding.expires, NONE)

    @cases(
        "error, outcome, reason",
        ("held", Refused(Reason.HELD), Outcome.FAIL, Reason.HELD),
        ("unavailable", Refused(Reason.UNAVAILABLE), Outcome.FAIL, Reason.UNAVAILABLE),
        ("no answer", Indeterminate("lost"), Outcome.INFO, Reason.NONE),
        ("a library's own error", OfALibrary("lost"), Outcome.INFO, Reason.NONE),
        ("timeout", None, Outcome.FAIL, Reason.TIMEOUT),
    )
    def test_no_access_follows_an_acquire_without_grant(
        self, a_worker: MakeWorker, error: Exception | None, outcome: Outcome, reason: Reason
    ) -> None:
        worker = a_worker(WORKLOADS["register"])
        lock_of(worker).fails["a"] = error
        worker._round()
        (row,) = rows(worker)
        assert (row["f"], row["outcome"], row["reason"]) == (F.ACQUIRE, outcome, reason)
        assert worker.process.number == 1 + (worker.spec.step if outcome is Outcome.INFO else 0)

    def test_a_worker_asks_less_often_without_answers(self, at_work: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
        lost, down, held = Indeterminate("lost"), Refused(Reason.UNAVAILABLE), Refused(Reason.HELD)
        pauses: list[float] = []
        monkeypatch.setattr(time, "sleep", pauses.append)
        monkeypatch.setattr(at_work.client, "acquire", Mock(side_effect=[lost, down, lost, lost, lost, held, down]))
        for _ in range(7):
            at_work.acquire(0, 1.0)
        assert pauses == [0.1, 0.2, 0.4, 0.8, 0.8, 0.1]

    @pytest.mark.parametrize(("verb", "flags"), [("acquire", 0), ("acquire_shared", row_format.SHARED)])
    def test_an_answer_that_is_no_grant_breaks_the_worker(self, at_work: Worker, verb: str, flags: int) -> None:
        setattr(at_work.client, verb, lambda *_: True)
        at_work._sharer = at_work.client  # type: ignore[assignment]
        with pytest.raises(BadGrant, match=rf"^Fake.{verb} returned True \(bool\): "):
            at_work.acquire(0, 1.0, flags)
        (row,) = rows(at_work)
        assert (row["f"], row["outcome"]) == (F.ACQUIRE, Outcome.PENDING)

    @pytest.mark.parametrize("verb", ["acquire", "release"])
    def test_an_error_of_pythons_own_is_a_mistake_and_breaks_the_worker(self, at_work: Worker, verb: str) -> None:
        setattr(at_work.client, verb, bench.raising(TypeError("a mistake")))
        with pytest.raises(TypeError, match="a mistake"):
            at_work._round()

    @cases(
        "first, again, outcomes",
        ("acknowledged", None, None, [Outcome.OK] * 2),
        ("refused", Refused(Reason.NOT_OWNER), None, [Outcome.FAIL]),
        ("no answer", Indeterminate("lost"), None, [Outcome.INFO, Outcome.OK]),
        ("a mistake then", None, KeyError(9), [Outcome.OK, Outcome.INFO]),
    )
    def test_what_was_released_is_released_once_more(
        self, at_work: Worker, monkeypatch: pytest.MonkeyPatch, first: object, again: object, outcomes: list[Outcome]
    ) -> None:
        monkeypatch.setattr(worker, "AGAIN_SHARE", {Reason.NONE: 1.0, None: 1.0})
        monkeypatch.setattr(at_work.client, "release", Mock(side_effect=[first, again]))
        at_work._round()
        releases = rows(at_work, F.RELEASE)
        assert releases["outcome"].tolist() == outcomes
        assert releases["flags"].tolist() == [0, row_format.LATE][: len(outcomes)]
        assert len(set(releases["owner"])) == 1

    def test_what_libraries_raise_when_they_connect_or_close_is_noted(self, at_work: Worker) -> None:
        with patch("suites.worker.worker.time.sleep") as sleep:
            assert at_work._connected(Mock(side_effect=[OfALibrary("down"), TimeoutError("slow"), 7])) == 7
        assert [call.args[0] for call in sleep.call_args_list] == [0.1, 0.2], "fewer and fewer logins on a busy machine"
        with patch.object(worker, "_CONNECTS_WITHIN", -1.0), pytest.raises(OfALibrary, match="for good"):
            at_work._connected(Mock(side_effect=OfALibrary("for good")))
        at_work.client.close = bench.raising(OfALibrary("torn"))  # type: ignore[method-assign]
        at_work._close_client()
        down, slow, good, torn = read_errors(at_work.spec.recording)
        assert (down, slow) == ("could not connect: OfALibrary: down", "could not connect: TimeoutError: slow")
        assert (good, torn) == ("could not connect: OfALibrary: for good", "could not close: OfALibrary: torn")

    def test_a_first_login_at_the_store_may_take_longer_than_an_answer(self, spec: Spec) -> None:
        began = now()
        with socket.create_server(("127.0.0.1", 0)) as silent, patch.object(store, "LOGIN", 0.01):
            dsn = f"postgresql://u:p@127.0.0.1:{silent.getsockname()[1]}/d"
            with pytest.raises(Indeterminate, match="no answer in time"):
                store_client.connect(replace(spec, store_dsn=dsn, store_timeout=60.0), Mock())
        assert now() - began < 30e9

    def test_a_second_grant_with_the_same_owner_gets_a_new_owner_in_the_history(self, at_work: Worker) -> None:
        release = Mock()
        with patch.multiple(Fake, acquire=lambda *_: bench.grant("k", 9), release=release):
            holdings = [there(at_work.acquire(0, 1.0)) for _ in range(2)]
            at_work.release(holdings[1])
        first, second, released = rows(at_work)["owner"].tolist()
        assert (first, second) == (9, released) != (9, 9)
        assert release.call_args.args[0].owner == 9, "the client is asked with its own"

    def test_a_bug_of_the_keeper_breaks_the_worker_although_it_is_asked_to_finish(self, at_work: Worker) -> None:
        page = at_work.recorder.page
        page[row_format.RUN] = row_format.Command.GO

        def acquire(*_: object) -> None:
            at_work.renewal.broken = ZeroDivisionError("a bug in renew")
            page[row_format.RUN] = row_format.Command.FINISH

        at_work.client.acquire = acquire  # type: ignore[method-assign, assignment]
        with pytest.raises(ZeroDivisionError):
            at_work.run()
        at_work.renewal.close()


def test_the_sentinel_watches_until_all_is_recorded(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_renewal, "_LAST_ANSWER", bench.SOON)
    at_work = a_worker(spec, FakeSession, monkeypatch)
    page, closes, watched = at_work.recorder.page, threading.Event(), list[bool]()
    page[row_format.RUN] = row_format.Command.GO

    def answer() -> None:
        closes.wait()
        time.sleep(0.2)
        watched.append(at_work.renewal._sentinel.is_alive())

    def acquire(*_: object) -> None:
        await_(lambda: rows(at_work, F.KEEP_ALIVE).size > 0)
        page[row_format.RUN] = row_format.Command.FINISH

    for name, does in {"answer": answer, "acquire": acquire, "close": closes.set}.items():
        monkeypatch.setattr(at_work.client, name, does)
    at_work.run()
    (kept,) = rows(at_work, F.KEEP_ALIVE)
    (closed,) = rows(at_work, F.SESSION_CLOSE)
    assert (kept["outcome"], kept["ret"] > closed["ret"]) == (Outcome.OK, True)
    assert (watched, at_work.renewal._sentinel.is_alive()) == ([True], False)


def test_process_numbers_never_meet_and_workers_are_dealt_to_the_client_groups(spec: Spec) -> None:
    seen: list[int] = []
    for number, generation in product(range(spec.count), range(3)):
        made = replace(spec, number=number, generation=generation)
        assert made.group == f"c{number % 3 + 1}"
        for first in (made.first_process, made.first_process + made.count):
            process = Process(first, made.step)
            for _ in range(50):
                assert process.number % spec.count == number
                seen.append(process.number)
                process.crashed()
    assert len(set(seen)) == len(seen)


def test_the_row_of_an_acquire_has_wake_ups_place_in_line_and_patience(a_worker: MakeWorker) -> None:
    worker = a_worker(WORKLOADS["work"], 1)
    (row, _) = rows(worker)
    assert row["value"] == 3
    assert row["inv"] <= row["base"] == lock_of(worker).held["a"].queued <= row["ret"]
    lock_of(worker).fails["a"] = None
    worker._round()
    *_, row = rows(worker)
    assert (row["reason"], row["value"], row["base"]) == (Reason.TIMEOUT, 3, NONE)
    for timeout in (worker.spec.acquire_timeout, 0.25, 0.0):
        worker.acquire(0, timeout)
    assert rows(worker)["ttl"].tolist()[-3:] == [0, 250_000_000, 0]
    assert rows(worker)["f"].tolist()[-3:] == [F.ACQUIRE, F.ACQUIRE, F.TRY_ACQUIRE]


def test_some_acquires_give_up_soon_and_some_only_try(a_worker: MakeWorker) -> None:
    worker = a_worker(WORKLOADS["impatient"], 300)
    told = [patience for _, patience in lock_of(worker).asked]
    assert 150 < told.count(worker.spec.acquire_timeout) < 210
    assert 15 < told.count(0.0) < 65
    soon = max(BRIEF[1], SOON * worker.spec.pace * (worker.spec.count - 1))
    assert all(0.0 <= patience <= soon for patience in told if patience != worker.spec.acquire_timeout)
    worker.rng = Mock(random=lambda: 0.0)
    for turn, in_line, patience in ((0, True, worker.spec.acquire_timeout), (0, False, 0.0), (1, True, 0.0)):
        worker._turn, worker._in_line = turn, in_line
        assert worker._patience() == patience, "whoever is the first to queue does not give up"


@cases("error, outcome", (None, (Outcome.FAIL, Reason.TIMEOUT)), (Indeterminate("lost"), (Outcome.INFO, Reason.NONE)))
def test_a_cancelled_acquire_records_how_long_it_waited_and_no_pause_follows(
    a_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch, error: LockError | None, outcome: tuple[Outcome, Reason]
) -> None:
    cancelled, told = threading.Event(), list[float]()

    def acquire(_: Rich, __: str, timeout: float) -> Grant | None:
        told.append(timeout)
        assert cancelled.wait(bench.SOON)
        if error:
            raise error
        return None

    monkeypatch.setattr(Rich, "acquire", acquire)
    monkeypatch.setattr(Worker, "_unanswered", lambda _: pytest.fail("it pauses"))
    monkeypatch.setattr(Rich, "cancel", lambda _: cancelled.set(), raising=False)
    monkeypatch.setattr(worker, "CANCELS", 1.0)
    waiting = a_worker(WORKLOADS["impatient"])
    assert waiting.acquire(0, 0.05) is None
    (row,) = rows(waiting)
    assert (told, row["outcome"], row["reason"], row["ttl"]) == ([waiting.spec.acquire_timeout], *outcome, 50_000_000)
    assert row["ret"] - row["inv"] >= 50_000_000


def test_the_tap_cancels_an_acquire_only_while_it_waits(a_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled = threading.Semaphore(0)

    def acquire(*_: object) -> None:
        signal.raise_signal(signal.SIGUSR1)
        assert cancelled.acquire(timeout=bench.SOON)

    monkeypatch.setattr(Rich, "acquire", acquire)
    monkeypatch.setattr(Rich, "cancel", lambda _: cancelled.release(), raising=False)
    waiting = a_worker(WORKLOADS["impatient"])
    assert waiting.acquire(0, waiting.spec.acquire_timeout) is None
    signal.raise_signal(signal.SIGUSR1)
    assert not cancelled.acquire(timeout=0.1)


def became_a_reader(a_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch, answer: LockError | None = None) -> Worker:
    def downgrade(client: Rich, grant: Grant) -> Grant:
        return replace(grant, owner=grant.owner + 1, sent=now())

    monkeypatch.setattr(Rich, "downgrade", bench.raising(answer) if answer else downgrade, raising=False)
    monkeypatch.setattr("suites.workloads.one_lock.DOWNGRADES", 1.0)
    return a_worker(Share, 1, number=4, count=5)


def test_a_downgraded_reader_holds_from_the_request_on(a_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    let_go, gone = lease_renewal.LeaseRenewal.let_go, dict[int, int]()
    monkeypatch.setattr(lease_renewal.LeaseRenewal, "let_go", lambda *it: (let_go(*it), gone.setdefault(0, now()))[0])
    worker = became_a_reader(a_worker, monkeypatch)
    (written, read), (first, second) = rows(worker, F.ACQUIRE), rows(worker, F.RELEASE)
    assert first["inv"] < gone[0], "the machine may stall between its last look at its belief and what it asks"
    assert (written["flags"], read["flags"]) == (0, SHARED)
    assert (first["owner"], second["owner"]) == (written["owner"], read["owner"])
    assert read["inv"] == read["ret"] == read["sent"] == first["inv"] < first["ret"] < second["inv"]
    assert [row["flags"] for row in rows(worker, F.READ)] == [0, *[SHARED] * STEPS_AS_READER]


@cases(
    "error, outcomes",
    ("refused", Refused(Reason.NOT_OWNER), [(F.RELEASE, Outcome.FAIL)]),
    ("no answer", Indeterminate("lost"), [(F.RELEASE, Outcome.INFO), (F.ACQUIRE, Outcome.INFO)]),
)
def test_a_writer_that_may_not_become_a_reader_holds_nothing(
    a_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch, error: LockError, outcomes: list[tuple[F, Outcome]]
) -> None:
    worker = became_a_reader(a_worker, monkeypatch, error)
    assert [(row["f"], row["outcome"]) for row in rows(worker, F.ACQUIRE, F.RELEASE)[1:]] == outcomes
    assert worker.renewal.held == ()
