"""``zookeeper-rw``: readers and writers in one queue of ephemeral sequential nodes.

The shared locks of https://zookeeper.apache.org/doc/current/recipes.html#Shared+Locks: a writer waits as in
``zookeeper``, a reader only for the last writer before it. kazoo's ReadLock and WriteLock do the same.

What its authors claim: a writer is alone, readers keep out no reader, and nobody is overtaken by a writer that came
later. A writer's end wakes all readers that waited for it, and all of them may go in: a herd, but of use.
"""

from collections.abc import Sequence
from typing import ClassVar

from checkers.claims import Claim, Hazard
from suites.lock import Grant
from suites.locks.lease_claims import WOKEN_ALL, besides
from suites.locks.zookeeper import SHARED, ZooKeeperLock, is_shared

_OTHERS = ("token-order", "fenced-store", "no-lost-update", "herd-free")


class ZooKeeperReadWrite(ZooKeeperLock):
    """See the module. It has no fencing token: what a reader would carry is its writer's, which may be gone."""

    name: ClassVar[str] = "zookeeper-rw"
    tokens: ClassVar[bool] = False
    lanes: ClassVar[tuple[str, ...]] = ("share/unfenced",)
    claims: ClassVar[tuple[Claim, ...]] = (*besides(_OTHERS, ZooKeeperLock.claims), Claim("sharing"))
    hazards: ClassVar[tuple[Hazard, ...]] = (*besides(_OTHERS, ZooKeeperLock.hazards), WOKEN_ALL)

    def acquire_shared(self, name: str, timeout: float) -> Grant | None:
        return self._take(name, timeout, SHARED)

    def _before(self, mine: str, queue: Sequence[str]) -> str | None:
        if not is_shared(mine):
            return super()._before(mine, queue)
        return next((node for node in reversed(queue[: queue.index(mine)]) if not is_shared(node)), None)
