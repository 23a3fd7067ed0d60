"""A worker: one process that takes a lock, works under it, lets go, and records every step.

Its main thread goes round and round; its keeper (`suites.keeper`) renews and watches. They are told apart in the
history by their process numbers.
"""

from __future__ import annotations

import importlib
import itertools
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar, cast

from checkers import wire
from checkers.wire import F, Gate, Reason, Run, State
from suites import registry
from suites.gates import Gates
from suites.keeper import Holding, Keeper
from suites.lock import Indeterminate, LockError, Refused, Session, opened
from suites.recorder import Recorder
from suites.spec import Process, Spec
from suites.workload import Stopped, Workload

if TYPE_CHECKING:
    from infra.store import Store
    from suites.section import Section

T = TypeVar("T")

_AGAIN: Final = 0.1
"""Seconds between attempts to connect."""
_WAIT: Final = 0.002
"""Seconds between looks at the control page before the start."""
LATE_SHARE: Final = 0.3
"""Share of the rounds that end with a deliberate late write, where the workload allows it."""
LATE_BY: Final = 2.0
"""Steps of work that it comes later than the release, so that somebody else has been granted the lock meanwhile."""


class Worker:
    """Runs until the control page says FINISH. What an adapter may not raise comes out of `run`."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.recorder = Recorder(spec.recording, spec.access.masked)
        self.process = Process(spec.first_process, spec.step)
        self.rng = random.Random(f"{spec.seed}/{spec.generation}")
        self.gates = Gates(self.recorder.page)
        self.values = itertools.count(spec.first_value, spec.count)
        self.workload = cast(Workload, _load(spec.workload)())
        # Both clients load late: this module imports where neither is installed.
        lock, sections = registry.lock(spec.lock), importlib.import_module("suites.section")
        self.client = self._connected(lambda: opened(lock, spec.endpoints, spec.ttl, spec.access))
        self.store: Store = self._connected(lambda: sections.connect(spec))
        self._section: type[Section] = sections.Section
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
            self._round()
            self.recorder.round_over()
            if self.keeper.broken is not None:
                raise self.keeper.broken
        self.keeper.close()
        self._close_client()
        self.store.close()
        page[wire.STATE] = State.DONE

    def reach(self, gate: Gate, holding: Holding) -> None:
        """The main thread comes by a gate, holding this."""
        self.gates.reach(gate, holding.grant.owner, holding.key, self.process.number)

    def _round(self) -> None:
        holding = self._acquire(self.rng.randrange(len(self.spec.keys)))
        if holding is None:
            return
        section = self._section(self, holding)
        self.keeper.take(holding)
        try:
            self.reach(Gate.AFTER_ACQUIRE, holding)
            self.workload.section(section)
            self.reach(Gate.BEFORE_RELEASE, holding)
        except Stopped:
            pass
        finally:
            self.keeper.let_go(holding, self.process)
        self._release(holding)
        section.work(section.pace * self.rng.uniform(0.5, 1.5))
        if self.workload.late and self.rng.random() < LATE_SHARE:
            section.work(section.pace * LATE_BY)
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
            except LockError as error:
                self.recorder.note(f"could not connect: {error}")
                time.sleep(_AGAIN)

    def _note_session(self) -> None:
        self.keeper.note_session(self.process, self.spec.ttl)


def _load(spelling: str) -> type:
    """The class that ``module:Class`` names."""
    module, _, name = spelling.partition(":")
    return cast(type, getattr(importlib.import_module(module), name))
