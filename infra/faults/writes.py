"""One write that a server has to keep before it acknowledges it: the proof that its disk is slow, stalled or full.

It is asked past the proxies, by the plainest means, of one server, and leaves nothing behind: Redis a key that expires
at once, etcd a key under a lease of seconds, ZooKeeper a session with an ephemeral node, PostgreSQL a temporary table.
"""

import base64
import http.client
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import psycopg

Outcome = Literal["kept", "refused", "silent"]
"""What became of it. refused: an error, or no connection. silent: no answer in time, so that it may still be kept."""

NAME: Final = "fencepost-disk"

_ROW: Final = 1000  # bytes; less than PostgreSQL compresses


@dataclass(frozen=True, slots=True)
class Written:
    """seconds: from the question, which follows the connection, to the answer. said: in words what was answered."""

    outcome: Outcome
    seconds: float
    said: str = ""


class Refused(Exception):
    """The server, or its absence, said no."""


def write(backend: str, address: tuple[str, int], password: str, size: int = 1, patience: float = 1.0) -> Written:
    """Write about `size` bytes and wait for the acknowledgement, `patience` seconds at most for each answer."""
    asked = time.monotonic()
    try:
        _WRITES[backend](address, password, size, patience)
    except (TimeoutError, psycopg.errors.ConnectionTimeout) as error:
        return Written("silent", time.monotonic() - asked, str(error))
    except (OSError, http.client.HTTPException, psycopg.Error, Refused) as error:
        return Written("refused", time.monotonic() - asked, str(error))
    return Written("kept", time.monotonic() - asked)


def _redis(address: tuple[str, int], _: str, size: int, patience: float) -> None:
    value = b"x" * size
    with socket.create_connection(address, timeout=patience) as connection:
        words = (b"SET", NAME.encode(), value, b"PX", b"1")
        connection.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))
        if (told := connection.recv(200)) != b"+OK\r\n":
            raise Refused(told.decode(errors="replace").strip() or "it closed the connection")


def _etcd(address: tuple[str, int], _: str, size: int, patience: float) -> None:
    def ask(path: str, **what: object) -> Mapping[str, Any]:
        connection = http.client.HTTPConnection(*address, timeout=patience)
        try:
            connection.request("POST", path, body=json.dumps(what))
            answer = connection.getresponse()
            told: dict[str, Any] = json.loads(answer.read())
        except ValueError as error:
            raise Refused("no JSON") from error
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise Refused(str(told.get("message", answer.status)))
        return told

    lease = ask("/v3/lease/grant", TTL=2)["ID"]
    value = base64.b64encode(b"x" * size).decode()
    ask("/v3/kv/put", key=base64.b64encode(NAME.encode()).decode(), value=value, lease=lease)
    ask("/v3/lease/revoke", ID=lease)


def _zookeeper(address: tuple[str, int], _: str, size: int, patience: float) -> None:
    """Its protocol: every message with its length before it, numbers with their highest byte first."""
    with socket.create_connection(address, timeout=patience) as connection:

        def ask(message: bytes) -> bytes:
            connection.sendall(struct.pack(">i", len(message)) + message)
            return _exactly(connection, *struct.unpack(">i", _exactly(connection, 4)))

        session = ask(struct.pack(">iqiqi16s", 0, 0, 1000, 0, 16, b""))
        if not struct.unpack(">q", session[8:16])[0]:
            raise Refused("no session")
        path, value = f"/{NAME}-{time.time_ns()}".encode(), b"x" * size
        acl = struct.pack(">iii5si6s", 1, 31, 5, b"world", 6, b"anyone")
        strings = b"".join(struct.pack(">i", len(one)) + one for one in (path, value))
        told = ask(struct.pack(">ii", 1, 1) + strings + acl + struct.pack(">i", 1))  # create it, ephemeral
        if (code := struct.unpack(">i", told[12:16])[0]) != 0:
            raise Refused(f"error {code}")
        ask(struct.pack(">ii", 2, -11))  # the session ends


def _exactly(connection: socket.socket, size: int) -> bytes:
    told = b""
    while len(told) < size:
        if not (chunk := connection.recv(size - len(told))):
            raise Refused("it closed the connection")
        told += chunk
    return told


def _postgres(address: tuple[str, int], password: str, size: int, patience: float) -> None:
    host, port = address
    login = {"host": host, "port": port, "user": "postgres", "password": password, "dbname": "fencepost"}
    rows = -(-size // _ROW)
    made = f"CREATE TEMPORARY TABLE \"{NAME}\" AS SELECT repeat('x', {_ROW}) FROM generate_series(1, {rows})"
    late = threading.Event()
    with psycopg.connect(**login, connect_timeout=max(2, round(patience)), autocommit=True) as connection:  # type: ignore[arg-type]

        def hang_up() -> None:
            late.set()
            with socket.socket(fileno=os.dup(connection.fileno())) as wire:
                wire.shutdown(socket.SHUT_RDWR)

        # Its own timeouts do not help: a commit that waits for the disk is not interrupted.
        timer = threading.Timer(patience, hang_up)
        timer.start()
        try:
            connection.execute(made)
        except psycopg.Error as error:
            if late.is_set():
                raise TimeoutError(str(error)) from error
            raise
        finally:
            timer.cancel()


_WRITES: Final[Mapping[str, Callable[[tuple[str, int], str, int, float], None]]] = {
    "redis": _redis,
    "etcd": _etcd,
    "zookeeper": _zookeeper,
    "postgres": _postgres,
}
