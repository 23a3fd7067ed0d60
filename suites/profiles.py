"""Profiles: how much is tried, from a smoke test to the whole product.

Faults on links and servers hit what locks of one service have in common, so a profile need not try every lock under
each of them: the plainest lock of each service stands for the others, which are tried where they must break.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Profile:
    """How much of the product is run.

    faults    names in the register of faults, None for all.
    every     those under which every lock is tried, None for all; what is broken by design (`registry.CONTROLS`) only
              without a fault. Under the others those of `PLAINEST`.
    controls  whether lanes are tried under the others as well that a hazard must show in.
    deadline  seconds after which a trial goes on no longer.
    """

    name: str
    faults: tuple[str, ...] | None
    every: tuple[str, ...] | None
    controls: bool
    deadline: float


PLAINEST: Final = ("redis", "redlock", "zookeeper", "etcd")
"""Locks that are tried under all faults of a profile."""


SMOKE: Final = ("none", "freeze-holder", "late-write", "kill-server")

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
    "long-call",
    "kill-holder",
    "stall-renewal",
    "promote-replica",
    "change-leader",
    "terminate-backends",
)
"""Those that say most about a lock, in the order of the register."""

OF_EACH_KIND: Final = (
    "none",
    "cut-client-drop",
    "delayed-write",
    "kill-server",
    "freeze-holder",
    "kill-holder",
    "promote-replica",
    "change-leader",
    "terminate-backends",
)

PROFILES: Final = {
    profile.name: profile
    for profile in (
        Profile("smoke", SMOKE, every=(), controls=False, deadline=60),
        Profile("default", DEFAULT, every=OF_EACH_KIND, controls=True, deadline=60),
        Profile("nightly", None, every=None, controls=True, deadline=60),
    )
}
