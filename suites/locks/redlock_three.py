"""``redlock-3``: Redlock on three nodes, as most deployments have it.

``redlock`` otherwise. Two votes of three are a majority: one node may be away, where five may miss two. And one vote to
spare, where five have two: of a holder whom one node did not answer, any single node that loses the lock frees it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final, Self

from checkers.claims import Hazard
from infra.access import OPEN, Access
from suites.locks.lease_claims import HAZARDS
from suites.locks.redlock import BY_ONE_NODE, Redlock

NODES: Final = 3


class RedlockOfThree(Redlock):
    name: ClassVar[str] = "redlock-3"
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced", "register/compare-owner")
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *HAZARDS,
        *(replace(hazard, nodes=("redis1", "redis2", "redis3")) for hazard in BY_ONE_NODE),
    )

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> Self:
        """On the first three; the others are nothing to it."""
        return super().open(endpoints[:NODES], ttl, access)
