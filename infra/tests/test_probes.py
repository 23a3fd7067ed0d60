"""What servers say of themselves, as we read it."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from infra import probes

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
    health = probes.redis("127.0.0.1", saying(f"+PONG\r\n$9\r\n{server}\r\n$9\r\n{REPLICATION}\r\n+OK\r\n"))
    assert health
    assert (health.version, health.me, health.leader) == (version, "master", "abc")
