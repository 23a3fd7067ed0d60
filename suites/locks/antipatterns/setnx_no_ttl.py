"""``setnx-no-ttl``: SETNX, and DEL when done. Nothing ends the lock of a holder that dies.

The first form of the command's own page, which has since advised against it: https://redis.io/docs/latest/commands/setnx/.
Often it was meant to have a TTL, set by an EXPIRE that a crash in between never sends. One comfort: no pause, no clock
and no slow network ever ends it early.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from checkers.claims import Claim, Hazard
from suites.locks.antipatterns.broken_claims import ASKED, CRASHED, ENDLESS
from suites.locks.antipatterns.tutorial import TutorialLock
from suites.locks.redis_single import BY_LOSS


class SetnxNoTtl(TutorialLock):
    name: ClassVar[str] = "setnx-no-ttl"
    lease: ClassVar[str] = "none"
    renewed: ClassVar[bool] = False
    bounds: ClassVar[Mapping[str, float]] = {"crash-release": 0.3}
    claims: ClassVar[tuple[Claim, ...]] = ENDLESS
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *CRASHED,
        *(replace(hazard, certain=False) for hazard in BY_LOSS if hazard.property in ASKED),
    )

    ACQUIRE: ClassVar[str] = "if redis.call('SET', KEYS[1], ARGV[1], 'NX') then return 1 end return 0"
    # After a lost answer it may be held for ever, by nobody.
    LOOKS_AT_CLOCK: ClassVar[bool] = False
