"""`python -m suites measure`: every fault on every backend, for real; prints the table of infra/README.md.

The times are medians over the seeds, in seconds: to apply, from the first request to the proof that it has taken
effect, and to heal, until all is proven whole; of several victims those of the slowest. For faults on workers the
former includes the wait for a holder at the gate, and the latter goes on until the cluster answers on every link.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from typing import Final

from infra.backends import BACKENDS
from infra.faults.plan import compile_plan
from infra.faults.register import FAULTS
from suites.commands.cycles import Cycles, ttl_on

FAILED: Final = "failed"
NOBODY: Final = "nobody to hit"


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 all were measured, 1 one could not be."""
    parser = argparse.ArgumentParser(prog="python -m suites measure", description=main.__doc__, allow_abbrev=False)
    parser.add_argument("--count", type=int, default=3, help="seeds (3)")
    parser.add_argument("--backend", action="append", choices=BACKENDS, help="only these; repeatable")
    parser.add_argument("--fault", action="append", choices=FAULTS, metavar="NAME", help="only these; repeatable")
    options = parser.parse_args(argv)
    backends = tuple(options.backend or BACKENDS)
    times: dict[tuple[str, str], str] = {}
    with Cycles() as cycles:
        for backend in backends:
            for name in options.fault or FAULTS:
                if _can(name, backend):
                    times[name, backend] = _measured(cycles, name, backend, options.count)
    print(f"| fault | how it is done | what a client sees | {' | '.join(backends)} |")
    print("|---" * (3 + len(backends)) + "|")
    for name in options.fault or FAULTS:
        cells = [times.get((name, backend), "-") for backend in backends]
        print(f"| `{name}` | {FAULTS[name].how} | {FAULTS[name].sees} | {' | '.join(cells)} |")
    return 1 if FAILED in times.values() else 0


def _can(name: str, backend: str) -> bool:
    fault = FAULTS[name]
    return not (fault.applies(backend) or fault.planned)


def _measured(cycles: Cycles, name: str, backend: str, count: int) -> str:
    """`apply / heal`."""
    applied: list[float] = []
    healed: list[float] = []
    broke = False
    for seed in range(1, count + 1):
        cycle = cycles.run(compile_plan([name], seed, backend, ttl_on(backend)))
        if cycle.wrong:
            broke = True
            print(f"{backend} {name}, seed {seed}: {cycle.wrong}", file=sys.stderr)
        if cycle.faults:
            applied.append(max(fault.applied - fault.begun for fault in cycle.faults) / 1e9)
            healed.append(max(fault.healed - fault.healing for fault in cycle.faults) / 1e9)
    if not applied:
        return FAILED if broke else NOBODY
    cell = f"{statistics.median(applied):.2f} / {statistics.median(healed):.2f}"
    print(f"{backend} {name}: {cell}", file=sys.stderr, flush=True)
    return cell
