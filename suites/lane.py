"""A lane: one lock × workload × store mode on keys of its own, with its own workers, judged alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from checkers.claims import NO_FAULT
from infra.faults.register import FAULTS
from suites.lock import LockClient
from suites.workload import Workload
from suites.workloads.register import Register
from suites.workloads.set import Set

WORKLOADS: Final[tuple[type[Workload], ...]] = (Register, Set)

STORES: Final = {
    "register": ("unfenced", "fence-writes", "fence-writes-strict", "fence-reads-and-writes", "compare-owner"),
    "set": ("unfenced", "fence-writes", "fence-reads-and-writes", "compare-owner"),
}
"""Store modes in which each workload runs."""

ALWAYS: Final = ("server-exclusion", "holder-exclusion", "recovery")
"""Properties of every lane; token-order joins them where there are tokens."""

LOCK_GONE: Final = ("freeze", "clock", "wipe", "failover")
"""Kinds of faults under which somebody may hold, for all it knows, what has been given to another."""


@dataclass(frozen=True, slots=True)
class Lane:
    """lock_name is how the lock was asked for; the classes do the rest."""

    lock_name: str
    lock: type[LockClient]
    workload: type[Workload]
    store: str

    @property
    def name(self) -> str:
        return f"{self.lock_name}/{self.workload.name}/{self.store}"

    @property
    def backend(self) -> str:
        return self.lock.backend

    @property
    def properties(self) -> tuple[str, ...]:
        tokens = ("token-order",) if self.lock.tokens else ()
        return ALWAYS + tokens + self.workload.properties

    def asks(self, property: str, faults: Sequence[str]) -> bool:
        """Whether the property can be stressed under these faults.

        Without a fence nobody writes late on purpose: only a holder that does not know that its lock is gone makes a
        stale write (`LOCK_GONE`). A lock that declares no bound promises no recovery.
        """
        if property == "recovery" and (not self.lock.recovery or all(fault == NO_FAULT for fault in faults)):
            return False
        if property not in self.properties:
            return False
        if property == "fenced-store" and self.store == "unfenced":
            return any(fault in FAULTS and FAULTS[fault].kind in LOCK_GONE for fault in faults)
        return True

    @property
    def not_applicable(self) -> str | None:
        """Why this lane cannot be run, or None."""
        if self.store.startswith("fence-") and not self.lock.tokens:
            return f"{self.lock_name} has no fencing token"
        return None


def lanes_of(lock_name: str, lock: type[LockClient]) -> Iterator[Lane]:
    """Every lane of a lock, those that are not applicable included."""
    for workload in WORKLOADS:
        for store in STORES[workload.name]:
            if store == "compare-owner" and lock.tokens:
                continue  # the substitute for locks without tokens
            yield Lane(lock_name, lock, workload, store)


def longest_ttl(lanes: Sequence[Lane]) -> float:
    """Seconds; what a fault on workers must outlast."""
    return max(lane.lock.min_ttl for lane in lanes)
