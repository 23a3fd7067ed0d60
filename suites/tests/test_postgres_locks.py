"""The locks on PostgreSQL against a real server, through the links of the star: what each promises, and what it cannot.

Client group 1 is the one that things are done to; group 2 comes after.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import psycopg
import pytest
from psycopg import conninfo

from checkers.wire import Reason
from infra.environment import Environment
from infra.libpq import Connection, Unknown, login
from infra.links import Cut
from infra.star import BOUNCER
from suites import registry
from suites.lock import Believes, Grant, Indeterminate, LockClient, LockError, Refused, Shares, Sweeps, opened
from suites.tests.bench import granted, refusal

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("postgres-locks")]

EXCLUSIVE = tuple(
    name for name in registry.FAMILIES["PostgreSQL"] if name not in ("postgres-bouncer", "postgres-semaphore")
)
SESSIONS = tuple(name for name in EXCLUSIVE if name != "postgres-lease")
MARGIN = 4.0
"""Seconds; see `postgres_session.REQUEST`."""


@pytest.fixture(scope="module")
def environment() -> Iterator[Environment]:
    environment = Environment.start()
    try:
        environment.boot({"postgres": None})
        yield environment
    finally:
        environment.close()


@dataclass
class Bench:
    environment: Environment
    name: str
    clients: list[LockClient] = field(default_factory=list)

    def client(self, lock: str, group: int = 1) -> LockClient:
        cls = registry.lock(lock)
        endpoint = self.environment.endpoints_of(cls.via or "postgres", group)
        self.clients.append(opened(cls, (endpoint,), cls.min_ttl, self.environment.access("postgres")))
        return self.clients[-1]

    def cut(self, group: int = 1) -> None:
        for node in ("postgres", BOUNCER):
            self.environment.links.cut(f"c{group}", node, Cut.DROP)

    def terminate(self) -> None:
        """As the fault does."""
        endpoint = self.environment.endpoints_of("postgres", 3)
        with psycopg.connect(**login(endpoint, self.environment.access("postgres")), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )

    def heal(self) -> None:
        self.environment.links.heal_all()
        self.environment.node("postgres").heal()


@pytest.fixture
def bench(request: pytest.FixtureRequest, environment: Environment) -> Iterator[Bench]:
    bench = Bench(environment, request.node.name)
    yield bench
    bench.heal()
    for client in bench.clients:
        client.close()


def believes(client: LockClient, grant: Grant) -> bool:
    return isinstance(client, Believes) and client.belief(grant)


def eventually(call: Callable[[], Grant | None], seconds: float = 10.0) -> Grant:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(LockError):
            if (grant := call()) is not None:
                return grant
        time.sleep(0.02)
    pytest.fail(f"no grant within {seconds} s")


@pytest.mark.parametrize("lock", EXCLUSIVE)
def test_one_at_a_time(bench: Bench, lock: str) -> None:
    mine, other = bench.client(lock), bench.client(lock, 2)
    grant = granted(mine.acquire(bench.name, 1.0))
    assert refusal(lambda: other.acquire(bench.name, 0)) is Reason.HELD
    assert other.acquire(bench.name, 0.1) is None
    mine.renew(grant)
    mine.release(grant)
    assert refusal(lambda: mine.release(grant)) is Reason.NOT_OWNER
    later = granted(other.acquire(bench.name, 0))
    assert later.owner != grant.owner
    assert mine.acquire(bench.name, 0.1) is None
    other.release(later)


@pytest.mark.parametrize("lock", SESSIONS)
def test_a_wait_that_timed_out_leaves_nothing(bench: Bench, lock: str) -> None:
    mine, other, third = bench.client(lock), bench.client(lock, 2), bench.client(lock, 3)
    grant = granted(mine.acquire(bench.name, 1.0))
    for _ in range(3):
        assert other.acquire(bench.name, 0.05) is None
    mine.release(grant)
    granted(third.acquire(bench.name, 0))


@pytest.mark.parametrize("lock", SESSIONS)
def test_a_closed_client_leaves_nothing(bench: Bench, lock: str) -> None:
    mine, other = bench.client(lock), bench.client(lock, 2)
    granted(mine.acquire(bench.name, 1.0))
    mine.close()
    granted(other.acquire(bench.name, 2.0))


@pytest.mark.parametrize("lock", SESSIONS)
def test_nobody_tells_the_holder_that_its_session_is_over(bench: Bench, lock: str) -> None:
    mine, other = bench.client(lock), bench.client(lock, 2)
    grant = granted(mine.acquire(bench.name, 1.0))
    bench.terminate()
    later = eventually(lambda: other.acquire(bench.name, 1.0))
    assert believes(mine, grant)
    with pytest.raises(Indeterminate):
        mine.renew(grant)
    assert not believes(mine, grant)
    assert refusal(lambda: mine.release(grant)) is Reason.NOT_OWNER
    assert refusal(lambda: mine.acquire(bench.name, 0)) is Reason.HELD  # in a new session
    assert believes(other, later)


@pytest.mark.parametrize("lock", EXCLUSIVE)
def test_no_call_hangs_when_cut_off(bench: Bench, lock: str) -> None:
    client = bench.client(lock)
    grant = granted(client.acquire(bench.name, 1.0))
    bench.cut()
    began = time.monotonic()
    with pytest.raises(Indeterminate):
        client.renew(grant)
    with pytest.raises(LockError):
        client.release(grant)
    with pytest.raises(LockError):
        client.acquire(bench.name, 0.2)
    assert time.monotonic() - began < 0.2 + 3 * MARGIN
    bench.heal()
    eventually(lambda: client.acquire(bench.name, 1.0))


@pytest.mark.parametrize("lock", ["postgres-session", "postgres-xact"])
def test_a_session_that_is_cut_off_holds_until_its_client_hangs_up(bench: Bench, lock: str) -> None:
    """Which the proxy passes on, though it swallows every byte; what is not answered in time is given up."""
    mine, other = bench.client(lock), bench.client(lock, 2)
    grant = granted(mine.acquire(bench.name, 1.0))
    bench.cut()
    assert other.acquire(bench.name, 1.0) is None
    assert believes(mine, grant)
    with pytest.raises(Indeterminate):
        mine.renew(grant)
    assert not believes(mine, grant)
    granted(other.acquire(bench.name, 2.0))


@pytest.mark.parametrize("lock", EXCLUSIVE)
def test_restart(bench: Bench, lock: str) -> None:
    """A row is there afterwards, an advisory lock is not."""
    mine = bench.client(lock)
    grant = granted(mine.acquire(bench.name, 1.0))
    node = bench.environment.node("postgres")
    node.kill()
    for verb in (mine.renew, mine.release):
        with pytest.raises(LockError):
            verb(grant)
    node.heal()
    later = eventually(lambda: mine.acquire(bench.name, 1.0))
    assert later.token == (None if grant.token is None else grant.token + 1)


def test_the_server_gives_up_on_the_dead_within_seconds(bench: Bench) -> None:
    """Where there is no proxy: the parameters are the session's own, so no administrator need set them."""
    client = bench.client("postgres-session")
    granted(client.acquire(bench.name, 1.0))
    told = client._session.ask(client._session.id, "SHOW tcp_user_timeout")  # type: ignore[attr-defined]
    assert told in ([("3s",)], [("3000",)])


def test_a_pool_of_sessions_lets_two_in(bench: Bench) -> None:
    mine, other = bench.client("postgres-bouncer"), bench.client("postgres-bouncer", 2)
    grants = [granted(mine.acquire(bench.name, 0)), granted(other.acquire(bench.name, 0))]
    for client, grant in zip((mine, other), grants, strict=True):
        client.release(grant)


def test_a_pool_of_sessions_may_be_used_by_the_transaction(bench: Bench) -> None:
    mine, other = bench.client("postgres-xact"), bench.client("postgres-xact", 2)
    grant = granted(mine.acquire(bench.name, 0))
    assert refusal(lambda: other.acquire(bench.name, 0)) is Reason.HELD
    mine.release(grant)


def test_two_names_of_one_hash_are_one_lock(bench: Bench) -> None:
    names = bench.name + "0", bench.name + "1"
    for lock, meet in (("postgres-hashtext", True), ("postgres-session", False)):
        mine, other = bench.client(lock), bench.client(lock, 2)
        grant = granted(mine.acquire(names[0], 1.0))
        if meet:
            assert refusal(lambda other=other: other.acquire(names[1], 0)) is Reason.HELD  # type: ignore[misc]
        else:
            other.release(granted(other.acquire(names[1], 0)))
        mine.release(grant)


def test_the_server_finds_those_who_wait_for_each_other(bench: Bench) -> None:
    mine, other = bench.client("postgres-session"), bench.client("postgres-session", 2)
    a, b = bench.name + "a", bench.name + "b"
    held = granted(mine.acquire(a, 1.0))
    granted(other.acquire(b, 1.0))
    answers: list[object] = []

    def wait() -> None:
        try:
            answers.append(mine.acquire(b, 8.0))
        except LockError as error:
            answers.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    try:
        answers.append(other.acquire(a, 8.0))
    except Refused as error:
        answers.append(error)
        other.close()
    else:
        mine.release(held)
    waiting.join()
    assert sum(isinstance(one, Refused) and one.reason is Reason.HELD for one in answers) == 1


def test_readers_share_and_writers_do_not(bench: Bench) -> None:
    mine, other = bench.client("postgres-rw"), bench.client("postgres-rw", 2)
    assert isinstance(mine, Shares)
    assert isinstance(other, Shares)
    reads = granted(mine.acquire_shared(bench.name, 1.0)), granted(other.acquire_shared(bench.name, 0))
    third = bench.client("postgres-rw", 3)
    assert third.acquire(bench.name, 0.1) is None
    mine.release(reads[0])
    assert refusal(lambda: third.acquire(bench.name, 0)) is Reason.HELD
    other.release(reads[1])
    write = granted(third.acquire(bench.name, 0))
    assert refusal(lambda: mine.acquire_shared(bench.name, 0)) is Reason.HELD
    third.release(write)


def test_a_reentrant_lock_is_given_back_as_often_as_it_was_taken(bench: Bench) -> None:
    mine, other = bench.client("postgres-reentrant"), bench.client("postgres-reentrant", 2)
    grant = granted(mine.acquire(bench.name, 1.0))
    assert mine.acquire(bench.name, 1.0) == grant
    mine.release(grant)
    assert believes(mine, grant)
    assert refusal(lambda: other.acquire(bench.name, 0)) is Reason.HELD
    mine.release(grant)
    granted(other.acquire(bench.name, 0))


def test_what_is_lost_cannot_be_taken_again(bench: Bench) -> None:
    """In another session it would be another grant, or already somebody else's."""
    mine = bench.client("postgres-reentrant")
    grant = granted(mine.acquire(bench.name, 1.0))
    bench.terminate()
    with pytest.raises(Indeterminate):
        mine.acquire(bench.name, 0)
    assert refusal(lambda: mine.acquire(bench.name, 0)) is Reason.UNAVAILABLE
    assert refusal(lambda: mine.release(grant)) is Reason.NOT_OWNER
    assert granted(mine.acquire(bench.name, 1.0)) != grant


def test_a_semaphore_has_two_permits(bench: Bench) -> None:
    clients = [bench.client("postgres-semaphore", group) for group in (1, 2, 3)]
    grants = [granted(client.acquire(bench.name, 1.0)) for client in clients[:2]]
    assert clients[2].acquire(bench.name, 0.1) is None
    clients[0].release(grants[0])
    granted(clients[2].acquire(bench.name, 0))


class TestLease:
    def test_it_ends_by_itself_and_the_token_rises(self, bench: Bench) -> None:
        mine, other = bench.client("postgres-lease"), bench.client("postgres-lease", 2)
        grant = granted(mine.acquire(bench.name, 1.0))
        later = granted(other.acquire(bench.name, 3.0))
        assert time.monotonic_ns() > grant.expires
        assert grant.token is not None
        assert later.token == grant.token + 1
        for verb in (mine.renew, mine.release):
            assert refusal(lambda verb=verb: verb(grant)) is Reason.NOT_OWNER  # type: ignore[misc]
        other.renew(later)

    def test_a_heartbeat_keeps_it(self, bench: Bench) -> None:
        mine, other = bench.client("postgres-lease"), bench.client("postgres-lease", 2)
        grant = granted(mine.acquire(bench.name, 1.0))
        until = time.monotonic() + 2 * registry.lock("postgres-lease").min_ttl
        while time.monotonic() < until:
            mine.renew(grant)
            assert other.acquire(bench.name, 0.2) is None

    def test_it_is_nobodys_session(self, bench: Bench) -> None:
        mine, other = bench.client("postgres-lease"), bench.client("postgres-lease", 2)
        grant = granted(mine.acquire(bench.name, 1.0))
        bench.terminate()
        for client in (mine, other):
            with pytest.raises(Indeterminate):
                client.acquire(bench.name, 0)
        mine.renew(grant)
        assert refusal(lambda: other.acquire(bench.name, 0)) is Reason.HELD

    def test_a_sweep_removes_the_row(self, bench: Bench) -> None:
        mine = bench.client("postgres-lease")
        mine.release(granted(mine.acquire(bench.name, 1.0)))
        environment, lock = bench.environment, registry.lock("postgres-lease")
        assert issubclass(lock, Sweeps)
        lock.sweep(environment.direct("postgres"), [bench.name], environment.access("postgres"))
        assert granted(mine.acquire(bench.name, 1.0)).token == 1


def test_a_wrong_password_is_denied(bench: Bench) -> None:
    lock = registry.lock("postgres-session")
    access = replace(bench.environment.access("postgres"), password="wrong")
    endpoint = bench.environment.endpoints_of("postgres", 1)
    assert refusal(lambda: opened(lock, (endpoint,), 1.0, access)) is Reason.DENIED


def test_a_statement_that_the_server_refuses_ends_no_connection(bench: Bench) -> None:
    endpoint = bench.environment.endpoints_of("postgres", 1)
    dsn = conninfo.make_conninfo(**login(endpoint, bench.environment.access("postgres")))
    connection = Connection(dsn, 1.0, settings={})
    try:
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.query("SELECT * FROM nowhere", [])
        assert connection.query("SELECT $1::int + 1", ["1"]) == [("2",)]
        with pytest.raises(Unknown):
            connection.query("SELECT pg_terminate_backend(pg_backend_pid())", [])
    finally:
        connection.close()
