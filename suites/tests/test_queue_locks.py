"""The further ZooKeeper and etcd locks against real servers: what each adds to, or leaves out of, the first two."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, cast

import pytest

from checkers.wire import Reason
from infra.access import OPEN
from infra.environment import Environment
from infra.links import Cut
from suites import registry
from suites.lock import (
    NEVER,
    Believes,
    Grant,
    Guards,
    Indeterminate,
    LockClient,
    LockError,
    Refused,
    Session,
    Shares,
    Sweeps,
    Wakes,
)
from suites.locks import etcd_v3lock
from suites.tests.bench import granted

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("locks")]

MUTEXES: Final = (
    "kazoo-lock",
    "zookeeper-rw",
    "zookeeper-reentrant",
    "zookeeper-parent-watch",
    "etcd-key",
    "etcd-v3lock",
    "etcd-v3lock-checked",
    "etcd-keepalive-dies",
    "etcd-rw",
    "etcd-reentrant",
)
SOON: Final = 20.0
"""Seconds within which anything awaited must come, on whatever machine; a TTL that no test waits for, too."""
TTL: Final = 2.0
"""Seconds; one that tests wait for."""


@pytest.fixture(scope="module")
def environment() -> Iterator[Environment]:
    environment = Environment.start()
    try:
        environment.boot({"zookeeper": None, "etcd": None})
        yield environment
    finally:
        environment.close()


@pytest.fixture(scope="module")
def old_etcd() -> Iterator[Environment]:
    environment = Environment.start()
    try:
        environment.boot({"etcd": "3.4"})
        yield environment
    finally:
        environment.close()


@dataclass
class Bench:
    """The clients that a test opened; nobody keeps their sessions alive, but kazoo its own."""

    environment: Environment
    name: str
    clients: list[LockClient] = field(default_factory=list)
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8))

    def client(self, lock: str, group: int = 1, ttl: float = SOON) -> LockClient:
        """As a worker does, it tries until somebody answers."""
        cls = registry.lock(lock)
        deadline = time.monotonic() + SOON
        while True:
            try:
                client = cls.open(self.environment.endpoints(cls.backend, group), ttl)
            except Refused:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                self.clients.append(client)
                return client

    def cut(self, backend: str) -> None:
        for node in self.environment.cluster(backend).nodes:
            self.environment.links.cut("c1", node.name, Cut.DROP)

    def waiting(self, call: Callable[[], Grant | None]) -> Future[Grant | None]:
        """Started in a thread of its own, and known to wait."""
        future = self.pool.submit(call)
        time.sleep(0.5)  # nobody can see from outside that it has joined the queue
        assert not future.done()
        return future

    def close(self) -> None:
        self.environment.links.heal_all()
        self.pool.shutdown()
        for client in self.clients:
            client.close()


@pytest.fixture
def bench(request: pytest.FixtureRequest, environment: Environment) -> Iterator[Bench]:
    bench = Bench(environment, request.node.name)
    yield bench
    bench.close()


@pytest.fixture
def old_bench(request: pytest.FixtureRequest, old_etcd: Environment) -> Iterator[Bench]:
    bench = Bench(old_etcd, request.node.name)
    yield bench
    bench.close()


def held(call: Callable[[], object]) -> None:
    with pytest.raises(Refused) as refusal:
        call()
    assert refusal.value.reason is Reason.HELD


def not_owner(call: Callable[[], object]) -> None:
    with pytest.raises(Refused) as refusal:
        call()
    assert refusal.value.reason is Reason.NOT_OWNER


@pytest.mark.parametrize("lock", MUTEXES)
def test_one_at_a_time(bench: Bench, lock: str) -> None:
    holder, other = bench.client(lock, 1), bench.client(lock, 2)
    grant = granted(holder.acquire(bench.name, 5))
    assert isinstance(holder, Believes)
    assert holder.belief(grant)
    held(lambda: other.acquire(bench.name, 0))
    assert other.acquire(bench.name, 0.3) is None
    waiting = bench.waiting(lambda: other.acquire(bench.name, SOON))
    holder.release(grant)
    later = granted(waiting.result(SOON))
    if registry.lock(lock).tokens:
        assert (later.token or 0) > (grant.token or 0) > 0
    not_owner(lambda: holder.release(grant))
    other.release(later)
    holder.release(granted(holder.acquire(bench.name, 5)))


@pytest.mark.parametrize("lock", ["zookeeper-rw", "etcd-rw"])
def test_readers_beside_each_other_and_no_writer(bench: Bench, lock: str) -> None:
    assert issubclass(registry.lock(lock), Shares)
    one, other, writer, late = (cast(Any, bench.client(lock, group)) for group in (1, 2, 1, 2))
    readers = [granted(one.acquire_shared(bench.name, 5)), granted(other.acquire_shared(bench.name, 5))]
    held(lambda: writer.acquire(bench.name, 0))
    waiting = bench.waiting(lambda: writer.acquire(bench.name, SOON))
    held(lambda: late.acquire_shared(bench.name, 0))  # nobody comes before a writer that waits
    one.release(readers[0])
    time.sleep(0.3)
    assert not waiting.done()
    other.release(readers[1])
    written = granted(waiting.result(SOON))
    behind = bench.waiting(lambda: late.acquire_shared(bench.name, SOON))
    writer.release(written)
    late.release(granted(behind.result(SOON)))


@pytest.mark.parametrize("lock", ["zookeeper-semaphore", "etcd-semaphore"])
def test_two_and_no_third(bench: Bench, lock: str) -> None:
    one, two, three = (bench.client(lock, group) for group in (1, 2, 1))
    first, second = granted(one.acquire(bench.name, 5)), granted(two.acquire(bench.name, 5))
    held(lambda: three.acquire(bench.name, 0))
    waiting = bench.waiting(lambda: three.acquire(bench.name, SOON))
    two.release(second)  # not the one that was first
    third = granted(waiting.result(SOON))
    held(lambda: two.acquire(bench.name, 0))
    one.release(first)
    three.release(third)


@pytest.mark.parametrize("lock", ["zookeeper-reentrant", "etcd-reentrant"])
def test_an_inner_release_frees_nothing(bench: Bench, lock: str) -> None:
    holder, other = bench.client(lock, 1), bench.client(lock, 2)
    outer = granted(holder.acquire(bench.name, 5))
    inner = granted(holder.acquire(bench.name, 0))
    assert (inner.owner, inner.token) == (outer.owner, outer.token)
    holder.release(inner)
    held(lambda: other.acquire(bench.name, 0))
    holder.release(outer)
    other.release(granted(other.acquire(bench.name, 5)))
    not_owner(lambda: holder.release(outer))


@pytest.mark.parametrize("lock", ["zookeeper-reentrant", "etcd-reentrant"])
def test_what_is_lost_is_not_acquired_again(bench: Bench, lock: str) -> None:
    holder = bench.client(lock, 1, TTL)
    grant = granted(holder.acquire(bench.name, 5))
    bench.cut(registry.lock(lock).backend)
    assert isinstance(holder, Believes)
    deadline = time.monotonic() + SOON
    while holder.belief(grant):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    not_owner(lambda: holder.acquire(bench.name, 0))


@pytest.mark.parametrize(
    ("lock", "herd"),
    [("zookeeper", False), ("etcd", False), ("zookeeper-parent-watch", True), ("etcd-key", True)],
)
def test_how_many_are_woken(bench: Bench, lock: str, herd: bool) -> None:
    holder, *waiters = (bench.client(lock, group) for group in (1, 1, 2, 1, 2))
    grant = granted(holder.acquire(bench.name, 5))

    def turn(client: LockClient) -> Grant:
        got = granted(client.acquire(bench.name, SOON))
        time.sleep(0.3)  # in which all who wait begin to watch again
        client.release(got)
        return got

    futures = [bench.pool.submit(turn, waiter) for waiter in waiters]
    time.sleep(1)
    asked = time.monotonic_ns()
    holder.release(grant)
    grants = [future.result(SOON) for future in futures]
    assert [got.sent < got.queued < asked for got in grants] == [registry.lock(lock).fair] * len(grants)
    wakes = sum(waiter.wakes for waiter in waiters if isinstance(waiter, Wakes))
    assert wakes > len(waiters) + 1 if herd else 0 < wakes <= len(waiters) + 1


@pytest.mark.parametrize("lock", ["zookeeper", "etcd"])
def test_data_change_only_under_a_grant(bench: Bench, lock: str) -> None:
    cls = cast(Any, registry.lock(lock))
    holder, other = cast(Any, bench.client(lock, 1)), cast(Any, bench.client(lock, 2))
    assert isinstance(holder, Guards)
    assert isinstance(holder, Sweeps)
    grant = granted(cast(LockClient, holder).acquire(bench.name, 5))
    assert tuple(holder.read(grant, bench.name) or ()) == (-1, ())
    assert holder.write(grant, bench.name, 7, [3, 7])
    assert holder.read(grant, bench.name) == (7, [3, 7])
    cast(LockClient, holder).release(grant)
    assert not holder.write(grant, bench.name, 8, [8])
    assert holder.read(grant, bench.name) is None
    later = granted(other.acquire(bench.name, 5))
    assert not holder.write(grant, bench.name, 9, [9])
    assert other.read(later, bench.name) == (7, [3, 7])
    other.release(later)
    endpoints = bench.environment.direct(cls.backend)
    assert cls.final(endpoints, bench.name, OPEN) == (7, [3, 7])
    cls.sweep(endpoints, [bench.name], OPEN)
    assert cls.final(endpoints, bench.name, OPEN) == (-1, ())


@pytest.mark.parametrize("lock", ["zookeeper", "etcd"])
def test_data_of_a_holder_that_was_away_for_too_long_are_refused(bench: Bench, lock: str) -> None:
    mine, other = cast(Any, bench.client(lock, 1, TTL)), cast(Any, bench.client(lock, 2))
    grant = granted(mine.acquire(bench.name, 5))
    bench.cut(lock)
    with pytest.raises(LockError):
        mine.write(grant, bench.name, 1, [1])
    later = granted(other.acquire(bench.name, SOON))
    assert other.write(later, bench.name, 2, [2])
    bench.environment.links.heal_all()
    deadline = time.monotonic() + SOON
    answer: object = None
    while answer is None:
        assert time.monotonic() < deadline
        try:
            answer = mine.write(grant, bench.name, 3, [3])
        except LockError:
            time.sleep(0.05)
    assert answer is False
    assert other.read(later, bench.name) == (2, [2])


def outlasted(bench: Bench, holder: LockClient, waiter: LockClient) -> Future[Grant | None]:
    """The waiter's call, whose lease died while it waited for the holder's release."""
    grant = granted(holder.acquire(bench.name, 5))
    waiting = bench.waiting(lambda: waiter.acquire(bench.name, SOON))
    time.sleep(2 * TTL + 1.5)  # the server itself prolongs it once
    holder.release(grant)
    return waiting


@pytest.mark.parametrize("lock", ["etcd-v3lock", "etcd-v3lock-checked"])
def test_a_waiter_whose_lease_died_is_told(bench: Bench, lock: str) -> None:
    """Since 3.5 (#11456)."""
    waiting = outlasted(bench, bench.client(lock, 1), bench.client(lock, 2, TTL))
    not_owner(lambda: waiting.result(SOON))


def test_before_3_5_it_was_granted_the_lock_and_so_was_the_next(old_bench: Bench) -> None:
    """etcd #11456. Only its next keep-alive tells."""
    lock = "etcd-v3lock"
    holder, waiter, third = old_bench.client(lock, 1), old_bench.client(lock, 2, TTL), old_bench.client(lock, 1)
    void = granted(outlasted(old_bench, holder, waiter).result(SOON))
    granted(third.acquire(old_bench.name, 5))
    assert isinstance(waiter, Believes)
    assert isinstance(waiter, Session)
    assert waiter.belief(void)
    not_owner(waiter.keep_alive)
    assert not waiter.belief(void)


def test_before_3_5_who_reads_the_key_after_the_grant_finds_that_it_was_void(old_bench: Bench) -> None:
    lock = "etcd-v3lock-checked"
    waiting = outlasted(old_bench, old_bench.client(lock, 1), old_bench.client(lock, 2, TTL))
    with pytest.raises(Refused, match="void"):
        waiting.result(SOON)


def test_the_token_is_read_after_the_grant_and_none_means_that_it_was_void(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other = cast(Any, bench.client("etcd-v3lock-checked")), bench.client("etcd-v3lock-checked", 2)
    grant = granted(client.acquire(bench.name, 5))
    _, about = client._etcd.call(lambda etcd: etcd.get(client._keys[grant.owner]))
    assert grant.token == about.create_revision
    client.release(grant)
    ask = etcd_v3lock.post

    def too_late(member: str, path: str, body: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        """As of a server that has not noticed that the lease is gone."""
        told = ask(member, path, body, timeout)
        client._etcd.call(lambda etcd: etcd.revoke_lease(body["lease"]))
        return told

    with monkeypatch.context() as patched:
        patched.setattr(etcd_v3lock, "post", too_late)
        not_owner(lambda: client.acquire(bench.name, 5))
    other.release(granted(other.acquire(bench.name, 5)))


def test_after_one_error_nothing_is_kept_alive_and_nobody_notices(bench: Bench) -> None:
    mine, other = bench.client("etcd-keepalive-dies", 1, TTL), bench.client("etcd", 2)
    assert isinstance(mine, Session)
    assert isinstance(mine, Believes)
    grant = granted(mine.acquire(bench.name, 5))
    assert grant.expires == NEVER
    mine.keep_alive()
    bench.cut("etcd")
    with pytest.raises(Indeterminate):
        mine.keep_alive()
    bench.environment.links.heal_all()
    with pytest.raises(Refused) as refusal:
        mine.keep_alive()
    assert refusal.value.reason is Reason.UNAVAILABLE
    other.release(granted(other.acquire(bench.name, SOON)))
    assert mine.belief(grant)


def test_kazoo_believes_in_what_is_lost_and_says_that_it_released_it(bench: Bench) -> None:
    mine, other = bench.client("kazoo-lock", 1, TTL), bench.client("zookeeper", 2)
    assert isinstance(mine, Believes)
    grant = granted(mine.acquire(bench.name, 5))
    bench.cut("zookeeper")
    heir = bench.client("kazoo-lock", 2)
    heir.release(granted(heir.acquire(bench.name, SOON)))
    assert mine.belief(grant)
    bench.environment.links.heal_all()
    deadline = time.monotonic() + SOON
    while (cast(Any, mine)._session.zk.client_id or (grant.session,))[0] == grant.session:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    cast(Any, mine)._session.zk.sync("/")  # the connection works, under a session of its own
    assert mine.belief(grant)
    mine.release(grant)  # what is gone is called released
    other.release(granted(other.acquire(bench.name, 5)))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_answers_in_another_order_end_a_session_and_not_the_client(bench: Bench) -> None:
    """kazoo #254: its thread ends with them."""
    mine = bench.client("zookeeper")
    session = cast(Any, mine)._session
    out_of_order = session.zk.handler.async_result()
    session.zk._pending.append((None, out_of_order, -99))
    with pytest.raises(Indeterminate):
        cast(Session, mine).keep_alive()
    assert isinstance(out_of_order.exception, RuntimeError)
    deadline = time.monotonic() + SOON
    while True:
        try:
            mine.release(granted(mine.acquire(bench.name, 5)))
        except LockError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            break
    with pytest.raises(Indeterminate, match="xids"):
        session.ask(lambda: out_of_order)
