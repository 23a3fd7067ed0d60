"""``ignored-result``: sends SET NX, and does not look at the answer.

``redis.set(key, me, nx=True, px=ttl)`` answers None when somebody else holds the lock, and raises nothing.
"""

from typing import ClassVar

from checkers.claims import Hazard
from suites.locks.antipatterns.promises import ASKED, HAZARDS, broken
from suites.locks.antipatterns.tutorial import TutorialLock


class IgnoredResult(TutorialLock):
    """See the module."""

    name: ClassVar[str] = "ignored-result"
    hazards: ClassVar[tuple[Hazard, ...]] = (*broken("no-exclusion", *ASKED), *HAZARDS)

    def taken(self, name: str, owner: int) -> bool:
        """Always."""
        super().taken(name, owner)
        return True
