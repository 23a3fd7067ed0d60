"""Locks without their servers: locks that need none, Redlock's votes, etcd's leases, and what no lock may return."""

import json
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock, patch

import pytest
from redis.exceptions import NoPermissionError

from checkers.row_format import Reason
from checkers.tests.build import cases, message_of
from suites.lock import NEVER, Grant, Indeterminate, LockError, Refused, new_owner, now
from suites.locks.antipatterns import lockfile
from suites.locks.etcd_session import NONE, Leases
from suites.locks.etcd_single_key import EtcdKey
from suites.locks.etcd_v3lock import post
from suites.locks.grants import BadGrant, checked
from suites.locks.postgres_session import PostgresSession
from suites.locks.postgres_transactions import SemaphoreLock
from suites.locks.redis_node import RedisNode
from suites.locks.redis_wait import RedisWait
from suites.locks.redlock import Redlock, Votes
from suites.locks.reentrant import Reentrant
from suites.locks.without.no_lock import NoLock
from suites.locks.zookeeper import QueueNode, ZooKeeperLock
from suites.tests.bench import SOON, Believing, grant, granted, refusal


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lockfile, "FOLDER", tmp_path / "locks")
    return tmp_path / "locks"


class TestLockFile:
    def test_one_client_at_a_time_holds_and_a_missing_lock_file_cannot_be_released(self, folder: Path) -> None:
        one, other = lockfile.LockFile.open((), 0.6), lockfile.LockFile.open((), 0.6)
        grant = granted(one.acquire("a/b", 1.0))
        assert len(list(folder.iterdir())) == 1
        assert refusal(lambda: other.acquire("a/b", 0)) is Reason.HELD
        assert other.acquire("a/b", 0.05) is None
        assert other.acquire("c", 0) is not None
        one.release(grant)
        grant = granted(other.acquire("a/b", 0))
        for file in folder.iterdir():
            file.unlink()
        assert refusal(lambda: other.release(grant)) is Reason.NOT_OWNER

    def test_only_what_was_left_behind_long_ago_is_cleared_away(self, folder: Path) -> None:
        lock = lockfile.LockFile.open((), 0.6)
        assert lock.acquire("fresh", 0) is not None
        assert lock.acquire("stale", 0) is not None
        (stale,) = (file for file in folder.iterdir() if file.name == lockfile._file("stale").name)
        os.utime(stale, (time.time() - lockfile.FORGOTTEN - 1,) * 2)
        lockfile.LockFile.open((), 0.6)
        assert [file.name for file in folder.iterdir()] == [lockfile._file("fresh").name]


def test_without_a_lock_everybody_is_let_in() -> None:
    one, other = NoLock.open((), 0.6), NoLock.open((), 0.6)
    assert len({granted(client.acquire("a", 0)).owner for client in (one, other)}) == 2


@cases(
    "yes, no, unknown, outcome",
    ("a majority", 3, 2, 0, "released"),
    ("a majority of those who answered", 3, 0, 2, "released"),
    ("not ours", 0, 3, 0, Reason.NOT_OWNER),
    *((str(it), *it, "in doubt") for it in ((1, 4, 0), (2, 3, 0), (2, 1, 0), (2, 0, 3), (0, 2, 3), (1, 1, 1))),
)
def test_a_release_is_what_the_votes_of_five_nodes_say(yes: int, no: int, unknown: int, outcome: object) -> None:
    """Nodes without a vote were not asked. A release by a minority is in doubt: it may have kept others out so far."""
    ends = (0, yes, yes + no, yes + no + unknown, 5)
    nodes = [frozenset(range(first, end)) for first, end in pairwise(ends)]
    votes = Votes(yes=nodes[0], no=nodes[1], unknown=nodes[2], unasked=nodes[3], why="")
    lock = Redlock([RedisNode(f"127.0.0.1:{port}", 0.1) for port in range(1, 6)], 1.0)
    came_to: object = "released"
    with patch.object(Redlock, "_ask", return_value=votes) as ask:
        try:
            lock.release(Grant("a", 1, None, 0, 10, 10))
        except Refused as refused:
            came_to = refused.reason
        except Indeterminate:
            came_to = "in doubt"
    assert (came_to, ask.call_count) == (outcome, 1)


def test_a_node_is_closed_while_another_thread_takes_its_connection() -> None:
    """A renewal that is still under way when the worker ends does so."""
    node = RedisNode("127.0.0.1:1", 0.1)
    node._idle = Mock(**{"pop.side_effect": IndexError})  # not empty just before the other thread took the last one
    node.close()


@cases("answers, outcome", ((), Refused), ((7,), Indeterminate))
def test_what_redis_denies_is_refused_unless_the_lock_is_granted_by_then(answers: tuple[int], outcome: type) -> None:
    connection = Mock(**{"answer.side_effect": (*answers, NoPermissionError("no permissions to run the command"))})
    with patch.object(RedisNode, "_connected", return_value=connection), pytest.raises(outcome, match="no permissions"):
        RedisWait(RedisNode("127.0.0.1:1", 0.1), 1.0).acquire("a", 0)


def good(**fields: Any) -> Grant:
    return replace(grant("k", 7), **fields)


def complaint(returned: object) -> str:
    text = message_of(BadGrant, checked, returned, "k", "MyLock.acquire")
    assert "\n" not in text
    assert text.startswith("MyLock.acquire returned ")
    assert text.endswith(" is needed")
    assert len(text) < 300
    return text


@pytest.mark.parametrize("returned", [True, False, 0, "k", object(), ("k", 1), Grant, "line\nbreak", "x" * 1000])
def test_a_value_that_is_no_grant_is_rejected(returned: object) -> None:
    assert "a suites.lock.Grant, or None, is needed" in complaint(returned)


LATE = 1 << 62  # ns; long after now
WRONG, RIGHT = 0, 1
FIELDS: dict[str, tuple[list[object], list[object]]] = {
    "name": (["other", b"k"], []),
    "owner": (["me", 0, -1, 1 << 63, 1 << 128, True, None], [1, new_owner(), (1 << 63) - 1]),
    "token": ([-1, 1.0, True, 1 << 63], [None, 0, (1 << 63) - 1]),
    "sent": ([0, 1.5, -1, LATE, None], []),
    "ttl": ([2.0, -1, 1 << 63, math.inf, None], [0, NEVER]),
    "expires": ([math.inf, None, 0, 1, 1 << 63], [NEVER, LATE]),
    "session": (["s", 1 << 63, None], [-(1 << 63)]),
    "queued": ([1.0, -1, LATE], [now()]),
}


def each(which: int) -> list[tuple[str, object]]:
    return [(field, value) for field, values in FIELDS.items() for value in values[which]]


@pytest.mark.parametrize(("field", "value"), each(WRONG))
def test_the_complaint_names_the_field_of_a_grant_that_has_an_impossible_value(field: str, value: object) -> None:
    assert f"a Grant whose {field} is {value!r} ({type(value).__name__}): " in complaint(good(**{field: value}))
    sent = now()
    assert "expires" in complaint(good(sent=sent, expires=sent))


@pytest.mark.parametrize("fields", [{}, {"session": 5, "expires": 1}, *({name: value} for name, value in each(RIGHT))])
def test_a_grant_with_possible_values_is_accepted(fields: dict[str, Any]) -> None:
    """This includes a grant of a client that was frozen before it asked, for longer than its session lasts."""
    assert checked(None, "k", "MyLock.acquire") is None
    one = good(**fields)
    assert checked(one, "k", "MyLock.acquire") is one


def test_a_session_that_outlives_the_release_renews_nothing() -> None:
    asked: list[str] = []

    def ask(_: int, statement: str, *__: object) -> list[tuple[str]]:
        asked.append(statement)
        if statement == "SELECT 1" and "COMMIT" not in asked:
            lock.release(taken)
        return [("1",)]

    lock = SemaphoreLock(cast(PostgresSession, SimpleNamespace(begin=lambda: 7, ask=ask, id=7)), 1.5)
    taken = granted(lock.acquire("a", 0))
    assert refusal(lambda: lock.renew(taken)) is Reason.NOT_OWNER
    assert asked[-2:] == ["SELECT 1", "COMMIT"]
    lock.renew(granted(lock.acquire("a", 0)))


def test_an_inner_acquire_of_a_lock_that_may_be_lost_is_unavailable() -> None:
    """The service was not asked, and may acknowledge a keep-alive later. So nobody has called the lock another's."""

    class Counted(Reentrant, Believing): ...

    lock = Counted()
    outer = granted(lock.acquire("a", 0))
    assert granted(lock.acquire("a", 0)) is outer
    lock.believes = False
    assert refusal(lambda: lock.acquire("a", 0)) is Reason.UNAVAILABLE


@pytest.fixture
def etcd() -> Mock:
    """Grants leases 1, 2 ..., and answers a keep-alive with 2 s that are left."""
    made = Mock(**{"keep_alive.return_value": 2})
    made.call.side_effect = (SimpleNamespace(id=number, ttl=3600) for number in count(1))
    return made


@pytest.fixture
def leases(etcd: Mock) -> Leases:
    made = Leases(etcd, 2)
    made.open()
    return made


def test_a_keep_alive_is_refused_for_a_gone_lease_and_unknown_for_one_given_up(etcd: Mock, leases: Leases) -> None:
    etcd.keep_alive.return_value = 0
    with pytest.raises(Refused, match="lease 0x1 is gone") as refusal:
        leases.keep_alive(1)
    assert refusal.value.reason is Reason.NOT_OWNER
    assert leases.present is NONE
    assert leases.open().id == 2
    assert leases.give_up(2)
    assert not leases.give_up(2)
    assert leases.open().id == 3
    with pytest.raises(Indeterminate, match="lease 0x2 was given up"):
        leases.keep_alive(2)
    assert leases.open().id == 3
    etcd.keep_alive.side_effect = lambda _: 0 if leases.give_up(3) else 2
    with pytest.raises(Indeterminate, match="lease 0x3 was given up"):  # meanwhile
        leases.keep_alive(3)


class Put(EtcdKey):
    """A lock whose key is put while its lease needs a sign of life before anything may be granted."""

    def _put(self, key: str, lease_id: int) -> tuple[bool, int]:
        present = self._leases.present
        self._leases.present = replace(present, alive=present.alive - present.ttl // 2)
        return True, 7


@cases("refused, told", ("never sent", Reason.UNAVAILABLE, Indeterminate), ("lease gone", Reason.NOT_OWNER, Refused))
def test_no_key_is_left_on_a_live_lease(etcd: Mock, leases: Leases, refused: Reason, told: type[Exception]) -> None:
    """A request for a sign of life that was never sent says nothing of the request before it, which took the lock."""
    etcd.keep_alive.side_effect = Refused(refused, "failed to connect to all addresses")
    with pytest.raises(told, match="failed to connect"):
        Put(etcd, leases).acquire("a", 1.0)
    assert leases.present is NONE


@cases("error, session", (Refused(Reason.NOT_OWNER), 1), (Refused(Reason.UNAVAILABLE), 0), (Indeterminate("lost"), 0))
def test_an_acquire_that_failed_names_the_lease_that_is_over(leases: Leases, error: LockError, session: int) -> None:
    leases.failed(1, error)
    assert getattr(error, "session", 0) == session
    assert leases.present is NONE


class Gateway(BaseHTTPRequestHandler):
    """Answers as the JSON gateway of etcd 3.5 does where a lease is gone."""

    def do_POST(self) -> None:
        body = json.dumps({"error": "etcdserver: requested lease not found", "code": 2}).encode()
        self.send_response(500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


def test_the_gateway_refuses_a_lock_whose_lease_is_gone() -> None:
    with HTTPServer(("127.0.0.1", 0), Gateway) as server:
        threading.Thread(target=server.handle_request).start()
        with pytest.raises(Refused, match="requested lease not found") as refusal:
            post(f"127.0.0.1:{server.server_port}", "/v3/lock/lock", {}, SOON)
    assert refusal.value.reason is Reason.NOT_OWNER


class SlowZooKeeper:
    """A session whose requests take `seconds` each, by a clock of its own. It does everything that it is asked for."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.asked, self.clock = seconds, list[str](), 0
        self.zk = SimpleNamespace(
            sync_async=lambda path: f"sync {path}",
            get_children_async=lambda path: [f"{guid}-x0000000001" for guid in ORPHANS],
            delete_async=lambda path: f"delete {path}",
        )

    def ask(self, send: Callable[[], Any]) -> Any:
        self.clock += int(self.seconds * 1e9)
        answer = send()
        self.asked.append(answer if isinstance(answer, str) else "list")
        return answer


ORPHANS = tuple(f"{number:016x}" for number in (7, 8, 9))


@pytest.mark.parametrize(("seconds", "buried"), [(0.01, 3), (0.4, 1), (0.6, 0)])
def test_a_call_spends_at_most_a_second_on_nodes_that_earlier_calls_left_behind(seconds: float, buried: int) -> None:
    session = SlowZooKeeper(seconds)
    lock = ZooKeeperLock(session, 2.0)  # type: ignore[arg-type]
    lock._orphans = {guid: QueueNode("/p", guid) for guid in ORPHANS}
    with patch("suites.locks.zookeeper.now", side_effect=lambda: session.clock):
        if buried < len(ORPHANS):
            assert refusal(lock._bury) is Reason.UNAVAILABLE
        else:
            lock._bury()
    assert session.clock <= 1e9 + seconds * 1e9
    assert tuple(lock._orphans) == ORPHANS[buried:]
    deletes = [what for what in session.asked if "delete" in what]
    assert deletes == [f"delete /p/{guid}-x0000000001" for guid in ORPHANS[:buried]]
