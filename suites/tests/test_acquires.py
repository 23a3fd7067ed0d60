"""What a worker records of single acquires: granted or not, given up, cancelled, and turned into shared ones."""

import threading
from dataclasses import replace

import pytest

from checkers.row_format import NONE, SHARED, F, Outcome, Reason
from suites.lanes.lane import WORKLOADS
from suites.lock import Grant, Indeterminate, LockError, Refused, now
from suites.tests.bench import Fake, MakeWorker, Rich, lock_of, rows
from suites.worker import worker
from suites.worker.worker import SOON, Worker
from suites.workloads import share
from suites.workloads.share import Share


def test_wake_ups_and_the_place_in_the_queue_stand_in_the_row_of_an_acquire(a_worker: MakeWorker) -> None:
    worker = a_worker(WORKLOADS["work"], 1)
    (row, _) = rows(worker)
    assert row["value"] == 3
    assert row["inv"] <= row["base"] == lock_of(worker).held["a"].queued <= row["ret"]


def test_one_that_is_not_granted_tells_how_often_it_was_woken(a_worker: MakeWorker) -> None:
    worker = a_worker(WORKLOADS["work"])
    lock_of(worker).fails["a"] = None
    worker._round()
    (row,) = rows(worker)
    assert (row["reason"], row["value"], row["base"]) == (Reason.TIMEOUT, 3, NONE)


def test_a_silent_client_leaves_both_open(a_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = a_worker(WORKLOADS["work"])
    monkeypatch.setattr(worker, "client", Fake())
    monkeypatch.setattr(worker, "_woken", None)
    worker._round()
    assert (rows(worker)[0]["value"], rows(worker)[0]["base"]) == (NONE, NONE)


def test_some_give_up_soon_and_some_only_try(a_worker: MakeWorker) -> None:
    """What each was told stands in its row, unless it is what all are told."""
    worker = a_worker(WORKLOADS["impatient"], 300)
    told = [patience for _, patience in lock_of(worker).asked]
    patient = told.count(worker.spec.acquire_timeout)
    assert 150 < patient < 210
    assert 15 < told.count(0.0) < 65
    soon = SOON * worker.spec.pace * (worker.spec.count - 1)
    assert all(0.0 <= patience <= soon for patience in told if patience != worker.spec.acquire_timeout)


def test_one_that_is_cancelled_waited_for_as_long_as_its_row_says(
    a_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled, told = threading.Event(), list[float]()

    def acquire(_: Rich, __: str, timeout: float) -> Grant | None:
        told.append(timeout)
        assert cancelled.wait(5)
        return None

    monkeypatch.setattr(Rich, "acquire", acquire)
    monkeypatch.setattr(Rich, "cancel", lambda _: cancelled.set(), raising=False)
    monkeypatch.setattr(worker, "CANCELS", 1.0)
    waiting = a_worker(WORKLOADS["impatient"])
    assert waiting.acquire(0, 0.05) is None
    (row,) = rows(waiting)
    assert told == [waiting.spec.acquire_timeout]
    assert (row["outcome"], row["reason"], row["ttl"]) == (Outcome.FAIL, Reason.TIMEOUT, 50_000_000)
    assert row["ret"] - row["inv"] >= 50_000_000


def test_how_long_a_refused_one_was_told_to_wait_stands_in_its_row(a_worker: MakeWorker) -> None:
    worker = a_worker(WORKLOADS["work"])
    lock_of(worker).fails["a"] = None
    for timeout in (worker.spec.acquire_timeout, 0.25, 0.0):
        worker.acquire(0, timeout)
    assert rows(worker)["ttl"].tolist() == [0, 250_000_000, 0]
    assert rows(worker)["f"].tolist() == [F.ACQUIRE, F.ACQUIRE, F.TRY_ACQUIRE]


def became_a_reader(a_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch, answer: LockError | None = None) -> Worker:
    """One round of a writer that becomes a reader."""

    def downgrade(client: Rich, grant: Grant) -> Grant:
        if answer is not None:
            raise answer
        return replace(grant, owner=grant.owner + 1, sent=now())

    monkeypatch.setattr(Rich, "downgrade", downgrade, raising=False)
    monkeypatch.setattr(share, "DOWNGRADES", 1.0)
    return a_worker(Share, 1, number=4, count=5)


def test_the_reader_holds_from_when_the_writer_asked(a_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = became_a_reader(a_worker, monkeypatch)
    written, read = rows(worker, F.ACQUIRE)
    first, second = rows(worker, F.RELEASE)
    assert (written["flags"], read["flags"]) == (0, SHARED)
    assert (first["owner"], second["owner"]) == (written["owner"], read["owner"])
    assert read["inv"] == read["ret"] == read["sent"] == first["inv"] < first["ret"] < second["inv"]
    assert [row["flags"] for row in rows(worker, F.READ)] == [0, *[SHARED] * share.STEPS]


@pytest.mark.parametrize(
    ("error", "outcomes"),
    [
        (Refused(Reason.NOT_OWNER), [(F.RELEASE, Outcome.FAIL)]),
        (Indeterminate("lost"), [(F.RELEASE, Outcome.INFO), (F.ACQUIRE, Outcome.INFO)]),
    ],
)
def test_who_may_not_become_a_reader_holds_nothing(
    a_worker: MakeWorker,
    monkeypatch: pytest.MonkeyPatch,
    error: LockError,
    outcomes: list[tuple[F, Outcome]],
) -> None:
    worker = became_a_reader(a_worker, monkeypatch, error)
    assert [(row["f"], row["outcome"]) for row in rows(worker, F.ACQUIRE, F.RELEASE)[1:]] == outcomes
    assert worker.renewal.held == ()
