"""Locks that PostgreSQL holds for as long as a transaction is open."""

import contextlib
from collections.abc import Sequence
from math import ceil
from typing import ClassVar, Final

from psycopg import errors

from checkers.claims import Claim, Hazard
from checkers.row_format import Reason
from infra.access import Access
from suites.lock import Grant, LockError, Refused, now
from suites.locks.lease_claims import as_semaphore
from suites.locks.polling import polled
from suites.locks.postgres_advisory import SessionLock
from suites.locks.postgres_claims import CLAIMS, HAZARDS_OF_SESSIONS
from suites.locks.postgres_session import PostgresSession, advisory_key

_TABLE: Final = "permits (name text, number int, PRIMARY KEY (name, number))"
_FILL: Final = "INSERT INTO fencepost.permits SELECT $1, generate_series(1, $2::int) ON CONFLICT DO NOTHING"
_TAKE: Final = "SELECT number FROM fencepost.permits WHERE name = $1 LIMIT 1 FOR UPDATE SKIP LOCKED"


class TransactionLock(SessionLock):
    """``postgres-xact``: an advisory lock of PostgreSQL, at transaction level, through PgBouncer.

    BEGIN; SELECT pg_advisory_xact_lock(key); the holder works; COMMIT. Transaction-level locks "are automatically
    released at the end of the transaction, and there is no explicit unlock operation"
    (https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS). A pool in transaction mode gives a
    client one server session while its transaction is open, so this is the lock to use with such a pool, and not
    `postgres-bouncer`.

    What its authors claim: the same as for session-level locks, except for the release. A transaction that stays open
    while the holder works holds back vacuum, and is ended by idle_in_transaction_session_timeout, if that is set.
    """

    via: ClassVar[str] = "pgbouncer"
    several: ClassVar[bool] = False
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced", "impatient/unfenced")

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """A client has one transaction, so one lock at a time. Its end frees what a broken-off wait may have got."""
        session = self._session.begin()
        self._session.ask(session, "BEGIN")
        sent = now()
        try:
            if timeout == 0:
                if self._session.ask(session, "SELECT pg_try_advisory_xact_lock($1)", advisory_key(name)) == [("t",)]:
                    return self._granted(name, sent, session)
            else:
                self._session.ask(session, "SELECT set_config('lock_timeout', $1, true)", f"{ceil(timeout * 1000)}ms")
                self._session.ask(session, "SELECT pg_advisory_xact_lock($1)", advisory_key(name), wait=timeout)
                return self._granted(name, sent, session)
        except errors.LockNotAvailable:
            pass
        except LockError:
            self._session.close()  # rather than go on in a transaction whose state is unknown
            raise
        self._session.ask(session, "ROLLBACK")
        if timeout == 0:
            raise Refused(Reason.HELD)
        return None

    def _free(self, grant: Grant) -> None:
        """A transaction that was open is over either way."""
        self._ask(grant, "COMMIT")

    def close(self) -> None:
        """End the transaction, and with it the grant: a pool may keep the session."""
        for session in set(self._held.values()):
            with contextlib.suppress(LockError):
                self._session.ask(session, "ROLLBACK")
        super().close()


class SemaphoreLock(SessionLock):
    """``postgres-semaphore``: one row for each permit, which the holder of the permit has locked.

    A client takes a permit with SELECT ... FOR UPDATE SKIP LOCKED LIMIT 1, in a transaction that stays open while it
    works, as job queues take jobs: https://www.postgresql.org/docs/current/sql-select.html#SQL-FOR-UPDATE-SHARE. Rows
    that others have locked are skipped, so nobody waits in the server. A client that finds none looks again: no order.

    What its authors claim: one transaction at a time locks a row, until the transaction ends, at the latest with its
    session. So what is true of `postgres-session` is true of each permit.
    """

    permits: ClassVar[int] = 2
    several: ClassVar[bool] = False
    lanes: ClassVar[tuple[str, ...]] = ("work/unfenced",)
    claims: ClassVar[tuple[Claim, ...]] = as_semaphore(CLAIMS)
    hazards: ClassVar[tuple[Hazard, ...]] = as_semaphore(HAZARDS_OF_SESSIONS)

    def __init__(self, session: PostgresSession, ttl: float) -> None:
        super().__init__(session, ttl)
        self._filled: set[tuple[int, str]] = set()
        """(session, name) for which the rows were made. A server that comes back empty has none of the old sessions."""

    def acquire(self, name: str, timeout: float) -> Grant | None:
        session = self._session.begin()
        self._fill(name, session)

        def attempt() -> Grant | None:
            sent = now()
            self._session.ask(session, "BEGIN")
            try:
                permits = self._session.ask(session, _TAKE, name)
            except LockError:
                self._session.close()  # rather than go on in a transaction whose state is unknown
                raise
            if permits:
                return self._granted(name, sent, session)
            self._session.ask(session, "ROLLBACK")
            return None

        return polled(attempt, timeout)

    def _fill(self, name: str, session: int) -> None:
        if (session, name) in self._filled:
            return
        try:
            self._session.ask(session, _FILL, name, self.permits)
        except errors.UndefinedTable:
            self._session.make(session, _TABLE)
            self._session.ask(session, _FILL, name, self.permits)
        self._filled.add((session, name))

    def _free(self, grant: Grant) -> None:
        self._ask(grant, "COMMIT")

    @classmethod
    def sweep(cls, endpoints: Sequence[str], names: Sequence[str], access: Access) -> None:
        PostgresSession.sweep(endpoints[0], access, "permits", names)
