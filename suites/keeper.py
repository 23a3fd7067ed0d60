"""The keeper: renews what the worker holds, and notices when the client no longer believes that it holds it.

It has two threads, because a renewal may wait for its answer for longer than the lease lasts. The belief of a client
ends when its lease does by its own clock, however late an answer was, or when the client says so itself (`Believes`).
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable

from checkers import wire
from checkers.wire import F, Gate, Reason
from suites.gates import Died, Gates
from suites.lock import Believes, Grant, Indeterminate, LockClient, Refused, Session, now
from suites.recorder import Recorder
from suites.spec import Process, Spec

_WATCH = 0.02
"""Seconds between looks at the client's belief while it holds."""


class Holding:
    """What the worker thinks that it holds."""

    def __init__(self, grant: Grant, key: int) -> None:
        self.grant = grant
        self.key = key
        self.expires = grant.expires
        """ns; when the belief ends by the client's own clock, unless a renewal is acknowledged before."""
        self.noticed = math.inf
        """Seconds of CLOCK_MONOTONIC; when the client noticed that it no longer holds."""
        self.noticing = threading.Lock()
        self.spoiled = False
        """An access under this grant has no answer: nothing more may be written under its token."""

    @property
    def over(self) -> bool:
        """Whether the client has noticed that it no longer holds."""
        return self.noticed < math.inf


class Keeper:
    """Keeps one holding at a time. What a thread of it may not raise is found in `broken`."""

    def __init__(self, spec: Spec, client: LockClient, recorder: Recorder, gates: Gates) -> None:
        self.broken: BaseException | None = None
        self.held: Holding | None = None
        self._client = client
        self._recorder = recorder
        self._gates = gates
        self._interval = spec.ttl / 3
        self._process = Process(spec.first_process + spec.count, spec.step)
        self._closing = threading.Event()
        self._changed = threading.Event()
        self._session = 0

    def start(self) -> None:
        """Start both threads; they end with the process or with `close`."""
        for loop in (self._renew_for_ever, self._watch):
            threading.Thread(target=self._carry, args=(loop,), name=loop.__name__, daemon=True).start()

    def close(self) -> None:
        """Ask both threads to end."""
        self._closing.set()
        self._changed.set()

    def take(self, holding: Holding) -> None:
        """From now on this is held."""
        self.held = holding
        self._changed.set()

    def let_go(self, holding: Holding, process: Process) -> None:
        """It is about to be released. A belief that has ended unnoticed is noticed now."""
        if not self.believes(holding):
            self.lose(holding, process)
        self.held = None

    def believes(self, holding: Holding) -> bool:
        """Whether the client thinks, at this moment, that it holds."""
        if holding.over or now() >= holding.expires:
            return False
        return self._client.belief(holding.grant) if isinstance(self._client, Believes) else True

    def lose(self, holding: Holding, process: Process) -> None:
        """The client notices that it no longer holds; noted once per grant."""
        with holding.noticing:
            if not holding.over:
                grant, due = holding.grant, min(holding.expires, now())
                self._recorder.lost(process.number, holding.key, grant.owner, grant.token, due)
                holding.noticed = time.monotonic()

    def note_session(self, process: Process, ttl: float) -> None:
        """Record the creation of the client's session, once it is there."""
        client = self._client
        if isinstance(client, Session) and client.session not in (0, self._session):
            self._session = client.session
            row = self._recorder.invoke(F.SESSION_OPEN, process.number, session=client.session, since=client.opened)
            self._recorder.opened(row, client.session, round(ttl * 1e9))

    def _carry(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException as bug:  # noqa: BLE001 - the main thread breaks the trial with it
            self.broken = bug

    def _renew_for_ever(self) -> None:
        while not self._closing.is_set():
            with contextlib.suppress(Died):  # the next one begins anew, as after a restart of the job
                self._renew_until_closed()

    def _renew_until_closed(self) -> None:
        """At fixed times, however long an answer takes: the next request goes out a third of a TTL after the last.

        One that was due before the loss was noticed is sent all the same: so does a client that was frozen.
        """
        due = time.monotonic() + self._interval
        while not self._closing.wait(max(due - time.monotonic(), 0)):
            was_due, due = due, max(due, time.monotonic() - self._interval) + self._interval
            holding = self.held
            if isinstance(self._client, Session):
                self._keep_alive(self._client, holding)
            elif holding is not None and holding.noticed > was_due:
                self._renew(holding)

    def _watch(self) -> None:
        while not self._closing.is_set():
            holding = self.held
            if holding is None or holding.over:
                self._changed.wait()
                self._changed.clear()
            elif not self.believes(holding):
                self.lose(holding, self._process)
            else:
                self._changed.wait(min(_WATCH, max(holding.expires - now(), 0) / 1e9))
                self._changed.clear()

    def _renew(self, holding: Holding) -> None:
        grant = holding.grant
        self._reach_gate(holding)
        row = self._recorder.invoke(
            F.RENEW, self._process.number, holding.key, owner=grant.owner, token=grant.token, session=grant.session
        )
        asked = now()
        if self._send(row, lambda: self._client.renew(grant), holding):
            holding.expires = max(holding.expires, asked + grant.expires - grant.sent)

    def _keep_alive(self, client: Session, holding: Holding | None) -> None:
        if holding is not None and holding.grant.session != client.session:
            holding = None
        self._reach_gate(holding)
        session = client.session
        if session == 0:
            return
        row = self._recorder.invoke(F.KEEP_ALIVE, self._process.number, session=session)
        asked = now()
        held = holding if holding is not None and holding.grant.session == session else None
        if self._send(row, client.keep_alive, held) and held is not None:
            held.expires = max(held.expires, asked + held.grant.ttl)

    def _reach_gate(self, holding: Holding | None) -> None:
        """Nobody is caught there who holds nothing: a session is kept alive between two grants as well."""
        if holding is None or holding.over or holding is not self.held:
            self._gates.reach(Gate.IN_RENEWAL, 0, wire.NONE, self._process.number)
        else:
            self._gates.reach(Gate.IN_RENEWAL, holding.grant.owner, holding.key, self._process.number)

    def _send(self, row: int, request: Callable[[], None], holding: Holding | None) -> bool:
        """Whether it was acknowledged. An answer that it is over ends the belief in what is held."""
        try:
            request()
        except Refused as refusal:
            self._recorder.fail(row, refusal.reason, str(refusal))
            if holding is not None and refusal.reason is Reason.NOT_OWNER:
                self.lose(holding, self._process)
        except Indeterminate as unknown:
            self._recorder.info(row, str(unknown))
            self._process.crashed()
        else:
            self._recorder.ok(row)
            return True
        finally:
            self._recorder.round_over(wire.RENEWAL)
        return False
