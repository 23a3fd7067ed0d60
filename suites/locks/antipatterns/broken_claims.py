"""What these locks have in common: each is tried where nothing but the lock stands between two writers.

A hazard that must show names the defect of each. All else that it is known to break, as any lease lock does, is listed
as well but need not show here: better locks are the positive controls of that.
"""

from dataclasses import replace
from typing import Final

from checkers.claims import NO_FAULT, Claim, Hazard
from suites.locks import lease_claims
from suites.locks.lease_claims import CLOCKS, SOUND
from suites.locks.redis_single import BY_LOSS, BY_THE_CLOCK

UNFENCED: Final = ("set/unfenced",)
"""The lane."""
EXCLUSION: Final = ("server-exclusion", "holder-exclusion")
ASKED: Final = (*EXCLUSION, "no-lost-update")
"""What is asked there of a lock without tokens and bounds."""

CLAIMS: Final = tuple(claim for claim in lease_claims.CLAIMS if claim.property in ASKED)
HAZARDS: Final = tuple(
    replace(hazard, certain=False)
    for hazard in (*lease_claims.HAZARDS, *BY_THE_CLOCK, *BY_LOSS)
    if hazard.property in ASKED
)
"""Of a lease on one Redis node without a token."""

ENDLESS: Final = tuple(Claim(name, under=(*SOUND, *CLOCKS)) for name in EXCLUSION)
"""Of a lock that no time ends, and so neither a frozen holder nor a clock."""
CRASHED: Final = (
    Hazard("crash-release", ("kill-holder",), "never-expires"),
    Hazard("crash-release", ("kill-*", "freeze-*", "stall-holder", "long-call"), "never-expires", certain=False),
)
"""And that none frees either."""


def broken(
    mechanism: str, *properties: str, under: tuple[str, ...] = (NO_FAULT,), certain: bool = True
) -> tuple[Hazard, ...]:
    return tuple(Hazard(name, under, mechanism, certain=certain) for name in properties)
