"""``ignored-result``: sends SET NX, and does not look at the answer.

``redis.set(key, me, nx=True, px=ttl)`` answers None when somebody else holds the lock, and raises nothing.
"""

from typing import ClassVar

from checkers.claims import Hazard
from suites.locks.antipatterns.broken_claims import ASKED, HAZARDS, broken
from suites.locks.antipatterns.tutorial import TutorialLock


class IgnoredResult(TutorialLock):
    name: ClassVar[str] = "ignored-result"
    hazards: ClassVar[tuple[Hazard, ...]] = (*broken("no-exclusion", *ASKED), *HAZARDS)

    ACQUIRE: ClassVar[str] = "redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) return 1"
