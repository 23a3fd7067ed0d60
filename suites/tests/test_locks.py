"""The reference locks against real servers, through the links of the star: what each verb promises, also when cut off.

Two client groups: what is done to the links of the first (`mine`) leaves the second (`other`) alone.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pytest

from checkers.wire import Reason
from infra.environment import Environment
from infra.links import Cut
from suites import registry
from suites.lock import Believes, Grant, Indeterminate, LockClient, LockError, Refused, Session

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("locks")]

FIRST: Final = ("redis", "redlock", "zookeeper", "etcd")
"""What all others are variations of; those have tests of their own."""
MARGIN: Final = 3.0
"""Seconds by which any call may exceed its own timeout: the largest that an adapter states."""
EXPIRY: Final = 1.5
"""Seconds after its TTL within which a server has freed a lock: ZooKeeper and etcd look twice a second."""


@pytest.fixture(scope="module")
def environment() -> Iterator[Environment]:
    environment = Environment.start()
    try:
        environment.boot({registry.lock(name).backend: None for name in FIRST})
        yield environment
    finally:
        environment.close()


@dataclass
class Bench:
    """One lock on the environment, and the clients that a test opened."""

    environment: Environment
    lock: type[LockClient]
    name: str
    clients: list[LockClient] = field(default_factory=list)
    keepers: list[threading.Thread] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def ttl(self) -> float:
        return self.lock.min_ttl

    @property
    def nodes(self) -> list[str]:
        return [node.name for node in self.environment.cluster(self.lock.backend).nodes]

    def client(self, group: int) -> LockClient:
        client = self.lock.open(self.environment.endpoints(self.lock.backend, group), self.ttl)
        self.clients.append(client)
        if isinstance(client, Session):
            keeper = threading.Thread(target=self.keep_alive, args=(client,))
            self.keepers.append(keeper)
            keeper.start()
        return client

    def keep_alive(self, client: Session) -> None:
        """What a worker does for as long as its client is open."""
        while not self.closing.wait(self.ttl / 3):
            if client.session:
                with contextlib.suppress(LockError):
                    client.keep_alive()

    def close(self) -> None:
        self.heal()
        self.closing.set()
        for keeper in self.keepers:
            keeper.join()
        for client in self.clients:
            client.close()

    def cut(self, how: Cut) -> None:
        for node in self.nodes:
            self.environment.links.cut("c1", node, how)

    def lose_replies(self) -> None:
        for node in self.nodes:
            self.environment.links.block(node, "c1", Cut.DROP)

    def heal(self) -> None:
        self.environment.links.heal_all()


@pytest.fixture(params=FIRST)
def bench(request: pytest.FixtureRequest, environment: Environment) -> Iterator[Bench]:
    bench = Bench(environment, registry.lock(request.param), request.node.name)
    yield bench
    bench.close()


def granted(grant: Grant | None) -> Grant:
    assert grant is not None
    return grant


def within(seconds: float, call: Callable[[], object]) -> object:
    """The answer of a call, or the LockError that it raised; fails if it took longer."""
    began = time.monotonic()
    try:
        answer: object = call()
    except LockError as error:
        answer = error
    took = time.monotonic() - began
    assert took <= seconds, f"{answer!r} after {took:.2f} s"
    return answer


def eventually(seconds: float, call: Callable[[], Grant | None]) -> Grant:
    """Try again after every refusal or unknown outcome, as a worker does, until there is a grant."""
    deadline = time.monotonic() + seconds
    answers: list[object] = []
    while time.monotonic() < deadline:
        try:
            answers.append(grant := call())
            if grant is not None:
                return grant
        except LockError as error:
            answers.append(error)
            time.sleep(0.02)
    pytest.fail(f"no grant within {seconds} s: {answers[-5:]}")


def keep(client: LockClient, grant: Grant) -> None:
    if isinstance(client, Session):
        client.keep_alive()
    else:
        client.renew(grant)


def test_one_at_a_time_with_rising_tokens(bench: Bench) -> None:
    clients = [bench.client(1), bench.client(2)]
    inside: list[int] = []
    tokens: list[int | None] = []
    errors: list[BaseException] = []

    def work(client: LockClient) -> None:
        try:
            for _ in range(15):
                grant = granted(client.acquire(bench.name, 10))
                inside.append(grant.owner)
                assert inside == [grant.owner]
                tokens.append(grant.token)
                time.sleep(0.001)
                inside.clear()
                client.release(grant)
        except (AssertionError, LockError) as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(tokens) == 30
    if bench.lock.tokens:
        assert all(a is not None and b is not None and a < b for a, b in itertools.pairwise(tokens))
    else:
        assert set(tokens) == {None}


def test_what_a_grant_says(bench: Bench) -> None:
    client = bench.client(1)
    before = time.monotonic_ns()
    grant = granted(client.acquire(bench.name, 1))
    assert before <= grant.sent < time.monotonic_ns() < grant.expires
    assert grant.ttl == pytest.approx(bench.ttl * 1e9)
    if isinstance(client, Session):
        assert grant.expires <= max(grant.sent, time.monotonic_ns()) + grant.ttl
        assert grant.session == client.session != 0
        assert client.opened < grant.sent
    else:
        assert grant.expires < grant.sent + grant.ttl
        assert grant.session == 0
    assert (grant.token is not None) == bench.lock.tokens
    if isinstance(client, Believes):
        assert client.belief(grant)


def test_a_timeout_leaves_nothing_behind(bench: Bench) -> None:
    holder, loser, heir = bench.client(1), bench.client(1), bench.client(2)
    grant = granted(holder.acquire(bench.name, 1))
    assert within(0.2 + MARGIN, lambda: loser.acquire(bench.name, 0.2)) is None
    with pytest.raises(Refused) as refusal:
        loser.acquire(bench.name, 0)
    assert refusal.value.reason is (Reason.HELD if bench.lock.name != "redlock" else Reason.DENIED)
    holder.release(grant)
    heir.release(granted(heir.acquire(bench.name, 0)))
    with pytest.raises(Refused) as refusal:
        holder.release(grant)
    assert refusal.value.reason is Reason.NOT_OWNER


def test_renewal_extends_beyond_the_ttl(bench: Bench) -> None:
    holder, other = bench.client(1), bench.client(2)
    grant = granted(holder.acquire(bench.name, 1))
    until = time.monotonic() + 1.3 * bench.ttl
    while time.monotonic() < until:
        time.sleep(bench.ttl / 5)
        keep(holder, grant)
        with pytest.raises(Refused):
            other.acquire(bench.name, 0)
    if isinstance(holder, Believes):
        assert holder.belief(grant)
    holder.release(grant)


def test_a_killed_holder_frees_the_lock_by_its_ttl(bench: Bench) -> None:
    other = bench.client(2)
    endpoints = bench.environment.endpoints(bench.lock.backend, 1)
    spelling = registry.LOCKS[bench.lock.name]
    script = (
        "from suites import registry\n"
        f"client = registry.lock({spelling!r}).open({endpoints!r}, {bench.ttl})\n"
        f"print(client.acquire({bench.name!r}, 1).token, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        token = holder.stdout.readline().strip()
        assert token, "the holder said nothing"
        with pytest.raises(Refused):
            other.acquire(bench.name, 0)
        holder.kill()
        killed = time.monotonic()
    grant = granted(other.acquire(bench.name, bench.ttl + EXPIRY))
    assert time.monotonic() - killed <= bench.ttl + EXPIRY + MARGIN
    if grant.token is not None:
        assert grant.token > int(token)


@pytest.mark.parametrize("how", Cut)
def test_a_holder_that_is_cut_off(bench: Bench, how: Cut) -> None:
    mine, other = bench.client(1), bench.client(2)
    grant = granted(mine.acquire(bench.name, 1))
    bench.cut(how)
    cut = time.monotonic()
    assert isinstance(within(MARGIN, lambda: keep(mine, grant)), LockError)
    assert isinstance(within(MARGIN, lambda: mine.acquire(bench.name + "/2", 0.1)), LockError)
    next_grant = eventually(bench.ttl + EXPIRY, lambda: other.acquire(bench.name, bench.ttl + EXPIRY))
    assert time.monotonic_ns() >= grant.expires, "the server gave it away before its client had to stop"
    assert time.monotonic() - cut <= bench.ttl + EXPIRY + MARGIN
    if isinstance(mine, Believes):
        assert not mine.belief(grant)
    if grant.token is not None and next_grant.token is not None:
        assert next_grant.token > grant.token
    assert isinstance(within(MARGIN, lambda: mine.release(grant)), LockError)
    other.release(next_grant)
    bench.heal()
    again = eventually(bench.lock.bounds["recovery"], lambda: mine.acquire(bench.name, 1))
    assert again.token is None or next_grant.token is None or again.token > next_grant.token
    with pytest.raises(Refused) as refusal:
        mine.release(grant)
    assert refusal.value.reason is Reason.NOT_OWNER
    if isinstance(mine, Believes):
        assert mine.belief(again)
    mine.release(again)


def test_a_lost_answer_is_unknown_and_leaves_no_ghost(bench: Bench) -> None:
    mine, other = bench.client(1), bench.client(2)
    mine.release(granted(mine.acquire(bench.name, 1)))
    bench.lose_replies()
    assert isinstance(within(0.1 + MARGIN, lambda: mine.acquire(bench.name, 0.1)), Indeterminate)
    bench.heal()
    other.release(eventually(bench.ttl + EXPIRY, lambda: other.acquire(bench.name, bench.ttl + EXPIRY)))
    mine.release(eventually(bench.lock.bounds["recovery"], lambda: mine.acquire(bench.name, 1)))


def test_no_server_is_refused_at_once(bench: Bench) -> None:
    bench.cut(Cut.REFUSE)
    refusal = within(bench.ttl + MARGIN, lambda: bench.client(1))
    assert isinstance(refusal, Refused)
    assert refusal.reason is Reason.UNAVAILABLE


def test_a_follower_that_is_cut_off_is_no_sign_of_life(environment: Environment) -> None:
    """It answers reads and pings for as long as syncLimit lets it, while the leader lets the session expire."""
    cluster = environment.cluster("zookeeper")
    leader = cluster.leader()
    follower = next(node for node in cluster.nodes if node is not leader)
    endpoints = environment.endpoints("zookeeper", 1)
    lock = registry.lock("zookeeper")
    mine = lock.open((endpoints[follower.index],), lock.min_ttl)
    assert isinstance(mine, Session)
    assert isinstance(mine, Believes)
    try:
        grant = granted(mine.acquire("follower", 1))
        for node in cluster.nodes:
            if node is not follower:
                environment.links.cut(follower.name, node.name, Cut.DROP)
        assert isinstance(within(MARGIN, mine.keep_alive), Indeterminate)
        time.sleep(max(0.0, (grant.expires - time.monotonic_ns()) / 1e9))
        assert not mine.belief(grant)
    finally:
        environment.links.heal_all()
        mine.close()
    cluster.await_ready(30)


def test_a_waiter_whose_lease_has_expired_is_not_granted(environment: Environment) -> None:
    """What etcd's own lock service did before 3.5 (#11456)."""
    lock = registry.lock("etcd")
    holder, waiter = (lock.open(environment.endpoints("etcd", group), lock.min_ttl) for group in (1, 2))
    assert isinstance(holder, Session)
    grant = granted(holder.acquire("dead-lease", 1))
    answers: list[object] = []
    waiting = threading.Thread(
        target=lambda: answers.append(within(2 * lock.min_ttl + MARGIN, lambda: waiter.acquire("dead-lease", 4)))
    )
    waiting.start()
    until = time.monotonic() + lock.min_ttl + EXPIRY
    while time.monotonic() < until:
        holder.keep_alive()
        time.sleep(lock.min_ttl / 5)
    holder.release(grant)
    waiting.join()
    holder.close()
    waiter.close()
    assert isinstance(answers[0], Refused)
    assert answers[0].reason is Reason.NOT_OWNER
