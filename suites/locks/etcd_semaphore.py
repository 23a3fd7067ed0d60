"""``etcd-semaphore``: two may hold at once, those with the lowest two create_revisions of a queue of keys.

Any holder's end may be the turn of the next, so a waiter watches the whole queue, and whoever goes wakes all.

What its authors claim: never more than two as long as a client stops when its lease may have ended, and the permits of
the dead come back. It has no fencing token: two may hold at once, and no order of numbers would tell who is late.
"""

from typing import ClassVar

from checkers.claims import Claim, Hazard
from suites.locks.etcd import EtcdLock, Queue, Range
from suites.locks.lease_claims import WOKEN_ALL, as_semaphore


class EtcdSemaphore(EtcdLock):
    name: ClassVar[str] = "etcd-semaphore"
    tokens: ClassVar[bool] = False
    fair: ClassVar[bool] = False  # two are granted the lock in whatever order their answers arrive
    permits: ClassVar[int] = 2
    lanes: ClassVar[tuple[str, ...]] = ("work/unfenced",)
    claims: ClassVar[tuple[Claim, ...]] = as_semaphore(EtcdLock.claims)
    hazards: ClassVar[tuple[Hazard, ...]] = (*as_semaphore(EtcdLock.hazards), WOKEN_ALL)

    def _ahead(self, queue: Queue, token: int) -> Range | None:
        return queue.whole if len(queue.before(token)) >= self.permits else None
