"""``renew-anyones``: extends the key, whosever it is by then.

EXPIRE asks for no owner. A holder that lost the lock during a pause is told that it has it for another TTL, and works
on beside its successor.
"""

from typing import ClassVar

from checkers.claims import Hazard
from suites.locks.antipatterns.broken_claims import ASKED, HAZARDS, broken
from suites.locks.antipatterns.tutorial import TutorialLock


class RenewAnyones(TutorialLock):
    name: ClassVar[str] = "renew-anyones"
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *broken("renewed-anothers", "honest-renewal", under=("stall-renewal",)),
        *broken("renewed-anothers", "honest-renewal", *ASKED, certain=False),
        *HAZARDS,
    )

    RENEW: ClassVar[str] = "return redis.call('PEXPIRE', KEYS[1], ARGV[2])"
