"""``zookeeper-reentrant``: the queue of ``zookeeper``, and a client that counts how often it holds.

As Curator's InterProcessMutex (https://curator.apache.org/docs/recipes-shared-reentrant-lock): ZooKeeper sees one node.

What its authors claim: as of ``zookeeper``; an inner acquire succeeds at once and an inner release frees nothing.
After an interruption the client no longer believes in its grants, and refuses an inner acquire, whatever the session.
"""

from typing import ClassVar

from checkers.claims import Claim
from suites.locks.lease_claims import SOUND
from suites.locks.reentrant import Reentrant
from suites.locks.zookeeper import ZooKeeperLock


class ZooKeeperReentrant(Reentrant, ZooKeeperLock):
    name: ClassVar[str] = "zookeeper-reentrant"
    claims: ClassVar[tuple[Claim, ...]] = (*ZooKeeperLock.claims, Claim("reentrancy", under=(*SOUND, "wipe-server")))
