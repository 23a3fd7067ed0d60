"""``postgres-bouncer``: a session-level advisory lock through PgBouncer in transaction mode, a known mistake.

https://www.pgbouncer.org/features.html lists session-level advisory locks among what transaction pooling breaks. Each
statement outside a transaction goes to whichever server session is idle. So a lock that one client has got is held by a
session that the next client gets too, and an advisory lock may be taken again by the session that has it: both hold it.
The release may run in another session, which does not hold it: the lock then stays until the pool closes the session.

Its authors claim nothing. It needs no fault to break, and no error tells of it but the release's "false".
"""

from collections.abc import Mapping
from typing import ClassVar

from checkers.claims import NO_FAULT, Claim, Hazard
from suites.lock import Grant, now
from suites.locks.polling import polled
from suites.locks.postgres_advisory import AdvisoryLock
from suites.locks.postgres_claims import EXCLUSION, MIN_TTL
from suites.locks.postgres_session import POLL, advisory_key


class BouncerLock(AdvisoryLock):
    name: ClassVar[str] = "postgres-bouncer"
    via: ClassVar[str] = "pgbouncer"
    min_ttl: ClassVar[float] = MIN_TTL
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced",)
    bounds: ClassVar[Mapping[str, float]] = {}
    claims: ClassVar[tuple[Claim, ...]] = ()
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *(Hazard(name, (NO_FAULT,), "not-the-session") for name in EXCLUSION),
        Hazard("no-lost-update", (NO_FAULT,), "not-the-session", stores=("unfenced",), certain=False),
        Hazard("fenced-store", (NO_FAULT,), "not-the-session", stores=("unfenced",), certain=False),
        Hazard("no-lost-update", ("delayed-write",), "late-delivery", stores=("unfenced",), certain=False),
    )

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """By looking again and again: lock_timeout would stay behind in the session of somebody else."""
        session = self._session.begin()

        def attempt() -> Grant | None:
            sent = now()
            ((got,),) = self._session.ask(session, "SELECT pg_try_advisory_lock($1)", advisory_key(name))
            return self._granted(name, sent, session) if got == "t" else None

        return polled(attempt, timeout, POLL)
