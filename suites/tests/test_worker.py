"""A worker records its rounds in order, and lets nothing be written after an unknown write."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkers import wire
from checkers.history import read_recording
from checkers.wire import NONE, F, Outcome, Reason
from infra import store as fenced
from suites import recorder, registry, worker
from suites.grants import BadGrant
from suites.keeper import Holding
from suites.lock import Indeterminate, LockError, Refused
from suites.section import Section
from suites.spec import Process, Spec, group_of
from suites.tests.bench import Fake, FakeStore, a_spec, grant
from suites.worker import Worker
from suites.workload import Stopped


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return a_spec(tmp_path)


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
    store: Any = at_work.cells.store  # type: ignore[attr-defined]
    return store, read_recording(at_work.spec.recording)


class TestWriting:
    def test_a_round_is_recorded_in_order(self, at_work: Worker) -> None:
        store, rows = sections(at_work)
        kinds = [F(row["f"]) for row in rows]
        writes = [F.WRITE] * (len(store.bases) - 1)  # one of them comes late
        assert kinds == [F.ACQUIRE, F.READ, *writes, F.READ, F.RELEASE, F.WRITE]
        assert {row["outcome"] for row in rows} == {Outcome.OK}
        assert rows[-1]["flags"] == 2

    @pytest.mark.parametrize(("in_line", "number"), [(True, 0), (True, 1), (False, 0)])
    def test_the_first_in_line_waits_for_the_others(
        self, at_work: Worker, in_line: bool, number: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worked: list[float] = []
        monkeypatch.setattr(Section, "work", lambda _, seconds: worked.append(seconds))
        at_work.spec = replace(at_work.spec, number=number)
        at_work._in_line = in_line
        first = []
        for _ in range(2):
            worked.clear()
            at_work._round()
            first.append(worked[0])
        last_comes_at = worker._APART * at_work.spec.pace * (at_work.spec.count - 1)
        assert [seconds == last_comes_at for seconds in first] == [in_line and number == 0, False]

    @pytest.mark.parametrize(
        ("error", "outcome"),
        [(fenced.Unknown("lost"), Outcome.INFO), (fenced.Unavailable("refused"), Outcome.FAIL)],
    )
    def test_no_write_after_an_unanswered_read(
        self, at_work: Worker, error: fenced.StoreError, outcome: Outcome
    ) -> None:
        store: Any = at_work.cells.store  # type: ignore[attr-defined]
        store.fails["read"] = error
        _, rows = sections(at_work)
        reads = [row for row in rows if row["f"] == F.READ]
        assert [row["outcome"] for row in reads] == [outcome]
        if outcome is Outcome.INFO:
            assert store.bases == [], "not even late"

    def test_nothing_after_an_unknown_write_not_even_late(self, at_work: Worker) -> None:
        store: Any = at_work.cells.store  # type: ignore[attr-defined]
        store.fails["write"] = fenced.Unknown("lost")
        _, rows = sections(at_work)
        assert [F(row["f"]) for row in rows] == [F.ACQUIRE, F.READ, F.WRITE, F.RELEASE]
        assert rows[2]["outcome"] == Outcome.INFO
        assert len(store.bases) == 1
        assert rows[3]["process"] == rows[2]["process"] + at_work.spec.step, "that number is never used again"

    def test_a_refused_write_ends_the_section(self, at_work: Worker) -> None:
        store: Any = at_work.cells.store  # type: ignore[attr-defined]
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
    def test_no_access_follows_an_acquire_without_grant(
        self, at_work: Worker, error: LockError | None, outcome: Outcome, reason: Reason
    ) -> None:
        def acquire(*_: object) -> None:
            if error:
                raise error

        at_work.client.acquire = acquire  # type: ignore[method-assign, assignment]
        _, (row,) = sections(at_work)
        assert (row["f"], row["outcome"], row["reason"]) == (F.ACQUIRE, outcome, reason)
        assert at_work.process.number == 1 + (at_work.spec.step if outcome is Outcome.INFO else 0)

    @pytest.mark.parametrize("verb", ["acquire", "acquire_shared"])
    def test_what_is_no_grant_breaks_the_worker_and_is_not_recorded_as_one(self, at_work: Worker, verb: str) -> None:
        setattr(at_work.client, verb, lambda *_: True)
        at_work._sharer = at_work.client  # type: ignore[assignment]
        with pytest.raises(BadGrant, match=rf"^Lock.{verb} returned True \(bool\): "):
            at_work.acquire(0, 1.0, wire.SHARED if verb == "acquire_shared" else 0)
        (row,) = read_recording(at_work.spec.recording)
        assert (row["f"], row["outcome"]) == (F.ACQUIRE, Outcome.PENDING)

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


def test_workers_are_dealt_to_the_client_groups(spec: Spec) -> None:
    assert [replace(spec, number=number).group for number in range(4)] == ["c1", "c2", "c3", "c1"]
    assert [group_of(number) for number in range(4)] == [1, 2, 3, 1]
