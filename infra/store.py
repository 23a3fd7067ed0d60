"""The fenced store: the resource that locks protect, with a fence of the chosen strength in front of it.

It lives in PostgreSQL. Every operation is one statement and one transaction, so it is atomic as a whole: the fence
is compared and raised in the same instant in which the value is read or replaced. That rests on READ COMMITTED doing
two things, which `infra/tests/test_store.py` hammers: an upsert locks the row before it evaluates its ``WHERE``, and
does so on the newest committed version; and each statement of a volatile function sees what was committed before it.

    StoreError
    ├── Unavailable    no connection could be made: the operation was never sent and certainly did not happen
    └── Unknown        sent, but its answer was lost: it may have happened, may happen later, or never

Values and elements travel in the protocol's text form through libpq itself (`psycopg.pq`), because psycopg's cursors
wait without limit for an answer and a test of lost answers must not. Imports psycopg and the standard library only:
workers load this beside any library under test.
"""

from __future__ import annotations

import select
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

import psycopg
from psycopg import conninfo, errors, pq

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_ELEMENTS: Final = 4096
"""Longest list of a set: a set is rewritten as a whole, so an unbounded one would turn a trial quadratic."""

INITIAL: Final = -1
"""The value of a key that was never written."""

_LOST: Final = ("08", "57")
"""SQLSTATE classes that say nothing about the statement: connection exception, operator intervention."""


class StoreError(Exception):
    """Base of the two ways in which an operation gets no answer."""


class Unavailable(StoreError):
    """It was never sent: it certainly did not happen."""


class Unknown(StoreError):
    """It was sent and its answer was lost: it may have happened, may happen later, or never."""


class Mode(StrEnum):
    """What the fence compares.

    UNFENCED                nothing.
    FENCE_WRITES            a write is accepted iff token >= highest token of an accepted write; reads are free.
    FENCE_WRITES_STRICT     a write is accepted iff token > that; it refuses a holder's second write.
    FENCE_READS_AND_WRITES  a read or write is accepted iff token >= highest token accepted so far, and raises it.
    COMPARE_OWNER           the first access under a grant, read or write, makes it the owner, unconditionally; a
                            later write is accepted iff the grant is still the owner; a later read is always accepted.
    """

    UNFENCED = "unfenced"
    FENCE_WRITES = "fence-writes"
    FENCE_WRITES_STRICT = "fence-writes-strict"
    FENCE_READS_AND_WRITES = "fence-reads-and-writes"
    COMPARE_OWNER = "compare-owner"


@dataclass(frozen=True, slots=True)
class Read:
    """What a key holds. value: `INITIAL` if never written; elements: the list of a set, empty for a register."""

    value: int
    elements: tuple[int, ...] = ()


# The server's side. `seen` remembers under which grants a key was accessed: only the store can know which access
# is the first when an earlier one may or may not have arrived.
_SCHEMA: Final = """
BEGIN;
SELECT pg_advisory_xact_lock(7240013);
CREATE SCHEMA IF NOT EXISTS fencepost;
CREATE UNLOGGED TABLE IF NOT EXISTS fencepost.cells (
    key text PRIMARY KEY,
    highest bigint NOT NULL DEFAULT -9223372036854775808,
    owner bigint NOT NULL DEFAULT 0,
    value bigint NOT NULL DEFAULT -1,
    elements bigint[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);
CREATE UNLOGGED TABLE IF NOT EXISTS fencepost.seen (key text, owner bigint, PRIMARY KEY (key, owner));
CREATE OR REPLACE FUNCTION fencepost.access(k text, o bigint, v bigint, e bigint[]) RETURNS SETOF fencepost.cells
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO fencepost.cells (key) VALUES (k) ON CONFLICT DO NOTHING;
    INSERT INTO fencepost.seen VALUES (k, o) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        UPDATE fencepost.cells c SET owner = o WHERE c.key = k;
    END IF;
    IF v IS NULL THEN
        RETURN QUERY SELECT * FROM fencepost.cells c WHERE c.key = k;
    ELSE
        RETURN QUERY UPDATE fencepost.cells c SET value = v, elements = e WHERE c.key = k AND c.owner = o RETURNING c.*;
    END IF;
END $$;
COMMIT;
"""

_PLAIN_READ: Final = "SELECT value, elements FROM fencepost.cells WHERE key = $1"
# $1 key, $2 token or owner, $3 value, $4 elements
_UPSERT: Final = """
INSERT INTO fencepost.cells AS c (key, highest, value, elements) VALUES ($1, $2, $3, $4)
ON CONFLICT (key) DO UPDATE SET highest = excluded.highest, value = excluded.value, elements = excluded.elements
WHERE {condition} RETURNING value"""

_READS: Final = {
    Mode.UNFENCED: _PLAIN_READ,
    Mode.FENCE_WRITES: _PLAIN_READ,
    Mode.FENCE_WRITES_STRICT: _PLAIN_READ,
    Mode.FENCE_READS_AND_WRITES: """
INSERT INTO fencepost.cells AS c (key, highest) VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE SET highest = excluded.highest
WHERE c.highest <= excluded.highest RETURNING value, elements""",
    Mode.COMPARE_OWNER: "SELECT value, elements FROM fencepost.access($1, $2, NULL, NULL)",
}
_WRITES: Final = {
    Mode.UNFENCED: _UPSERT.format(condition="true"),
    Mode.FENCE_WRITES: _UPSERT.format(condition="c.highest <= excluded.highest"),
    Mode.FENCE_WRITES_STRICT: _UPSERT.format(condition="c.highest < excluded.highest"),
    Mode.FENCE_READS_AND_WRITES: _UPSERT.format(condition="c.highest <= excluded.highest"),
    Mode.COMPARE_OWNER: "SELECT value FROM fencepost.access($1, $2, $3, $4)",
}


class Store:
    """One worker's connection to the store, in one mode. Not for use by two threads at once.

    A connection that broke is replaced at the next call, by one attempt that takes `timeout` at most.
    """

    __slots__ = ("_connection", "_dsn", "_mode", "_timeout")

    def __init__(self, dsn: str, mode: Mode, timeout: float) -> None:
        self._dsn = dsn
        self._mode = mode
        self._timeout = timeout
        self._connection: _Connection | None = None

    @classmethod
    def open(cls, dsn: str, mode: str, timeout: float = 1.0) -> Self:
        """Connect. mode: a `Mode` or its text. timeout: seconds for a connection and for an operation.

        Raises Unavailable, or ValueError for a mode that does not exist.
        """
        store = cls(dsn, Mode(mode), timeout)
        store._connected()
        return store

    def read(self, key: str, token: int | None, owner: int) -> Read | None:
        """What the key holds, or None: refused as stale. Raises Unknown or Unavailable."""
        statement = _READS[self._mode]
        params = [key] if statement is _PLAIN_READ else [key, str(self._identity(token, owner))]
        rows = self._connected().run(b"read", params)
        if rows:
            return _read(rows[0])
        return Read(INITIAL) if statement is _PLAIN_READ else None

    def write(self, key: str, value: int, token: int | None, owner: int, elements: Sequence[int] | None = None) -> bool:
        """Replace value and elements; False: refused as stale. Raises Unknown, Unavailable, or ValueError."""
        if elements is not None and len(elements) > MAX_ELEMENTS:
            raise ValueError(f"{len(elements)} elements, more than {MAX_ELEMENTS}")
        listed = "{" + ",".join(map(str, elements or ())) + "}"
        return bool(self._connected().run(b"write", [key, str(self._identity(token, owner)), str(value), listed]))

    def close(self) -> None:
        """Let go of the connection; never raises."""
        if self._connection is not None:
            self._connection.close()

    def _identity(self, token: int | None, owner: int) -> int:
        """What the fence compares in this mode."""
        if self._mode is Mode.UNFENCED:
            return 0
        if self._mode is Mode.COMPARE_OWNER:
            return owner
        if token is None:
            raise ValueError(f"{self._mode} needs a token")
        return token

    def _connected(self) -> _Connection:
        if self._connection is None or not self._connection.usable():
            self.close()
            self._connection = _Connection(
                self._dsn, self._timeout, {b"read": _READS[self._mode], b"write": _WRITES[self._mode]}
            )
        return self._connection


def prepare(dsn: str, timeout: float = 10.0) -> None:
    """Make the schema where it does not exist yet; any number of processes may do so at once. Raises StoreError."""
    connection = _Connection(dsn, timeout, {})
    try:
        connection.script(_SCHEMA)
    finally:
        connection.close()


def final(dsn: str, key: str, timeout: float = 10.0) -> Read:
    """What a key holds, past every fence and without raising any. Raises StoreError."""
    connection = _Connection(dsn, timeout, {b"read": _PLAIN_READ})
    try:
        rows = connection.run(b"read", [key])
    finally:
        connection.close()
    return _read(rows[0]) if rows else Read(INITIAL)


def _read(row: tuple[str, ...]) -> Read:
    value, elements = row
    inner = elements[1:-1]
    return Read(int(value), tuple(map(int, inner.split(","))) if inner else ())


class _Connection:
    """A libpq connection every step of which has a deadline. Broken by the first step that misses it."""

    __slots__ = ("_pg", "_timeout")

    def __init__(self, dsn: str, timeout: float, statements: dict[bytes, str]) -> None:
        """Connect and prepare the statements by name. Raises Unavailable: none was sent for execution."""
        self._timeout = timeout
        # The server gives up a little later than we do: what it cancels nobody waits for any more.
        options = f"-c statement_timeout={int(timeout * 2000)}"
        self._pg = pq.PGconn.connect_start(conninfo.make_conninfo(dsn, options=options).encode())
        try:
            deadline = time.monotonic() + timeout
            self._handshake(deadline)
            for name, text in statements.items():
                self._pg.send_prepare(name, text.encode())
                self._answer(deadline)
        except (StoreError, psycopg.OperationalError) as error:
            self.close()
            raise Unavailable(str(error).strip()) from error

    def usable(self) -> bool:
        """Whether nothing says that the connection is broken. The server's farewell shows as unread bytes."""
        return self._pg.status == pq.ConnStatus.OK and not self._ready(select.POLLIN, 0.0)

    def run(self, name: bytes, params: Sequence[str]) -> list[tuple[str, ...]]:
        """Execute a prepared statement and return its rows. Raises Unknown, and closes the connection."""
        return self._exchange(lambda: self._pg.send_query_prepared(name, [text.encode() for text in params]))

    def script(self, text: str) -> None:
        """Execute several statements without parameters."""
        self._exchange(lambda: self._pg.send_query(text.encode()))

    def close(self) -> None:
        self._pg.finish()

    def _exchange(self, send: Callable[[], None]) -> list[tuple[str, ...]]:
        try:
            send()
            return self._answer(time.monotonic() + self._timeout)
        except psycopg.OperationalError as error:
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
                raise Unavailable(self._pg.get_error_message())
            self._wait(deadline, select.POLLIN if state == pq.PollingStatus.READING else select.POLLOUT)
        self._pg.nonblocking = 1

    def _answer(self, deadline: float) -> list[tuple[str, ...]]:
        """Rows of the answer to what was sent; raises Unknown, or psycopg's error for a statement that is wrong."""
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
        if failure is not None:
            raise failure
        return rows

    def _wait(self, deadline: float, events: int) -> None:
        """Wait for the socket. An answer that arrived while this process was frozen past the deadline still counts."""
        if not self._ready(events, max(deadline - time.monotonic(), 0.0)):
            raise Unknown(f"no answer within {self._timeout} s")

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
