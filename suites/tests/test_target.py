"""Clusters of somebody else: which locks get access, what is swept, and TLS through a proxy to the server behind it."""

import contextlib
import ssl
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from socketserver import StreamRequestHandler, TCPServer
from types import SimpleNamespace
from typing import Any, ClassVar, Self, cast
from unittest.mock import Mock

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from checkers.row_format import Reason
from checkers.tests.build import cases
from infra.access import Access
from infra.docker.machine import run
from infra.errors import Failed
from infra.own_environment import OwnEnvironment
from suites.lock import Grant, Indeterminate, LockClient, Refused
from suites.locks.redis_node import RedisNode
from suites.locks.zookeeper_session import ZooKeeperSession
from suites.tests.bench import SOON, raising
from suites.trial import target_cleanup

SECRET = "hush'hush"
ENDPOINTS = ("10.0.0.1:1",)
NAME = "db-a.example"
WORLD = cast(
    OwnEnvironment,
    SimpleNamespace(endpoints=lambda *_: ENDPOINTS, direct=lambda _: ("db:1",), access=lambda _: Access("ann", SECRET)),
)  # stands in for an environment beside a cluster of somebody else


class Lock:
    min_ttl: ClassVar[float] = 0.1
    done: ClassVar[list[str]] = []
    raises: ClassVar[list[Exception]] = []

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access) -> Self:
        assert (endpoints, access.password) == (ENDPOINTS, SECRET)
        return cls()

    def acquire(self, name: str, timeout: float) -> Grant | None:
        self.done.append(f"acquire {name}")
        if self.raises:
            raise self.raises.pop(0)
        return Grant(name, 1, None, 0, 0, 0)

    def release(self, grant: Grant) -> None:
        self.done.append(f"release {grant.name}")

    def close(self) -> None:
        self.done.append("close")

    @classmethod
    def sweep(cls, endpoints: Sequence[str], names: Sequence[str], access: Access) -> None:
        assert tuple(endpoints) == ("db:1",), "past the links"
        cls.done.append(f"sweep {', '.join(names)}")


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_cleanup, "ADMITTED_WITHIN", SOON)
    Lock.done.clear()
    Lock.raises.clear()


def ask() -> None:
    target_cleanup.ask_admission(WORLD, "redis", {"mine": cast(type[LockClient], Lock)})


def test_a_lock_is_taken_and_released_and_its_traces_are_swept() -> None:
    ask()
    (name,) = {line.split()[1] for line in Lock.done if " " in line}
    assert Lock.done == [f"acquire {name}", f"release {name}", "close", f"sweep {name}"]


def test_a_request_that_fails_now_and_then_is_tried_again() -> None:
    Lock.raises.extend([Refused(Reason.UNAVAILABLE), Indeterminate("no answer")])
    ask()
    assert len([line for line in Lock.done if line.startswith("sweep")]) == 3, "each attempt may leave something"


@cases(
    "error, says",
    ("denied", Refused(Reason.DENIED, f"{SECRET}?"), r"^the target redis does not let mine in: denied: \*\*\*\?$"),
    ("a bug", LookupError(f"ann:{SECRET}@db"), r"^mine broke when it asked the target redis .*(?s:.*)ann:\*\*\*@db"),
)
def test_an_error_is_reported_without_the_password(error: Exception, says: str) -> None:
    Lock.raises.append(error)
    with pytest.raises(Failed, match=says) as caught:
        ask()
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__, "what is behind it may quote the password"
    assert Lock.done[-2:] == ["close", Lock.done[-1]]
    assert Lock.done[-1].startswith("sweep")


def test_traces_that_cannot_be_swept_are_reported_and_nothing_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lock, "sweep", raising(Refused(Reason.UNAVAILABLE, f"AUTH {SECRET}")))
    said: list[str] = []
    lane = Mock(keys=("a", "b"), lane=Mock(lock=Lock, lock_name="mine"))
    target_cleanup.sweep(WORLD, "redis", [lane], said.append)
    assert said == ["  mine: left behind on redis: a, b (unavailable: AUTH ***)"]


@dataclass
class Server:
    """Answers every connection with one byte. Its address is not the name in its certificate."""

    endpoint: str
    ca: str
    asked_for: list[str | None] = field(default_factory=list)

    def access(self, name: str) -> Access:
        return Access(tls=True, ca=self.ca, names={self.endpoint: name})


class Byte(StreamRequestHandler):
    def handle(self) -> None:
        self.wfile.write(b"+")
        with contextlib.suppress(OSError):
            self.rfile.read(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    run(["openssl", *new, "-subj", "/CN=x", "-addext", f"subjectAltName=DNS:{NAME}", "-keyout", key, "-out", cert])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with TCPServer(("127.0.0.1", 0), Byte) as listener:
        listener.socket = context.wrap_socket(listener.socket, server_side=True)
        there = Server(f"127.0.0.1:{listener.server_address[1]}", cert)
        context.sni_callback = lambda _, name, __: there.asked_for.append(name)
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        yield there
        listener.shutdown()


class TestZooKeeper:
    def _dial(self, server: Server, name: str) -> Any:
        """Connect as kazoo does, with everything that our session gave it."""
        zk = ZooKeeperSession([server.endpoint], 2.0, server.access(name)).zk
        host, port = server.endpoint.split(":")
        names = ("use_ssl", "keyfile", "certfile", "ca", "keyfile_password", "verify_certs", "check_hostname")
        given = {name: getattr(zk, name) for name in names}
        return zk.handler.create_connection(address=(host, int(port)), hostname=host, timeout=SOON, **given)

    def test_zookeeper_over_tls_checks_the_name_of_the_server(self, server: Server) -> None:
        with self._dial(server, NAME) as connection:
            assert connection.recv(1) == b"+"
        assert server.asked_for[-1] == NAME
        with pytest.raises(ssl.SSLCertVerificationError):
            self._dial(server, "db-b.example")

    def test_a_session_without_access_uses_neither_tls_nor_a_password(self) -> None:
        zk = ZooKeeperSession(["127.0.0.1:1"], 2.0).zk
        assert (zk.use_ssl, zk.auth_data) == (False, set())


def test_redis_over_tls_checks_the_name_of_the_server(server: Server) -> None:
    connection = RedisNode(server.endpoint, SOON, server.access(NAME))._new()
    connection.connect()
    assert server.asked_for[-1] == NAME
    connection.disconnect()
    node = RedisNode(server.endpoint, SOON, server.access("db-b.example"))
    with pytest.raises(Refused, match=r"unavailable: .*certificate verify failed") as caught:
        node.ping()
    assert isinstance(caught.value.__cause__, RedisConnectionError)
