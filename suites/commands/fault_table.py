"""`python -m suites measure`: runs every fault on every backend and prints the table of infra/README.md.

The times are medians over the seeds, in seconds. Applying lasts from the first request to the proof that the fault has
taken effect, healing until the cluster is proven whole; of several victims the slowest counts. For faults on workers,
applying includes the wait for a holder at the gate, and healing ends when the cluster answers on every link.
"""

import statistics
import sys
from collections.abc import Sequence
from typing import Final

from infra.backends import BACKENDS
from infra.faults.all_faults import FAULTS
from suites.commands.arguments import Arguments
from suites.commands.cycles import Cycles, lanes_on

FAILED: Final = "failed"
NOBODY: Final = "nobody to hit"


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 all were measured, 1 one could not be."""
    parser = Arguments("measure", main)
    parser.add_count(3, "seeds")
    parser.add_backends()
    parser.add_argument("--fault", action="append", choices=FAULTS, metavar="NAME", help="only these; repeatable")
    options = parser.parse_args(argv)
    backends = tuple(options.backend or BACKENDS)
    times: dict[tuple[str, str], str] = {}
    with Cycles() as cycles:
        for backend in backends:
            for name in options.fault or FAULTS:
                if not (FAULTS[name].applies(backend) or FAULTS[name].planned):
                    times[name, backend] = _measured(cycles, name, backend, options.count)
    print(f"| fault | how it is done | what a client sees | {' | '.join(backends)} |")
    print("|---" * (3 + len(backends)) + "|")
    for name in options.fault or FAULTS:
        cells = [times.get((name, backend), "-") for backend in backends]
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
        if cycle.faults:
            applied.append(max(fault.applied - fault.begun for fault in cycle.faults) / 1e9)
            healed.append(max(fault.healed - fault.healing for fault in cycle.faults) / 1e9)
    if not applied:
        return FAILED if broke else NOBODY
    cell = f"{statistics.median(applied):.2f} / {statistics.median(healed):.2f}"
    print(f"{backend} {name}: {cell}", file=sys.stderr, flush=True)
    return cell
