"""Profiles: how much is tried, from a smoke test to the whole product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Profile:
    """How much of the product is run.

    faults    names in the register of faults, None for all.
    deadline  seconds after which a trial goes on no longer.
    """

    name: str
    faults: tuple[str, ...] | None
    deadline: float


PROFILES: Final = {
    profile.name: profile
    for profile in (
        Profile("smoke", ("none", "freeze-holder", "late-write", "isolate-leader-drop", "kill-server"), 60),
        Profile("default", None, 60),
    )
}
