"""Every fault by name: the one list of what exists."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Final

from infra.backends import BACKENDS
from infra.faults.clocks import drift, jump_back, jump_forward, strobe
from infra.faults.disks import fill_disk, slow_disk, stall_disk
from infra.faults.failover import change_leader, promote_replica, terminate_backends
from infra.faults.fault import Fault
from infra.faults.holders import (
    freeze_at,
    freeze_holder,
    freeze_successor,
    kill_before_release,
    kill_holder,
    late_write,
    long_call,
    stall_holder,
)
from infra.faults.links import cut_apart, cut_client, cut_part, lose
from infra.faults.moments import crash_after_acquire, cut_holder, late_release
from infra.faults.peers import cut_nodes, isolate_leader, one_way_leader
from infra.faults.quality import slice_links, slow_close, slow_links, throttle_links
from infra.faults.renewal import kill_renewal, stall_renewal, stall_waiter
from infra.faults.resets import flap_links, reset_connections
from infra.faults.restarts import restart_all, restart_leader, restart_rolling
from infra.faults.servers import strike_server
from infra.faults.shapes import split_bridge, split_halves, split_ring
from infra.faults.storelink import delayed_write, store_reply_lost
from infra.faults.versions import replace_version, roll_version
from infra.links import Cut

NO_FAULT: Final = "none"
"""Not a fault: the name of the plan without any."""

_ALL: Final[tuple[Fault, ...]] = (
    *map(cut_client, Cut),
    *map(cut_nodes, Cut),
    *map(isolate_leader, Cut),
    one_way_leader("mute-leader"),
    one_way_leader("deafen-leader"),
    cut_part("cut-client-minority", "one", "minority"),
    cut_part("cut-client-majority", "one", "majority"),
    cut_apart(),
    cut_part("cut-minority-drop", "all", "minority"),
    cut_part("cut-majority-drop", "all", "majority"),
    lose("requests"),
    lose("replies"),
    split_halves(),
    split_ring(),
    split_bridge(),
    slow_links(),
    throttle_links(),
    slice_links(),
    slow_close(),
    reset_connections(),
    flap_links(),
    delayed_write(),
    store_reply_lost(),
    strike_server("pause"),
    strike_server("kill"),
    strike_server("wipe"),
    restart_leader(),
    restart_rolling(),
    restart_all(),
    slow_disk(),
    stall_disk(),
    fill_disk(),
    jump_forward(),
    jump_back(),
    drift(),
    strobe(),
    freeze_holder(),
    freeze_at("after-acquire"),
    freeze_at("before-release"),
    freeze_at("in-renewal"),
    late_write(),
    late_release(),
    stall_holder(),
    long_call(),
    kill_holder(),
    kill_before_release(),
    freeze_successor(),
    stall_renewal(),
    kill_renewal(),
    stall_waiter(),
    cut_holder(),
    crash_after_acquire(),
    promote_replica(),
    change_leader(),
    terminate_backends(),
    replace_version(),
    roll_version(),
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
