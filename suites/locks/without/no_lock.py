"""``no-lock``: every client goes in at once, and the store has to cope. It runs beside Redis, but asks it for nothing.

With a store that takes any write, this shows what a lock is for, and what the suite must see: the negative control.
With a store that takes a write only if nothing has changed since the read (``compare-and-set``: optimistic locking,
with the last element for a version number), or a job only once (``idempotency-key``), no lock is needed for a right
result; a lock then only saves useless work. Compared with those, the figures of a lock say what it costs.
"""

from collections.abc import Sequence
from typing import ClassVar, Self

from checkers.claims import NO_FAULT, Claim, Hazard
from suites.lock import NEVER, Declarations, Grant, new_owner, now


class Endless(Declarations):
    """A lock that never expires, so that nobody renews it."""

    backend: ClassVar[str] = "redis"
    lease: ClassVar[str] = "none"
    renewed: ClassVar[bool] = False
    min_ttl: ClassVar[float] = 0.6

    def __init__(self, ttl: float) -> None:
        """ttl: seconds; grants state it, but nothing keeps to it."""
        self._ttl = int(ttl * 1e9)

    def renew(self, grant: Grant) -> None:
        """There is nothing to renew."""

    def close(self) -> None:
        """There is nothing to close."""


class NoLock(Endless):
    excludes: ClassVar[bool] = False
    lanes: ClassVar[tuple[str, ...]] = (
        *("set/unfenced", "set/compare-and-set"),
        *("once/unfenced", "once/idempotency-key", "inventory/compare-and-set"),
    )
    claims: ClassVar[tuple[Claim, ...]] = (
        Claim("no-lost-update", stores=("compare-and-set",)),
        Claim("no-duplicate", stores=("compare-and-set", "idempotency-key")),
    )
    hazards: ClassVar[tuple[Hazard, ...]] = tuple(
        Hazard(name, (NO_FAULT,), "no-exclusion", stores=("unfenced",)) for name in ("no-lost-update", "no-duplicate")
    )

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float) -> Self:  # noqa: ARG003 - it asks no server
        """There is nothing to open."""
        return cls(ttl)

    def acquire(self, name: str, timeout: float) -> Grant | None:  # noqa: ARG002 - nobody waits
        return Grant(name, new_owner(), None, now(), self._ttl, NEVER)

    def release(self, grant: Grant) -> None:
        """There is nothing to release."""
