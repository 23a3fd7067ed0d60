"""``ttl-too-short``: a TTL shorter than the work, neither renewed nor looked at.

Nothing need go wrong for two to be inside: the first is still at work when its lease ends. It shows in production when
the work grows, long after the TTL was chosen.
"""

from typing import ClassVar

from checkers.claims import Hazard
from suites.locks.antipatterns.broken_claims import HAZARDS, broken
from suites.locks.antipatterns.long_call import LongCall


class TtlTooShort(LongCall):
    """See the module: half a step of work takes longer than the lease lasts."""

    name: ClassVar[str] = "ttl-too-short"
    min_ttl: ClassVar[float] = 0.2
    pace: ClassVar[float] = 0.5
    hazards: ClassVar[tuple[Hazard, ...]] = (*broken("outlived-ttl", "holder-exclusion", "no-lost-update"), *HAZARDS)
