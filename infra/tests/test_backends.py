"""What servers say of themselves, as we read it."""

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from infra.backends import BACKENDS
from infra.backends.backend import Health
from infra.backends.redis import RedisReplication

Saying = Callable[[str], int]

REPLICATION = "role:master\r\nmaster_replid:abc\r\n"


@pytest.fixture
def saying() -> Iterator[Saying]:
    """Has a server say this to whoever asks; returns its port."""
    servers: list[socket.socket] = []

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


@pytest.mark.parametrize(
    ("server", "version"),
    [
        ("redis_version:7.0.15\r\n", "7.0.15"),
        ("redis_version:8.0.2\r\nserver_name:redis\r\n", "8.0.2"),
        ("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n", "valkey 8.1.1"),
        ("redis_version:7.2.4\r\nserver_name:other\r\n", "7.2.4"),
    ],
)
def test_another_server_for_redis_is_told_by_its_own_name(saying: Saying, server: str, version: str) -> None:
    health = BACKENDS["redis"].probe("127.0.0.1", saying(f"+PONG\r\n$9\r\n{server}\r\n$9\r\n{REPLICATION}\r\n+OK\r\n"))
    assert health
    assert (health.version, health.me, health.leader) == (version, "master", "abc")


@pytest.mark.parametrize(
    ("says", "leader"),
    [
        ("role:master\r\nmaster_replid:abc\r\n", "abc"),
        ("role:slave\r\nmaster_replid:abc\r\nmaster_link_status:up\r\naof_rewrite_in_progress:0\r\n", "abc"),
        ("role:slave\r\nmaster_replid:abc\r\nmaster_link_status:down\r\n", ""),
        ("role:slave\r\nmaster_replid:abc\r\nmaster_link_status:up\r\naof_rewrite_in_progress:1\r\n", ""),
        ("role:slave\r\nmaster_replid:abc\r\nmaster_link_status:up\r\naof_rewrite_scheduled:1\r\n", ""),
        ("role:master\r\nmaster_replid:abc\r\naof_rewrite_in_progress:1\r\n", ""),
    ],
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
