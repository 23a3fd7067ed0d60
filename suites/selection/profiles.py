"""Profiles: how much is tried, from a smoke test to the whole product.

A lock has a lane for each store mode and workload that says something about it. Under faults with which stale holders
write, all lanes are needed; under others, a few lanes ask every property that the lock claims anything about.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from checkers.claims import NO_FAULT, matches
from infra.faults.all_faults import FAULTS
from infra.faults.workers.between_requests import TWO


@dataclass(frozen=True, slots=True)
class Profile:
    """How much of the product is run."""

    name: str
    faults: tuple[str, ...] | None  # names in the register of faults, None for all
    # More faults if a lock of the user's own is named. The longest profile shows how ours fare under these.
    own: tuple[str, ...]
    upgrades: tuple[str, ...]  # more columns if two versions of servers are compared
    libraries: tuple[str, ...]  # more faults if two releases of a client library are compared
    locks: tuple[str, ...] | None  # None for all
    # Faults under which a lock is tried in all its lanes, None for all. Under others it is tried in the fewest lanes
    # that ask everything (`suites.lanes.lane.fewest`). Positive controls (`registry.CONTROLS`) are tried without a
    # fault, and under faults in the lanes where a hazard must show.
    whole: tuple[str, ...] | None
    # Patterns of `workload/store` → patterns of the faults under which such a lane is tried, whatever is said above; ()
    # leaves it out. Not for positive controls, nor for lanes of a workload that the user names.
    lanes: Mapping[str, tuple[str, ...]]
    storms: int  # how many random plans of several faults are tried besides; their seeds follow that of the run
    budget: float = 10  # minutes of each backend in a certification, unless the user says how many (`--budget`)

    def special(self, where: str) -> tuple[str, ...] | None:
        return next((faults for pattern, faults in self.lanes.items() if matches(where, (pattern,))), None)


PLAINEST: Final = ("redis", "redlock", "zookeeper", "etcd")  # the locks that stand for the others

SMOKE: Final = ("none", "freeze-holder", "late-write", "kill-server")

DEFAULT: Final = (
    NO_FAULT,
    *("cut-client-drop", "isolate-leader-drop", "lose-replies", "slow-links", "reset-connections", "delayed-write"),
    *("pause-server", "kill-server", "wipe-server", "restart-all", "stall-disk"),
    *("clock-jump-forward", "clock-jump-back"),
    *("freeze-holder", "late-write", "late-release", "long-call", "kill-holder", "stall-renewal", "stall-waiter"),
    *("promote-replica", "change-leader", "terminate-backends"),
    "at-every-request-freeze",
)
"""The faults that say most about a lock, at least one of each kind, in the order of the register. If several faults say
the same of every lock (a holder hangs, or waits for a call; a clock jumps, or is strobed), only one is here."""

RARE: Final[Mapping[str, tuple[str, ...]]] = dict.fromkeys(
    ("leader/fence-writes", "transfer/*", "transfer-backoff/*", "inventory/*", "once/*", "crowd/*", "many/*"), ()
)
"""Lanes that only the longest profile tries."""

STALE: Final = ("freeze-holder", "late-write")  # faults under which stale holders write
AWAY: Final = ("cut-client-drop", "isolate-leader-drop", "pause-server", "kill-server")
"""Faults under which servers cannot be reached for a while."""

FEW: Final[Mapping[str, tuple[str, ...]]] = {
    "churn/*": (NO_FAULT, "cut-client-drop"),  # after a cut the same client asks again, having lost everything
    "impatient/*": (NO_FAULT, "reset-connections"),
    "beside/*": ("promote-replica",),  # the replica is behind, and clients know only what they were told before
    "set/guarded": (NO_FAULT, *STALE, "lose-replies", "reset-connections", "pause-server", "kill-server"),
    # Long holds: renewals fail or are late, and the holder loses the lock.
    "leader/*": (
        *(NO_FAULT, *STALE, *AWAY, "stall-disk", "stall-renewal", "lose-replies", "promote-replica"),
        "terminate-backends",
    ),
}
"""Lanes that a run of some minutes tries under the faults that matter most to them."""

BOUNDARIES: Final = tuple(name for name, fault in FAULTS.items() if fault.workload)  # at every message of a verb
_PAIRS: Final = {"pairs/*": BOUNDARIES}

_LONG: Final = dict.fromkeys((*RARE, *FEW), ()) | _PAIRS
_FEW: Final = {"once/idempotency-key": (NO_FAULT,), **RARE, **FEW, **_PAIRS}
_OWN: Final = (
    "skew-workers",
    "refuse-writes",
    "cut-holder",
    *(name for name in BOUNDARIES if name not in (*DEFAULT, TWO)),
)
OF_MEMBERS: Final = (*(name for name, fault in FAULTS.items() if "load" in fault.needs), "fill-disk")
"""Faults that show whether members keep what they acknowledge. That depends on the version, takes minutes, and is the
same for every lock, so that an upgrade tries the plainest."""
_UPGRADES: Final = (*OF_MEMBERS, "slow-links+maintenance")  # while links are slow, much happens between two requests
_OFTEN: Final = (NO_FAULT, *STALE, "cut-client-drop", "kill-server", "kill-holder")
_NIGHTLY: Final = dict.fromkeys(RARE, _OFTEN) | _PAIRS

PROFILES: Final = {
    profile.name: profile
    for profile in (
        Profile("smoke", SMOKE, (), (), (), PLAINEST, whole=(), lanes=_LONG, storms=0),
        Profile("default", DEFAULT, _OWN, _UPGRADES, ("skew-workers",), None, whole=STALE, lanes=_FEW, storms=0),
        Profile("nightly", None, (), (), (), None, whole=None, lanes=_NIGHTLY, storms=20, budget=120),
    )
}
