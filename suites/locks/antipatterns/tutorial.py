"""The lock of many a tutorial, as it ought to be: what the locks beside it get wrong, each in one place.

SET NX PX with the owner in the value, polled; owner-checked scripts extend and release it. No fencing token.
"""

from collections.abc import Mapping
from typing import ClassVar

from checkers.claims import Claim, Hazard
from suites.locks.antipatterns.broken_claims import CLAIMS, HAZARDS, UNFENCED
from suites.locks.redis_node import TAKE
from suites.locks.redis_single import RedisLock


class TutorialLock(RedisLock):
    """See the module. A lost answer of one without a TTL may leave something behind for ever, which `sweep` removes."""

    tokens: ClassVar[bool] = False
    bounds: ClassVar[Mapping[str, float]] = {}
    lanes: ClassVar[tuple[str, ...]] = UNFENCED
    claims: ClassVar[tuple[Claim, ...]] = CLAIMS
    hazards: ClassVar[tuple[Hazard, ...]] = HAZARDS

    PARTS: ClassVar[tuple[str, ...]] = ()
    ACQUIRE: ClassVar[str] = TAKE
