"""``long-call``: never renews, and its client does not look at the clock.

Good enough until the work under the lock waits for somebody else: a call that takes longer than the TTL, to a payment
provider for instance. The lease ends meanwhile, and the holder goes on as if it had not.
"""

from typing import ClassVar

from checkers.claims import Hazard
from suites.locks.antipatterns.broken_claims import HAZARDS, broken
from suites.locks.antipatterns.tutorial import TutorialLock


class LongCall(TutorialLock):
    name: ClassVar[str] = "long-call"
    renewed: ClassVar[bool] = False
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *broken("outlived-ttl", "holder-exclusion", under=("long-call", "stall-holder")),
        *broken("outlived-ttl", "no-lost-update", under=("stall-holder",)),
        *broken("outlived-ttl", "holder-exclusion", "no-lost-update", certain=False),
        *HAZARDS,
    )

    LOOKS_AT_CLOCK: ClassVar[bool] = False
