"""Every fault by name: the one list of what exists."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Final

from infra.backends import BACKENDS
from infra.faults import (
    clocks,
    disks,
    failover,
    holders,
    links,
    moments,
    peers,
    quality,
    renewal,
    resets,
    servers,
    storelink,
    versions,
)
from infra.faults.fault import Fault

NO_FAULT: Final = "none"
"""Not a fault: the name of the plan without any."""

# A seed draws from them in this order: what is new stands at the end.
_ALL: Final[tuple[Fault, ...]] = (
    *links.CUT_CLIENT,
    *peers.CUT_NODES,
    *peers.ISOLATE_LEADER,
    *peers.ONE_WAY_LEADER,
    *links.CUT_PART,
    *links.LOSE,
    *peers.SPLIT,
    *quality.QUALITY,
    *resets.RESETS,
    *storelink.STORE_LINK,
    *servers.STRIKES,
    *servers.RESTARTS,
    *disks.DISKS,
    *clocks.CLOCKS,
    *holders.FREEZES,
    moments.LATE_RELEASE,
    *holders.HOLDERS,
    *renewal.RENEWALS,
    moments.CUT_HOLDER,
    moments.CRASH_AFTER_ACQUIRE,
    *failover.FAILOVERS,
    *versions.VERSIONS,
)

FAULTS: Final[Mapping[str, Fault]] = {fault.name: fault for fault in _ALL}


def main(argv: Sequence[str]) -> int:
    """`python -m infra faults`: every fault in a line, with the backends that it can be done to where it is not all."""
    argparse.ArgumentParser(prog="python -m infra faults", description=main.__doc__).parse_args(argv)
    for fault in FAULTS.values():
        backends = [name for name in BACKENDS if fault.applies(name) is None]
        where = "" if len(backends) == len(BACKENDS) else f" ({', '.join(backends)})"
        how = f"; {fault.planned}" if fault.planned else ""
        print(f"{fault.name:<21} {fault.summary}{where}{how}")
    return 0
