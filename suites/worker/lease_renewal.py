"""Lease renewal: renews every lock that the worker holds, and notices when the client no longer believes that it holds.

It has two threads, because a renewal may wait for its answer for longer than the lease lasts. The belief of a client
ends when its lease ends by its own clock, however late an answer was, or when the client says so (`Believes`). The
thread that watches the belief never waits for long, so it is the process's sentinel as well.
"""

import contextlib
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path

from checkers import row_format
from checkers.row_format import F, Gate, Reason
from suites.lock import Believes, Grant, Indeterminate, LockClient, Refused, Session, in_doubt, now
from suites.worker.gates import Died, Gates
from suites.worker.process_spec import Process, Spec
from suites.worker.recorder import Recorder
from suites.worker.wall_clock import WallClock

_WATCH = 0.02  # seconds between looks at the belief of a client that reports it (`Believes`), while the client holds
IDLE = 0.1  # seconds between the sentinel's signs of life at other times
STALLED = 0.05  # seconds by which such a sign may be late before a stall is recorded
_LOOK = 0.5  # seconds between looks at how long other threads waited for a CPU
_STARVED = 0.9  # of that time a starved thread has waited; a thread that shares a CPU waits for half of it
_LAST_ANSWER = 1.0
"""Seconds that an ending worker waits for a renewal's answer at most: a client may hang. Later ones are not noted."""
_LAST_LOOK = 10.0  # seconds that an ending worker waits for the sentinel at most: a client's `belief` may hang


class Holding:
    """A grant that the worker believes it holds, with the flags of all its rows, and their owner if not the grant's."""

    def __init__(self, grant: Grant, key: int, flags: int = 0, owner: int = 0) -> None:
        self.grant = grant
        self.owner = owner or grant.owner
        self.key = key
        self.flags = flags
        self.expires = grant.expires
        """ns; when the belief ends by the client's own clock, unless a renewal is acknowledged before."""
        self.sure = grant.sent
        """ns; just before the latest look at which a client that reports its belief said that it holds; the belief may
        have ended since. Before any look: when the grant was asked for; it may have been over when its answer came."""
        self.noticed = math.inf  # seconds of CLOCK_MONOTONIC; when the client noticed that it no longer holds
        self.noticing = threading.Lock()
        self.answer: Reason | None = Reason.NOT_OWNER
        """What `completed` returned of its release; NOT_OWNER if there was none."""
        self.spoiled = False  # an access under this grant has no answer: nothing more may be written under its token

    def invoke(self, recorder: Recorder, f: F, process: Process, since: int | None = None, flags: int = 0) -> int:
        """Note that an operation on the grant is about to be sent. Returns its row, as `Recorder.invoke`."""
        grant = self.grant
        named = {"owner": self.owner, "session": grant.session, "flags": self.flags | flags}
        return recorder.invoke(f, process.number, self.key, token=grant.token, since=since, **named)

    @property
    def over(self) -> bool:
        """Whether the client has noticed that it no longer holds."""
        return self.noticed < math.inf


class RunDelays:
    """How long the threads of this process were ready to run and got no CPU: on a crowded machine, seconds at times.

    No thread of the process notices it; the kernel counts it. tasks: the folder in which the kernel tells it.
    """

    def __init__(self, tasks: Path = Path("/proc/self/task")) -> None:
        self._tasks = tasks
        self._waited = self._look()

    def longest(self) -> int:
        """ns; the longest time that a thread has waited since the last look.

        A wait counts when it is over. 0 if the kernel does not tell.
        """
        before, self._waited = self._waited, self._look()
        return max((waited - before.get(thread, 0) for thread, waited in self._waited.items()), default=0)

    def _look(self) -> dict[str, int]:
        """Thread → ns for which it has waited so far."""
        waited: dict[str, int] = {}
        with contextlib.suppress(OSError):  # no such system
            for thread in self._tasks.iterdir():
                with contextlib.suppress(OSError):  # it has ended
                    waited[thread.name] = int((thread / "schedstat").read_text().split()[1])
        return waited


class LeaseRenewal:
    """Renews and watches all holdings. An exception that one of its threads may not raise is kept in `broken`."""

    def __init__(self, spec: Spec, client: LockClient, recorder: Recorder, gates: Gates) -> None:
        self.broken: BaseException | None = None
        self.held: tuple[Holding, ...] = ()
        """In the order in which they were taken. The main thread replaces it, the others read it."""
        self.awaited = row_format.NONE  # index of the key that the main thread waits for
        self._client = client
        self._believer = client if isinstance(client, Believes) else None  # asked once: it takes a while
        self._session_of = client if isinstance(client, Session) else None
        self._recorder = recorder
        self._gates = gates
        self._wall_clock = WallClock(recorder.page)
        self._ttl = spec.ttl
        self._interval = spec.ttl / 3
        self._process = Process(spec.first_process + spec.count, spec.step)
        self._stopping = threading.Event()
        self._closing = threading.Event()
        self._changed = threading.Event()
        self._renewer = threading.Thread(target=self._carry, args=(self._renew_for_ever,), name="renewal", daemon=True)
        self._sentinel = threading.Thread(target=self._carry, args=(self._watch,), name="sentinel", daemon=True)
        self._session = 0

    def start(self) -> None:
        """Start both threads; they end with the process or with `close`."""
        self._sentinel.start()
        self._renewer.start()

    def stop(self) -> None:
        """Send no more renewals. One that is under way goes on."""
        self._stopping.set()

    def close(self) -> None:
        """End both threads, the sentinel last, so that it notes stalls for as long as anything is recorded."""
        self.stop()
        self._renewer.join(_LAST_ANSWER)
        self._closing.set()
        self._changed.set()
        self._sentinel.join(_LAST_LOOK)

    def take(self, holding: Holding) -> None:
        self.held = (*self.held, holding)
        self._changed.set()

    def let_go(self, holding: Holding, process: Process) -> int | None:
        """Stop renewing and watching, before the release; a belief that has ended unnoticed is noticed now. Returns the
        time (ns) before the look at the belief, since the machine may stall after it; None if the belief has ended.
        """
        left = now()
        if not self.believes(holding):
            self.lose(holding, process)
        self.held = tuple(other for other in self.held if other is not holding)
        return None if holding.over else left

    def believes(self, holding: Holding) -> bool:
        looked = now()
        if holding.over or looked >= holding.expires:
            return False
        if self._believer is None:
            return True
        believed = self._believer.belief(holding.grant)
        if believed:
            holding.sure = max(holding.sure, looked)
        return believed

    def lose(self, holding: Holding, process: Process) -> None:
        """Record that the client notices that it no longer holds; once per grant."""
        with holding.noticing:
            if not holding.over:
                due, sure = min(holding.expires, now()), holding.sure if self._believer else row_format.NONE
                self._recorder.lost(process.number, holding.key, holding.owner, holding.grant.token, due, sure)
                holding.noticed = time.monotonic()

    def note_session(self, process: Process) -> None:
        """Record the creation of the client's session, once it is there."""
        client = self._session_of
        if client is not None and client.session not in (0, self._session):
            self._session = client.session
            row = self._recorder.invoke(F.SESSION_OPEN, process.number, session=client.session, since=client.opened)
            self._recorder.opened(row, client.session, round(self._ttl * 1e9))

    def _carry(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException as bug:  # noqa: BLE001 - the main thread breaks the trial with it
            self.broken = bug

    def _renew_for_ever(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(Died):  # the next one begins anew, as after a restart of the job
                self._renew_until_closed()

    def _renew_until_closed(self) -> None:
        """Renew at fixed times, however long an answer takes: a request is sent a third of a TTL after the last one.

        A request that was due before the loss was noticed is sent all the same, as by a client that was frozen.
        """
        due = time.monotonic() + self._interval
        while not self._stopping.wait(max(due - time.monotonic(), 0)):
            was_due, due = due, max(due, time.monotonic() - self._interval) + self._interval
            if self._session_of is not None:
                self._keep_alive(self._session_of)
            elif self._client.renewed:
                for holding in self.held:
                    # While one holding is renewed the next may be released.
                    if holding in self.held and holding.noticed > was_due:
                        self._renew(holding)

    def _watch(self) -> None:
        """Watch beliefs, as the process's sentinel: it never waits for long, so a longer silence is a machine stall.

        The thread looks after the other threads as well, and moves the wall clock when the harness says so.
        """
        woke = looked = now()
        delays = RunDelays()
        while not self._closing.is_set():
            self._wall_clock.follow()
            held = [holding for holding in self.held if not holding.over]
            for holding in held:
                if not self.believes(holding):
                    self.lose(holding, self._process)
            due = min((holding.expires for holding in held if not holding.over), default=None)
            pause = _WATCH if held and self._believer else IDLE
            if due is not None:
                pause = min(pause, max(due - now(), 0) / 1e9)
            self._changed.wait(pause)
            self._changed.clear()
            before, woke = woke, now()
            self._recorder.alive(woke)
            if woke - before > (pause + STALLED) * 1e9:
                self._stalled(before)
            if woke - looked > _LOOK * 1e9:
                self._look_after_others(delays, looked, woke)
                looked = woke
        self._look_after_others(delays, looked, max(woke, looked + int(_LOOK * 1e9)))  # with a full span, as always

    def _look_after_others(self, delays: RunDelays, looked: int, woke: int) -> None:
        """Record a stall if a thread got no CPU for most of the time from `looked` to `woke` (ns)."""
        if (waited := delays.longest()) > _STARVED * (woke - looked):
            self._stalled(looked - waited)  # the wait was over at some moment since then

    def _stalled(self, since: int) -> None:
        """Record that the machine did not run this process, or a thread, for some time from `since` (ns) to now."""
        self._recorder.ok(self._recorder.invoke(F.STALL, self._process.number, since=since))

    def _renew(self, holding: Holding) -> None:
        grant = holding.grant
        self._reach_gate(holding)
        row = holding.invoke(self._recorder, F.RENEW, self._process)
        sent = self._recorder.invoked(row)
        if self._send(row, lambda: self._client.renew(grant), holding):
            holding.expires = max(holding.expires, sent + grant.expires - grant.sent)
            self._reach(Gate.AFTER_RENEWAL, holding)

    def _keep_alive(self, client: Session) -> None:
        held = [holding for holding in self.held if holding.grant.session == client.session]
        self._reach_gate(next((holding for holding in held if not holding.over), None))
        session = client.session
        if session == 0:
            return
        row = self._recorder.invoke(F.KEEP_ALIVE, self._process.number, session=session)
        sent = self._recorder.invoked(row)
        held = [holding for holding in held if holding.grant.session == session]

        def extend() -> None:
            client.keep_alive()
            if client.session != session:
                # That session was given up after the look at it, and the one kept alive may be another.
                raise Indeterminate(f"the client has another session by now than {session:#x}, or none")

        if self._send(row, extend, *held):
            for holding in held:
                holding.expires = max(holding.expires, sent + holding.grant.ttl)
                self._reach(Gate.AFTER_RENEWAL, holding)

    def _reach_gate(self, holding: Holding | None) -> None:
        """Between two grants a session is kept alive too. A gate then catches the thread only if the worker waits."""
        if self._session_of is not None and self.awaited != row_format.NONE and not self.held:
            self._gates.reach(Gate.WHILE_WAITING, self._session_of.session, self.awaited, self._process.number)
        elif holding is None:
            self._gates.reach(Gate.IN_RENEWAL, 0, row_format.NONE, self._process.number)
        else:
            self._reach(Gate.IN_RENEWAL, holding)

    def _reach(self, gate: Gate, holding: Holding) -> None:
        """Pass a gate; it catches nothing if the holding is over or was let go."""
        holds = not holding.over and holding in self.held
        self._gates.reach(gate, holding.owner if holds else 0, holding.key, self._process.number)

    def _send(self, row: int, request: Callable[[], None], *held: Holding) -> bool:
        """Whether the request was acknowledged. The answer NOT_OWNER ends the belief in these holdings."""
        try:
            answer = completed(self._recorder, row, self._process, request, row_format.RENEWAL)
            for holding in held if answer is Reason.NOT_OWNER else ():
                self.lose(holding, self._process)
            return answer is Reason.NONE
        finally:
            self._recorder.round_over(row_format.RENEWAL)


def completed(
    recorder: Recorder, row: int, process: Process, request: Callable[[], None], thread: int = row_format.MAIN
) -> Reason | None:
    """Send a request and record its answer: `Reason.NONE` acknowledged, another reason refused, None unknown.

    thread: the thread that sends it (`row_format.MAIN`, `row_format.RENEWAL`).
    """
    recorder.asks(row, thread)
    try:
        request()
    except Refused as refusal:
        recorder.fail(row, refusal.reason, str(refusal))
        return refusal.reason
    except Exception as error:  # noqa: BLE001 - libraries have errors of their own
        recorder.info(row, in_doubt(error))
        process.crashed()
        return None
    finally:
        recorder.asks(0, thread)
    recorder.ok(row)
    return Reason.NONE
