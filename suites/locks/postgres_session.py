"""One session of PostgreSQL, shared by the threads of a worker, and what the locks in it have in common.

A session lives as long as its connection, which each side ends by itself. The server ends the session, and frees all
that it holds, when it is told that the connection is over or when the server itself ends. Nobody tells the client. The
client gives a connection up when an answer is missing, and never uses it again: it has lost all that it held in it.

For a while, only one side may know that the connection is dead. The server keeps the locks until its kernel misses an
answer from the other side, which takes two hours by default; the `SETTINGS` make it three seconds. A proxy between them
(a load balancer, PgBouncer, the Toxiproxy of our own star) answers in the client's place. Then the proxy's end of the
connection counts, and there may be no bound. Toxiproxy passes on that a client hung up, even while it swallows every
byte, so in the star the server knows it when the client does.
"""

import contextlib
import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from psycopg import conninfo, errors

from checkers.row_format import Reason
from infra.access import Access
from infra.store.libpq import Connection, Unavailable, Unknown, login
from suites.lock import Indeterminate, Refused, new_owner

LOGIN: Final = 2.0
"""Seconds; bounds a connect. The server starts a process for it, and both sides hash the password 4,096 times."""
REQUEST: Final = 0.5
"""Seconds; bounds an answer. A call returns within its timeout plus `LOGIN` and four times this."""

SETTINGS: Final[Mapping[str, object]] = {
    "tcp_keepalives_idle": 1,
    "tcp_keepalives_interval": 1,
    "tcp_keepalives_count": 2,
    "tcp_user_timeout": 3000,
}
"""After how long the server takes a silent client for dead: see the module."""

_MAKING: Final = 7240014
"""Advisory lock under which tables are made: if two run CREATE ... IF NOT EXISTS at once, it fails for one of them."""

Rows = list[tuple[str, ...]]


class PostgresSession:
    """A session for several threads, one statement at a time. After a lost answer the next `begin` makes a new session.

    id  the number of the present session, 0 for none; every session has a new one.
    """

    def __init__(self, endpoint: str, access: Access, settings: Mapping[str, object] = SETTINGS) -> None:
        """endpoint: ``host:port``. settings: parameters of the session; PgBouncer takes none."""
        self.id = 0
        self._endpoint = endpoint
        self._access = access
        self._settings = settings
        self._connection: Connection | None = None
        self._turn = threading.Lock()

    @classmethod
    def sweep(cls, endpoint: str, access: Access, table: str, names: Sequence[str]) -> None:
        """Delete the rows of these names, in a session of its own. If there is no table, no lock was ever taken."""
        with contextlib.closing(cls(endpoint, access, {})) as session, contextlib.suppress(errors.UndefinedTable):
            for name in names:
                session.ask(session.begin(), f"DELETE FROM fencepost.{table} WHERE name = $1", name)

    def begin(self) -> int:
        """The id of the present session, or of a new one. Raises Refused: UNAVAILABLE, or DENIED."""
        with self._taking_turns():
            if not self.id:
                try:
                    dsn = conninfo.make_conninfo(**login(self._endpoint, self._access))
                    self._connection = Connection(dsn, LOGIN, settings=self._settings)
                except (Unavailable, OSError) as error:
                    why = Reason.DENIED if getattr(error, "refused", False) else Reason.UNAVAILABLE
                    raise Refused(why, str(error)) from error
                self.id = new_owner()
            return self.id

    def ask(self, session: int, statement: str, *params: object, wait: float = 0.0) -> Rows:
        """The rows of one statement, which runs in this session or not at all.

        wait: seconds that the server may take beyond `REQUEST`. Raises Refused: NOT_OWNER when the session is over,
        UNAVAILABLE when other threads keep it busy for longer than an answer may take. Raises Indeterminate, which ends
        the session. An error of the statement itself is an exception of psycopg.
        """
        with self._asking(session) as connection:
            return connection.query(statement, [str(param) for param in params], REQUEST + wait)

    def make(self, session: int, table: str) -> None:
        """Make one of our tables, completely or not at all. table: its name and columns. Raises as `ask`."""
        with self._asking(session) as connection:
            connection.script(
                f"SELECT pg_advisory_xact_lock({_MAKING}); CREATE SCHEMA IF NOT EXISTS fencepost;"
                f"CREATE TABLE IF NOT EXISTS fencepost.{table}"
            )

    @contextlib.contextmanager
    def _asking(self, session: int) -> Iterator[Connection]:
        with self._taking_turns():
            try:
                if session != self.id or self._connection is None:
                    raise Refused(Reason.NOT_OWNER, "the session is over")
                yield self._connection
            except Unknown as error:
                self._over()
                raise Indeterminate(str(error)) from error
            except errors.InsufficientPrivilege as error:
                raise Refused(Reason.DENIED, str(error)) from error
            except (errors.DiskFull, errors.OutOfMemory, errors.ReadOnlySqlTransaction) as error:
                raise Refused(Reason.UNAVAILABLE, str(error)) from error

    @contextlib.contextmanager
    def _taking_turns(self) -> Iterator[None]:
        """Raises Refused(UNAVAILABLE) where another thread waits for the server for longer than an answer may take."""
        if not self._turn.acquire(timeout=REQUEST):
            raise Refused(Reason.UNAVAILABLE, "another statement, or a connect, has not been answered yet")
        try:
            yield
        finally:
            self._turn.release()

    def close(self) -> None:
        """End the session, and with it all that it holds."""
        with self._turn:
            self._over()

    def _over(self) -> None:
        self.id = 0
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def advisory_key(name: str) -> int:
    """The number of a lock, of 64 bits. That two names have the same number is as good as impossible."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)
