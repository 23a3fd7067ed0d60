"""``etcd-reentrant``: the queue of ``etcd``, and a client that counts how often it holds.

As Curator's InterProcessMutex (https://curator.apache.org/docs/recipes-shared-reentrant-lock): etcd sees one key.

What its authors claim: as of ``etcd``; an inner acquire succeeds at once and an inner release frees nothing.
"""

from typing import ClassVar

from checkers.claims import Claim, Hazard
from suites.lock import Grant
from suites.locks.depths import LANES, Depths
from suites.locks.etcd import STOOD_STILL, EtcdLock
from suites.locks.etcd_endpoints import Endpoints
from suites.locks.etcd_lease import Leases
from suites.locks.promises import SOUND


class EtcdReentrant(EtcdLock):
    """See the module."""

    name: ClassVar[str] = "etcd-reentrant"
    reentrant: ClassVar[bool] = True
    lanes: ClassVar[tuple[str, ...]] = LANES
    claims: ClassVar[tuple[Claim, ...]] = (*EtcdLock.claims, Claim("reentrancy", under=(*SOUND, "wipe-server")))
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *EtcdLock.hazards,
        Hazard("reentrancy", STOOD_STILL, "revoked-early", certain=False),
    )

    def __init__(self, etcd: Endpoints, leases: Leases) -> None:
        super().__init__(etcd, leases)
        self._depths = Depths()

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """Again what is held, or queue up and wait."""
        outer = super().acquire
        return self._depths.acquire(name, self.belief, lambda: outer(name, timeout))

    def release(self, grant: Grant) -> None:
        """The last one deletes the key."""
        self._depths.release(grant, super().release)
