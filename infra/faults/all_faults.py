"""Every fault by name: the one list of what exists."""

from collections.abc import Mapping
from typing import Final

from infra.backends import BACKENDS
from infra.faults.fault import Fault
from infra.faults.links import cuts, degraded_links, partitions, resets
from infra.faults.servers import clocks, disks, failover, maintenance, sequences, strikes, upgrades
from infra.faults.workers import between_requests, crash_points, holder_faults, wall_clocks

NO_FAULT: Final = "none"  # not a fault: the name of the plan without faults

# A seed draws from the faults in this order, so a new fault goes to the end.
_ALL: Final[tuple[Fault, ...]] = (
    *cuts.CUT_CLIENT,
    *partitions.CUT_NODES,
    *partitions.ISOLATE_LEADER,
    *partitions.ONE_WAY_LEADER,
    *cuts.CUT_PART,
    *cuts.LOSE,
    *partitions.SPLIT,
    *degraded_links.QUALITY,
    *resets.RESETS,
    *cuts.STORE_LINK,
    *strikes.STRIKES,
    *strikes.RESTARTS,
    *disks.DISKS,
    *clocks.CLOCKS,
    *holder_faults.FREEZES,
    crash_points.LATE_RELEASE,
    *holder_faults.HOLDERS,
    *holder_faults.RENEWALS,
    crash_points.CUT_HOLDER,
    crash_points.CRASH_AFTER_ACQUIRE,
    *failover.FAILOVERS,
    *upgrades.VERSIONS,
    holder_faults.KILL_WAITER,
    strikes.REFUSE_WRITES,
    wall_clocks.SKEW_WORKERS,
    *between_requests.BETWEEN_REQUESTS,
    *sequences.SEQUENCES,
    maintenance.MAINTENANCE,
    sequences.KILL_IN_MAINTENANCE,
)

FAULTS: Final[Mapping[str, Fault]] = {fault.name: fault for fault in _ALL}


def main() -> int:
    """`python -m infra faults`: print each fault in a line, with its backends unless it can be done to all of them."""
    for fault in FAULTS.values():
        backends = [name for name in BACKENDS if fault.applies(name) is None]
        where = "" if len(backends) == len(BACKENDS) else f" ({', '.join(backends)})"
        how = f"; {fault.planned}" if fault.planned else ""
        print(f"{fault.name:<21} {fault.summary}{where}{how}")
    return 0
