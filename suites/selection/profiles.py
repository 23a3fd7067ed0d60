"""Profiles: how much is tried, from a smoke test to the whole product.

A lock has a lane for each store mode and workload that says something about it. Under faults with which stale holders
write, all lanes are needed; under others, a few lanes ask every property that the lock claims anything about.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Profile:
    """How much of the product is run.

    faults    names in the register of faults, None for all.
    locks     which are tried, None for all.
    whole     those faults under which a lock is tried in all its lanes, None for all; under the others in as few as ask
              everything (`suites.lanes.lane.fewest`). What is broken by design (`registry.CONTROLS`) is tried without a
              fault, and in the lanes where a hazard must show.
    storms    random plans of several faults at once, beside those; their seeds follow that of the run.
    deadline  seconds after which a trial goes on no longer.
    """

    name: str
    faults: tuple[str, ...] | None
    locks: tuple[str, ...] | None
    whole: tuple[str, ...] | None
    storms: int
    deadline: float


PLAINEST: Final = ("redis", "redlock", "zookeeper", "etcd")
"""The locks that stand for the others."""

SMOKE: Final = ("none", "freeze-holder", "late-write", "kill-server")

DEFAULT: Final = (
    "none",
    "cut-client-drop",
    "isolate-leader-drop",
    "lose-replies",
    "slow-links",
    "reset-connections",
    "delayed-write",
    "pause-server",
    "kill-server",
    "wipe-server",
    "restart-all",
    "stall-disk",
    "clock-jump-forward",
    "clock-jump-back",
    "clock-strobe",
    "freeze-holder",
    "late-write",
    "late-release",
    "stall-holder",
    "long-call",
    "kill-holder",
    "stall-renewal",
    "stall-waiter",
    "promote-replica",
    "change-leader",
    "terminate-backends",
)
"""The faults that say most about a lock, at least one of each kind, in the order of the register."""

STALE: Final = ("freeze-holder", "late-write")
"""Faults under which stale holders write."""

PROFILES: Final = {
    profile.name: profile
    for profile in (
        Profile("smoke", SMOKE, PLAINEST, whole=(), storms=0, deadline=60),
        Profile("default", DEFAULT, None, whole=STALE, storms=0, deadline=60),
        Profile("nightly", None, None, whole=None, storms=20, deadline=60),
    )
}
