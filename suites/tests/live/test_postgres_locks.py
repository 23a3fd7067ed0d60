"""What is special to one of the locks on PostgreSQL, against a real server."""

from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import replace

import psycopg
import pytest
from psycopg import conninfo

from checkers.row_format import Reason
from infra.store.libpq import Connection, Unknown, login
from suites.lanes.lane import key_names
from suites.lock import Indeterminate, Sweeps, opened
from suites.locks.postgres_variants import HashtextLock
from suites.tests.bench import SOON, granted, refusal
from suites.tests.live.lanes import LONG, Lane, Lanes, holds

pytestmark = pytest.mark.needs("postgres")


def test_the_server_gives_up_on_the_dead_within_seconds(lanes: Lanes) -> None:
    lane = lanes.of("postgres-session")
    client = lane.client()
    granted(client.acquire(lane.key, SOON))
    answer = client._session.ask(client._session.id, "SHOW tcp_user_timeout")  # type: ignore[attr-defined]
    assert answer in ([("3s",)], [("3000",)])


def test_session_locks_behind_a_pool_let_two_in_and_transaction_locks_do_not(lanes: Lanes) -> None:
    def statement(lane: Lane) -> None:
        mine, other = lane.client(1), lane.client(2)
        grant = granted(mine.acquire(lane.key, 0))
        if lane.lock_name == "postgres-bouncer":
            other.release(granted(other.acquire(lane.key, 0)))
        else:
            assert refusal(lambda: other.acquire(lane.key, 0)) is Reason.HELD
        mine.release(grant)

    for lock in ("postgres-bouncer", "postgres-xact"):  # one after another: each needs the pool for itself
        lanes.check((lock,), statement)


@holds(postgres=("postgres-hashtext", "postgres-session"))
def test_names_with_the_same_hashtext_share_a_lock_that_uses_hashtext_and_no_other(lane: Lane) -> None:
    mine, other = lane.client(1), lane.client(2)
    first, second = key_names(lane.key, 2)
    grant = granted(mine.acquire(first, SOON))
    if isinstance(mine, HashtextLock):
        assert mine.parameter(first) != mine.parameter(second)
        assert refusal(lambda: other.acquire(second, 0)) is Reason.HELD
    else:
        other.release(granted(other.acquire(second, 0)))
    mine.release(grant)


def test_the_server_refuses_one_of_two_clients_that_wait_for_each_other(lanes: Lanes) -> None:
    lane = lanes.of("postgres-session")
    mine, other = lane.client(1), lane.client(2)
    a, b = f"{lane.key}a", f"{lane.key}b"
    granted(mine.acquire(a, SOON))
    granted(other.acquire(b, SOON))
    waiting = {lane.started(lambda: mine.acquire(b, LONG)): mine, lane.started(lambda: other.acquire(a, LONG)): other}
    ((first,), (second,)) = wait(waiting, return_when=FIRST_COMPLETED)
    assert refusal(first.result) is Reason.HELD
    waiting[first].close()
    granted(second.result())


def test_a_reentrant_lock_that_was_lost_is_not_acquired_again_under_the_old_grant(lanes: Lanes) -> None:
    lane = lanes.of("postgres-reentrant")
    mine = lane.client()
    grant = granted(mine.acquire(lane.key, SOON))
    lanes.terminate()
    with pytest.raises(Indeterminate):
        mine.acquire(lane.key, 0)
    assert refusal(lambda: mine.acquire(lane.key, 0)) is Reason.UNAVAILABLE
    assert refusal(lambda: mine.release(grant)) is Reason.NOT_OWNER
    assert granted(mine.acquire(lane.key, SOON)) != grant


class TestLease:
    def test_a_lease_outlives_the_session_that_acquired_it(self, lanes: Lanes) -> None:
        lane = lanes.of("postgres-lease")
        mine, other = lane.client(1), lane.client(2)
        grant = granted(mine.acquire(lane.key, SOON))
        lanes.terminate()
        for client in (mine, other):
            with pytest.raises(Indeterminate):
                client.acquire(lane.key, 0)
        mine.renew(grant)
        assert refusal(lambda: other.acquire(lane.key, 0)) is Reason.HELD

    def test_a_sweep_removes_the_row(self, lanes: Lanes) -> None:
        lane = lanes.of("postgres-lease")
        mine = lane.client()
        mine.release(granted(mine.acquire(lane.key, SOON)))
        assert issubclass(lane.lock, Sweeps)
        lane.lock.sweep(lane.environment.direct("postgres"), [lane.key], lane.environment.access("postgres"))
        assert granted(mine.acquire(lane.key, SOON)).token == 1


def test_a_thread_does_not_wait_for_ever_while_another_thread_connects(lanes: Lanes) -> None:
    session = lanes.of("postgres-lease").client()._session  # type: ignore[attr-defined]
    with session._turn:
        assert refusal(session.begin) is Reason.UNAVAILABLE


def test_a_wrong_password_is_denied(lanes: Lanes) -> None:
    lane = lanes.of("postgres-session")
    access = replace(lane.environment.access("postgres"), password="wrong")
    assert refusal(lambda: opened(lane.lock, lane.endpoints(1), 1.0, access)) is Reason.DENIED


def test_a_statement_that_the_server_refuses_ends_no_connection(lanes: Lanes) -> None:
    lane = lanes.of("postgres-session")
    dsn = conninfo.make_conninfo(**login(lane.endpoints(1)[0], lane.environment.access("postgres")))
    connection = Connection(dsn, SOON, settings={})
    try:
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.query("SELECT * FROM nowhere", [])
        assert connection.query("SELECT $1::int + 1", ["1"]) == [("2",)]
        with pytest.raises(Unknown):
            connection.query("SELECT pg_terminate_backend(pg_backend_pid())", [])
    finally:
        connection.close()
