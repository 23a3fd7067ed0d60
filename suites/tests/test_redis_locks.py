"""The further Redis locks against real servers: what each adds to, or leaves out of, what the first two do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pytest

from checkers.wire import Reason
from infra.environment import Environment
from infra.failover import connect
from infra.links import Cut
from infra.star import PRIMARY, REPLICA
from suites import registry
from suites.lock import NEVER, Grant, Indeterminate, LockClient, Refused, Shares, now
from suites.locks import redis_fair
from suites.locks.redis_fair import PATIENCE
from suites.locks.redis_semaphore import PERMITS
from suites.tests.bench import granted, refusal

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("locks")]

MUTEXES: Final = (
    "redis-watchdog",
    "redis-fair",
    "redis-wait",
    "redis-rw",
    "redis-reentrant",
    "redlock-3",
    "redlock-unchecked",
    "redlock-delayed-restart",
)
SOON: Final = 30.0
"""Seconds within which anything awaited must come, on whatever machine."""
LONG: Final = 20.0
"""Seconds; a TTL that no test waits for."""
TTL: Final = 1.2
"""Seconds; one that tests wait for."""
MARGIN: Final = 4.0
"""Seconds by which any call may exceed its own timeout here, also on a busy machine."""


@pytest.fixture(scope="module")
def environment() -> Iterator[Environment]:
    environment = Environment.start()
    try:
        environment.boot({"redis": None})
        yield environment
    finally:
        environment.close()


@dataclass
class Bench:
    """The clients that a test opened; nobody renews by himself."""

    environment: Environment
    name: str
    clients: list[LockClient] = field(default_factory=list)

    def client(self, lock: str, group: int = 1, ttl: float = LONG) -> LockClient:
        """As a worker does, it tries until somebody answers."""
        cls = registry.lock(lock)
        endpoints = self.environment.endpoints("redis", group)
        deadline = time.monotonic() + SOON
        while True:
            try:
                client = cls.open(endpoints, ttl)
            except Refused:
                assert time.monotonic() < deadline, "nobody answers"
            else:
                self.clients.append(client)
                return client

    def close(self) -> None:
        self.environment.links.heal_all()
        for client in self.clients:
            client.close()


@pytest.fixture
def bench(request: pytest.FixtureRequest, environment: Environment) -> Iterator[Bench]:
    bench = Bench(environment, request.node.name)
    yield bench
    bench.close()


def eventually(call: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON
    while not call():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


def wait_for_votes(bench: Bench, lock: str) -> None:
    """Its nodes may have started only now."""
    client = bench.client(lock, 1, TTL)
    eventually(lambda: got(client, bench.name + "/votes"))


@pytest.mark.parametrize("lock", MUTEXES)
def test_one_at_a_time_and_renewed_beyond_the_ttl(bench: Bench, lock: str) -> None:
    if lock == "redlock-delayed-restart":
        wait_for_votes(bench, lock)
    holder, other = bench.client(lock, 1, TTL), bench.client(lock, 2, TTL)
    grant = granted(holder.acquire(bench.name, 1))
    until = time.monotonic() + 1.3 * TTL
    while time.monotonic() < until:
        assert refusal(lambda: other.acquire(bench.name, 0)) in (Reason.HELD, Reason.DENIED)
        time.sleep(TTL / 5)
        holder.renew(grant)
    assert other.acquire(bench.name, 0.1) is None
    holder.release(grant)
    next_grant = granted(other.acquire(bench.name, 1))
    assert next_grant.owner != grant.owner
    assert (next_grant.token is None) == (not other.tokens)
    if grant.token is not None and next_grant.token is not None:
        assert next_grant.token > grant.token
    for late in (lambda: holder.renew(grant), lambda: holder.release(grant)):
        assert refusal(late) is Reason.NOT_OWNER
    other.release(next_grant)


@pytest.mark.parametrize("lock", [*MUTEXES, "redis-semaphore"])
def test_whoever_is_not_renewed_loses_it_by_its_ttl(bench: Bench, lock: str) -> None:
    if lock == "redlock-delayed-restart":
        wait_for_votes(bench, lock)
    dead, other = bench.client(lock, 1, TTL), bench.client(lock, 2, TTL)
    grants = (
        [granted(dead.acquire(bench.name, 1)) for _ in range(dead.permits)]
        if not dead.reentrant
        else [granted(dead.acquire(bench.name, 1))]
    )
    began = time.monotonic()
    next_grant = granted(other.acquire(bench.name, TTL + MARGIN))
    assert time.monotonic_ns() >= min(grant.sent + int(0.98 * grant.ttl) for grant in grants)
    assert time.monotonic() - began <= TTL + MARGIN
    assert refusal(lambda: dead.renew(grants[0])) is Reason.NOT_OWNER
    other.release(next_grant)


@pytest.mark.parametrize("lock", MUTEXES)
def test_a_lost_answer_is_unknown(bench: Bench, lock: str) -> None:
    if lock == "redlock-delayed-restart":
        wait_for_votes(bench, lock)
    mine, other = bench.client(lock, 1, TTL), bench.client(lock, 2, TTL)
    mine.release(granted(mine.acquire(bench.name, 1)))
    for node in bench.environment.cluster("redis").nodes:
        bench.environment.links.block(node.name, "c1", Cut.DROP)
    with pytest.raises(Indeterminate):
        mine.acquire(bench.name, 0.1)
    bench.environment.links.heal_all()
    granted(other.acquire(bench.name, TTL + PATIENCE + MARGIN))


def test_the_watchdogs_client_does_not_look_at_the_clock(bench: Bench) -> None:
    client = bench.client("redis-watchdog")
    assert granted(client.acquire(bench.name, 1)).expires == NEVER


def test_who_asked_first_is_served_first(bench: Bench) -> None:
    lock = "redis-fair"
    holder = bench.client(lock)
    grant = granted(holder.acquire(bench.name, 1))
    clients = [bench.client(lock, 1 + number % 3) for number in range(4)]
    grants: list[Grant] = []

    def wait_and_pass_on(client: LockClient) -> None:
        mine = granted(client.acquire(bench.name, SOON))
        grants.append(mine)
        client.release(mine)

    with ThreadPoolExecutor(len(clients)) as threads:
        waiting = []
        for client in clients:
            waiting.append(threads.submit(wait_and_pass_on, client))
            await_queue(bench, len(waiting))
        time.sleep(PATIENCE)  # who asks again and again keeps its place
        assert refusal(lambda: holder.acquire(bench.name, 0)) is Reason.HELD
        holder.release(grant)
        for each in waiting:
            each.result()
    assert [one.queued for one in grants] == sorted(one.queued for one in grants)
    assert [one.token for one in grants] == sorted(one.token or 0 for one in grants)


def test_a_waiter_that_died_keeps_nobody_out_for_long(bench: Bench) -> None:
    lock = "redis-fair"
    holder, dead, other = (bench.client(lock, group) for group in (1, 2, 3))
    grant = granted(holder.acquire(bench.name, 1))
    for node in bench.environment.cluster("redis").nodes:
        bench.environment.links.block(node.name, "c2", Cut.DROP)
    with pytest.raises(Indeterminate):
        dead.acquire(bench.name, 1)
    assert queue_length(bench) == 1
    holder.release(grant)
    assert refusal(lambda: other.acquire(bench.name, 0)) is Reason.DENIED
    other.release(granted(other.acquire(bench.name, PATIENCE + MARGIN)))
    assert queue_length(bench) == 0


def test_who_gives_up_leaves_the_queue(bench: Bench) -> None:
    holder, other = bench.client("redis-fair", 1), bench.client("redis-fair", 2)
    grant = granted(holder.acquire(bench.name, 1))
    assert other.acquire(bench.name, 0.1) is None
    assert queue_length(bench) == 0
    holder.release(grant)


def test_whoever_stood_still_waits_since_its_return(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lost its place, and is given the lock by the very request that puts it into the queue again."""
    holder, other = bench.client("redis-fair", 1), bench.client("redis-fair", 2)
    grant = granted(holder.acquire(bench.name, 1))
    returned: list[int] = []

    def stand_still(_deadline: int, _poll: tuple[float, float]) -> bool:
        time.sleep(PATIENCE + 0.1)
        holder.release(grant)
        returned.append(now())
        return True

    monkeypatch.setattr(redis_fair, "pause_until", stand_still)
    mine = granted(other.acquire(bench.name, SOON))
    assert mine.queued > returned[0]
    assert mine.token == (grant.token or 0) + 1


def await_queue(bench: Bench, length: int) -> None:
    eventually(lambda: queue_length(bench) == length)


def queue_length(bench: Bench) -> int:
    node = bench.environment.cluster("redis").nodes[0]
    return int(ask(node.address, "ZCARD", f"fencepost:{{{bench.name}}}:queue"))


def ask(address: tuple[str, int], *words: object) -> int:
    with connect(address) as redis:
        answer: int = redis.execute_command(*words)
        return answer


def test_no_replica_no_lock(bench: Bench) -> None:
    mine = bench.client("redis-wait")
    mine.release(granted(mine.acquire(bench.name, 1)))
    bench.environment.links.cut(REPLICA, PRIMARY, Cut.DROP)
    assert refusal(lambda: mine.acquire(bench.name, 1)) is Reason.UNAVAILABLE
    node = bench.environment.cluster("redis").nodes[0]
    assert ask(node.address, "EXISTS", f"fencepost:{{{bench.name}}}") == 0, "it was not given back"
    bench.environment.links.heal_all()
    pair = bench.environment.failover()
    assert pair is not None
    eventually(pair.follows)


def test_a_grant_survives_the_failover_to_its_replica(bench: Bench) -> None:
    """Of the plain lock it may not: that is `promote-replica`."""
    pair = bench.environment.failover()
    assert pair is not None
    eventually(pair.follows)
    mine, other = bench.client("redis-wait", 1), bench.client("redis-wait", 2)
    grant = granted(mine.acquire(bench.name, 1))
    bench.environment.links.cut(REPLICA, PRIMARY, Cut.DROP)
    pair.promote("test")
    try:
        assert refusal(lambda: other.acquire(bench.name, 0)) is Reason.HELD
        mine.release(grant)
        assert refusal(lambda: other.acquire(bench.name, 0)) is Reason.UNAVAILABLE, "the promoted one has no replica"
    finally:
        bench.environment.links.heal_all()
        pair.let_go("test")
    eventually(pair.follows)
    grant_after = granted(other.acquire(bench.name, 5))
    assert grant_after.token is not None
    assert grant.token is not None
    assert grant_after.token > grant.token


def test_readers_exclude_no_reader_and_writers_everybody(bench: Bench) -> None:
    readers = [bench.client("redis-rw", group) for group in (1, 2)]
    writer = bench.client("redis-rw", 3)
    assert all(isinstance(reader, Shares) for reader in readers)
    grants = [granted(shared(reader, bench.name, 0)) for reader in readers]
    assert refusal(lambda: writer.acquire(bench.name, 0)) is Reason.HELD
    readers[0].renew(grants[0])
    readers[0].release(grants[0])
    assert refusal(lambda: writer.acquire(bench.name, 0)) is Reason.HELD
    assert refusal(lambda: readers[0].release(grants[0])) is Reason.NOT_OWNER
    assert refusal(lambda: shared(readers[0], bench.name, 0)) is Reason.HELD, "a writer waits"
    readers[1].release(grants[1])
    alone = granted(writer.acquire(bench.name, 1))
    assert [refusal(partial(shared, reader, bench.name, 0)) for reader in readers] == [Reason.HELD] * 2
    writer.renew(alone)
    writer.release(alone)
    readers[0].release(granted(shared(readers[0], bench.name, 1)))


def test_a_dead_reader_keeps_no_writer_out_beyond_its_ttl(bench: Bench) -> None:
    reader, writer = bench.client("redis-rw", 1, TTL), bench.client("redis-rw", 2, TTL)
    grant = granted(shared(reader, bench.name, 0))
    granted(writer.acquire(bench.name, TTL + MARGIN))
    assert time.monotonic_ns() >= grant.expires
    assert refusal(lambda: reader.renew(grant)) is Reason.NOT_OWNER


def shared(client: LockClient, name: str, timeout: float) -> Grant | None:
    assert isinstance(client, Shares)
    return client.acquire_shared(name, timeout)


def test_as_many_as_there_are_permits(bench: Bench) -> None:
    clients = [bench.client("redis-semaphore", 1 + number % 3) for number in range(PERMITS + 1)]
    grants = [granted(client.acquire(bench.name, 0)) for client in clients[:PERMITS]]
    last = clients[-1]
    assert refusal(lambda: last.acquire(bench.name, 0)) is Reason.HELD
    for client, grant in zip(clients, grants, strict=False):
        client.renew(grant)
    clients[0].release(grants[0])
    assert refusal(lambda: clients[0].release(grants[0])) is Reason.NOT_OWNER
    taken = granted(last.acquire(bench.name, 0))
    assert refusal(lambda: clients[0].acquire(bench.name, 0)) is Reason.HELD
    last.release(taken)
    clients[1].release(grants[1])


def test_who_holds_may_acquire_again_and_releases_as_often(bench: Bench) -> None:
    holder, other = bench.client("redis-reentrant", 1), bench.client("redis-reentrant", 2)
    outer = granted(holder.acquire(bench.name, 0))
    inner = granted(holder.acquire(bench.name, 0))
    assert (inner.owner, inner.token) == (outer.owner, outer.token)
    assert inner.expires > outer.expires
    holder.release(inner)
    assert refusal(lambda: other.acquire(bench.name, 0)) is Reason.HELD
    holder.renew(outer)
    holder.release(outer)
    assert granted(other.acquire(bench.name, 0)).owner != outer.owner


def test_an_inner_acquire_takes_nothing_that_was_lost(bench: Bench) -> None:
    holder, other = bench.client("redis-reentrant", 1, TTL), bench.client("redis-reentrant", 2)
    outer = granted(holder.acquire(bench.name, 0))
    stolen = granted(other.acquire(bench.name, TTL + MARGIN))
    assert refusal(lambda: holder.acquire(bench.name, 1)) is Reason.NOT_OWNER
    assert refusal(lambda: holder.release(outer)) is Reason.NOT_OWNER
    other.release(stolen)
    mine = granted(holder.acquire(bench.name, 0))
    assert mine.owner != outer.owner
    holder.release(mine)


def test_three_nodes_of_five_are_asked_and_one_may_be_away(bench: Bench) -> None:
    mine, other = bench.client("redlock-3", 1), bench.client("redlock-3", 2)
    for node in ("redis1", "redis4", "redis5"):
        bench.environment.links.cut("c1", node, Cut.REFUSE)
    mine.release(granted(mine.acquire(bench.name, 1)))
    bench.environment.links.cut("c1", "redis2", Cut.REFUSE)
    assert refusal(lambda: mine.acquire(bench.name, 1)) is Reason.UNAVAILABLE
    other.release(granted(other.acquire(bench.name, 1)))


@pytest.mark.parametrize(("lock", "late"), [("redlock-unchecked", True), ("redlock", False)])
def test_a_grant_that_is_over_when_it_comes(bench: Bench, lock: str, late: bool) -> None:
    """One node stands still; all five have been asked."""
    mine, other = bench.client(lock, 1, TTL), bench.client(lock, 2, TTL)
    mine.release(granted(mine.acquire(bench.name, 1)))
    node = bench.environment.cluster("redis").nodes[0]
    node.pause("test")
    try:
        with ThreadPoolExecutor(1) as thread:
            asked = thread.submit(mine.acquire, bench.name, 0.1)
            time.sleep(TTL + 0.2)
            node.let_go("test")
            grant = granted(asked.result())
    finally:
        node.let_go("test")
    assert (time.monotonic_ns() < grant.expires) == late
    assert (grant.expires > grant.sent + grant.ttl) == late
    granted(other.acquire(bench.name, TTL + MARGIN))


def test_a_node_that_restarted_has_no_vote_for_a_ttl(bench: Bench) -> None:
    lock = "redlock-delayed-restart"
    wait_for_votes(bench, lock)
    mine = bench.client(lock, 1, TTL)
    nodes = bench.environment.cluster("redis").nodes[:3]
    for node in nodes:
        node.kill("test")
    restarted = time.monotonic()
    for node in nodes:
        node.let_go("test")
    eventually(lambda: got(mine, bench.name))
    assert time.monotonic() - restarted >= TTL


def got(client: LockClient, name: str) -> bool:
    """Whether a try gets it, which is released then."""
    try:
        client.release(granted(client.acquire(name, 0)))
    except (Refused, Indeterminate):
        return False
    return True
