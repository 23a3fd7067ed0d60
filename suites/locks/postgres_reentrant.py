"""``postgres-reentrant``: PostgreSQL's session-level advisory lock, which its holder may take again.

"If a session already holds a given advisory lock, additional requests by it will always succeed, even if other
sessions are awaiting the lock"; and "the lock must be released as many times as it was acquired":
https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS. The server counts; the client remembers
that it holds, since a session does not say whether a lock was its own already.

What its authors claim: that, for as long as the session lives, and what they claim of the lock taken once. Where the
session has ended the lock cannot be taken again: another may have it by now.
"""

from typing import ClassVar

from checkers.claims import Claim, Hazard
from checkers.row_format import Reason
from suites.lock import Grant, Refused
from suites.locks.postgres_advisory import AdvisoryLock
from suites.locks.postgres_claims import CLAIMS, ENDED, KEPT, TERMINATED, WITHOUT_LISTS


class ReentrantLock(AdvisoryLock):
    name: ClassVar[str] = "postgres-reentrant"
    reentrant: ClassVar[bool] = True
    lanes: ClassVar[tuple[str, ...]] = ("nested/unfenced",)
    claims: ClassVar[tuple[Claim, ...]] = (*CLAIMS, Claim("reentrancy", under=KEPT))
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *WITHOUT_LISTS,
        Hazard("reentrancy", (*ENDED, *TERMINATED), "session-lost", certain=False),
    )

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._inside: dict[str, list[Grant]] = {}
        """Name → its grant, as often as it is held."""

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """What is held already is the same grant once more, in its session or not at all.

        Raises Refused(UNAVAILABLE) where that is over: the server was not asked.
        """
        held = self._inside.get(name)
        if held:
            self._again(held[0])
            held.append(held[0])
            return held[0]
        grant = super().acquire(name, timeout)
        if grant is not None:
            self._inside[name] = [grant]
        return grant

    def _again(self, grant: Grant) -> None:
        try:
            ((got,),) = self._ask(grant, f"SELECT pg_try_advisory_lock({self.NUMBER})", self.parameter(grant.name))
        except Refused as refusal:
            raise Refused(Reason.UNAVAILABLE, str(refusal)) from refusal
        if got != "t":
            raise Refused(Reason.HELD)

    def release(self, grant: Grant) -> None:
        """Once; the others stay."""
        held = self._inside.get(grant.name, [])
        if grant in held:
            held.remove(grant)
        if grant in held:
            self._free(grant)
        else:
            super().release(grant)
