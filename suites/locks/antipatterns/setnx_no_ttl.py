"""``setnx-no-ttl``: SETNX, and DEL when done. Nothing ends the lock of a holder that dies.

The first form of the command's own page, which has since advised against it: https://redis.io/docs/latest/commands/setnx/.
Often it was meant to have a TTL, set by an EXPIRE that a crash in between never sends. One comfort: no pause, no clock
and no slow network ever ends it early.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from checkers.claims import Claim, Hazard
from suites.lock import NEVER, Grant
from suites.locks.antipatterns.promises import ASKED, CRASHED, ENDLESS
from suites.locks.antipatterns.tutorial import TutorialLock, key_of
from suites.locks.redis_single import BY_LOSS

_SET: Final = "if redis.call('SET', KEYS[1], ARGV[1], 'NX') then return 1 end return 0"


class SetnxNoTtl(TutorialLock):
    """See the module."""

    name: ClassVar[str] = "setnx-no-ttl"
    lease: ClassVar[str] = "none"
    renewed: ClassVar[bool] = False
    bounds: ClassVar[Mapping[str, float]] = {"crash-release": 0.3}
    claims: ClassVar[tuple[Claim, ...]] = ENDLESS
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *CRASHED,
        *(replace(hazard, certain=False) for hazard in BY_LOSS if hazard.property in ASKED),
    )

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """The TTL that is told is what a better lock would have: nobody's belief ends by it."""
        grant = super().acquire(name, timeout)
        return grant and replace(grant, expires=NEVER)

    def taken(self, name: str, owner: int) -> bool:
        """Without a TTL. After a lost answer it may be held for ever, by nobody."""
        return bool(self.node.call(_SET, (key_of(name),), owner))
