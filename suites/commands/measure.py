"""`python -m suites measure`: runs every fault on every backend and prints the table of infra/README.md.

The times are medians over the seeds, in seconds. Applying lasts from the first request to the proof that the fault has
taken effect, healing until the cluster is proven whole; of several victims the slowest counts. For faults on workers,
applying includes the wait for a holder at the gate, and healing ends when the cluster answers on every link.
"""

import statistics
import sys
from collections.abc import Sequence
from itertools import product
from typing import Final

from infra.backends import BACKENDS
from infra.errors import UnknownName
from infra.faults.all_faults import FAULTS
from infra.suggestions import instead
from suites.commands.cycles import Cycles, lanes_on

FAILED: Final = "failed"
NOBODY: Final = "nobody to hit"


def main(count: int, backend: Sequence[str], fault: Sequence[str], shape: Sequence[str]) -> int:
    """Exit status: 0 all were measured, 1 one could not be. backend, fault: all where none is named."""
    if unknown := [name for name in fault if name not in FAULTS]:
        raise UnknownName(f"no fault {unknown[0]!r}; {instead(unknown[0], FAULTS)}")
    backends, faults = backend or tuple(BACKENDS), fault or tuple(FAULTS)
    times: dict[tuple[str, str], str] = {}
    with Cycles(shapes=shape) as cycles:
        for server, name in product(backends, faults):
            if not (FAULTS[name].applies(server) or FAULTS[name].planned):
                times[name, server] = _measured(cycles, name, server, count)
    print(f"| fault | how it is done | what a client sees | {' | '.join(backends)} |")
    print("|---" * (3 + len(backends)) + "|")
    for name in faults:
        cells = [times.get((name, server), "-") for server in backends]
        print(f"| `{name}` | {FAULTS[name].how} | {FAULTS[name].sees} | {' | '.join(cells)} |")
    return 1 if FAILED in times.values() else 0


def _measured(cycles: Cycles, name: str, backend: str, count: int) -> str:
    """The cell of the table: `seconds to apply / seconds to heal`."""
    applied: list[float] = []
    healed: list[float] = []
    broke = False
    for seed in range(1, count + 1):
        cycle = cycles.run_fault(name, seed, lanes_on(backend, name))
        broke |= bool(cycle.wrong)
        faults = [fault for lane in cycle.record.lanes for fault in lane.history.faults] if cycle.record else []
        if faults:
            applied.append(max(fault.applied - fault.begun for fault in faults) / 1e9)
            healed.append(max(fault.healed - fault.healing for fault in faults) / 1e9)
    if not applied:
        return FAILED if broke else NOBODY
    cell = f"{statistics.median(applied):.2f} / {statistics.median(healed):.2f}"
    print(f"{backend} {name}: {cell}", file=sys.stderr, flush=True)
    return cell
