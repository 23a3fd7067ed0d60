"""``postgres-lease``: a row with an owner, a fencing token and a time of expiry by the server's clock.

The lock table that schedulers keep (ShedLock's, https://github.com/lukas-krecan/ShedLock, is the best known): one
statement takes the row if nobody has it or its time is over, by clock_timestamp(), and counts the token up; a heartbeat
moves the time; the release empties the row if the owner is still the same. No session is involved, so that it works
through any pool, and outlives restarts as every committed row does.

What its authors claim: exclusion while the holder works for less than the lease, and freedom once that has ended. As of
every lease, not that a holder that was frozen knows of its end: for that there is the token. What the exclusion needs
is the server's wall clock: set ahead, it ends every lock. The token does not need it. Where the table is lost (a
failover to a replica that is behind, a restored backup) both go back.
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
from suites.locks.postgres_session import POLL, PostgresSession, Rows
from suites.locks.redis_single import BOUNDS, BY_LOSS, BY_THE_CLOCK

DRIFT: Final = 0.01
GRAIN: Final = 0.002
"""Seconds by which the server may end a lease early: its clock has microseconds."""

_TABLE: Final = "leases (name text PRIMARY KEY, owner bigint, token bigint NOT NULL, expires timestamptz NOT NULL)"
# The condition is looked at when the row is locked, on its newest version, so that of several one gets it; and
# clock_timestamp() is that moment's, not the beginning of the wait's.
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
_SWEEP: Final = "DELETE FROM fencepost.leases WHERE name = $1"

ONE_SERVER: Final = ("terminate-backends",)
"""What ends sessions leaves rows alone."""


class LeaseLock(Declarations):
    name: ClassVar[str] = "postgres-lease"
    backend: ClassVar[str] = "postgres"
    tokens: ClassVar[bool] = True
    drift: ClassVar[float] = DRIFT
    grain: ClassVar[float] = GRAIN
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
    # As on Redis, whose keys end by the wall clock too, and are lost with the data; but there is one server.
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *HAZARDS,
        *TOKEN_HAZARDS,
        *(replace(hazard, nodes=(ANY,)) for hazard in (*BY_THE_CLOCK, *BY_LOSS)),
    )

    ACQUIRE: ClassVar[str] = _ACQUIRE
    """$1 name, $2 owner, $3 TTL; a token where it was taken."""

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
        """A lost answer is Indeterminate at once; the row that it may have taken ends with its lease."""
        owner = new_owner()

        def attempt() -> Grant | None:
            session, sent = self._session.begin(), now()
            try:
                rows = self._session.ask(session, self.ACQUIRE, name, owner, f"{self._ttl}s")
            except errors.UndefinedTable:
                self._session.make(session, _TABLE)
                return attempt()
            trusted = int((self._ttl * (1 - self.drift) - self.grain) * 1e9)
            return Grant(name, owner, int(rows[0][0]), sent, int(self._ttl * 1e9), sent + trusted) if rows else None

        return polled(attempt, timeout, POLL)

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
        """The rows stay for ever otherwise: a token must not go back while anybody may hold an old one."""
        PostgresSession.sweep(endpoints[0], access, _SWEEP, names)

    def _ask(self, statement: str, *params: object) -> Rows:
        """In whichever session there is. A table that is gone knows of nobody."""
        try:
            return self._session.ask(self._session.begin(), statement, *params)
        except errors.UndefinedTable:
            return []
