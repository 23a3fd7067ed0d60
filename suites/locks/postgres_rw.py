"""``postgres-rw``: a read/write lock of PostgreSQL's shared and exclusive advisory locks.

pg_advisory_lock_shared for readers, pg_advisory_lock for a writer, both at session level:
https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-ADVISORY-LOCKS. The server has one queue for
both, and nobody passes a waiter whom he would exclude (proc.c, JoinWaitQueue): readers that keep coming do not starve a
writer, and a reader behind a waiting writer waits though only readers hold.

What its authors claim: what they claim of the exclusive one, with readers beside each other.
"""

from typing import ClassVar

from checkers.claims import Claim, Hazard
from suites.lock import Grant, Indeterminate, LockError
from suites.locks.postgres_advisory import AdvisoryLock
from suites.locks.postgres_claims import CLAIMS, WITHOUT_LISTS
from suites.locks.postgres_session import REQUEST


class ReadWriteLock(AdvisoryLock):
    name: ClassVar[str] = "postgres-rw"
    lanes: ClassVar[tuple[str, ...]] = ("share/unfenced",)
    claims: ClassVar[tuple[Claim, ...]] = (*CLAIMS, Claim("sharing"))
    hazards: ClassVar[tuple[Hazard, ...]] = WITHOUT_LISTS

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._reads: set[int] = set()
        """Owners of shared grants."""

    def acquire_shared(self, name: str, timeout: float) -> Grant | None:
        grant = self._take(name, timeout, "_shared")
        if grant is not None:
            self._reads.add(grant.owner)
        return grant

    def downgrade(self, grant: Grant) -> Grant:
        """The session takes the shared lock beside its exclusive one, before all who wait, and then gives that back."""
        try:
            shared = self.acquire_shared(grant.name, REQUEST)
            if shared is None:
                raise Indeterminate("it was not granted the shared lock beside the exclusive one")
            self.release(grant)
        except LockError:
            self._session.close()  # so that neither stays
            raise
        return shared

    def _free(self, grant: Grant, mode: str = "") -> None:
        shared = grant.owner in self._reads
        self._reads.discard(grant.owner)
        super()._free(grant, "_shared" if shared else mode)
