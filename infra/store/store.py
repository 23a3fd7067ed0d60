"""The fenced store: the resource that locks protect, with a fence of the chosen strength in front of it.

It lives in PostgreSQL. Every operation is one statement and one transaction, so it is atomic as a whole: the fence
is compared and raised in the same instant in which the value is read or replaced. That needs two properties of READ
COMMITTED, which `infra.tests.live.test_store` hammers: an upsert locks the row before it evaluates its ``WHERE`` on
the newest committed version; and each statement of a volatile function sees what was committed before it.

Values and elements travel in the protocol's text form (`libpq`). Imports psycopg and the standard library only: workers
load this beside any library under test.
"""

import contextlib
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, Self

from infra.store.libpq import Connection, NoAnswer
from infra.store.libpq import Unavailable as Unavailable
from infra.store.libpq import Unknown as Unknown

MAX_ELEMENTS: Final = 4096
"""Longest list of a set: a set is rewritten as a whole, so without a limit a trial would take quadratic time."""
LOGIN: Final = 5.0
"""Seconds for the first connection. All workers of a trial log in at once, and each login costs the server a process
and the hash of a password. With less, workers on a busy machine give logins up, and keep it busy with new ones."""
INITIAL: Final = -1
"""The value of a key that was never written."""

StoreError = NoAnswer
"""Base of the two ways in which an operation gets no answer."""


class Mode(StrEnum):
    """What the fence compares.

    UNFENCED                nothing.
    FENCE_WRITES            a write is accepted iff token >= highest token of an accepted write; reads are free.
    FENCE_WRITES_STRICT     a write is accepted iff token > that highest one; a holder's second write is refused.
    FENCE_READS_AND_WRITES  a read or write is accepted iff token >= highest token accepted so far, and raises it.
    COMPARE_OWNER           the first access under a grant, read or write, makes it the owner, unconditionally; a
                            later write is accepted iff the grant is still the owner; a later read is always accepted.
    COMPARE_AND_SET         a write is accepted iff the value is still the one that the write was made from. This is
                            optimistic versioning, which needs no lock.
    IDEMPOTENCY_KEY         reads and writes as in UNFENCED; in addition a job can be claimed, only once ever.
    """

    UNFENCED = "unfenced"
    FENCE_WRITES = "fence-writes"
    FENCE_WRITES_STRICT = "fence-writes-strict"
    FENCE_READS_AND_WRITES = "fence-reads-and-writes"
    COMPARE_OWNER = "compare-owner"
    COMPARE_AND_SET = "compare-and-set"
    IDEMPOTENCY_KEY = "idempotency-key"


class Read(NamedTuple):
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
CREATE UNLOGGED TABLE IF NOT EXISTS fencepost.claims (key text, job bigint, PRIMARY KEY (key, job));
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
_CLAIM: Final = "INSERT INTO fencepost.claims VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING job"
# $1 key, $2 token, owner or base, $3 value, $4 elements
_UPSERT: Final = """
INSERT INTO fencepost.cells AS c (key, highest, value, elements) VALUES ($1, $2, $3, $4)
ON CONFLICT (key) DO UPDATE SET highest = excluded.highest, value = excluded.value, elements = excluded.elements
WHERE {condition} RETURNING value"""

_SWAP: Final = f"""
INSERT INTO fencepost.cells AS c (key, value, elements) SELECT $1::text, $3::bigint, $4::bigint[]
WHERE $2::bigint = {INITIAL} OR EXISTS (SELECT FROM fencepost.cells WHERE key = $1::text)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, elements = excluded.elements
WHERE c.value = $2::bigint RETURNING value"""

_READS: Final = {
    Mode.FENCE_READS_AND_WRITES: """
INSERT INTO fencepost.cells AS c (key, highest) VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE SET highest = excluded.highest
WHERE c.highest <= excluded.highest RETURNING value, elements""",
    Mode.COMPARE_OWNER: "SELECT value, elements FROM fencepost.access($1, $2, NULL, NULL)",
}
"""The reads for which `_PLAIN_READ` is not enough."""
_WRITES: Final = {
    Mode.UNFENCED: _UPSERT.format(condition="true"),
    Mode.FENCE_WRITES: _UPSERT.format(condition="c.highest <= excluded.highest"),
    Mode.FENCE_WRITES_STRICT: _UPSERT.format(condition="c.highest < excluded.highest"),
    Mode.FENCE_READS_AND_WRITES: _UPSERT.format(condition="c.highest <= excluded.highest"),
    Mode.COMPARE_OWNER: "SELECT value FROM fencepost.access($1, $2, $3, $4)",
    Mode.COMPARE_AND_SET: _SWAP,
    Mode.IDEMPOTENCY_KEY: _UPSERT.format(condition="true"),
}


class Store:
    """A worker's connection, in one mode; not for two threads. The next call replaces a broken connection, once."""

    __slots__ = ("_connection", "_dsn", "_mode", "_timeout", "asks")

    def __init__(self, dsn: str, mode: Mode, timeout: float) -> None:
        self._dsn = dsn
        self._mode = mode
        self._timeout = timeout
        self.asks: Callable[[], None] = lambda: None  # called before each request to the server
        self._connection: Connection | None = None

    @classmethod
    def open(cls, dsn: str, mode: str, timeout: float = 1.0) -> Self:
        """Connect. mode: a `Mode` or its text. timeout: seconds for each later step. Raises Unavailable, ValueError."""
        store = cls(dsn, Mode(mode), timeout)
        store._connected(LOGIN)
        return store

    def read(self, key: str, token: int | None, owner: int) -> Read | None:
        """What the key holds, or None: refused as stale. Raises Unknown or Unavailable."""
        plain = self._mode not in _READS
        rows = self._connected().run(b"read", [key] if plain else [key, str(self._identity(token, owner))])
        if rows:
            return _read(rows[0])
        return Read(INITIAL) if plain else None

    def write(
        self,
        key: str,
        value: int,
        token: int | None,
        owner: int,
        elements: Sequence[int] | None = None,
        base: int | None = None,
    ) -> bool:
        """Replace value and elements; False: stale. base: the value they build on. Raises StoreError, or ValueError."""
        if elements is not None and len(elements) > MAX_ELEMENTS:
            raise ValueError(f"{len(elements)} elements, more than {MAX_ELEMENTS}")
        listed = "{" + ",".join(map(str, elements or ())) + "}"
        compared = self._identity(token, owner, base)
        return bool(self._connected().run(b"write", [key, str(compared), str(value), listed]))

    def claim(self, key: str, job: int) -> bool:
        """Claim a job of the key; False: it was claimed before. Raises Unknown, Unavailable, or ValueError."""
        if self._mode is not Mode.IDEMPOTENCY_KEY:
            raise ValueError(f"{self._mode} has no jobs to be claimed")
        return bool(self._connected().run(b"claim", [key, str(job)]))

    def close(self) -> None:
        """Let go of the connection; never raises."""
        if self._connection is not None:
            self._connection.close()

    def _identity(self, token: int | None, owner: int, base: int | None = None) -> int:
        """What the fence compares in this mode."""
        if self._mode in (Mode.UNFENCED, Mode.IDEMPOTENCY_KEY):
            return 0
        if self._mode is Mode.COMPARE_OWNER:
            return owner
        if self._mode is Mode.COMPARE_AND_SET:
            if base is None:
                raise ValueError(f"{self._mode} needs the value that a write was made from")
            return base
        if token is None:
            raise ValueError(f"{self._mode} needs a token")
        return token

    def _connected(self, within: float | None = None) -> Connection:
        self.asks()
        if self._connection is None or not self._connection.usable():
            self.close()
            read = _READS.get(self._mode, _PLAIN_READ)
            statements = {b"read": read, b"write": _WRITES[self._mode], b"claim": _CLAIM}
            self._connection = Connection(self._dsn, self._timeout, statements, within=within)
        return self._connection


def prepare(dsn: str, timeout: float = 10.0) -> None:
    """Make the schema where it does not exist yet; any number of processes may do so at once. Raises StoreError."""
    with contextlib.closing(Connection(dsn, timeout)) as connection:
        connection.script(_SCHEMA)


def final(dsn: str, *keys: str, timeout: float = 10.0) -> list[Read]:
    """What these keys hold, past every fence and without raising one. timeout: s per answer. Raises StoreError."""
    with contextlib.closing(Connection(dsn, timeout, {b"read": _PLAIN_READ})) as connection:
        answers = [connection.run(b"read", [key]) for key in keys]
    return [_read(rows[0]) if rows else Read(INITIAL) for rows in answers]


def _read(row: tuple[str, ...]) -> Read:
    value, elements = row
    inner = elements[1:-1]
    return Read(int(value), tuple(map(int, inner.split(","))) if inner else ())
