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


SMOKE: Final = ("none", "freeze-holder", "late-write", "isolate-leader-drop", "kill-server")

DEFAULT: Final = (
    "none",
    "cut-client-refuse",
    "cut-client-drop",
    "cut-client-hold",
    "cut-nodes-refuse",
    "cut-nodes-drop",
    "cut-nodes-hold",
    "isolate-leader-refuse",
    "isolate-leader-drop",
    "isolate-leader-hold",
    "deafen-leader",
    "cut-minority-drop",
    "lose-replies",
    "split-bridge",
    "slow-links",
    "delayed-write",
    "pause-server",
    "kill-server",
    "wipe-server",
    "restart-all",
    "stall-disk",
    "clock-jump-forward",
    "clock-jump-back",
    "freeze-holder",
    "late-write",
    "stall-holder",
    "kill-holder",
    "stall-renewal",
    "promote-replica",
)
"""Those that say most about a lock, in the order of the register."""

PROFILES: Final = {
    profile.name: profile
    for profile in (
        Profile("smoke", SMOKE, 60),
        Profile("default", DEFAULT, 60),
        Profile("nightly", None, 60),
    )
}
