"""Locks on the session-level advisory lock of PostgreSQL: by hashtext(), behind a pool, read/write, and reentrant."""

from collections.abc import Mapping
from typing import ClassVar, Final

from checkers.claims import NO_FAULT, Claim, Hazard
from checkers.row_format import Reason
from suites.lock import Grant, Indeterminate, LockError, Refused, now
from suites.locks.lease_claims import EXCLUSION, besides, may_break, without
from suites.locks.polling import polled
from suites.locks.postgres_advisory import AdvisoryLock
from suites.locks.postgres_claims import BOUNDS, CLAIMS, ENDED, KEPT, MIN_TTL, TERMINATED, WITHOUT_LISTS
from suites.locks.postgres_session import REQUEST, advisory_key
from suites.locks.reentrant import Reentrant

_UNASKED: Final = ("crash-release", "hand-over")


class BouncerLock(AdvisoryLock):
    """``postgres-bouncer``: a session-level advisory lock through PgBouncer in transaction mode, a known mistake.

    https://www.pgbouncer.org/features.html lists session-level advisory locks among what transaction pooling breaks.
    Each statement outside a transaction goes to whichever server session is idle. So the session that holds one
    client's lock may serve the next client, and a session may take an advisory lock again that it has: then both
    clients hold it. The release may run in another session, which does not hold the lock. Then the lock stays until the
    pool closes the session that holds it.

    Its authors claim nothing. It breaks without a fault, and the only error that tells of it is the release's "false".
    """

    via: ClassVar[str] = "pgbouncer"
    min_ttl: ClassVar[float] = MIN_TTL
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced",)
    bounds: ClassVar[Mapping[str, float]] = {}
    claims: ClassVar[tuple[Claim, ...]] = ()
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *(Hazard(name, (NO_FAULT,), "not-the-session") for name in EXCLUSION),
        *may_break(("no-lost-update", "fenced-store"), (NO_FAULT,), "not-the-session", stores=("unfenced",)),
        Hazard("no-lost-update", ("delayed-write",), "late-delivery", stores=("unfenced",), certain=False),
    )

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """Polls, since lock_timeout would stay behind in a server session that other clients use."""
        session = self._session.begin()

        def attempt() -> Grant | None:
            sent = now()
            ((got,),) = self._session.ask(session, "SELECT pg_try_advisory_lock($1)", advisory_key(name))
            return self._granted(name, sent, session) if got == "t" else None

        return polled(attempt, timeout)


class HashtextLock(AdvisoryLock):
    """``postgres-hashtext``: an advisory lock whose number the server makes from the name with hashtext().

    SELECT pg_advisory_lock(hashtext('order-4711')) is found in applications and libraries everywhere. hashtext gives 32
    bits, is not documented, and may give other numbers in the next major version. Among 9,300 names two have the same
    number with a probability of one in a hundred, among 77,000 names of one in two. Each name of a trial stands for one
    of two names with the same number.

    What its users claim: what is claimed of `postgres-session`. A collision does not break the exclusion: clients that
    want two different things merely wait for each other. They pay in throughput, and wait longer after a crash or a
    fault. A try says "held" of what nobody holds. A client that takes two locks that are one must give it back twice.
    """

    pace: ClassVar[float] = 0.5  # longer than a wait for a free lock may take by chance
    lanes: ClassVar[tuple[str, ...]] = ("apart/unfenced",)
    bounds: ClassVar[Mapping[str, float]] = {**without(_UNASKED, BOUNDS), "independence": 0.15}
    claims: ClassVar[tuple[Claim, ...]] = besides(_UNASKED, CLAIMS)
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *besides(_UNASKED, WITHOUT_LISTS),
        Hazard("independence", (NO_FAULT,), "hash-collision"),
        Hazard("recovery", (NO_FAULT,), "hash-collision", certain=False),
    )

    NUMBER: ClassVar[str] = "hashtext($1)"
    NAMES: ClassVar[tuple[str, str]] = ("order-86530", "order-73199")
    """Two names with the same number."""

    def parameter(self, name: str) -> object:
        """One of `NAMES`, by a bit of the name's last byte in which the first two names of a lane differ."""
        return self.NAMES[ord(name[-1]) // 2 % 2]


class ReadWriteLock(AdvisoryLock):
    """``postgres-rw``: a read/write lock made of PostgreSQL's shared and exclusive advisory locks.

    pg_advisory_lock_shared for readers, pg_advisory_lock for a writer, both at session level:
    https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-ADVISORY-LOCKS. The server has one queue for
    both. No client passes a waiter that it would exclude (proc.c, JoinWaitQueue): readers that keep coming do not
    starve a writer, and a reader behind a waiting writer waits though only readers hold.

    What its authors claim: the same as for the exclusive lock, except that readers hold beside each other.
    """

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
        """The session takes the shared lock beside its exclusive one, ahead of all waiters, then frees the latter."""
        try:
            shared = self.acquire_shared(grant.name, REQUEST)
            if shared is None:
                raise Indeterminate("it was not granted the shared lock beside the exclusive one")
            self.release(grant)
        except LockError:
            self._session.close()  # so that neither lock stays
            raise
        return shared

    def _free(self, grant: Grant, mode: str = "") -> None:
        shared = grant.owner in self._reads
        self._reads.discard(grant.owner)
        super()._free(grant, "_shared" if shared else mode)


class ReentrantLock(Reentrant, AdvisoryLock):
    """``postgres-reentrant``: PostgreSQL's session-level advisory lock, which its holder may take again.

    "If a session already holds a given advisory lock, additional requests by it will always succeed, even if other
    sessions are awaiting the lock"; and "the lock must be released as many times as it was acquired":
    https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS. The server counts. The client
    remembers that it holds the lock, since a session does not say whether it had the lock already.

    What its authors claim: the quotations above, for as long as the session lives, and what they claim of a lock that
    is taken once. When the session has ended, the lock cannot be taken again: another client may have it by now.
    """

    lanes: ClassVar[tuple[str, ...]] = ("nested/unfenced",)
    claims: ClassVar[tuple[Claim, ...]] = (*CLAIMS, Claim("reentrancy", under=KEPT))
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *WITHOUT_LISTS,
        Hazard("reentrancy", (*ENDED, *TERMINATED), "session-lost", certain=False),
    )

    def _again(self, held: Grant) -> Grant:
        """The same grant, in its session or not at all.

        Raises Refused(UNAVAILABLE) if that session is over: the server was not asked.
        """
        try:
            ((got,),) = self._ask(held, f"SELECT pg_try_advisory_lock({self.NUMBER})", self.parameter(held.name))
        except Refused as refusal:
            raise Refused(Reason.UNAVAILABLE, str(refusal)) from refusal
        if got != "t":
            raise Refused(Reason.HELD)
        return held

    def _release_inner(self, grant: Grant) -> None:
        self._free(grant)
