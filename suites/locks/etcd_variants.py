"""Locks on the queue of ``etcd``: for readers and writers, for two holders at once, and reentrant."""

from typing import ClassVar

from checkers.claims import Claim, Hazard
from suites.lock import Grant
from suites.locks.etcd import SHARED, STOOD_STILL, EtcdLock, Queue, Range
from suites.locks.lease_claims import SOUND, WOKEN_ALL, as_semaphore, besides
from suites.locks.reentrant import Reentrant

_OTHERS = ("token-order", "fenced-store", "no-lost-update", "herd-free")


class EtcdReadWrite(EtcdLock):
    """``etcd-rw``: readers and writers in one queue of keys.

    This is the queue of ``etcd``, but a writer waits for every key before its own, and a reader only for the last
    writer's key before its own, as in the RWMutex of etcd's client/v3/experimental/recipes
    (https://pkg.go.dev/go.etcd.io/etcd/client/v3/experimental/recipes).

    What its authors claim: a writer is alone, readers keep out no reader, and no client is overtaken by a writer that
    came later. A writer that leaves wakes all readers that waited for it, and all of them may go in: a useful herd.
    """

    tokens: ClassVar[bool] = False  # readers would need the token of the writer before them, whose key may be gone
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


class EtcdSemaphore(EtcdLock):
    """``etcd-semaphore``: two clients may hold at once: those with the lowest two create_revisions in a queue of keys.

    Whichever holder leaves, the next waiter may go in. So waiters watch the whole queue, and each leaver wakes all.

    What its authors claim: never more than two hold as long as a client stops when its lease may have ended, and a dead
    holder's permit comes back. It has no fencing token: with two holders, no order of numbers would tell who is late.
    """

    tokens: ClassVar[bool] = False
    fair: ClassVar[bool] = False  # two are granted the lock in whatever order their answers arrive
    permits: ClassVar[int] = 2
    lanes: ClassVar[tuple[str, ...]] = ("work/unfenced",)
    claims: ClassVar[tuple[Claim, ...]] = as_semaphore(EtcdLock.claims)
    hazards: ClassVar[tuple[Hazard, ...]] = (*as_semaphore(EtcdLock.hazards), WOKEN_ALL)

    def _ahead(self, queue: Queue, token: int) -> Range | None:
        return queue.whole if len(queue.before(token)) >= self.permits else None


class EtcdReentrant(Reentrant, EtcdLock):
    """``etcd-reentrant``: the queue of ``etcd``, and a client that counts how often it holds the lock.

    Like Curator's InterProcessMutex (https://curator.apache.org/docs/recipes-shared-reentrant-lock): etcd sees one key.

    What its authors claim: the claims of ``etcd``; an inner acquire succeeds at once, an inner release frees nothing.
    """

    claims: ClassVar[tuple[Claim, ...]] = (*EtcdLock.claims, Claim("reentrancy", under=(*SOUND, "wipe-server")))
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *EtcdLock.hazards,
        Hazard("reentrancy", STOOD_STILL, "revoked-early", certain=False),
    )


def _is_shared(key: bytes) -> bool:
    return key.rpartition(b"/")[2].startswith(SHARED.encode())
