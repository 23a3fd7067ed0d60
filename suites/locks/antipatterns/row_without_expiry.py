"""``row-without-expiry``: a row in a table of PostgreSQL, whose primary key lets only one client in. Nothing ends it.

INSERT ... ON CONFLICT DO NOTHING takes the lock, DELETE gives it back. The row survives the session that made it and a
restart of the server. That is its strength, and the reason why somebody must remove a dead holder's lock by hand.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Self

from psycopg import errors

from checkers.claims import ANY, Claim, Hazard
from checkers.row_format import Reason
from infra.access import OPEN, Access
from suites.lock import NEVER, Grant, Refused, new_owner, now
from suites.locks.antipatterns.tutorial import ASKED, CRASHED, HAZARDS, UNFENCED
from suites.locks.lease_claims import EXCLUSION, LOSSES, may_break
from suites.locks.polling import polled
from suites.locks.postgres_claims import MIN_TTL
from suites.locks.postgres_session import PostgresSession
from suites.locks.without.no_lock import Endless

_TABLE: Final = "rows_without_expiry (name text PRIMARY KEY, owner bigint NOT NULL)"
_TAKE: Final = "INSERT INTO fencepost.rows_without_expiry VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING name"
_FREE: Final = "DELETE FROM fencepost.rows_without_expiry WHERE name = $1 AND owner = $2 RETURNING name"


class RowWithoutExpiry(Endless):
    backend: ClassVar[str] = "postgres"
    min_ttl: ClassVar[float] = MIN_TTL
    lanes: ClassVar[tuple[str, ...]] = UNFENCED
    bounds: ClassVar[Mapping[str, float]] = {"crash-release": 1.0}
    claims: ClassVar[tuple[Claim, ...]] = tuple(Claim(name, under=(ANY,)) for name in EXCLUSION)
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *CRASHED,
        *may_break(ASKED, LOSSES, "state-lost"),
        *(hazard for hazard in HAZARDS if hazard.mechanism == "late-delivery"),
    )

    def __init__(self, session: PostgresSession, ttl: float) -> None:
        super().__init__(ttl)
        self._session = session

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> Self:
        """There is one server. Makes the table, where there is none yet."""
        session = PostgresSession(endpoints[0], access)
        session.make(session.begin(), _TABLE)
        return cls(session, ttl)

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """Polls. After a lost answer the lock may be held for ever, by nobody."""
        owner = new_owner()

        def attempt() -> Grant | None:
            sent = now()
            return Grant(name, owner, None, sent, self._ttl, NEVER) if self._asked(_TAKE, name, owner) else None

        return polled(attempt, timeout)

    def release(self, grant: Grant) -> None:
        if not self._asked(_FREE, grant.name, grant.owner):
            raise Refused(Reason.NOT_OWNER)

    def close(self) -> None:
        """Hang up; a row that is still there stays."""
        self._session.close()

    def _asked(self, statement: str, name: str, owner: int) -> bool:
        """Whether the statement took or freed the row. A server that lost its data gets the table again."""
        session = self._session.begin()
        try:
            return bool(self._session.ask(session, statement, name, owner))
        except errors.UndefinedTable as error:
            self._session.make(session, _TABLE)
            raise Refused(Reason.UNAVAILABLE, str(error)) from error

    @classmethod
    def sweep(cls, endpoints: Sequence[str], names: Sequence[str], access: Access) -> None:
        """Nothing else removes a dead client's row."""
        PostgresSession.sweep(endpoints[0], access, "rows_without_expiry", names)
