"""``etcd-keepalive-dies``: the thread that keeps the lease alive ends with the first error, and nobody is told.

A loop around `refresh` without a try: the first answer that does not come raises out of it, and the thread is gone. The
lease ends a TTL later, and so does every later lease of this process; the holder sees nothing of it, since it does not
look at the clock either. Two mistakes, and each of them is enough together with a long hold: a client must notice that
it keeps nothing alive, and stop before its lease can have ended. The rest is ``etcd-key``.

What is claimed: the lock itself excludes. Among holders nothing is, since one slow answer is an error already.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from checkers.claims import NO_FAULT, Claim, Hazard
from checkers.row_format import Reason
from suites.lock import NEVER, Grant, LockError, Refused
from suites.locks.etcd_key import EtcdKey
from suites.locks.etcd_requests import Endpoints
from suites.locks.etcd_session import Leases
from suites.locks.lease_claims import besides, without

_BROKEN = ("holder-exclusion", "no-lost-update")
_OTHERS = ("honest-belief", "token-order", "fenced-store", "fifo", "herd-free")


class EtcdKeepaliveDies(EtcdKey):
    name: ClassVar[str] = "etcd-keepalive-dies"
    tokens: ClassVar[bool] = False
    pace: ClassVar[float] = 4.0  # work that lasts longer than the lease, which is what a keep-alive is for
    bounds: ClassVar[Mapping[str, float]] = without(("honest-belief",), EtcdKey.bounds)
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced",)
    claims: ClassVar[tuple[Claim, ...]] = besides((*_OTHERS, *_BROKEN), EtcdKey.claims)
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *besides((*_OTHERS, "no-lost-update"), EtcdKey.hazards),
        # Work takes so long that what comes late mostly comes before a successor's write.
        *(replace(hazard, certain=False) for hazard in EtcdKey.hazards if hazard.property == "no-lost-update"),
        Hazard("holder-exclusion", ("cut-client-drop",), "outlived-ttl"),
        *(Hazard(name, (NO_FAULT,), "outlived-ttl", certain=False) for name in _BROKEN),
    )

    def __init__(self, etcd: Endpoints, leases: Leases) -> None:
        super().__init__(etcd, leases)
        self._died = False

    def acquire(self, name: str, timeout: float) -> Grant | None:
        grant = super().acquire(name, timeout)
        return grant and replace(grant, expires=NEVER)

    def keep_alive(self) -> None:
        """Raises Refused(UNAVAILABLE) for good once anything went wrong: nothing is sent any more."""
        if self._died:
            raise Refused(Reason.UNAVAILABLE, "the thread is dead")
        try:
            super().keep_alive()
        except LockError:
            self._died = True
            raise

    def belief(self, grant: Grant) -> bool:
        """Whoever was told that it holds, holds."""
        return grant.expires == NEVER
