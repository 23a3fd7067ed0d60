"""Every fault by name: the one list of what exists."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from infra.faults.links import cut_client, cut_minority, cut_nodes, isolate_leader, slow_links
from infra.faults.servers import strike_server
from infra.faults.workers import freeze_holder, kill_holder, late_write
from infra.links import Cut
from infra.star import BACKENDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.faults.fault import Fault

NO_FAULT: Final = "none"
"""Not a fault: the name of the plan without any."""

_ALL: Final[tuple[Fault, ...]] = (
    *map(cut_client, Cut),
    *map(cut_nodes, Cut),
    *map(isolate_leader, Cut),
    cut_minority(Cut.DROP),
    slow_links(),
    strike_server("pause"),
    strike_server("kill"),
    freeze_holder(),
    late_write(),
    kill_holder(),
)

FAULTS: Final[Mapping[str, Fault]] = {fault.name: fault for fault in _ALL}


def main(argv: Sequence[str]) -> int:
    """`python -m infra faults`: every fault in a line or two, with the backends that it can be done to."""
    argparse.ArgumentParser(prog="python -m infra faults", description=main.__doc__).parse_args(argv)
    for fault in FAULTS.values():
        print(f"{fault.name:<22} {fault.summary}")
        print(f"{'':<22} on {', '.join(name for name in BACKENDS if fault.applies(name) is None)}")
    return 0
