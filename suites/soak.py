"""`python -m suites soak`: random plans of up to three overlapping faults, each of which must leave all clean.

A plan that fails is told and written down for `pytest suites/ --plan`, with the page of its trial if it came to one.
After one that left something the next gets a new environment.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

from infra.environment import BACKENDS
from infra.faults.plan import Plan, random_plan
from results.run import Run
from suites.cycles import Cycle, Cycles, ttl_on


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 every plan left all clean and broke no promise, 1 one did not."""
    parser = argparse.ArgumentParser(prog="python -m suites soak", description=main.__doc__, allow_abbrev=False)
    parser.add_argument("--count", type=int, default=200, help="how many plans (200)")
    parser.add_argument("--seed", type=int, default=1, help="of the first plan; the others follow (1)")
    parser.add_argument("--backend", action="append", choices=BACKENDS, help="only these; repeatable")
    parser.add_argument("--failed", default="soak-failed", metavar="DIR", help="where plans that failed are written")
    options = parser.parse_args(argv)
    backends = options.backend or BACKENDS
    failed = 0
    cycles = Cycles()
    try:
        for number in range(options.count):
            backend = backends[number % len(backends)]
            plan = random_plan(options.seed + number, backend, ttl_on(backend))
            began = time.monotonic()
            cycle = cycles.run(plan)
            took = time.monotonic() - began
            print(f"{number + 1:>4} {backend:<10} {plan.name}: {cycle.wrong or 'clean'} ({took:.1f} s)", flush=True)
            if cycle.wrong:
                failed += 1
                _keep(plan, cycle, Path(options.failed))
    finally:
        cycles.close()
    print(f"{options.count} plans, {failed} failed" + (f" (see {options.failed})" if failed else ""))
    return 1 if failed else 0


def _keep(plan: Plan, cycle: Cycle, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{plan.backend}-{plan.seed}.json").write_text(json.dumps(plan.to_json(), indent=1) + "\n")
    if cycle.record is not None:
        run = Run.create(folder, {"command": ["python", "-m", "suites", "soak"], "seed": plan.seed})
        run.save_trial(cycle.record)
        print(f"     see {run.close({})}")
