"""libpq with deadlines, for the store and for locks: no step of a connection to PostgreSQL waits without limit.

It uses `psycopg.pq`, because psycopg's cursors wait without limit for an answer and a test of lost answers must not.
If a server refuses a statement, psycopg's error for that is raised. Imports psycopg and the standard library only.
"""

import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import psycopg
from psycopg import conninfo, errors, pq

from infra.access import Access

DATABASE: Final = "postgres"
"""The database of the locks: every server has it."""
_LOST: Final = ("08", "57")
"""SQLSTATE classes that say nothing about the statement: connection exception, operator intervention."""


class NoAnswer(Exception):
    """Base of the two ways in which an operation gets no answer."""


class Unavailable(NoAnswer):
    """The operation was never sent: it certainly did not happen. refused: whether the server refused the login."""

    def __init__(self, text: str, *, refused: bool = False) -> None:
        super().__init__(text)
        self.refused = refused


class Unknown(NoAnswer):
    """The operation was sent and its answer was lost: it may have happened, may happen later, or never."""


def login(endpoint: str, access: Access) -> dict[str, Any]:
    """The parameters with which libpq logs in at `host:port`. Raises OSError for a host that does not exist."""
    host, _, port = endpoint.rpartition(":")
    return {
        "host": access.name_of(endpoint),
        "hostaddr": socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0][4][0],
        "port": port,
        "user": access.user or "postgres",
        "password": access.password or None,
        "dbname": DATABASE,
        "sslmode": "verify-full" if access.tls else "disable",
        "sslrootcert": access.trusted() if access.tls else None,
        "sslcert": access.cert or None,
        "sslkey": access.key or None,
    }


class Connection:
    """A libpq connection. Every step has a deadline, and the first step that misses it breaks the connection."""

    __slots__ = ("_pg", "_timeout")

    def __init__(
        self,
        dsn: str,
        timeout: float,
        statements: Mapping[bytes, str] | None = None,
        settings: Mapping[str, object] | None = None,
        within: float | None = None,
    ) -> None:
        """Connect and prepare the statements by name. Raises Unavailable: no statement was sent for execution.

        timeout: seconds for an answer, and for the connection unless `within` says how many. settings: parameters of
        the session. None: the server cancels a statement after twice `timeout`, when nobody waits for it any more.
        """
        self._timeout = timeout
        if settings is None:
            settings = {"statement_timeout": int(timeout * 2000)}
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self._pg = pq.PGconn.connect_start(conninfo.make_conninfo(dsn, options=options or None).encode())
        try:
            deadline = time.monotonic() + (within or timeout)
            self._handshake(deadline)
            for name, text in (statements or {}).items():
                self._pg.send_prepare(name, text.encode())
                self._answer(deadline)
        except (NoAnswer, psycopg.OperationalError) as error:
            refused = isinstance(error, Unavailable) and error.refused
            self.close()
            raise Unavailable(str(error).strip(), refused=refused) from error

    def usable(self) -> bool:
        """Whether nothing says that the connection is broken. A server's last message shows as unread bytes."""
        return self._pg.status == pq.ConnStatus.OK and not self._ready(select.POLLIN, 0.0)

    def parameter(self, name: bytes) -> str:
        """What the server has reported of itself: `server_version`, say. "" if nothing."""
        return (self._pg.parameter_status(name) or b"").decode()

    def run(self, name: bytes, params: Sequence[str]) -> list[tuple[str, ...]]:
        """Execute a prepared statement and return its rows. Raises Unknown, and closes the connection."""
        return self._exchange(lambda: self._pg.send_query_prepared(name, [text.encode() for text in params]))

    def query(self, text: str, params: Sequence[str], within: float | None = None) -> list[tuple[str, ...]]:
        """As `run`, for a statement that is not prepared. within: seconds for the answer, in place of `timeout`."""
        return self._exchange(
            lambda: self._pg.send_query_params(text.encode(), [param.encode() for param in params]), within
        )

    def script(self, text: str) -> None:
        """Execute several statements without parameters."""
        self._exchange(lambda: self._pg.send_query(text.encode()))

    def close(self) -> None:
        self._pg.finish()

    def _exchange(self, send: Callable[[], None], within: float | None = None) -> list[tuple[str, ...]]:
        try:
            send()
            return self._answer(time.monotonic() + (within or self._timeout))
        except psycopg.OperationalError as error:
            if error.sqlstate is not None:
                raise
            self.close()
            raise Unknown(str(error).strip()) from error
        except Unknown:
            self.close()
            raise

    def _handshake(self, deadline: float) -> None:
        while True:
            state = self._pg.connect_poll()
            if state == pq.PollingStatus.OK:
                break
            if state == pq.PollingStatus.FAILED:
                # The server asked for a password, and did not let us in.
                refused = bool(self._pg.used_password or self._pg.needs_password)
                raise Unavailable(self._pg.get_error_message(), refused=refused)
            self._wait(deadline, select.POLLIN if state == pq.PollingStatus.READING else select.POLLOUT)
        self._pg.nonblocking = 1

    def _answer(self, deadline: float) -> list[tuple[str, ...]]:
        """Rows of the answer to what was sent; raises Unknown, or psycopg's error for a statement that is refused."""
        while self._pg.flush():
            self._wait(deadline, select.POLLIN | select.POLLOUT)
            self._pg.consume_input()
        rows: list[tuple[str, ...]] = []
        failure: psycopg.Error | Unknown | None = None
        while True:
            while self._pg.is_busy():
                self._wait(deadline, select.POLLIN)
                self._pg.consume_input()
            result = self._pg.get_result()
            if result is None:
                break
            if result.status == pq.ExecStatus.TUPLES_OK:
                rows += [
                    tuple((result.get_value(row, column) or b"").decode() for column in range(result.nfields))
                    for row in range(result.ntuples)
                ]
            elif result.status != pq.ExecStatus.COMMAND_OK and failure is None:
                failure = _failure(result)
            if self._pg.status != pq.ConnStatus.OK:
                break
        if self._pg.status != pq.ConnStatus.OK:
            raise Unknown(str(failure or "the connection ended"))
        if failure is not None:
            raise failure
        return rows

    def _wait(self, deadline: float, events: int) -> None:
        """Wait for the socket. An answer that arrived while this process was frozen past the deadline still counts."""
        if not self._ready(events, max(deadline - time.monotonic(), 0.0)):
            raise Unknown("no answer in time")

    def _ready(self, events: int, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._pg.socket, events)
        return bool(poll.poll(seconds * 1000))


def _failure(result: pq.abc.PGresult) -> psycopg.Error | Unknown:
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    text = result.get_error_message().strip()
    if not state or state.startswith(_LOST):
        return Unknown(text)
    return errors.lookup(state)(text)
