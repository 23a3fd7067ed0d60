"""``etcd-rw``: readers and writers in one queue of keys.

The queue of ``etcd`` in which a writer waits for every key before its own, and a reader only for the last writer's, as
the RWMutex of etcd's client/v3/experimental/recipes (https://pkg.go.dev/go.etcd.io/etcd/client/v3/experimental/recipes).

What its authors claim: a writer is alone, readers keep out no reader, and nobody is overtaken by a writer that came
later. A writer's end wakes all readers that waited for it, and all of them may go in: a herd, but of use.
"""

from typing import ClassVar

from checkers.claims import Claim, Hazard
from suites.lock import Grant
from suites.locks.etcd import SHARED, EtcdLock, Queue, Range
from suites.locks.lease_claims import WOKEN_ALL, besides

_OTHERS = ("token-order", "fenced-store", "no-lost-update", "herd-free")


class EtcdReadWrite(EtcdLock):
    """See the module. It has no fencing token: what a reader would carry is its writer's, which may be gone."""

    name: ClassVar[str] = "etcd-rw"
    tokens: ClassVar[bool] = False
    lanes: ClassVar[tuple[str, ...]] = ("share/unfenced",)
    claims: ClassVar[tuple[Claim, ...]] = (*besides(_OTHERS, EtcdLock.claims), Claim("sharing"))
    hazards: ClassVar[tuple[Hazard, ...]] = (*besides(_OTHERS, EtcdLock.hazards), WOKEN_ALL)

    def acquire_shared(self, name: str, timeout: float) -> Grant | None:
        return self._take(name, timeout, SHARED)

    def _ahead(self, queue: Queue, token: int) -> Range | None:
        before = queue.before(token)
        if _is_shared(queue.keys[token]):
            before = [key for key in before if not _is_shared(key)]
        return (before[-1], b"") if before else None


def _is_shared(key: bytes) -> bool:
    return key.rpartition(b"/")[2].startswith(SHARED.encode())
