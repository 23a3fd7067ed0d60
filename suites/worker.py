"""A worker: one process that takes a lock, works under it, lets go, and records every step.

Its main thread goes round and round; its keeper (`suites.keeper`) renews and watches. They are told apart in the
history by their process numbers.
"""

from __future__ import annotations

import importlib
import itertools
import random
import time
from collections.abc import Callable, Sequence
from typing import Final, NoReturn, TypeVar, cast

from checkers import wire
from checkers.wire import LATE, F, Gate, Reason, Run, State
from infra import store as fenced
from suites import registry
from suites.gates import Gates, Position
from suites.keeper import Holding, Keeper
from suites.lock import Indeterminate, LockError, Refused, Session
from suites.recorder import Recorder
from suites.spec import Process, Spec
from suites.workload import Stopped, Workload

T = TypeVar("T")

_AGAIN: Final = 0.1
"""Seconds between attempts to connect."""
_WAIT: Final = 0.002
"""Seconds between looks at the control page before the start."""
LATE_SHARE: Final = 0.2
"""Share of the rounds that end with a deliberate late write, where the workload allows it."""


class Worker:
    """Runs until the control page says FINISH. What an adapter may not raise comes out of `run`."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.recorder = Recorder(spec.recording)
        self.process = Process(spec.first_process, spec.step)
        self.rng = random.Random(f"{spec.seed}/{spec.generation}")
        self.gates = Gates(self.recorder.page, self._position)
        self.values = itertools.count(spec.first_value, spec.count)
        self.workload = cast(Workload, _load(spec.workload)())
        lock, mode = registry.lock(spec.lock), fenced.Mode(spec.store_mode)
        self.client = self._connected(lambda: lock.open(spec.endpoints, spec.ttl))
        self.store = self._connected(lambda: fenced.Store.open(spec.store_dsn, mode, timeout=spec.store_timeout))
        self.keeper = Keeper(spec, self.client, self.recorder, self.gates)

    def run(self) -> None:
        """The life of a worker, from the harness's signal to its word that it is enough."""
        page = self.recorder.page
        self._note_session()
        self.keeper.start()
        page[wire.STATE] = State.READY
        while page[wire.RUN] == Run.WAIT:
            time.sleep(_WAIT)
        page[wire.STATE] = State.RUNNING
        while page[wire.RUN] == Run.GO:
            if self.keeper.broken is not None:
                raise self.keeper.broken
            self._round()
        self.keeper.close()
        self._close_client()
        self.store.close()
        page[wire.STATE] = State.DONE

    def _round(self) -> None:
        holding = self._acquire(self.rng.randrange(len(self.spec.keys)))
        if holding is None:
            return
        section = Section(self, holding)
        self.keeper.take(holding)
        try:
            self.gates.reach(Gate.AFTER_ACQUIRE)
            self.workload.section(section)
            self.gates.reach(Gate.BEFORE_RELEASE)
        except Stopped:
            pass
        finally:
            self.keeper.let_go(holding, self.process)
        self._release(holding)
        section.work(section.pace * self.rng.uniform(0.5, 1.5))
        fence = self.spec.store_mode != fenced.Mode.UNFENCED
        if self.workload.late and fence and not holding.spoiled and self.rng.random() < LATE_SHARE:
            section.write_late()

    def _acquire(self, key: int) -> Holding | None:
        row = self.recorder.invoke(F.ACQUIRE, self.process.number, key)
        try:
            grant = self.client.acquire(self.spec.keys[key], self.spec.acquire_timeout)
        except Refused as refusal:
            self.recorder.fail(row, refusal.reason, str(refusal))
            if refusal.reason is not Reason.HELD:
                time.sleep(self.spec.pace)
            return None
        except Indeterminate as unknown:
            self.recorder.info(row, str(unknown))
            self.process.crashed()
            return None
        finally:
            self._note_session()
        if grant is None:
            self.recorder.fail(row, Reason.TIMEOUT)
            return None
        self.recorder.granted(row, grant.sent, grant.ttl, grant.token, grant.owner, grant.session)
        return Holding(grant, key)

    def _release(self, holding: Holding) -> None:
        grant = holding.grant
        row = self.recorder.invoke(
            F.RELEASE, self.process.number, holding.key, owner=grant.owner, token=grant.token, session=grant.session
        )
        try:
            self.client.release(grant)
        except Refused as refusal:
            self.recorder.fail(row, refusal.reason, str(refusal))
        except Indeterminate as unknown:
            self.recorder.info(row, str(unknown))
            self.process.crashed()
        else:
            self.recorder.ok(row)

    def _close_client(self) -> None:
        """The end of a session frees what it still holds, so it is recorded."""
        session = self.client.session if isinstance(self.client, Session) else 0
        row = self.recorder.invoke(F.SESSION_CLOSE, self.process.number, session=session) if session else None
        self.client.close()
        if row is not None:
            self.recorder.info(row, "not told")  # whether it succeeded: close never raises

    def _connected(self, connect: Callable[[], T]) -> T:
        """Nothing is measured yet: all workers connect at once, and the harness says how long that may take."""
        while True:
            try:
                return connect()
            except (LockError, fenced.StoreError) as error:
                self.recorder.note(f"could not connect: {error}")
                time.sleep(_AGAIN)

    def _note_session(self) -> None:
        self.keeper.note_session(self.process, self.spec.ttl)

    def _position(self) -> Position:
        holding = self.keeper.held
        if holding is None:
            return Position(0, -1, self.process.number)
        return Position(holding.grant.owner, holding.key, self.process.number)


class Section:
    """What a workload may do under one grant: fills in `suites.workload.Hold`."""

    def __init__(self, worker: Worker, holding: Holding) -> None:
        self.rng = worker.rng
        self.pace = worker.spec.pace
        self.writes_per_grant = 1 if worker.spec.store_mode == fenced.Mode.FENCE_WRITES_STRICT else None
        self._worker = worker
        self._holding = holding
        self._recorder = worker.recorder
        self._key = worker.spec.keys[holding.key]

    def read(self) -> tuple[int, Sequence[int]]:
        self._must_believe()
        grant = self._holding.grant
        row = self._invoke(F.READ)
        try:
            answer = self._worker.store.read(self._key, grant.token, grant.owner)
        except fenced.StoreError as error:
            self._unanswered(row, error)
        if answer is None:
            self._refused(row, Reason.STALE_TOKEN)
        self._recorder.ok(row, answer.value)
        self._recorder.answered()
        return answer.value, answer.elements

    def write(self, *, base: int | None = None, elements: Sequence[int] | None = None) -> int:
        self._must_believe()
        # After the look at the clock and before the request is sent: no client can close this gap.
        self._worker.gates.reach(Gate.BETWEEN_READ_AND_WRITE)
        return self._write(base, elements, 0)

    def write_late(self) -> None:
        """A deliberate write after the release, to be refused if the store has seen a later grant."""
        try:
            self._write(None, None, LATE)
        except Stopped:
            pass

    def work(self, seconds: float) -> None:
        time.sleep(seconds)

    def _must_believe(self) -> None:
        keeper = self._worker.keeper
        if not keeper.believes(self._holding):
            keeper.lose(self._holding, self._worker.process)
            raise Stopped

    def _write(self, base: int | None, elements: Sequence[int] | None, flags: int) -> int:
        grant = self._holding.grant
        value = next(self._worker.values)
        row = self._invoke(F.WRITE, value, wire.NONE if base is None else base, flags)
        contents = None if elements is None else [*elements, value]
        try:
            accepted = self._worker.store.write(self._key, value, grant.token, grant.owner, contents)
        except fenced.StoreError as error:
            self._unanswered(row, error)
        if not accepted:
            self._refused(row, Reason.STALE_TOKEN)
        self._recorder.ok(row)
        self._recorder.answered()
        return value

    def _invoke(self, f: F, value: int = wire.NONE, base: int = wire.NONE, flags: int = 0) -> int:
        holding, process = self._holding, self._worker.process
        return self._recorder.invoke(
            f,
            process.number,
            holding.key,
            owner=holding.grant.owner,
            token=holding.grant.token,
            value=value,
            base=base,
            flags=flags,
        )

    def _refused(self, row: int, reason: Reason, error: str = "") -> NoReturn:
        self._recorder.fail(row, reason, error)
        self._recorder.answered()
        raise Stopped

    def _unanswered(self, row: int, error: fenced.StoreError) -> NoReturn:
        """No answer: what was never sent certainly did not happen, the rest may have."""
        if isinstance(error, fenced.Unavailable):
            self._refused(row, Reason.UNAVAILABLE, str(error))
        self._holding.spoiled = True
        self._recorder.info(row, str(error))
        self._recorder.answered()
        self._worker.process.crashed()
        raise Stopped


def _load(spelling: str) -> type:
    """The class that ``module:Class`` names."""
    module, _, name = spelling.partition(":")
    return cast(type, getattr(importlib.import_module(module), name))
