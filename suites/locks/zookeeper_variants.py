"""Locks on the queue of ``zookeeper``: for readers and writers, for two holders at once, and reentrant."""

from collections.abc import Sequence
from typing import ClassVar

from checkers.claims import Claim, Hazard
from suites.lock import Grant
from suites.locks.lease_claims import SOUND, WOKEN_ALL, as_semaphore, besides
from suites.locks.reentrant import Reentrant
from suites.locks.zookeeper import SHARED, ZooKeeperLock, is_shared

_OTHERS = ("token-order", "fenced-store", "no-lost-update", "herd-free")


class ZooKeeperReadWrite(ZooKeeperLock):
    """``zookeeper-rw``: readers and writers in one queue of ephemeral sequential nodes.

    These are the shared locks of https://zookeeper.apache.org/doc/current/recipes.html#Shared+Locks: a writer waits as
    in ``zookeeper``, a reader only for the last writer before it. kazoo's ReadLock and WriteLock do the same.

    What its authors claim: a writer is alone, readers keep out no reader, and no client is overtaken by a writer that
    came later. A writer that leaves wakes all readers that waited for it, and all of them may go in: a useful herd.
    """

    tokens: ClassVar[bool] = False  # readers would need the token of the writer before them, whose node may be gone
    lanes: ClassVar[tuple[str, ...]] = ("share/unfenced",)
    claims: ClassVar[tuple[Claim, ...]] = (*besides(_OTHERS, ZooKeeperLock.claims), Claim("sharing"))
    hazards: ClassVar[tuple[Hazard, ...]] = (*besides(_OTHERS, ZooKeeperLock.hazards), WOKEN_ALL)

    def acquire_shared(self, name: str, timeout: float) -> Grant | None:
        return self._take(name, timeout, SHARED)

    def _before(self, mine: str, queue: Sequence[str]) -> str | None:
        if not is_shared(mine):
            return super()._before(mine, queue)
        return next((node for node in reversed(queue[: queue.index(mine)]) if not is_shared(node)), None)


class ZooKeeperSemaphore(ZooKeeperLock):
    """``zookeeper-semaphore``: two clients may hold at once, the lowest two in a queue of ephemeral sequential nodes.

    Whichever holder leaves, the next waiter may go in. So waiters watch the whole queue, and whoever comes or goes
    wakes all of them. With Curator's InterProcessSemaphoreV2 and kazoo's Semaphore only one client at a time waits for
    that, behind a lock.

    What its authors claim: never more than two hold among sessions that live, and a dead holder's permit comes back. It
    has no fencing token: two may hold at once, and no order of numbers would tell who is late.
    """

    tokens: ClassVar[bool] = False
    fair: ClassVar[bool] = False  # two are granted the lock in whatever order their answers arrive
    permits: ClassVar[int] = 2
    lanes: ClassVar[tuple[str, ...]] = ("work/unfenced",)
    claims: ClassVar[tuple[Claim, ...]] = as_semaphore(ZooKeeperLock.claims)
    hazards: ClassVar[tuple[Hazard, ...]] = (*as_semaphore(ZooKeeperLock.hazards), WOKEN_ALL)

    watches_all: ClassVar[bool] = True

    def _before(self, mine: str, queue: Sequence[str]) -> str | None:
        return super()._before(mine, queue) if queue.index(mine) >= self.permits else None


class ZooKeeperReentrant(Reentrant, ZooKeeperLock):
    """``zookeeper-reentrant``: the queue of ``zookeeper``, and a client that counts how often it holds the lock.

    Like Curator's InterProcessMutex (https://curator.apache.org/docs/recipes-shared-reentrant-lock): ZooKeeper sees one
    node.

    What its authors claim: the claims of ``zookeeper``; an inner acquire succeeds at once, an inner release frees
    nothing. After an interruption the client believes in no grant, and refuses an inner acquire, whatever the session.
    """

    claims: ClassVar[tuple[Claim, ...]] = (*ZooKeeperLock.claims, Claim("reentrancy", under=(*SOUND, "wipe-server")))
