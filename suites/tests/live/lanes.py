"""Locks side by side on real servers, each with a key and clients of its own: all wait for the end of a lease at once.

def test_a_holder_that_is_cut_off(lanes: Lanes) -> None:
    def statement(lane: Lane) -> Steps:
        grant = granted(lane.client(1).acquire(lane.key, 1))
        yield  # clients of group 1 are cut off
        assert granted(lane.client(2).acquire(lane.key, 10)).owner != grant.owner

    lanes.check(("redis", "zookeeper"), statement, lanes.cut)
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar
from urllib.parse import quote

import pytest

from infra.faults.all_faults import FAULTS
from infra.network.links import Cut
from infra.own_environment import OwnEnvironment
from infra.tests.environments import target_of
from infra.tests.live.hurting import etcd, insist, until, zookeeper
from suites.lock import Believes, Grant, LockClient, LockError, Refused, Session, opened
from suites.locks import registry
from suites.locks.etcd_session import prefix_of
from suites.locks.etcd_single_key import EtcdKey
from suites.locks.zookeeper_session import ROOT, InSession, ZooKeeperSession
from suites.tests.bench import SOON, await_, granted
from suites.tests.live.patience import hasten, unanswered

T = TypeVar("T")

Steps = Iterator[None]
"""What a lane does. At each `yield` the lane waits until something is done to the servers or links of all lanes."""

LONG: Final = 100.0  # seconds; a TTL that no test waits for
TTL: Final = 2.0  # seconds; a TTL that tests wait for. etcd grants no shorter one
EXPIRY: Final = 60.0
"""Seconds after its TTL within which a server has freed a lock, on any machine. An election prolongs all leases."""
HANGS: Final = SOON  # seconds; longer than any call takes on any machine, its own timeouts included

_TRIES: Final = 5
_DONE: Final = object()


class Lane:
    """One lock, its key, and the clients that a test opened. Only clients that are `kept` renew by themselves."""

    def __init__(self, environment: OwnEnvironment, lock: str, key: str) -> None:
        self.environment: Final = environment
        self.lock_name: Final = lock
        self.lock: Final = registry.load(lock)
        self.key: Final = key
        self._clients: list[LockClient] = []
        self._sessions: dict[ZooKeeperSession, int] = {}  # session → its epoch when its client was opened
        self._keepers: list[threading.Thread] = []
        self._closing = threading.Event()
        self._pool = ThreadPoolExecutor(8)

    def endpoints(self, group: int) -> tuple[str, ...]:
        if self.lock.via:
            return (self.environment.endpoints_of(self.lock.via, group),)
        return self.environment.endpoints(self.lock.backend, group)

    def opened(self, group: int, ttl: float, lock: str = "", only: int | None = None) -> LockClient:
        cls, endpoints = registry.load(lock) if lock else self.lock, self.endpoints(group)
        known = endpoints if only is None else endpoints[only : only + 1]
        return opened(cls, known, ttl, self.environment.access(cls.backend))

    def client(
        self,
        group: int = 1,
        ttl: float = LONG,
        *,
        lock: str = "",
        only: int | None = None,
        kept: bool = False,
        hasty: bool = False,
    ) -> LockClient:
        """Open a client; like a worker, try until a server answers. lock: another lock on the same backend.

        only: the index of the only node that the client knows. kept: its session is kept alive until the lane closes.
        hasty: the client waits only briefly for answers, so calls that must succeed are to be repeated (`eventually`).
        """

        def answered() -> LockClient | None:
            with suppress(Refused):
                return self.opened(group, ttl, lock, only)
            return None

        client = until(answered)
        self._clients.append(client)
        if isinstance(client, InSession):
            self._sessions[client._session] = client._session.epoch
        if hasty:
            hasten(client)
        if kept and isinstance(client, Session):
            self._keepers.append(threading.Thread(target=self._keep_alive, args=(client, ttl / 3)))
            self._keepers[-1].start()
        return client

    def _keep_alive(self, client: Session, every: float) -> None:
        while not self._closing.wait(every):
            if client.session:
                with suppress(LockError):
                    client.keep_alive()

    def started(self, call: Callable[[], T]) -> Future[T]:
        """Run a call in a thread of its own."""
        return self._pool.submit(call)

    def waiting(self, call: Callable[[], Grant | None]) -> Future[Grant | None]:
        """Run a call in a thread of its own, and return once it waits, as far as that can be seen from outside."""
        before = self.entries()
        future = self.started(call)
        if before and not issubclass(self.lock, EtcdKey):  # its waiters leave nothing at the server
            await_(lambda: self.entries() > before or future.done())
        else:
            time.sleep(0.3)
        if future.done():
            pytest.fail(f"it does not wait: {future.result()}")
        return future

    @property
    def interrupted(self) -> bool:
        """Whether a connection with ZooKeeper was interrupted. Clients no longer believe in what was granted before."""
        return any(session.epoch != epoch for session, epoch in self._sessions.items())

    def entries(self) -> int:
        """How many clients hold the lock or stand in its queue; 0 if the servers of this backend do not tell."""
        match self.lock.backend:
            case "zookeeper":
                with zookeeper(",".join(self.environment.direct("zookeeper"))) as client:
                    return len(client.retry(client.get_children, f"{ROOT}/{quote(self.key, safe='')}"))
            case "etcd":
                first, where = prefix_of(self.key), self.environment.direct("etcd")[0]
                end = first[:-1] + chr(ord(first[-1]) + 1)
                answer = insist(partial(etcd, where, "kv/range", key=first, range_end=end, count_only=True))
                return int(answer.get("count", 0))
        return 0

    def close(self) -> None:
        self._closing.set()
        for keeper in self._keepers:
            keeper.join()
        self._pool.shutdown()
        for client in self._clients:
            client.close()


Statement = Callable[[Lane], Steps | None]


class Lanes:
    """The lanes of one test, and what is done to all of them at once: to clients of group 1, never of group 2."""

    def __init__(self, environment: OwnEnvironment, subtests: pytest.Subtests, name: str) -> None:
        self.environment: Final = environment
        self._subtests = subtests
        self._name = name
        self._lanes: list[Lane] = []

    def of(self, lock: str) -> Lane:
        self._lanes.append(Lane(self.environment, lock, f"{self._name}-{lock}-{len(self._lanes)}"))
        return self._lanes[-1]

    def check(self, locks: Sequence[str], statement: Statement, *between: Callable[[], object]) -> None:
        """Check that the statement holds for each of these locks. between: what to do at its first `yield`, second, ...

        Begin anew, a few times, if a client got no answer that it should have got, since the machine stalled.
        """
        left = locks
        for tries in range(1, _TRIES + 1):
            tried = self._tried(left, statement, between)
            left = []
            for lane, future in tried.items():
                error = future.exception()
                stalled = unanswered(error) or (error is not None and not between and lane.interrupted)
                if stalled and tries < _TRIES:
                    left.append(lane.lock_name)
                    continue
                with self._subtests.test(lane.lock_name):
                    assert future.result() is _DONE, "it has more steps"
            if not left:
                break
            self.heal()

    def _tried(
        self, locks: Sequence[str], statement: Statement, between: Sequence[Callable[[], object]]
    ) -> dict[Lane, Future[object]]:
        """The result of the last step in each lane."""

        def begin(lane: Lane) -> object:
            steps = statement(lane)
            begun[lane] = iter(()) if steps is None else steps
            return next(begun[lane], _DONE)

        begun: dict[Lane, Steps] = {}
        lanes = [self.of(lock) for lock in locks]
        with ThreadPoolExecutor(len(lanes)) as pool:
            futures = {lane: pool.submit(begin, lane) for lane in lanes}
            for do in between:
                going_on = [lane for lane, future in futures.items() if not future.exception()]
                do()
                futures |= {lane: pool.submit(next, begun[lane], _DONE) for lane in going_on}
        return futures

    def cut(self, how: Cut = Cut.DROP) -> None:
        with self.environment.links.together():
            for node in self._nodes():
                self.environment.links.cut("c1", node, how)

    def lose_replies(self) -> None:
        with self.environment.links.together():
            for node in self._nodes():
                self.environment.links.block(node, "c1", Cut.DROP)

    def heal(self) -> None:
        self.environment.links.heal_all()

    def terminate(self) -> None:
        """End the sessions of all clients at PostgreSQL."""
        assert FAULTS["terminate-backends"].make("postgres", {}).apply(target_of(self.environment, "postgres"))

    def _nodes(self) -> set[str]:
        """The nodes of every backend that a lane is on, and the poolers in between."""
        locks = [lane.lock for lane in self._lanes]
        via = {lock.via for lock in locks if lock.via}
        return via | {node.name for lock in locks for node in self.environment.cluster(lock.backend).nodes}

    def close(self) -> None:
        self.heal()
        with ThreadPoolExecutor(max(1, len(self._lanes))) as pool:
            list(pool.map(Lane.close, self._lanes))


def holds(*between: Callable[[Lanes], object], **locks: Sequence[str]) -> Callable[[Statement], Callable[..., None]]:
    """Make a test: the statement holds for each of these locks of each backend. between: as in `Lanes.check`."""

    def test_of(statement: Statement) -> Callable[..., None]:
        @pytest.mark.needs(*locks)
        def test(lanes: Lanes) -> None:
            names = [name for names in locks.values() for name in names]
            lanes.check(names, statement, *(partial(do, lanes) for do in between))

        return test

    return test_of


def eventually(call: Callable[[], Grant | None]) -> Grant:
    """Try again after every refusal or unknown outcome, as a worker does, until there is a grant."""
    deadline = time.monotonic() + 2 * LONG  # by then everything that such an outcome left behind has ended
    answers: list[object] = []
    while time.monotonic() < deadline:
        try:
            answers.append(grant := call())
            if grant is not None:
                return grant
        except LockError as error:
            answers.append(error)
            time.sleep(0.02)
    pytest.fail(f"no grant: {answers[-5:]}")


def until_answered(call: Callable[[], T]) -> T:
    """The answer to a call of a hasty client. The call is repeated while no server answers in time."""
    deadline = time.monotonic() + SOON
    while True:
        try:
            return call()
        except LockError as error:
            if not unanswered(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def got(client: LockClient, name: str) -> bool:
    """Whether a try gets the lock, and the release after it succeeds."""
    with suppress(LockError):
        return released(client, granted(client.acquire(name, 0)))
    return False


def released(client: LockClient, grant: Grant) -> bool:
    """Whether the grant could be released."""
    with suppress(LockError):
        client.release(grant)
        return True
    return False


def ends(call: Callable[[], object]) -> object:
    """The answer of a call, or the LockError that it raised; it must not hang."""
    answers: list[object] = []

    def run() -> None:
        try:
            answers.append(call())
        except Exception as error:  # noqa: BLE001
            answers.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANGS)
    assert answers, "it hangs"
    if isinstance(answers[0], Exception) and not isinstance(answers[0], LockError):
        raise answers[0]
    return answers[0]


def keep(client: LockClient, grant: Grant) -> None:
    """Extend the lease, as a worker does."""
    if isinstance(client, Session):
        client.keep_alive()
    else:
        client.renew(grant)


def believes(client: LockClient, grant: Grant) -> bool:
    assert isinstance(client, Believes)
    return client.belief(grant)
