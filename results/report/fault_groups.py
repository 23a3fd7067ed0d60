"""Faults by what they hit: links, servers, clocks, workers, the protected store. A stored run has only their names."""

from typing import Final

from checkers.claims import NO_FAULT, matches

WITHOUT: Final = "no fault"
OTHER: Final = "other"

_PATTERNS: Final = {
    WITHOUT: (NO_FAULT,),
    "store": ("delayed-write", "store-*"),
    "clocks": ("clock-*", "skew-*"),
    "servers": ("*-server", "restart-*", "*-disk", "promote-*", "change-*", "terminate-*", "*-version", "refuse-*"),
    # What strikes at a step of a worker is done to workers, whatever else it does.
    "workers": ("freeze-*", "late-*", "stall-*", "long-call", "kill-*", "at-every-*", "cut-holder", "crash-after-*"),
    "links": ("cut-*", "isolate-*", "mute-*", "deafen-*", "lose-*", "split-*", "*-links", "slow-close", "reset-*"),
}
"""Group → patterns of its faults. The first group that fits is the fault's."""
GROUPS: Final = (WITHOUT, "links", "servers", "clocks", "workers", "store", OTHER)
_PAUSES: Final = ("freeze-*", "late-write")


def groups(fault: str) -> tuple[str, ...]:
    """The groups of a fault, or of several that overlap (a+b), in the order of `GROUPS`."""
    hit = {_group(name) for name in fault.split("+")}
    return tuple(name for name in GROUPS if name in hit)


def pauses(fault: str) -> bool:
    """Whether it freezes a worker while that holds the lock."""
    return any(matches(name, _PAUSES) for name in fault.split("+"))


def _group(fault: str) -> str:
    return next((name for name, patterns in _PATTERNS.items() if matches(fault, patterns)), OTHER)
