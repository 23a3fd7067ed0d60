"""A client that dials a proxy speaks TLS with the server behind it, and checks that server's name."""

import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from infra.access import Access
from infra.docker.machine import run
from suites.lock import Refused
from suites.locks.redis_node import RedisNode
from suites.locks.zookeeper_session import ZooKeeperSession

NAME = "db-a.example"


@dataclass
class Server:
    """Answers every connection with one byte, at an address that is not its name."""

    endpoint: str
    ca: str
    asked_for: list[str | None] = field(default_factory=list)

    def access(self, name: str) -> Access:
        return Access(tls=True, ca=self.ca, names={self.endpoint: name})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    run(["openssl", *new, "-subj", "/CN=x", "-addext", f"subjectAltName=DNS:{NAME}", "-keyout", key, "-out", cert])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = Server(f"127.0.0.1:{listener.getsockname()[1]}", cert)
        context.sni_callback = lambda _, name, __: there.asked_for.append(name)

        def serve() -> None:
            while True:
                try:
                    plain, _ = listener.accept()
                except OSError:
                    return
                try:
                    with context.wrap_socket(plain, server_side=True) as connection:
                        connection.sendall(b"+")
                        connection.recv(1)
                except OSError:
                    plain.close()

        threading.Thread(target=serve, daemon=True).start()
        yield there
        listener.shutdown(socket.SHUT_RDWR)


class TestZooKeeper:
    def _dial(self, server: Server, name: str) -> Any:
        """As kazoo does it, with all that our session gave it."""
        zk = ZooKeeperSession([server.endpoint], 2.0, server.access(name)).zk
        host, port = server.endpoint.split(":")
        names = ("use_ssl", "keyfile", "certfile", "ca", "keyfile_password", "verify_certs", "check_hostname")
        given = {name: getattr(zk, name) for name in names}
        return zk.handler.create_connection(address=(host, int(port)), hostname=host, timeout=5.0, **given)

    def test_the_name_is_that_of_the_server(self, server: Server) -> None:
        with self._dial(server, NAME) as connection:
            assert connection.recv(1) == b"+"
        assert server.asked_for[-1] == NAME

    def test_another_is_not_let_pass_for_it(self, server: Server) -> None:
        with pytest.raises(ssl.SSLCertVerificationError):
            self._dial(server, "db-b.example")

    def test_without_tls_nothing_is_different(self) -> None:
        zk = ZooKeeperSession(["127.0.0.1:1"], 2.0).zk
        assert (zk.use_ssl, zk.auth_data) == (False, set())


class TestRedis:
    def test_the_name_is_that_of_the_server(self, server: Server) -> None:
        node = RedisNode(server.endpoint, 5.0, server.access(NAME))
        connection = node._new()
        connection.connect()
        assert server.asked_for[-1] == NAME
        connection.disconnect()

    def test_another_is_not_let_pass_for_it(self, server: Server) -> None:
        node = RedisNode(server.endpoint, 5.0, server.access("db-b.example"))
        with pytest.raises(Refused, match=r"unavailable: .*certificate verify failed") as caught:
            node.ping()
        assert isinstance(caught.value.__cause__, RedisConnectionError)
