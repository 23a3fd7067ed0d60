"""Workers without servers (a lock in memory, or processes on `suites.tests.standin`), and what they recorded."""

import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any, Generic, Self, TypeVar, cast

import pytest

from checkers.history.history import read_recording
from checkers.row_format import Command, F, Gate, Outcome, Reason, State
from checkers.tests.build import there
from infra.store.store import Read, Store, StoreError
from infra.waiting import comes_true
from suites.lock import Grant, Refused, now
from suites.locks import registry
from suites.worker import gates, recorder, store_client
from suites.worker.critical_section import Section
from suites.worker.lease_renewal import Holding, LeaseRenewal
from suites.worker.pool import ForkServer, Handle, state_of
from suites.worker.process_spec import Process, Spec
from suites.worker.worker import Worker

TTL = 0.6  # seconds; a third of it is far longer than a busy machine makes a thread wait, as a rule
LONG = 3600.0  # seconds; a TTL that ends in no test
SOON = 120.0  # seconds within which anything that a test awaits must come, on any machine
ENDS = 1800.0  # seconds within which a process that a test waits for must end
MS = 1_000_000
MakeWorker = Callable[..., Worker]  # fixture `a_worker`: (workload, rounds, changes of the spec) → a worker after them
MODULE = "suites.tests.standin"
LANE = "standin/register/unfenced"


class Fake:
    """A lock in memory that everybody gets. A renewal calls `answer`, which may raise."""

    renewed = True
    fair = False

    def __init__(self) -> None:
        self.answer: Callable[[], object] = lambda: None
        self.owner = 0

    @classmethod
    def open(cls, *_: object) -> Self:
        return cls()

    def acquire(self, name: str, timeout: float) -> Grant | None:
        self.owner += 1
        return grant(name, self.owner, ttl=LONG)

    def renew(self, _: Grant) -> None:
        self.answer()

    def release(self, _: Grant) -> None: ...
    def close(self) -> None: ...


class Believing(Fake):
    """A client that reports its belief (`Believes`): `believes` is what it reports."""

    believes = True

    def belief(self, _: Grant) -> bool:
        return self.believes


class Rich(Fake):
    """A lock that can do everything. `fails`: key → what its acquire raises, or None for a timeout."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, float]] = []
        self.fails: dict[str, Exception | None] = {}
        self.refuses: set[int] = set()
        self.held: dict[str, Grant] = {}
        self.cells: dict[str, tuple[int, Sequence[int]]] = {}
        self.wakes = 40

    def acquire(self, name: str, timeout: float) -> Grant | None:
        self.asked.append((name, timeout))
        self.wakes += 3
        if name in self.fails:
            if failure := self.fails[name]:
                raise failure
            return None
        if name not in self.held:
            self.owner += 1
            self.held[name] = replace(grant(name, self.owner, ttl=LONG), queued=now())
        return self.held[name]

    def acquire_shared(self, name: str, timeout: float) -> Grant | None:
        return self.acquire(name, timeout)

    def release(self, grant: Grant) -> None:
        if grant.owner in self.refuses:
            raise Refused(Reason.NOT_OWNER)

    def read(self, _: Grant, key: str) -> tuple[int, Sequence[int]] | None:
        return self.cells.get(key, (-1, ()))

    def write(self, grant: Grant, key: str, value: int, elements: Sequence[int]) -> bool:
        self.cells[key] = (value, elements)
        return grant.owner not in self.refuses


class FakeSession(Fake):
    """A `Fake` with a session. A refused keep-alive ends the session; the next acquire opens another."""

    def __init__(self) -> None:
        super().__init__()
        self.session = 71
        self.opened = now()

    def acquire(self, name: str, timeout: float) -> Grant | None:
        if not self.session:
            self.session, self.opened = 72, now()
        self.owner += 1
        return grant(name, self.owner, self.session, LONG)

    def keep_alive(self) -> None:
        try:
            self.answer()
        except Refused:
            self.session = 0
            raise

    def renew(self, _: Grant) -> None:
        raise AssertionError("a session is kept alive instead")


class FakeStore:
    """Keeps one list per key. `fails` and `refuses_writes` make calls fail; others claimed the jobs in `claimed`."""

    def __init__(self) -> None:
        self.lists: dict[str, tuple[int, ...]] = {}
        self.bases: list[int | None] = []
        self.claimed: set[int] = set()
        self.refuses_writes = False
        self.fails: dict[str, StoreError] = {}  # "read", "write" or "claim" → what it raises
        self.requests = 1  # that each access takes
        self.asks: Callable[[], None] = lambda: None

    def _may_fail(self, verb: str) -> None:
        for _ in range(self.requests):
            self.asks()
        if verb in self.fails:
            raise self.fails[verb]

    def read(self, key: str, *_: object) -> Read:
        self._may_fail("read")
        elements = self.lists.get(key, ())
        return Read(elements[-1] if elements else -1, elements)

    def write(self, key: str, value: int, _: object, __: object, elements: Sequence[int] | None, base: object) -> bool:
        self.lists[key] = tuple(elements or (value,))
        self.bases.append(base if isinstance(base, int) else None)
        self._may_fail("write")
        return not self.refuses_writes

    def claim(self, _: str, job: int) -> bool:
        self._may_fail("claim")
        return job not in self.claimed

    def close(self) -> None: ...


def grant(name: str, owner: int, session: int = 0, ttl: float = TTL) -> Grant:
    sent, length = now(), round(ttl * 1e9)
    return Grant(name, owner, 100 + owner, sent, length, sent + length - 10 * MS, session)


def raising(error: BaseException) -> Callable[..., None]:
    def answer(*_: object) -> None:
        raise error

    return answer


Client = TypeVar("Client", bound=Fake)


class Bench(Generic[Client]):
    """Lease renewal at work, and what it recorded."""

    def __init__(self, spec: Spec, client: Client) -> None:
        self.spec, self.client, self.begun = spec, client, now()
        recorder.create(spec.recording, 2000)
        record = recorder.Recorder(spec.recording)
        self.page = record.page
        self.renewal = LeaseRenewal(spec, client, record, gates.Gates(record.page))  # type: ignore[arg-type]
        self.main = Process(spec.first_process, spec.step)

    def hold(self, ttl: float = LONG, flags: int = 0) -> Holding:
        session = self.client.session if isinstance(self.client, FakeSession) else 0
        self.client.owner += 1
        holding = Holding(grant("k", self.client.owner, session, ttl), 0, flags)
        self.renewal.take(holding)
        return holding

    def rows(self, *kinds: F) -> Any:
        return recorded(self.spec, *kinds)

    def await_rows(self, kind: F, count: int, *outcomes: Outcome) -> Any:
        """The rows of a kind, once `count` of them have one of these outcomes (any outcome if none is named)."""
        await_(lambda: sum(row["outcome"] in (outcomes or tuple(Outcome)) for row in self.rows(kind)) >= count)
        return self.rows(kind)

    def count(self, kind: F, holding: Holding, *outcomes: Outcome) -> int:
        """How many rows of a kind are of this holding and have one of these outcomes (any outcome if none is named)."""
        mine = [row for row in self.rows(kind) if row["owner"] == holding.grant.owner]
        return len([row for row in mine if row["outcome"] in (outcomes or tuple(Outcome))])

    def silent(self, kind: F) -> int:
        """The number of rows of a kind, which must not grow for a TTL. That is time for three renewals."""
        before = len(self.rows(kind))
        assert not comes_true(lambda: len(self.rows(kind)) > before, TTL, every=0.002), "it grew"
        return before


@contextmanager
def at_work(spec: Spec, client: Client, broken: type = NoneType) -> Iterator[Bench[Client]]:
    """Lease renewal from its start to its end. broken: the type of the exception that one of its threads may raise."""
    bench = Bench(spec, client)
    bench.renewal.start()
    yield bench
    bench.renewal.close()
    assert isinstance(bench.renewal.broken, broken)


def held(page: mmap.mmap, gate: Gate) -> gates.Caught:
    await_(lambda: gates.caught(page, gate) is not None)
    return there(gates.caught(page, gate))


granted = there  # by a name for the answer of an acquire


def refusal(call: Callable[[], object]) -> Reason:
    with pytest.raises(Refused) as caught:
        call()
    return caught.value.reason


def await_(condition: Callable[[], bool]) -> None:
    assert comes_true(condition, SOON, every=0.002), "it never came"


def a_spec(folder: Path | str) -> Spec:
    """Worker 1 of 4."""
    return Spec(
        recordings=str(folder),
        lane="fake/register/fence-writes",
        lock="fake",
        endpoints=(),
        ttl=TTL,
        workload="suites.workloads.one_lock:Register",
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


def a_worker(spec: Spec, lock: type[Fake], monkeypatch: pytest.MonkeyPatch) -> Worker:
    """A worker whose lock and store are in memory. Its threads do not run until its `run` is called."""
    monkeypatch.setattr(registry, "load", lambda _: lock)
    monkeypatch.setattr(Store, "open", lambda *_, **__: FakeStore())
    monkeypatch.setattr("suites.worker.worker.AGAIN_SHARE", {})
    recorder.create(spec.recording, 2000)
    return Worker(spec, store_client.connect, Section)


def lock_of(worker: Worker) -> Rich:
    return cast(Rich, worker.client)


def store_of(worker: Worker) -> FakeStore:
    return cast(FakeStore, cast(Any, worker.store).store)


def rows(worker: Worker, *kinds: F) -> Any:
    return recorded(worker.spec, *(kinds or F))


def recorded(spec: Spec, *kinds: F) -> Any:
    rows = read_recording(spec.recording)
    return rows[[row["f"] in kinds for row in rows]]


def kinds(worker: Worker) -> list[str]:
    return [F(row["f"]).name for row in rows(worker)]


def specs(folder: str, lock: str) -> list[Spec]:
    lock = lock if ":" in lock else f"{MODULE}:{lock}"
    given: dict[str, Any] = {"lane": LANE, "lock": lock, "endpoints": ("nowhere:1",), "ttl": 0.3, "pace": 0.002}
    spec = replace(a_spec(folder), **given, store_mode="unfenced", keys=("a", "b"), count=3)
    return [replace(spec, number=number, seed=f"s/{number}") for number in range(spec.count)]


def gone(pid: int) -> bool:
    return state_of(pid) in "ZX"


def await_gone(pids: Sequence[int]) -> None:
    await_(lambda: all(gone(pid) for pid in pids))


def running(server: ForkServer, folder: Path, lock: str = "Free") -> list[Handle]:
    return started(server, specs(str(folder), lock))


def started(server: ForkServer, given: Sequence[Spec]) -> list[Handle]:
    handles = server.spawn(given)
    server.await_state(handles, State.READY, SOON)
    for handle in handles:
        handle.ask(Command.GO)
    return handles


def worked(handle: Handle) -> bool:
    rows = read_recording(handle.spec.recording)
    return bool(((rows["f"] == F.WRITE) & (rows["outcome"] == Outcome.OK)).any())
