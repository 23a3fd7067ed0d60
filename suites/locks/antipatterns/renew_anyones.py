"""``renew-anyones``: extends the key, whosever it is by then.

EXPIRE asks for no owner. A holder that lost the lock during a pause is told that it has it for another TTL, and works
on beside its successor.
"""

from typing import ClassVar, Final

from checkers.claims import Hazard
from checkers.wire import Reason
from suites.lock import Grant, Refused
from suites.locks.antipatterns.promises import ASKED, HAZARDS, broken
from suites.locks.antipatterns.tutorial import TutorialLock, key_of, ms

_EXPIRE: Final = "return redis.call('PEXPIRE', KEYS[1], ARGV[1])"


class RenewAnyones(TutorialLock):
    """See the module."""

    name: ClassVar[str] = "renew-anyones"
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *broken("renewed-anothers", "honest-renewal", under=("stall-renewal",)),
        *broken("renewed-anothers", "honest-renewal", *ASKED, certain=False),
        *HAZARDS,
    )

    def renew(self, grant: Grant) -> None:
        """Refused only when nobody holds it."""
        if not self.node.call(_EXPIRE, (key_of(grant.name),), ms(self.ttl)):
            raise Refused(Reason.NOT_OWNER)
