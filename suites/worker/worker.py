"""A worker: one process that acquires a lock, works under it, releases it, and records every step.

Its main thread acquires and releases, again and again; other threads renew the lease and watch the client's belief
(`suites.worker.lease_renewal`). In the history, threads differ by process number. The client of the store and the
critical section are passed in, so that this module imports without any client library.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar, cast

from checkers import row_format
from checkers.row_format import LATE, SHARED, Command, F, Gate, Reason, State
from infra.waiting import after
from suites.lock import (
    Cancels,
    Downgrades,
    Grant,
    Indeterminate,
    LockClient,
    LockError,
    Refused,
    Session,
    Shares,
    Wakes,
    in_doubt,
    new_owner,
    opened,
)
from suites.locks import registry
from suites.locks.grants import BadGrant, checked
from suites.worker.gates import Gates
from suites.worker.lease_renewal import Holding, LeaseRenewal, completed
from suites.worker.process_spec import Process, Spec
from suites.worker.recorder import Recorder
from suites.workloads.workload import AWAY, HeldLock, Stopped, Workload

if TYPE_CHECKING:
    from suites.worker.store_client import StoreClient

T = TypeVar("T")

_AGAIN: Final = 0.1
"""Seconds between attempts to connect, or to acquire from a service that is unavailable or did not answer."""
_LONGEST: Final = 0.8
"""Seconds; `_AGAIN` doubles up to this, or to a step of work if that is longer, while no attempt is answered. Otherwise
workers whose requests time out on a busy machine would keep it busy with new connections until the trial ends."""
_CONNECTS_WITHIN: Final = 30.0
"""Seconds. After that, a library's error when a first worker connects breaks the trial: no fault is on, so it stays."""
_WAIT: Final = 0.02  # seconds between looks at the control page before the start
_APART: Final = 0.5
"""If workers queue, or some only read, their first requests are this many steps of work apart, which is longer than a
request takes (with more workers both take longer). The first holder stays until all others have asked, at most for
`_STAYS`. The order of the queue, and which readers hold together, are then known as a rule."""
_STAYS: Final = 1 / 3  # of a TTL the first holder stays at most: a lease that nobody renews must not end meanwhile
_CROWD: Final = 0.4
"""Seconds. In all other lanes the first `Workload.crowds` rounds begin at multiples of this. Split votes, and many
races, show only if several workers ask at the same instant. Polling clients rarely do so by themselves."""
_LOOK: Final = 0.1  # seconds between looks at the control page, at work and while the next round is not due
HOT_SHARE: Final = 0.5  # share of the rounds that ask for the first key, where there are more keys than workers
CANCELS: Final = 0.5
"""Share of the acquires with little patience that are cancelled (if the client can be), not told how long to wait."""
TRIES: Final = 1 / 3  # share of the rounds without patience that only try
BRIEF: Final = (0.25, 0.004)
"""The share of the other impatient rounds that wait for so many seconds at most, which is about as long as a request
takes: the grant may come when the client has given up."""
SOON: Final = 1.0  # the other impatient rounds wait at most so many steps of work for each other worker: a queue's time
GONE_SHARE: Final = 0.5
"""How often a worker stays away for as long as a long rest lasts (`AWAY`) when an acquire with little patience got
nothing. Its next request might remove what it left behind; meanwhile that stands in the way of others."""
LATE_SHARE: Final = 0.2
"""Share of the rounds that end with a deliberate late write (`Workload.late`); one of each worker's first does."""
LATE_BY: Final = 1.5  # steps of work from the release to that late write, so that another worker has the lock by then
AGAIN_SHARE: Final[Mapping[Reason | None, float]] = {Reason.NONE: 0.25, None: 0.5}
"""Answer of a release (`completed`) → how often the grant is then released once more, after a rest. Acknowledged: some
code releases twice. No answer (None): some code tries again."""


class Worker:
    """Runs until the control page says FINISH. `run` raises an exception that an adapter raised and may not raise.

    connect  opens the client of what the lock protects (`suites.worker.store_client.connect`).
    section  makes the inside of a critical section (`suites.worker.critical_section.Section`).
    """

    def __init__(
        self,
        spec: Spec,
        connect: Callable[[Spec, LockClient], StoreClient],
        section: Callable[[Worker, Holding], HeldLock],
    ) -> None:
        self.spec = spec
        self.recorder = Recorder(spec.recording, spec.access.masked)
        self.process = Process(spec.first_process, spec.step)
        self.rng = random.Random(f"{spec.seed}/{spec.generation}")
        self.gates = Gates(self.recorder.page)
        self.values = itertools.count(spec.first_value, spec.count)
        module, _, workload = spec.workload.partition(":")
        self.workload = cast(Workload, getattr(importlib.import_module(module), workload)())
        lock = registry.load(spec.lock)
        self._pause = _AGAIN
        self.client = self._connected(lambda: opened(lock, spec.endpoints, spec.ttl, spec.access))
        self._turn = 0
        self._cancelled = False
        self._owners: set[int] = set()
        self._sharer = self.client if isinstance(self.client, Shares) else None  # asked once: it takes a while
        self._woken = self.client if isinstance(self.client, Wakes) else None
        self._canceller = self.client if isinstance(self.client, Cancels) else None
        self._until_answered: contextlib.ExitStack | None = None
        """What ends when the acquire under way is answered, such as the timer of a cancel; else None."""
        if self._canceller is not None:
            signal.signal(signal.SIGUSR1, lambda *_: self._give_up(0.0))  # from the tap
        self.downgrader = self.client if isinstance(self.client, Downgrades) else None
        # With so many locks that nobody else wants most of them, faults on holders strike the locks that all ask for.
        self._wanted = frozenset(self.workload.order or (0,)) if len(spec.keys) > spec.count else None
        self._mine = _dealt(self.workload.order, spec)
        self._in_line = self.client.fair or self._woken is not None or bool(self._sharer and self.workload.readers)
        self.store: StoreClient = self._connected(lambda: connect(spec, self.client))
        self._section = section
        self.renewal = LeaseRenewal(spec, self.client, self.recorder, self.gates)

    def run(self) -> None:
        """Run rounds from the harness's signal to start until it tells the worker to finish."""
        page = self.recorder.page
        self.renewal.note_session(self.process)
        self.renewal.start()
        page[row_format.STATE] = State.READY
        while page[row_format.RUN] == Command.WAIT:
            time.sleep(_WAIT)
        page[row_format.STATE] = State.RUNNING
        crowds = 0 if self._in_line or self.spec.rate else self.workload.crowds
        due = time.monotonic()
        time.sleep(_APART * self.spec.pace * self.spec.number if self._in_line else 0.0)
        while page[row_format.RUN] != Command.FINISH:
            if crowds and not self._cancelled:  # a worker that gave up asks again, or stays away
                crowds -= 1
                time.sleep(_CROWD - time.monotonic() % _CROWD)
            if self.spec.rate:
                due += self.rng.expovariate(self.spec.rate)
                if not self.wait_until(due):
                    break
            self._round()
            self.recorder.round_over()
            if self.renewal.broken is not None:
                raise self.renewal.broken
        self.renewal.stop()
        self._close_client()
        self.store.close()
        self.renewal.close()
        page[row_format.STATE] = State.DONE

    def wait_until(self, due: float) -> bool:
        """Wait until this second of CLOCK_MONOTONIC. Stops waiting, and returns False, once the trial is over."""
        page = self.recorder.page
        while page[row_format.RUN] != Command.FINISH:
            if (left := due - time.monotonic()) <= 0:
                return True
            time.sleep(min(left, _LOOK))
        return False

    def reach(self, gate: Gate, holding: Holding) -> None:
        """The main thread passes a gate with this holding, if its lock is wanted."""
        if self._wanted is None or holding.key in self._wanted:
            self.gates.reach(gate, holding.owner, holding.key, self.process.number)

    def acquire(self, key: int, timeout: float, flags: int = 0, outer: Holding | None = None) -> Holding | None:
        """Acquire the lock of this key index. outer: the holding to acquire again. None: not granted (recorded)."""
        owner, token = (outer.owner, outer.grant.token) if outer else (0, None)
        patience = 0 if timeout == self.spec.acquire_timeout else round(timeout * 1e9)
        kind = F.ACQUIRE if timeout or outer else F.TRY_ACQUIRE
        row = self.recorder.invoke(kind, self.process.number, key, ttl=patience, owner=owner, token=token, flags=flags)
        self.renewal.awaited = key
        self.recorder.asks(row)
        try:
            answer = self._ask(row, key, timeout, flags)
        except Refused as refusal:
            self.recorder.fail(row, refusal.reason, str(refusal), refusal.session)
            if refusal.reason is Reason.HELD:
                self._pause = _AGAIN
            else:
                self._unanswered()
            return None
        except Exception as error:  # noqa: BLE001 - libraries have errors of their own
            self.recorder.info(row, in_doubt(error))
            self.process.crashed()
            if not self._cancelled:  # a worker that gave up asks again, perhaps before the answer, or stays away
                self._unanswered()
            return None
        finally:
            self.recorder.asks(0)
            self.renewal.awaited = row_format.NONE
            self.renewal.note_session(self.process)
        self._pause = _AGAIN
        verb = "acquire_shared" if self._sharer and flags & SHARED else "acquire"
        grant = checked(answer, self.spec.keys[key], f"{type(self.client).__name__}.{verb}")
        if grant is None:
            self.recorder.fail(row, Reason.TIMEOUT)
            return None
        owner = outer.owner if outer and outer.grant.owner == grant.owner else self._identity(grant)
        self.recorder.granted(row, grant, owner)
        return Holding(grant, key, flags, owner)

    def release(self, holding: Holding, since: int | None = None) -> Reason | None:
        """Release the grant. since: ns, when the section was left. Returns what `completed` returns."""
        row = holding.invoke(self.recorder, F.RELEASE, self.process, since)
        self.gates.asks()
        return completed(self.recorder, row, self.process, lambda: self.client.release(holding.grant))

    def release_again(self, holding: Holding) -> None:
        """Release a grant once more after its release, when another client may hold the lock. Any exception of the
        client counts as an answer: the client may have forgotten the grant.
        """

        def request() -> None:
            try:
                self.client.release(holding.grant)
            except LockError:
                raise
            except Exception as error:
                raise Indeterminate(repr(error)) from error

        row = holding.invoke(self.recorder, F.RELEASE, self.process, flags=LATE)
        completed(self.recorder, row, self.process, request)

    def downgrade(self, holding: Holding) -> Holding | None:
        """Turn a writer into a reader. The history gets the writer's release, and the reader's grant at the moment of
        the request, since the lock is held all the while. None: nothing is held, or nobody knows.
        """
        assert self.downgrader is not None
        client, grants, number = self.downgrader, list[Grant](), self.process.number
        row = holding.invoke(self.recorder, F.RELEASE, self.process, self.renewal.let_go(holding, self.process))
        begun = self.recorder.invoked(row)
        answer = completed(self.recorder, row, self.process, lambda: grants.append(client.downgrade(holding.grant)))
        if answer not in (Reason.NONE, None):
            return None
        row = self.recorder.invoke(F.ACQUIRE, number, holding.key, flags=SHARED, since=begun)
        if answer is None:
            self.recorder.info(row, "a downgrade without an answer")
            return None
        grant = checked(grants[0], self.spec.keys[holding.key], f"{type(client).__name__}.downgrade")
        if grant is None:
            raise BadGrant(f"{type(client).__name__}.downgrade returned None: a suites.lock.Grant is needed")
        owner = self._identity(grant)
        self.recorder.granted(row, replace(grant, sent=begun, queued=0), owner, begun)
        reader = Holding(grant, holding.key, SHARED, owner)
        if not grant.session:
            reader.expires = min(grant.expires, begun + grant.expires - grant.sent)  # as the checkers count it
        return reader

    def _identity(self, grant: Grant) -> int:
        """A grant's identity in the history: its owner, or a new one if the client has returned that owner before."""
        owner = new_owner() if grant.owner in self._owners else grant.owner
        self._owners.add(owner)
        return owner

    @contextlib.contextmanager
    def inside(self, holding: Holding) -> Iterator[HeldLock]:
        """The critical section of a holding, gate to gate. The lock is renewed, and released if it is still held."""
        self.renewal.take(holding)
        try:
            self.reach(Gate.AFTER_ACQUIRE, holding)
            yield self._section(self, holding)
            if holding in self.renewal.held:
                self.reach(Gate.BEFORE_RELEASE, holding)
        except Stopped:
            self._leave(holding)
            raise
        self._leave(holding)

    def _round(self) -> None:
        key, turn = self._key(), self._turn
        # The readers change from turn to turn; at any time they are about as many as the workload says. A refused
        # worker asks for the same again: otherwise overlapping readers may keep all writers out as long as they like.
        reads = (self.spec.number + turn) % self.spec.count < self.workload.readers * self.spec.count
        shares = reads and self._sharer is not None
        patience = self._patience()
        holding = self.acquire(key, patience, SHARED if shares else 0)
        if holding is None:
            if patience < self.spec.acquire_timeout and self.rng.random() < GONE_SHARE:
                self.wait_until(time.monotonic() + self.spec.pace * self.rng.uniform(*AWAY))
            return
        self._turn += 1
        with contextlib.suppress(Stopped), self.inside(holding) as section:
            if self._in_line and self.spec.number == self.spec.generation == turn == 0:
                section.work(min(_APART * self.spec.pace * (self.spec.count - 1), self.spec.ttl * _STAYS))
            if self.wait_until(time.monotonic()):  # else the trial is over, and others are waiting
                self.workload.section(section)
        after = self._section(self, holding)
        self.workload.rest(after)
        if self.workload.again and self.rng.random() < AGAIN_SHARE.get(holding.answer, 0.0):
            self.release_again(holding)
        if self.workload.late and (turn == self.spec.number or self.rng.random() < LATE_SHARE):
            after.work(after.pace * LATE_BY)
            after.write_late()

    def _key(self) -> int:
        """Index of the key that the next round asks for. If there are many keys, one stays contended."""
        if self._mine:  # the process has a new number after each request without an answer
            return self._mine[self.process.number // self.spec.step % len(self._mine)]
        keys = len(self.spec.keys)
        if self.workload.holds > 1 and keys <= self.spec.count:  # mostly all are held, and a worker waits for one
            return (self.spec.number + self._turn) % keys
        return 0 if keys > self.spec.count and self.rng.random() < HOT_SHARE else self.rng.randrange(keys)

    def _patience(self) -> float:
        """Seconds that the next acquire waits at most. Where workers queue, none gives up before the queue is there."""
        first = self._in_line and self._turn == self.spec.generation == 0
        if first or not self.workload.gives_up or self.rng.random() >= self.workload.gives_up:
            return self.spec.acquire_timeout
        if self.rng.random() < TRIES:
            return 0.0
        brief = self.rng.random() < BRIEF[0]
        return self.rng.uniform(0.0, BRIEF[1] if brief else SOON * self.spec.pace * (self.spec.count - 1))

    def _unanswered(self) -> None:
        """Wait before the next attempt."""
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, max(_LONGEST, self.spec.pace))

    def _ask(self, row: int, key: int, timeout: float, flags: int) -> Grant | None:
        """The client's answer to an acquire; the row gets how often the client was woken meanwhile."""
        sharer, woken, name = self._sharer, self._woken, self.spec.keys[key]
        take = sharer.acquire_shared if sharer and flags & SHARED else self.client.acquire
        before = woken.wakes if woken else 0
        self._cancelled = False
        with contextlib.ExitStack() as self._until_answered:
            try:
                if self._canceller and 0 < timeout < self.spec.acquire_timeout and self.rng.random() < CANCELS:
                    self._give_up(timeout)
                    timeout = self.spec.acquire_timeout
                return take(name, timeout)
            finally:
                self._until_answered = None
                if woken:
                    self.recorder.woken(row, woken.wakes - before)

    def _give_up(self, seconds: float) -> None:
        """Cancel the acquire under way, if there is one, so many seconds from now."""
        if self._until_answered is not None:
            self._until_answered.enter_context(after(seconds, self._cancel))

    def _cancel(self) -> None:
        self._cancelled = True
        cast(Cancels, self.client).cancel()

    def _leave(self, holding: Holding) -> None:
        if holding not in self.renewal.held:
            return
        holding.answer = self.release(holding, self.renewal.let_go(holding, self.process))

    def _close_client(self) -> None:
        """Close the client. The end of its session may free a lock, so it is recorded."""
        session = self.client.session if isinstance(self.client, Session) else 0
        row = self.recorder.invoke(F.SESSION_CLOSE, self.process.number, session=session) if session else None
        try:
            self.client.close()
        except Exception as error:  # noqa: BLE001 - libraries have errors of their own
            self.recorder.note(f"could not close: {in_doubt(error)}")
        if row is not None:
            self.recorder.info(row, "not told")  # whether the service ended the session

    def _connected(self, connect: Callable[[], T]) -> T:
        """Try until it succeeds: all workers connect at once, and the harness limits the time."""
        began = time.monotonic()
        while True:
            try:
                return connect()
            except Exception as error:
                self.recorder.note(f"could not connect: {in_doubt(error)}")
                late = time.monotonic() - began > _CONNECTS_WITHIN
                if late and self.spec.generation == 0 and not isinstance(error, LockError):
                    raise
                self._unanswered()


def _dealt(order: Sequence[int], spec: Spec) -> list[int]:
    """The keys that a worker asks for: the next one after a request without an answer. Empty: any key (`order`)."""
    dealt = [order[number % len(order)] for number in range(spec.count) if order]
    alone = dealt and dealt.count(dealt[spec.number]) == 1
    return dealt[spec.number : spec.number + 1] + [key for key in range(len(spec.keys)) if alone and key not in dealt]
