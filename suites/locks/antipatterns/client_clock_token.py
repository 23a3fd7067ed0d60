"""``client-clock-token``: the fencing token is the client's clock when it began to ask, in nanoseconds.

Whoever began to wait early and got the lock late comes with a lower token than those before it, and the fence refuses
the rightful holder. Here the clocks of all clients are even the same; where they are not, it is worse. A token must be
given by the lock itself, together with the lock: see Kleppmann, "How to do distributed locking" (2016).
"""

import time
from dataclasses import replace
from typing import ClassVar

from checkers.claims import Claim, Hazard
from suites.lock import Grant
from suites.locks.antipatterns.broken_claims import CLAIMS, EXCLUSION, HAZARDS, broken
from suites.locks.antipatterns.tutorial import TutorialLock


class ClientClockToken(TutorialLock):
    name: ClassVar[str] = "client-clock-token"
    tokens: ClassVar[bool] = True
    lanes: ClassVar[tuple[str, ...]] = ("register/fence-writes",)
    claims: ClassVar[tuple[Claim, ...]] = (*CLAIMS, Claim("fenced-store", stores=("fence-*",)))
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *broken("client-clock", "token-order"),
        *(hazard for hazard in HAZARDS if hazard.property in EXCLUSION),
    )

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """As if the lock had given it."""
        began = time.time_ns()
        grant = super().acquire(name, timeout)
        return grant and replace(grant, token=began)
