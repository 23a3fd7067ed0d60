"""``zookeeper-semaphore``: two may hold at once, those with the lowest two of a queue of ephemeral sequential nodes.

Any holder's end may be the turn of the next, so a waiter watches the whole queue, and all of them are woken by whoever
comes or goes. Curator's InterProcessSemaphoreV2 and kazoo's Semaphore let one at a time wait for that, behind a lock.

What its authors claim: never more than two among sessions that live, and the permits of the dead come back. It has no
fencing token: two may hold at once, and no order of numbers would tell who is late.
"""

from collections.abc import Sequence
from typing import ClassVar

from checkers.claims import Claim, Hazard
from suites.locks.lease_claims import WOKEN_ALL, as_semaphore
from suites.locks.zookeeper import ZooKeeperLock


class ZooKeeperSemaphore(ZooKeeperLock):
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
