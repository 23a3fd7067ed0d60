"""``goes-ahead``: when the lock service cannot be asked, it goes ahead: "better twice than never".

That may be what the work wants, but it is not a lock then: as soon as the network parts a client from the service, and
the others can still reach it, two are inside.
"""

from typing import ClassVar

from checkers.claims import Hazard
from checkers.row_format import Reason
from suites.lock import Grant, Indeterminate, Refused, new_owner, now
from suites.locks.antipatterns.broken_claims import ASKED, EXCLUSION, HAZARDS, broken
from suites.locks.antipatterns.tutorial import TutorialLock
from suites.locks.redis_node import validity


class GoesAhead(TutorialLock):
    name: ClassVar[str] = "goes-ahead"
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *broken("went-ahead", *EXCLUSION, under=("cut-client-refuse", "cut-client-drop", "kill-server")),
        *broken("went-ahead", *ASKED, certain=False),
        *HAZARDS,
    )

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """None only when somebody certainly holds it. What no server gave has no TTL."""
        sent = now()
        try:
            return super().acquire(name, timeout)
        except Refused as refusal:
            if refusal.reason is not Reason.UNAVAILABLE:
                raise
        except Indeterminate:
            pass
        return Grant(name, new_owner(), None, sent, 0, now() + validity(self._ttl))
