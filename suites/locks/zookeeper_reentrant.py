"""``zookeeper-reentrant``: the queue of ``zookeeper``, and a client that counts how often it holds.

As Curator's InterProcessMutex (https://curator.apache.org/docs/recipes-shared-reentrant-lock): ZooKeeper sees one node.

What its authors claim: as of ``zookeeper``; an inner acquire succeeds at once and an inner release frees nothing.
A client whose connection was interrupted believes in its grants no longer, so an inner acquire is refused then, even
where the session lives on.
"""

from typing import ClassVar

from checkers.claims import Claim, Hazard
from suites.lock import Grant
from suites.locks.depths import LANES, Depths
from suites.locks.promises import LINKS, SERVERS, SOUND
from suites.locks.zookeeper import ZooKeeperLock
from suites.locks.zookeeper_session import ZooKeeperSession


class ZooKeeperReentrant(ZooKeeperLock):
    """See the module."""

    name: ClassVar[str] = "zookeeper-reentrant"
    reentrant: ClassVar[bool] = True
    lanes: ClassVar[tuple[str, ...]] = LANES
    claims: ClassVar[tuple[Claim, ...]] = (*ZooKeeperLock.claims, Claim("reentrancy", under=(*SOUND, "wipe-server")))
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *ZooKeeperLock.hazards,
        Hazard("reentrancy", (*LINKS, *SERVERS, "wipe-server"), "gave-up", certain=False),
    )

    def __init__(self, session: ZooKeeperSession, ttl: float) -> None:
        """ttl: seconds."""
        super().__init__(session, ttl)
        self._depths = Depths()

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """Again what is held, or queue up and wait."""
        outer = super().acquire
        return self._depths.acquire(name, self.belief, lambda: outer(name, timeout))

    def release(self, grant: Grant) -> None:
        """The last one deletes the node."""
        self._depths.release(grant, super().release)
