"""A critical section: the verbs that a workload may use under one grant, with the fenced store behind them.

Every access first asks the client's belief and is recorded. An access that is refused or not answered ends the section.
"""

import contextlib
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NoReturn

from checkers import row_format
from checkers.row_format import LATE, NESTED, SHARED, Command, F, Gate, Reason
from infra.store.store import MAX_ELEMENTS, Mode, StoreError, Unavailable
from suites.worker.lease_renewal import Holding
from suites.worker.store_client import StoreClient
from suites.worker.worker import Worker
from suites.workloads.workload import BURST, HeldLock, Stopped


class Section:
    """Implements `suites.workloads.workload.HeldLock`."""

    def __init__(self, worker: Worker, holding: Holding) -> None:
        self.rng = worker.rng
        self.pace = worker.spec.pace
        self.burst = zlib.crc32(worker.spec.lane.encode()) / 2**32 * BURST[0]  # the same in all workers of the lane
        self.ttl = worker.spec.ttl
        self.patience = worker.spec.acquire_timeout
        self.keys = len(worker.spec.keys)
        self.key = holding.key
        self.shared = bool(holding.flags & SHARED)
        self.downgrades = worker.downgrader is not None
        self.writes_per_grant = 1 if worker.spec.store_mode == Mode.FENCE_WRITES_STRICT else None
        self._worker = worker
        self._holding = holding
        self._requests = 0  # how many requests the access to the store that is under way has taken so far
        self._recorder = worker.recorder
        self._name = worker.spec.keys[holding.key]

    def read(self) -> tuple[int, Sequence[int]]:
        self._must_believe()
        row = self._invoke(F.READ)
        try:
            answer = self._begin_access().read(self._name, self._holding.grant)
        except StoreError as error:
            self._unanswered(row, error)
        if answer is None:
            self._refused(row, Reason.STALE_TOKEN)
        self._recorder.ok(row, answer.value)
        if len(answer.elements) >= MAX_ELEMENTS:
            raise Stopped  # a full list takes no more
        return answer.value, answer.elements

    def write(self, *, base: int | None = None, elements: Sequence[int] | None = None) -> int:
        self.check()
        return self._write(base, elements, 0)

    def effect(self, job: int) -> bool:
        self.check()
        try:
            if not self._begin_access().claim(self._name, job):
                return False
        except StoreError as error:
            self._holding.spoiled |= not isinstance(error, Unavailable)  # that was never sent
            raise Stopped from None
        self._recorder.ok(self._invoke(F.EFFECT, job))
        return True

    def check(self) -> None:
        self._must_believe()
        # Between the look at the clock and the request there is always a gap: no client can close it.
        self._worker.reach(Gate.BETWEEN_READ_AND_WRITE, self._holding)
        self._worker.reach(Gate.BETWEEN_REQUESTS, self._holding)

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Acquire with timeout 0, since the holder need not wait. The rows name the grant that is held."""
        self._must_believe()
        outer = self._holding
        inner = self._worker.acquire(outer.key, 0, outer.flags | NESTED, outer)
        if inner is None:
            raise Stopped
        try:
            yield
        finally:
            refused = self._worker.release(inner)
        if refused is Reason.NOT_OWNER:
            self._worker.renewal.lose(outer, self._worker.process)
            raise Stopped

    def also(self, timeout: float, key: int | None = None) -> AbstractContextManager[HeldLock]:
        self._must_believe()
        if not self._worker.wait_until(time.monotonic()):
            raise Stopped  # the trial is over
        key = (self._holding.key + 1) % self.keys if key is None else key
        return self._inside(self._worker.acquire(key, timeout))

    def downgraded(self) -> AbstractContextManager[HeldLock]:
        self._must_believe()
        return self._inside(self._worker.downgrade(self._holding))

    def _inside(self, holding: Holding | None) -> AbstractContextManager[HeldLock]:
        if holding is None:
            raise Stopped
        return self._worker.inside(holding)

    def write_late(self) -> None:
        """Nothing is written if no fence can refuse it, or after an access without an answer."""
        if self._worker.spec.store_mode != Mode.UNFENCED and not self._holding.spoiled:
            with contextlib.suppress(Stopped):
                self._write(None, None, LATE)

    def work(self, seconds: float) -> None:
        """Ends early once the trial is over: others are waiting for the lock."""
        self._worker.wait_until(time.monotonic() + seconds)

    def stays(self) -> bool:
        return self._recorder.page[row_format.RUN] == Command.STAY

    def _begin_access(self) -> StoreClient:
        """The client of the store, whose requests are counted from here on."""
        self._requests = 0
        self._worker.store.asks = self._asks
        return self._worker.store

    def _asks(self) -> None:
        """A request goes to the store. If an access takes several, others get the time to come between them."""
        self._requests += 1
        if self._requests > 1:
            if self._holding in self._worker.renewal.held:
                self._worker.reach(Gate.BETWEEN_REQUESTS, self._holding)
            self.work(self.pace * self.rng.random())

    def _must_believe(self) -> None:
        renewal = self._worker.renewal
        if not renewal.believes(self._holding):
            renewal.lose(self._holding, self._worker.process)
            raise Stopped

    def _write(self, base: int | None, elements: Sequence[int] | None, flags: int) -> int:
        value = next(self._worker.values)
        row = self._invoke(F.WRITE, value, row_format.NONE if base is None else base, flags)
        contents = None if elements is None else [*elements, value]
        try:
            accepted = self._begin_access().write(self._name, self._holding.grant, value, base, contents)
        except StoreError as error:
            self._unanswered(row, error)
        if not accepted:
            self._refused(row, Reason.STALE_TOKEN)
        self._recorder.ok(row)
        return value

    def _invoke(self, f: F, value: int = row_format.NONE, base: int = row_format.NONE, flags: int = 0) -> int:
        holding, number = self._holding, self._worker.process.number
        named = {"owner": holding.owner, "value": value, "base": base, "flags": holding.flags | flags}
        return self._recorder.invoke(f, number, holding.key, token=holding.grant.token, **named)

    def _refused(self, row: int, reason: Reason, error: str = "") -> NoReturn:
        self._recorder.fail(row, reason, error)
        raise Stopped

    def _unanswered(self, row: int, error: StoreError) -> NoReturn:
        """Record that there is no answer: a request never sent certainly did not happen, any other may have."""
        if isinstance(error, Unavailable):
            self._refused(row, Reason.UNAVAILABLE, str(error))
        self._holding.spoiled = True
        self._recorder.info(row, str(error))
        self._worker.process.crashed()
        raise Stopped
