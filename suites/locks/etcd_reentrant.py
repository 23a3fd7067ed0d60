"""``etcd-reentrant``: the queue of ``etcd``, and a client that counts how often it holds.

As Curator's InterProcessMutex (https://curator.apache.org/docs/recipes-shared-reentrant-lock): etcd sees one key.

What its authors claim: as of ``etcd``; an inner acquire succeeds at once and an inner release frees nothing.
"""

from typing import ClassVar

from checkers.claims import Claim, Hazard
from suites.locks.etcd import STOOD_STILL, EtcdLock
from suites.locks.lease_claims import SOUND
from suites.locks.reentrant import Reentrant


class EtcdReentrant(Reentrant, EtcdLock):
    name: ClassVar[str] = "etcd-reentrant"
    claims: ClassVar[tuple[Claim, ...]] = (*EtcdLock.claims, Claim("reentrancy", under=(*SOUND, "wipe-server")))
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *EtcdLock.hazards,
        Hazard("reentrancy", STOOD_STILL, "revoked-early", certain=False),
    )
