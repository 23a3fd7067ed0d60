"""``postgres-session``: an advisory lock of PostgreSQL, at session level.

pg_advisory_lock(key) waits in the server's queue, in order of arrival, up to lock_timeout; pg_advisory_unlock lets go:
https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS. It is what libraries such as pals and
django-pglock wrap. The key is a number of 64 bits, hashed from the name.

What its authors claim: the lock is "held until explicitly released or the session ends". So there is no TTL to outlive
and no clock to trust, a crashed client's lock is free as soon as its connection is, and a hung one's never is. They
claim no fencing token, and nothing about a client whose session has ended without its knowledge: that one goes on. A
session ends with its connection, so a proxy or a dead network decides how long it takes (`postgres_session`). Advisory
locks are neither written to disk nor replicated: a restart or a failover forgets them all.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from psycopg import errors

from checkers.claims import Claim, Hazard
from checkers.row_format import Reason
from infra.access import OPEN, Access
from suites.lock import NEVER, Declarations, Grant, Indeterminate, Refused, new_owner, now
from suites.locks.postgres_claims import BOUNDS, CLAIMS, DETECTED, HAZARDS_OF_SESSIONS, HAZARDS_OF_WAITERS, MIN_TTL
from suites.locks.postgres_session import SETTINGS, PostgresSession, Rows, advisory_key


class SessionLock(Declarations):
    """What all locks do that live in a session: `acquire` and `_free` are left to each."""

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
        """There is one server, or PgBouncer before it, which takes no parameters of sessions."""
        session = PostgresSession(endpoints[0], access, {} if cls.via else SETTINGS)
        session.begin()
        return cls(session, ttl)

    def renew(self, grant: Grant) -> None:
        """There is nothing to extend. It asks whether the session lives, with which the lock is held until its release.

        The session outlives that, so its answer proves nothing once the release has begun.
        """
        self._ask(grant, "SELECT 1")
        if grant.owner in self._released:
            raise Refused(Reason.NOT_OWNER, "it was released meanwhile")

    def release(self, grant: Grant) -> None:
        """Refused when the session is over, as the client sees it: there is nothing left to release it with."""
        self._released.add(grant.owner)
        try:
            self._free(grant)
        finally:
            self._held.pop(grant.owner, None)

    def belief(self, grant: Grant) -> bool:
        """It holds as long as it has its session, and sees the end of that only when it has asked for something."""
        return self._held.get(grant.owner) == self._session.id

    def close(self) -> None:
        self._session.close()

    def _granted(self, name: str, sent: int, session: int) -> Grant:
        grant = Grant(name, new_owner(), None, sent, self._ttl, NEVER)
        self._held[grant.owner] = session
        return grant

    def _ask(self, grant: Grant, statement: str, *params: object) -> Rows:
        """In the session of the grant. Raises as `PostgresSession.ask`."""
        return self._session.ask(self._held.get(grant.owner, 0), statement, *params)

    def _free(self, grant: Grant) -> None:
        raise NotImplementedError


class AdvisoryLock(SessionLock):
    name: ClassVar[str] = "postgres-session"
    lanes: ClassVar[tuple[str, ...]] = (
        *("leader/unfenced", "set/unfenced", "transfer-opposite/unfenced", "churn/*", "impatient/*"),
        *("transfer/*", "transfer-backoff/*", "crowd/*", "many/*", "inventory/unfenced", "once/*"),
    )
    # Longer than deadlock_timeout, after which one of those who wait for each other is refused.
    min_ttl: ClassVar[float] = 2.0
    # Where the server does not find them they give up when a wait of their own is over, which is longer still.
    bounds: ClassVar[Mapping[str, float]] = {**BOUNDS, "recovery": 5.0}
    claims: ClassVar[tuple[Claim, ...]] = (*CLAIMS, Claim("deadlock-free", under=DETECTED))
    hazards: ClassVar[tuple[Hazard, ...]] = (*HAZARDS_OF_SESSIONS, *HAZARDS_OF_WAITERS)

    NUMBER: ClassVar[str] = "$1"
    """The lock's number, of what `told` tells the server."""

    def __init__(self, session: PostgresSession, ttl: float) -> None:
        super().__init__(session, ttl)
        self._waits = (0, 0.0)
        """The session, and for how many seconds its statements wait for a lock."""

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """Refused(HELD) also where the server found that two wait for each other: it then picks one of them."""
        return self._take(name, timeout, "")

    def parameter(self, name: str) -> object:
        """Of the SQL expression `NUMBER`, from the name of a lock."""
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
        """Set lock_timeout, where it is another."""
        if self._waits != (session, timeout):
            self._session.ask(session, "SELECT set_config('lock_timeout', $1, false)", f"{round(timeout * 1000)}ms")
            self._waits = (session, timeout)

    def _free(self, grant: Grant, mode: str = "") -> None:
        ((freed,),) = self._ask(grant, f"SELECT pg_advisory_unlock{mode}({self.NUMBER})", self.parameter(grant.name))
        if freed != "t":
            raise Refused(Reason.NOT_OWNER, "the session does not hold it")
