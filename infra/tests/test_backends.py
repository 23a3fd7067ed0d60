"""What servers say of themselves, as we read it; what passes between them and clients, however it is cut."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.tests.build import cases
from infra.access import Access
from infra.backends import BACKENDS
from infra.backends.backend import Health
from infra.backends.messages import PUSHED, InTurns, Piece
from infra.backends.redis import RedisReplication
from infra.tests.fakes import HANGS_AFTER

Saying = Callable[[str], int]

REPLICATION = "role:master\r\nmaster_replid:abc\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, PING, WINDOW = 4, 6, 8
Told = list[tuple[bytes, int | None]]


@pytest.fixture
def saying(monkeypatch: pytest.MonkeyPatch) -> Iterator[Saying]:
    """Has a server say this to whoever asks, who waits for it as long as it takes; returns its port."""
    servers: list[socket.socket] = []
    connect = Access.connect
    monkeypatch.setattr(Access, "connect", lambda access, endpoint, _: connect(access, endpoint, HANGS_AFTER))

    def answer(server: socket.socket, text: str) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(text.encode())

    def say(text: str) -> int:
        servers.append(server := socket.create_server(("127.0.0.1", 0)))
        threading.Thread(target=answer, args=(server, text), daemon=True).start()
        port: int = server.getsockname()[1]
        return port

    yield say
    for server in servers:
        server.close()


@cases(
    "server, version",
    ("redis_version:7.0.15\r\n", "7.0.15"),
    ("redis_version:8.0.2\r\nserver_name:redis\r\n", "8.0.2"),
    ("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n", "valkey 8.1.1"),
    ("redis_version:7.2.4\r\nserver_name:other\r\n", "7.2.4"),
)
def test_another_server_for_redis_is_told_by_its_own_name(saying: Saying, server: str, version: str) -> None:
    health = BACKENDS["redis"].probe("127.0.0.1", saying(f"+PONG\r\n$9\r\n{server}\r\n$9\r\n{REPLICATION}\r\n+OK\r\n"))
    assert health
    assert (health.version, health.me, health.leader) == (version, "master", "abc")


@cases(
    "says, leader",
    ("role:master\r\nmaster_replid:abc\r\n", "abc"),
    ("role:slave\r\nmaster_replid:abc\r\nmaster_link_status:up\r\naof_rewrite_in_progress:0\r\n", "abc"),
    ("role:slave\r\nmaster_replid:abc\r\nmaster_link_status:down\r\n", ""),
    ("role:slave\r\nmaster_replid:abc\r\nmaster_link_status:up\r\naof_rewrite_in_progress:1\r\n", ""),
    ("role:slave\r\nmaster_replid:abc\r\nmaster_link_status:up\r\naof_rewrite_scheduled:1\r\n", ""),
    ("role:master\r\nmaster_replid:abc\r\naof_rewrite_in_progress:1\r\n", ""),
)
def test_a_redis_has_a_history_when_connected_and_its_copy_is_on_disk(saying: Saying, says: str, leader: str) -> None:
    health = BACKENDS["redis"].probe("127.0.0.1", saying(f"+PONG\r\nredis_version:8.0.2\r\n{says}+OK\r\n"))
    assert health
    assert health.leader == leader


def test_two_whose_copies_are_not_on_disk_do_not_follow_each_other() -> None:
    replica, primary = (Health("8.0.2", me=role, leader="abc") for role in ("slave", "master"))
    assert RedisReplication().follows(replica, primary)
    assert not RedisReplication().follows(replace(replica, leader=""), replace(primary, leader=""))
    assert not RedisReplication().follows(replica, replica)
    assert not RedisReplication().follows(None, primary)


class TestLeader:
    """Whom to believe, from what members say."""

    def test_zookeeper_the_later_epoch_counts(self) -> None:
        old, new = Health("3.9.3", term=4, leader="leader"), Health("3.9.3", term=5, leader="leader")
        follower = Health("3.9.3", term=5, leader="follower")
        assert BACKENDS["zookeeper"].leader([old, new, follower]) == 1
        assert BACKENDS["zookeeper"].leader([new, old, follower]) == 0
        assert BACKENDS["zookeeper"].leader([None, None, follower]) is None

    def test_etcd_a_majority_counts(self) -> None:
        def member(me: str, leader: str, term: int) -> Health:
            return Health("3.5.16", term=term, me=me, leader=leader)

        assert BACKENDS["etcd"].leader([member("a", "a", 2), member("b", "a", 2), member("c", "a", 2)]) == 0
        assert BACKENDS["etcd"].leader([member("a", "a", 2), member("b", "b", 3), member("c", "b", 3)]) == 1
        assert BACKENDS["etcd"].leader([member("a", "a", 2), None, None]) is None
        assert BACKENDS["etcd"].leader([member("a", "a", 2), member("b", "b", 3), None]) is None

    def test_whole_is_all_behind_one(self) -> None:
        leader, follower = Health("3.9.3", leader="leader"), Health("3.9.3", leader="follower")
        assert BACKENDS["zookeeper"].whole([follower, leader, follower])
        assert not BACKENDS["zookeeper"].whole([leader, leader, follower])
        assert not BACKENDS["zookeeper"].whole([follower, leader, None])
        assert BACKENDS["redis"].whole([Health("8.0.2")] * 5)


def zookeeper(number: int, rest: bytes = b"rest") -> bytes:
    body = struct.pack(">i", number) + rest
    return struct.pack(">i", len(body)) + body


def http2(kind: int, stream: int, body: bytes = b"body", flags: int = 0) -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


ZOOKEEPER_ASKED = [(b"\0\0\0\x03new", 0), (zookeeper(1), 1), (zookeeper(-2, b""), None), (zookeeper(2), 2)]
ZOOKEEPER_ANSWERED = [(b"\0\0\0\x03yes", 0), (zookeeper(-2), None), (zookeeper(1), 1), (zookeeper(-1), PUSHED)]
ETCD_ASKED = [
    *((PREFACE, None), (http2(SETTINGS, 0), None), (http2(1, 1), 1), (http2(0, 1), None), (http2(1, 3), 3)),
    *((http2(PING, 0), None), (http2(WINDOW, 3), None)),
]
ETCD_ANSWERED = [
    *((http2(SETTINGS, 0), None), (http2(1, 1), None), (http2(0, 1), 1), (http2(1, 1, flags=1), None)),
    *((http2(1, 3, flags=1), 3), (http2(PING, 0), None), (http2(0, 5), 5), (http2(0, 5), 5)),
]


@pytest.mark.parametrize(
    ("backend", "asked", "answered"),
    [("zookeeper", ZOOKEEPER_ASKED, ZOOKEEPER_ANSWERED), ("etcd", ETCD_ASKED, ETCD_ANSWERED)],
)
@given(data=st.data())
def test_messages_are_told_apart_wherever_they_are_cut(
    backend: str, asked: Told, answered: Told, data: st.DataObject
) -> None:
    one = BACKENDS[backend].messages()
    for side, expected in ((one.asked, asked), (one.answered, answered)):
        whole = b"".join(text for text, _ in expected)
        cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1))))
        pieces = [piece for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True) for piece in side(whole[a:b])]
        assert [(piece.data, piece.exchange) for piece in pieces] == expected


def test_in_turns_and_at_etcds_gateway_whoever_speaks_after_the_other_begins_a_message() -> None:
    assert [BACKENDS[name].messages for name in ("redis", "postgres")] == [InTurns, InTurns]
    one = InTurns()
    assert one.asked(b"GET") == [Piece(b"GET", 0)]
    assert one.asked(b" a") == [Piece(b" a", None)]
    assert [one.answered(b"1"), one.answered(b"2")] == [[Piece(b"1", 0)], [Piece(b"2", None)]]
    assert one.asked(b"GET") == [Piece(b"GET", 0)]
    gateway = BACKENDS["etcd"].messages()
    assert gateway.asked(b"POST /v3/lock/lock HTTP/1.1\r\n") == [Piece(b"POST /v3/lock/lock HTTP/1.1\r\n", 0)]
    assert gateway.answered(b"HTTP/1.1 200 OK\r\n") == [Piece(b"HTTP/1.1 200 OK\r\n", 0)]
