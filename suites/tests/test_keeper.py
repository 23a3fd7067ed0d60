"""The keeper renews in time, notices a loss when it is due, and lets nothing be written after an unknown write."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from checkers import wire
from checkers.history import read_recording
from checkers.wire import NONE, F, Outcome, Reason
from infra import store as fenced
from suites import recorder, registry, worker
from suites.gates import Gates, Position
from suites.keeper import Holding, Keeper
from suites.lock import Grant, Indeterminate, LockError, Refused, now
from suites.recorder import Recorder
from suites.section import Section
from suites.spec import Process, Spec
from suites.worker import Worker
from suites.workload import Stopped

TTL = 0.6
"""Seconds; a third of it is far longer than a busy machine makes a thread wait, as a rule."""
SOON = 30.0
"""Seconds within which anything awaited must come, on whatever machine."""
MS = 1_000_000


class Fake:
    """A lock in memory: everybody gets it; what a renewal answers is told by `answer`."""

    def __init__(self) -> None:
        self.answer: Callable[[], None] = lambda: None
        self.owner = 0

    def acquire(self, name: str, timeout: float) -> Grant | None:
        self.owner += 1
        return grant(name, self.owner)

    def renew(self, _: Grant) -> None:
        self.answer()

    def release(self, _: Grant) -> None:
        pass

    def close(self) -> None:
        pass


class FakeSession(Fake):
    """The same with a session, which `lose` ends; the next acquire opens another."""

    def __init__(self) -> None:
        super().__init__()
        self.session = 71
        self.opened = now()

    def acquire(self, name: str, timeout: float) -> Grant | None:
        if not self.session:
            self.session, self.opened = 72, now()
        self.owner += 1
        return grant(name, self.owner, self.session)

    def keep_alive(self) -> None:
        try:
            self.answer()
        except Refused:
            self.session = 0
            raise

    def renew(self, _: Grant) -> None:
        raise AssertionError("a session is kept alive instead")


def grant(name: str, owner: int, session: int = 0, ttl: float = TTL) -> Grant:
    sent, length = now(), round(ttl * 1e9)
    return Grant(name, owner, 100 + owner, sent, length, sent + length - 10 * MS, session)


def raising(error: Exception) -> Callable[[], None]:
    def answer() -> None:
        raise error

    return answer


@dataclass
class Bench:
    """A keeper at work, and what it recorded."""

    spec: Spec
    client: Fake
    keeper: Keeper = field(init=False)
    begun: int = field(default_factory=now)

    def __post_init__(self) -> None:
        recorder.create(self.spec.recording, 2000)
        record = Recorder(self.spec.recording)
        self.keeper = Keeper(self.spec, self.client, record, Gates(record.page, lambda: Position(0, -1, 0)))  # type: ignore[arg-type]
        self.main = Process(self.spec.first_process, self.spec.step)

    def hold(self, ttl: float = TTL) -> Holding:
        session = self.client.session if isinstance(self.client, FakeSession) else 0
        self.client.owner += 1
        holding = Holding(grant("k", self.client.owner, session, ttl), 0)
        self.keeper.take(holding)
        return holding

    def rows(self, *kinds: F) -> Any:
        """What was recorded of these kinds."""
        rows = read_recording(self.spec.recording)
        return rows[[row["f"] in kinds for row in rows]]

    def await_rows(self, kind: F, count: int, *outcomes: Outcome) -> Any:
        """The rows of a kind, once so many have one of these outcomes (or any, if none is named)."""

        def there() -> bool:
            rows = self.rows(kind)
            return sum(row["outcome"] in (outcomes or tuple(Outcome)) for row in rows) >= count

        await_(there)
        return self.rows(kind)


def await_(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.002)


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return Spec(
        recordings=str(tmp_path),
        lane="fake/register/fence-writes",
        lock="fake",
        endpoints=(),
        ttl=TTL,
        workload="suites.workloads.register:Register",
        store_dsn="",
        store_mode="fence-writes",
        keys=("k",),
        number=1,
        count=4,
        seed="s",
        acquire_timeout=1,
        store_timeout=1,
        pace=0.001,
    )


@pytest.fixture
def bench(spec: Spec) -> Iterator[Bench]:
    bench = Bench(spec, Fake())
    bench.keeper.start()
    yield bench
    bench.keeper.close()
    assert bench.keeper.broken is None


@pytest.fixture
def in_session(spec: Spec) -> Iterator[Bench]:
    bench = Bench(spec, FakeSession())
    bench.keeper.start()
    yield bench
    bench.keeper.close()
    assert bench.keeper.broken is None


class TestRenewal:
    def test_every_third_of_the_ttl_for_as_long_as_it_holds(self, bench: Bench) -> None:
        holding = bench.hold()
        rows = bench.await_rows(F.RENEW, 4, Outcome.OK)[:4]
        # At fixed times from the start: how late is the machine's affair, but never earlier, and not one in between.
        assert [row["inv"] - bench.begun >= (n + 1) * TTL / 3 * 1e9 for n, row in enumerate(rows)] == [True] * 4
        assert set(rows["owner"]) == {holding.grant.owner}
        assert set(rows["token"]) == {holding.grant.token}

    def test_an_acknowledged_one_prolongs_the_belief_from_its_request(self, bench: Bench) -> None:
        holding = bench.hold()
        first = holding.expires
        (row, *_) = bench.await_rows(F.RENEW, 1, Outcome.OK)
        await_(lambda: holding.expires > first)
        believed = holding.grant.expires - holding.grant.sent
        assert row["inv"] + believed <= holding.expires
        if len(bench.rows(F.RENEW)) == 1:
            assert holding.expires <= row["ret"] + believed

    def test_it_is_recorded_under_a_process_of_its_own(self, bench: Bench) -> None:
        bench.hold()
        rows = bench.await_rows(F.RENEW, 1)
        assert set(rows["process"]) == {1 + 4}
        assert bench.main.number == 1

    def test_an_unknown_one_prolongs_nothing_and_ends_the_process_number(self, bench: Bench) -> None:
        bench.client.answer = raising(Indeterminate("no answer"))
        holding = bench.hold()
        rows = bench.await_rows(F.RENEW, 2, Outcome.INFO)[:2]
        assert holding.expires == holding.grant.expires
        assert rows["process"].tolist() == [5, 5 + bench.spec.step]
        assert recorder.read_errors(bench.spec.recording) == ["no answer"]

    def test_a_refusal_ends_the_belief_at_once(self, bench: Bench) -> None:
        bench.client.answer = raising(Refused(Reason.NOT_OWNER))
        holding = bench.hold(ttl=1000 * TTL)
        (lost,) = bench.await_rows(F.LOST, 1)
        (renewal,) = bench.rows(F.RENEW)
        assert (renewal["outcome"], renewal["reason"]) == (Outcome.FAIL, Reason.NOT_OWNER)
        assert renewal["ret"] <= lost["sent"] <= lost["ret"]
        assert not bench.keeper.believes(holding)

    def test_no_more_of_it_after_the_loss(self, bench: Bench) -> None:
        bench.client.answer = raising(Refused(Reason.NOT_OWNER))
        bench.hold(ttl=1000 * TTL)
        bench.await_rows(F.LOST, 1)
        bench.client.answer = lambda: None
        again = bench.hold(ttl=1000 * TTL)
        assert bench.await_rows(F.RENEW, 2)[1]["owner"] == again.grant.owner

    def test_one_that_was_due_before_the_loss_is_sent_all_the_same(self, bench: Bench) -> None:
        """As by a client that was frozen: its timer fires when it is thawed, whatever has happened meanwhile."""
        thawed = threading.Event()
        bench.client.answer = lambda: (thawed.wait(SOON), None)[1]
        first = bench.hold(ttl=3 * TTL)
        bench.await_rows(F.LOST, 1)
        assert len(bench.rows(F.RENEW)) == 1
        thawed.set()
        bench.await_rows(F.RENEW, 2, Outcome.OK)
        second = bench.hold(ttl=1000 * TTL)
        rows = bench.await_rows(F.RENEW, 3)
        assert rows["owner"].tolist()[:3] == [first.grant.owner, first.grant.owner, second.grant.owner]

    def test_an_unavailable_server_is_no_refusal(self, bench: Bench) -> None:
        bench.client.answer = raising(Refused(Reason.UNAVAILABLE))
        holding = bench.hold(ttl=1000 * TTL)
        assert bench.await_rows(F.RENEW, 2, Outcome.FAIL)[0]["reason"] == Reason.UNAVAILABLE
        assert bench.keeper.believes(holding)
        assert bench.rows(F.LOST).size == 0

    def test_nothing_is_renewed_that_was_let_go(self, bench: Bench) -> None:
        first = bench.hold(ttl=1000 * TTL)
        bench.await_rows(F.RENEW, 1)
        bench.keeper.let_go(first, bench.main)
        assert bench.rows(F.LOST).size == 0
        second = bench.hold(ttl=1000 * TTL)
        bench.await_rows(F.RENEW, len(bench.rows(F.RENEW)) + 1)
        owners = bench.rows(F.RENEW)["owner"].tolist()
        assert owners == sorted(owners)
        assert owners[-1] == second.grant.owner

    def test_a_bug_of_the_adapter_is_kept_for_the_main_thread(self, spec: Spec) -> None:
        bench = Bench(spec, Fake())
        bench.client.answer = raising(ZeroDivisionError("a bug"))
        bench.keeper.start()
        bench.hold()
        await_(lambda: bench.keeper.broken is not None)
        assert isinstance(bench.keeper.broken, ZeroDivisionError)
        bench.keeper.close()


class TestLoss:
    @pytest.fixture
    def silent(self, bench: Bench) -> Iterator[Bench]:
        """The server does not answer a renewal until the test is over."""
        over = threading.Event()
        bench.client.answer = lambda: (over.wait(SOON), None)[1]
        yield bench
        over.set()

    def test_it_is_due_at_the_expiry_and_noticed_no_earlier(self, silent: Bench) -> None:
        holding = silent.hold()
        (lost,) = silent.await_rows(F.LOST, 1, Outcome.OK)
        assert lost["sent"] == holding.grant.expires
        assert lost["inv"] >= lost["sent"]
        assert (lost["owner"], lost["token"], lost["key"]) == (holding.grant.owner, holding.grant.token, 0)
        assert lost["process"] == 5
        assert holding.over

    def test_it_is_noted_once_whoever_notices(self, silent: Bench) -> None:
        holding = silent.hold()
        silent.await_rows(F.LOST, 1)
        silent.keeper.lose(holding, silent.main)
        silent.keeper.let_go(holding, silent.main)
        assert silent.rows(F.LOST).size == 1

    def test_the_main_thread_notices_before_it_releases(self, spec: Spec) -> None:
        """Thawed after its lease was over, the main thread may be first."""
        bench = Bench(spec, Fake())  # no keeper's thread runs
        holding = bench.hold(ttl=0.02)
        await_(lambda: now() > holding.expires)
        bench.keeper.let_go(holding, bench.main)
        (lost,) = bench.rows(F.LOST)
        assert (lost["process"], lost["sent"]) == (bench.main.number, holding.expires)
        assert bench.keeper.held is None

    def test_a_client_that_learns_of_it_by_itself_is_believed(self, spec: Spec) -> None:
        class Told(Fake):
            believes = True

            def belief(self, _: Grant) -> bool:
                return self.believes

        client = Told()
        bench = Bench(spec, client)
        bench.keeper.start()
        holding = bench.hold(ttl=1000 * TTL)
        assert bench.keeper.believes(holding)
        client.believes = False
        (lost,) = bench.await_rows(F.LOST, 1)
        assert lost["sent"] < holding.expires, "when it was noticed, since the lease was not over"
        bench.keeper.close()


class TestSession:
    def test_keep_alives_are_of_the_session_held_or_not(self, in_session: Bench) -> None:
        rows = in_session.await_rows(F.KEEP_ALIVE, 2, Outcome.OK)
        assert set(rows["session"]) == {71}
        assert set(rows["owner"]) == {0}
        assert in_session.rows(F.RENEW).size == 0

    def test_one_prolongs_what_is_held_in_it(self, in_session: Bench) -> None:
        holding = in_session.hold()
        row = in_session.await_rows(F.KEEP_ALIVE, 1, Outcome.OK)[0]
        await_(lambda: holding.expires >= row["inv"] + holding.grant.ttl)

    def test_its_refusal_ends_the_belief_in_what_is_held_in_it(self, in_session: Bench) -> None:
        holding = in_session.hold(ttl=1000 * TTL)
        in_session.client.answer = raising(Refused(Reason.NOT_OWNER))
        (lost,) = in_session.await_rows(F.LOST, 1)
        assert lost["owner"] == holding.grant.owner
        assert in_session.rows(F.KEEP_ALIVE)[-1]["session"] == 71

    def test_nothing_is_kept_alive_while_there_is_none(self, in_session: Bench) -> None:
        in_session.client.answer = raising(Refused(Reason.NOT_OWNER))
        in_session.await_rows(F.KEEP_ALIVE, 1, Outcome.FAIL)
        in_session.client.answer = lambda: None
        before = len(in_session.rows(F.KEEP_ALIVE))
        assert in_session.client.acquire("k", 0) is not None
        rows = in_session.await_rows(F.KEEP_ALIVE, before + 1)
        assert rows["session"].tolist() == [71] * before + [72] * (len(rows) - before)

    def test_each_is_recorded_once(self, in_session: Bench) -> None:
        client = in_session.client
        assert isinstance(client, FakeSession)
        for _ in range(3):
            in_session.keeper.note_session(in_session.main, TTL)
        client.session = 0
        in_session.keeper.note_session(in_session.main, TTL)
        client.session, client.opened = 73, 12345
        for _ in range(3):
            in_session.keeper.note_session(in_session.main, TTL)
        rows = in_session.rows(F.SESSION_OPEN)
        assert rows["session"].tolist() == [71, 73]
        assert rows["inv"].tolist()[1] == 12345
        assert rows["ttl"].tolist() == [round(TTL * 1e9)] * 2
        assert set(rows["outcome"]) == {Outcome.OK}

    def test_a_client_without_any_records_none(self, bench: Bench) -> None:
        bench.keeper.note_session(bench.main, TTL)
        assert bench.rows(F.SESSION_OPEN).size == 0


class FakeStore:
    """Accepts everything, unless told what to raise or to refuse."""

    def __init__(self) -> None:
        self.read_error: fenced.StoreError | None = None
        self.write_error: fenced.StoreError | None = None
        self.refuses_writes = False
        self.written: list[int] = []

    def read(self, *_: object) -> fenced.Read:
        if self.read_error:
            raise self.read_error
        return fenced.Read(-1, ())

    def write(self, _: str, value: int, *__: object) -> bool:
        self.written.append(value)
        if self.write_error:
            raise self.write_error
        return not self.refuses_writes

    def close(self) -> None:
        pass


@pytest.fixture
def at_work(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """A worker whose lock and store are in memory; nothing of it runs by itself."""

    class Lock(Fake):
        @classmethod
        def open(cls, *_: object) -> Lock:
            return cls()

    monkeypatch.setattr(registry, "lock", lambda _: Lock)
    monkeypatch.setattr(fenced.Store, "open", lambda *_, **__: FakeStore())
    monkeypatch.setattr(worker, "LATE_SHARE", 1.0)
    recorder.create(spec.recording, 2000)
    return Worker(spec)


def sections(at_work: Worker) -> tuple[FakeStore, Any]:
    """One round of the worker; the store and the rows of it."""
    at_work._round()
    store: Any = at_work.store
    return store, read_recording(at_work.spec.recording)


class TestWriting:
    def test_a_round_is_recorded_in_order(self, at_work: Worker) -> None:
        store, rows = sections(at_work)
        kinds = [F(row["f"]) for row in rows]
        writes = [F.WRITE] * (len(store.written) - 1)  # one of them comes late
        assert kinds == [F.ACQUIRE, F.READ, *writes, F.READ, F.RELEASE, F.WRITE]
        assert {row["outcome"] for row in rows} == {Outcome.OK}
        assert rows[-1]["flags"] == 2

    @pytest.mark.parametrize(
        ("error", "outcome"),
        [(fenced.Unknown("lost"), Outcome.INFO), (fenced.Unavailable("refused"), Outcome.FAIL)],
    )
    def test_nothing_under_that_grant_after_a_read_without_answer(
        self, at_work: Worker, error: fenced.StoreError, outcome: Outcome
    ) -> None:
        store: Any = at_work.store
        store.read_error = error
        _, rows = sections(at_work)
        reads = [row for row in rows if row["f"] == F.READ]
        assert [row["outcome"] for row in reads] == [outcome]
        if outcome is Outcome.INFO:
            assert store.written == [], "not even late"

    def test_nothing_after_an_unknown_write_not_even_late(self, at_work: Worker) -> None:
        store: Any = at_work.store
        store.write_error = fenced.Unknown("lost")
        _, rows = sections(at_work)
        assert [F(row["f"]) for row in rows] == [F.ACQUIRE, F.READ, F.WRITE, F.RELEASE]
        assert rows[2]["outcome"] == Outcome.INFO
        assert len(store.written) == 1
        assert rows[3]["process"] == rows[2]["process"] + at_work.spec.step, "that number is never used again"

    def test_a_refused_write_ends_the_section(self, at_work: Worker) -> None:
        store: Any = at_work.store
        store.refuses_writes = True
        _, rows = sections(at_work)
        assert [(F(row["f"]), Reason(row["reason"])) for row in rows[2:4]] == [
            (F.WRITE, Reason.STALE_TOKEN),
            (F.RELEASE, Reason.NONE),
        ]

    def test_who_does_not_believe_any_more_touches_nothing(self, at_work: Worker) -> None:
        holding = Holding(grant("k", 9, ttl=-1), 0)
        section = Section(at_work, holding)
        for access in (section.read, section.write):
            with pytest.raises(Stopped):
                access()
        rows = read_recording(at_work.spec.recording)
        assert [F(row["f"]) for row in rows] == [F.LOST]
        assert rows[0]["sent"] == holding.expires
        assert rows[0]["value"] == NONE

    @pytest.mark.parametrize(
        ("error", "outcome", "reason"),
        [
            (Refused(Reason.HELD), Outcome.FAIL, Reason.HELD),
            (Refused(Reason.UNAVAILABLE), Outcome.FAIL, Reason.UNAVAILABLE),
            (Indeterminate("lost"), Outcome.INFO, Reason.NONE),
            (None, Outcome.FAIL, Reason.TIMEOUT),
        ],
    )
    def test_an_acquire_without_a_grant_is_followed_by_nothing(
        self, at_work: Worker, error: LockError | None, outcome: Outcome, reason: Reason
    ) -> None:
        def acquire(*_: object) -> None:
            if error:
                raise error

        at_work.client.acquire = acquire  # type: ignore[method-assign, assignment]
        _, (row,) = sections(at_work)
        assert (row["f"], row["outcome"], row["reason"]) == (F.ACQUIRE, outcome, reason)
        assert at_work.process.number == 1 + (at_work.spec.step if outcome is Outcome.INFO else 0)

    def test_a_bug_of_the_keeper_breaks_the_worker_although_it_is_asked_to_finish(self, at_work: Worker) -> None:
        page = at_work.recorder.page
        page[wire.RUN] = wire.Run.GO

        def acquire(*_: object) -> None:
            at_work.keeper.broken = ZeroDivisionError("a bug in renew")
            page[wire.RUN] = wire.Run.FINISH

        at_work.client.acquire = acquire  # type: ignore[method-assign, assignment]
        with pytest.raises(ZeroDivisionError):
            at_work.run()
        at_work.keeper.close()


def test_process_numbers_never_meet(spec: Spec) -> None:
    """Those of main and renewal threads of all workers of a lane, over generations and unknown outcomes."""
    seen: set[int] = set()
    for number in range(spec.count):
        for generation in range(3):
            one = replace(spec, number=number, generation=generation)
            for first in (one.first_process, one.first_process + one.count):
                process = Process(first, one.step)
                for _ in range(50):
                    assert process.number not in seen
                    assert process.number % spec.count == number
                    seen.add(process.number)
                    process.crashed()
