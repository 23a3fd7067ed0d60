"""Locks on the queue of ``zookeeper``: for readers and writers, for two at once, and one that may be taken again."""

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

    The shared locks of https://zookeeper.apache.org/doc/current/recipes.html#Shared+Locks: a writer waits as in
    ``zookeeper``, a reader only for the last writer before it. kazoo's ReadLock and WriteLock do the same.

    What its authors claim: a writer is alone, readers keep out no reader, and nobody is overtaken by a writer that came
    later. A writer's end wakes all readers that waited for it, and all of them may go in: a herd, but of use.
    """

    name: ClassVar[str] = "zookeeper-rw"
    tokens: ClassVar[bool] = False  # what a reader would carry is its writer's, which may be gone
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
    """``zookeeper-semaphore``: two hold at once, those with the lowest two of a queue of ephemeral sequential nodes.

    Any holder's end may be the turn of the next, so a waiter watches the whole queue, and all of them are woken by
    whoever comes or goes. Curator's InterProcessSemaphoreV2 and kazoo's Semaphore let one at a time wait for that,
    behind a lock.

    What its authors claim: never more than two among sessions that live, and the permits of the dead come back. It has
    no fencing token: two may hold at once, and no order of numbers would tell who is late.
    """

    name: ClassVar[str] = "zookeeper-semaphore"
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
    """``zookeeper-reentrant``: the queue of ``zookeeper``, and a client that counts how often it holds.

    As Curator's InterProcessMutex (https://curator.apache.org/docs/recipes-shared-reentrant-lock): ZooKeeper sees one
    node.

    What its authors claim: as of ``zookeeper``; an inner acquire succeeds at once and an inner release frees nothing.
    After an interruption the client believes in no grant, and refuses an inner acquire, whatever the session.
    """

    name: ClassVar[str] = "zookeeper-reentrant"
    claims: ClassVar[tuple[Claim, ...]] = (*ZooKeeperLock.claims, Claim("reentrancy", under=(*SOUND, "wipe-server")))
