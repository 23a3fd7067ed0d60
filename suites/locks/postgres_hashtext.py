"""``postgres-hashtext``: an advisory lock whose number the server makes of the name, by hashtext().

SELECT pg_advisory_lock(hashtext('order-4711')): what is found in applications and libraries everywhere. hashtext gives
32 bits, is not documented, and may give others in the next major version. Among 9,300 names two meet in one number with
a probability of one in a hundred, among 77,000 with one in two. Each name of a trial stands for one of two that meet.

What its users claim: what is claimed of `postgres-session`, and no collision takes the exclusion away: those who want
two different things merely wait for each other. They pay in throughput, and wait for longer after a crash or a fault; a
try says "held" of what nobody holds; and who takes two locks that are one has to give it back twice.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from checkers.claims import NO_FAULT, Claim, Hazard
from suites.locks.lease_claims import besides, without
from suites.locks.postgres_advisory import AdvisoryLock
from suites.locks.postgres_claims import BOUNDS, CLAIMS, WITHOUT_LISTS

_UNASKED: Final = ("crash-release", "hand-over")


class HashtextLock(AdvisoryLock):
    """See the module. It holds for longer than a wait for a free lock may take by chance."""

    name: ClassVar[str] = "postgres-hashtext"
    pace: ClassVar[float] = 0.5
    lanes: ClassVar[tuple[str, ...]] = ("apart/unfenced",)
    bounds: ClassVar[Mapping[str, float]] = {**without(_UNASKED, BOUNDS), "independence": 0.15}
    claims: ClassVar[tuple[Claim, ...]] = besides(_UNASKED, CLAIMS)
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *besides(_UNASKED, WITHOUT_LISTS),
        Hazard("independence", (NO_FAULT,), "hash-collision"),
        Hazard("recovery", (NO_FAULT,), "hash-collision", certain=False),
    )

    NUMBER: ClassVar[str] = "hashtext($1)"
    NAMES: ClassVar[tuple[str, str]] = ("order-86530", "order-73199")
    """Two of one number."""

    def parameter(self, name: str) -> object:
        """The two names of a lane end with an even and an odd byte."""
        return self.NAMES[ord(name[-1]) % 2]
