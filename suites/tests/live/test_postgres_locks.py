"""What is special to one of the locks on PostgreSQL, against a real server."""

from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import replace

import psycopg
import pytest
from psycopg import conninfo

from checkers.row_format import Reason
from infra.store.libpq import Connection, Unknown, login
from suites.lock import Indeterminate, Sweeps, opened
from suites.tests.bench import SOON, granted, refusal
from suites.tests.live.lanes import LONG, Lane, Lanes, holds

pytestmark = pytest.mark.needs("postgres")


def test_the_server_gives_up_on_the_dead_within_seconds(lanes: Lanes) -> None:
    """Where there is no proxy: the parameters are the session's own, so no administrator need set them."""
    lane = lanes.of("postgres-session")
    client = lane.client()
    granted(client.acquire(lane.key, SOON))
    answer = client._session.ask(client._session.id, "SHOW tcp_user_timeout")  # type: ignore[attr-defined]
    assert answer in ([("3s",)], [("3000",)])


def test_a_pool_of_sessions_lets_two_in_and_none_by_the_transaction(lanes: Lanes) -> None:
    def statement(lane: Lane) -> None:
        mine, other = lane.client(1), lane.client(2)
        grant = granted(mine.acquire(lane.key, 0))
        if lane.lock.name == "postgres-bouncer":
            other.release(granted(other.acquire(lane.key, 0)))
        else:
            assert refusal(lambda: other.acquire(lane.key, 0)) is Reason.HELD
        mine.release(grant)

    for lock in ("postgres-bouncer", "postgres-xact"):  # one after another: each needs the pool for itself
        lanes.check((lock,), statement)


@holds(postgres=("postgres-hashtext", "postgres-session"))
def test_two_names_of_one_hash_are_one_lock(lane: Lane) -> None:
    mine, other = lane.client(1), lane.client(2)
    grant = granted(mine.acquire(f"{lane.key}0", SOON))
    if lane.lock.name == "postgres-hashtext":
        assert refusal(lambda: other.acquire(f"{lane.key}1", 0)) is Reason.HELD
    else:
        other.release(granted(other.acquire(f"{lane.key}1", 0)))
    mine.release(grant)


def test_of_two_who_wait_for_each_other_the_server_refuses_one(lanes: Lanes) -> None:
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


def test_what_is_lost_cannot_be_taken_again(lanes: Lanes) -> None:
    """In another session it would be another grant, or already somebody else's."""
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
    def test_it_is_nobodys_session(self, lanes: Lanes) -> None:
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


def test_a_thread_waits_no_longer_than_for_an_answer_while_another_connects(lanes: Lanes) -> None:
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
