"""``postgres-xact``: an advisory lock of PostgreSQL, at transaction level, through PgBouncer.

BEGIN; SELECT pg_advisory_xact_lock(key); the holder works; COMMIT. Transaction-level locks "are automatically released
at the end of the transaction, and there is no explicit unlock operation"
(https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS). A pool in transaction mode gives a
client one server session while its transaction is open, so this is the lock to use there, and not `postgres-bouncer`.

What its authors claim: what they claim of session-level locks, but for the release. A transaction that is open for as
long as somebody works holds back vacuum, and ends with idle_in_transaction_session_timeout where that is set.
"""

import contextlib
from typing import ClassVar

from psycopg import errors

from checkers.row_format import Reason
from suites.lock import Grant, LockError, Refused, now
from suites.locks.postgres_advisory import SessionLock
from suites.locks.postgres_session import advisory_key


class TransactionLock(SessionLock):
    """See the module. A client has one transaction, and so holds one lock at a time."""

    name: ClassVar[str] = "postgres-xact"
    via: ClassVar[str] = "pgbouncer"

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """The end of the transaction is the end of whatever a wait that was broken off may have got."""
        session = self._session.begin()
        self._session.ask(session, "BEGIN")
        sent = now()
        try:
            if timeout == 0:
                if self._tried(name, session):
                    return self._granted(name, sent, session)
            else:
                self._session.ask(session, "SELECT set_config('lock_timeout', $1, true)", f"{round(timeout * 1000)}ms")
                self._session.ask(session, "SELECT pg_advisory_xact_lock($1)", advisory_key(name), wait=timeout)
                return self._granted(name, sent, session)
        except errors.LockNotAvailable:
            pass
        except LockError:
            self._session.close()  # rather than go on in a transaction of which nobody knows how it stands
            raise
        self._session.ask(session, "ROLLBACK")
        if timeout == 0:
            raise Refused(Reason.HELD)
        return None

    def _tried(self, name: str, session: int) -> bool:
        return self._session.ask(session, "SELECT pg_try_advisory_xact_lock($1)", advisory_key(name)) == [("t",)]

    def _free(self, grant: Grant) -> None:
        """A transaction that was open is over either way."""
        self._ask(grant, "COMMIT")

    def close(self) -> None:
        """End the transaction, and with it the grant: a pool may keep the session."""
        for session in set(self._held.values()):
            with contextlib.suppress(LockError):
                self._session.ask(session, "ROLLBACK")
        super().close()
