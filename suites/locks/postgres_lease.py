"""``postgres-lease``: a row with an owner, a fencing token and a time of expiry by the server's clock.

Schedulers keep such a lock table (the best known is ShedLock's, https://github.com/lukas-krecan/ShedLock). One
statement takes the row if it has no owner or has expired, by clock_timestamp(), and counts the token up. A heartbeat
moves the time of expiry. The release removes the owner if it is still the same. No session is involved, so the lock
works through any pool, and outlives restarts like every committed row.

What its authors claim: exclusion while the holder works for less than the lease, and that the lock is free once the
lease has ended. As with every lease, they do not claim that a frozen holder knows of its end: the token is there for
that. The exclusion depends on the server's wall clock: set ahead, it ends every lock. The token does not. If the table
is lost (by a failover to a replica that is behind, or a restored backup), both go back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final, Self

from psycopg import errors

from checkers.claims import ANY, Claim, Hazard
from checkers.row_format import Reason
from infra.access import OPEN, Access
from suites.lock import Declarations, Grant, Refused, new_owner, now
from suites.locks.lease_claims import CLAIMS, CLOCKS, HAZARDS, LOSSES, TOKEN_CLAIMS, TOKEN_HAZARDS
from suites.locks.polling import polled
from suites.locks.postgres_session import PostgresSession, Rows
from suites.locks.redis_single import BOUNDS, BY_LOSS, BY_THE_CLOCK

_TABLE: Final = "leases (name text PRIMARY KEY, owner bigint, token bigint NOT NULL, expires timestamptz NOT NULL)"
# The server checks the condition when it has locked the row, on the newest version, so only one of several clients gets
# the row; and clock_timestamp() is the time of that moment, not of the beginning of the wait.
_ACQUIRE: Final = """
INSERT INTO fencepost.leases AS l VALUES ($1, $2, 1, clock_timestamp() + $3::interval)
ON CONFLICT (name) DO UPDATE SET owner = $2, token = l.token + 1, expires = clock_timestamp() + $3::interval
WHERE l.owner IS NULL OR l.expires <= clock_timestamp() RETURNING token"""
_RENEW: Final = """
UPDATE fencepost.leases SET expires = clock_timestamp() + $3::interval
WHERE name = $1 AND owner = $2 AND expires > clock_timestamp() RETURNING token"""
_RELEASE: Final = """
UPDATE fencepost.leases SET owner = NULL WHERE name = $1 AND owner = $2 AND expires > clock_timestamp()
RETURNING token"""

ONE_SERVER: Final = ("terminate-backends",)
"""Faults that end sessions, but leave rows alone."""


class LeaseLock(Declarations):
    backend: ClassVar[str] = "postgres"
    tokens: ClassVar[bool] = True
    drift: ClassVar[float] = 0.01
    grain: ClassVar[float] = 0.002  # its clock has microseconds
    min_ttl: ClassVar[float] = 0.9
    bounds: ClassVar[Mapping[str, float]] = {**BOUNDS, "fail-fast": 5.0}
    lanes: ClassVar[tuple[str, ...]] = (
        *("set/unfenced", "set/fence-writes", "register/fence-reads-and-writes"),
        *("leader/*", "inventory/fence-reads-and-writes", "once/idempotency-key"),
    )
    claims: ClassVar[tuple[Claim, ...]] = (
        *CLAIMS,
        *TOKEN_CLAIMS,
        *(replace(claim, under=ONE_SERVER) for claim in (*CLAIMS, *TOKEN_CLAIMS) if claim.property != "fenced-store"),
        Claim("token-order", under=CLOCKS),
        Claim("no-lost-update", under=CLOCKS, stores=("fence-reads-and-writes",)),
        Claim("recovery", under=LOSSES),
    )
    # As on Redis, where keys also end by the wall clock and are lost with the data; but here there is one server.
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *HAZARDS,
        *TOKEN_HAZARDS,
        *(replace(hazard, nodes=(ANY,)) for hazard in (*BY_THE_CLOCK, *BY_LOSS)),
    )

    def __init__(self, session: PostgresSession, ttl: float) -> None:
        self._session = session
        self._ttl = ttl

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> Self:
        """There is one server."""
        session = PostgresSession(endpoints[0], access, {})
        session.begin()
        return cls(session, ttl)

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """A lost answer is Indeterminate at once; a row that the request may have taken ends with its lease."""
        owner = new_owner()

        def attempt() -> Grant | None:
            session, sent = self._session.begin(), now()
            try:
                rows = self._session.ask(session, _ACQUIRE, name, owner, f"{self._ttl}s")
            except errors.UndefinedTable:
                self._session.make(session, _TABLE)
                return attempt()
            trusted = int((self._ttl * (1 - self.drift) - self.grain) * 1e9)
            return Grant(name, owner, int(rows[0][0]), sent, int(self._ttl * 1e9), sent + trusted) if rows else None

        return polled(attempt, timeout)

    def renew(self, grant: Grant) -> None:
        if not self._ask(_RENEW, grant.name, grant.owner, f"{self._ttl}s"):
            raise Refused(Reason.NOT_OWNER)

    def release(self, grant: Grant) -> None:
        """The row and its token stay."""
        if not self._ask(_RELEASE, grant.name, grant.owner):
            raise Refused(Reason.NOT_OWNER)

    def close(self) -> None:
        """Hang up; a lock that is still held ends with its lease."""
        self._session.close()

    @classmethod
    def sweep(cls, endpoints: Sequence[str], names: Sequence[str], access: Access) -> None:
        """Delete the rows, which no lease removes: a token must not go back while a client may hold an old one."""
        PostgresSession.sweep(endpoints[0], access, "leases", names)

    def _ask(self, statement: str, *params: object) -> Rows:
        """Run a statement in the present session, or a new one. A table that is gone has no rows."""
        try:
            return self._session.ask(self._session.begin(), statement, *params)
        except errors.UndefinedTable:
            return []
