"""``postgres-session``: an advisory lock of PostgreSQL, at session level.

pg_advisory_lock(key) waits in the server's queue, in order of arrival, up to lock_timeout; pg_advisory_unlock releases:
https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS. Libraries such as pals and django-pglock
wrap these functions. The key is a number of 64 bits, hashed from the name.

What its authors claim: the lock is "held until explicitly released or the session ends". So there is no TTL to outlive
and no clock to trust. A crashed client's lock is free as soon as its connection ends; a hung client's lock never is.
They claim no fencing token, and nothing about a client that does not know that its session has ended: it goes on. A
session ends with its connection, so a proxy or a dead network decides how long that takes (`postgres_session`).
Advisory locks are neither written to disk nor replicated: a restart or a failover forgets them all.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import ClassVar, Self

from psycopg import errors

from checkers.claims import Claim, Hazard
from checkers.row_format import Reason
from infra.access import OPEN, Access
from suites.lock import NEVER, Declarations, Grant, Indeterminate, Refused, new_owner, now
from suites.locks.postgres_claims import BOUNDS, CLAIMS, DETECTED, HAZARDS_OF_SESSIONS, HAZARDS_OF_WAITERS, MIN_TTL
from suites.locks.postgres_session import SETTINGS, PostgresSession, Rows, advisory_key


class SessionLock(Declarations):
    """What all locks in a session have in common. Each lock adds `acquire` and `_free`."""

    backend: ClassVar[str] = "postgres"
    lease: ClassVar[str] = "none"
    min_ttl: ClassVar[float] = MIN_TTL
    bounds: ClassVar[Mapping[str, float]] = BOUNDS
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced",)
    claims: ClassVar[tuple[Claim, ...]] = CLAIMS
    hazards: ClassVar[tuple[Hazard, ...]] = HAZARDS_OF_SESSIONS

    def __init__(self, session: PostgresSession, ttl: float) -> None:
        self._session = session
        self._ttl = int(ttl * 1e9)
        self._held: dict[int, int] = {}
        """Owner → the session in which it holds."""
        self._released: set[int] = set()
        """Owners whose release has begun."""

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> Self:
        """There is one server, or PgBouncer in front of it, which takes no parameters of sessions."""
        session = PostgresSession(endpoints[0], access, {} if cls.via else SETTINGS)
        session.begin()
        return cls(session, ttl)

    def renew(self, grant: Grant) -> None:
        """There is nothing to extend. Asks whether the session lives: in it the lock is held until the release.

        The session outlives the release, so its answer proves nothing once the release has begun.
        """
        self._ask(grant, "SELECT 1")
        if grant.owner in self._released:
            raise Refused(Reason.NOT_OWNER, "it was released meanwhile")

    def release(self, grant: Grant) -> None:
        """Raises Refused if the client knows that the session is over: no other session can release the lock."""
        self._released.add(grant.owner)
        try:
            self._free(grant)
        finally:
            self._held.pop(grant.owner, None)

    def belief(self, grant: Grant) -> bool:
        """The client believes while it has its session. It notices the session's end only by a request."""
        return self._held.get(grant.owner) == self._session.id

    def close(self) -> None:
        self._session.close()

    def _granted(self, name: str, sent: int, session: int) -> Grant:
        grant = Grant(name, new_owner(), None, sent, self._ttl, NEVER)
        self._held[grant.owner] = session
        return grant

    def _ask(self, grant: Grant, statement: str, *params: object) -> Rows:
        """Run a statement in the session of the grant. Raises as `PostgresSession.ask`."""
        return self._session.ask(self._held.get(grant.owner, 0), statement, *params)

    def _free(self, grant: Grant) -> None:
        raise NotImplementedError


class AdvisoryLock(SessionLock):
    lanes: ClassVar[tuple[str, ...]] = (
        *("leader/unfenced", "set/unfenced", "transfer-opposite/unfenced", "churn/*", "impatient/*"),
        *("transfer/*", "transfer-backoff/*", "crowd/*", "many/*", "inventory/unfenced", "once/*"),
    )
    # Longer than deadlock_timeout, after which the server refuses one of the clients that wait for each other.
    min_ttl: ClassVar[float] = 2.0
    # If the server does not find the deadlock, they give up when their own wait is over, which takes longer still.
    bounds: ClassVar[Mapping[str, float]] = {**BOUNDS, "recovery": 5.0}
    claims: ClassVar[tuple[Claim, ...]] = (*CLAIMS, Claim("deadlock-free", under=DETECTED))
    hazards: ClassVar[tuple[Hazard, ...]] = (*HAZARDS_OF_SESSIONS, *HAZARDS_OF_WAITERS)

    NUMBER: ClassVar[str] = "$1"
    """The SQL expression for the number of a lock; $1 is `parameter`."""

    def __init__(self, session: PostgresSession, ttl: float) -> None:
        super().__init__(session, ttl)
        self._waits = (0, 0.0)
        """The session, and for how many seconds its statements wait for a lock."""

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """Raises Refused(HELD) also if the server finds that clients wait for each other: it refuses one of them."""
        return self._take(name, timeout, "")

    def parameter(self, name: str) -> object:
        """The parameter of the SQL expression `NUMBER`, from the name of a lock."""
        return advisory_key(name)

    def _take(self, name: str, timeout: float, mode: str) -> Grant | None:
        """mode: "" or "_shared", as it stands in the names of the server's functions."""
        session, sent = self._session.begin(), now()
        if timeout == 0:
            ((got,),) = self._session.ask(
                session, f"SELECT pg_try_advisory_lock{mode}({self.NUMBER})", self.parameter(name)
            )
            if got != "t":
                raise Refused(Reason.HELD)
            return self._granted(name, sent, session)
        self._wait_for(timeout, session)
        sent = now()
        try:
            self._session.ask(
                session, f"SELECT pg_advisory_lock{mode}({self.NUMBER})", self.parameter(name), wait=timeout
            )
        except errors.LockNotAvailable:
            # One that was granted in the instant of its cancellation stays: LockErrorCleanup() in proc.c records it,
            # and the end of a transaction does not end what belongs to the session.
            self._let_be(name, session, mode)
            return None
        except errors.DeadlockDetected as error:
            self._let_be(name, session, mode)
            raise Refused(Reason.HELD, "deadlock detected") from error
        return self._granted(name, sent, session)

    def _let_be(self, name: str, session: int, mode: str) -> None:
        try:
            self._session.ask(session, f"SELECT pg_advisory_unlock{mode}({self.NUMBER})", self.parameter(name))
        except Refused as error:
            raise Indeterminate(str(error)) from error

    def _wait_for(self, timeout: float, session: int) -> None:
        """Set lock_timeout, if it has another value."""
        if self._waits != (session, timeout):
            self._session.ask(session, "SELECT set_config('lock_timeout', $1, false)", f"{ceil(timeout * 1000)}ms")
            self._waits = (session, timeout)

    def _free(self, grant: Grant, mode: str = "") -> None:
        ((freed,),) = self._ask(grant, f"SELECT pg_advisory_unlock{mode}({self.NUMBER})", self.parameter(grant.name))
        if freed != "t":
            raise Refused(Reason.NOT_OWNER, "the session does not hold it")
