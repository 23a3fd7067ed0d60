"""`python -m suites soak`: runs random plans of up to three overlapping faults; each must leave everything clean.

Each plan runs with a few random lanes of locks that claim anything, and no claim may be violated. A plan that fails is
printed and stored for `pytest suites/ --plan`, with the page of its trial if there is one. A file lists the plans that
are done, so that a soak can be stopped at any time and continues there.
"""

import contextlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

from infra.backends import BACKENDS
from infra.faults.plan import Plan, random_plan
from results.run import Run
from suites.commands.arguments import Arguments
from suites.commands.cycles import Cycles, PlanResult, drawn_on
from suites.lanes.lane import longest_ttl


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 every plan left all clean and broke no promise, 1 one did not."""
    parser = Arguments("soak", main)
    parser.add_count(200, "how many plans, those done before included")
    parser.add_seed("of the first plan; the others follow")
    parser.add_backends()
    parser.add_argument("--done", default="soak.jsonl", metavar="FILE", help="what was done; those are not done again")
    parser.add_argument("--failed", default="soak-failed", metavar="DIR", help="where plans that failed are written")
    options = parser.parse_args(argv)
    backends = options.backend or tuple(BACKENDS)
    done = _read(Path(options.done))
    with Cycles() as cycles:
        for number in range(options.count):
            seed, backend = options.seed + number, backends[number % len(backends)]
            if (backend, seed) not in done:
                done[backend, seed] = _do(cycles, backend, seed, Path(options.failed))
                with Path(options.done).open("a") as file:
                    file.write(json.dumps({"backend": backend, "seed": seed, "wrong": done[backend, seed]}) + "\n")
    failed = sum(map(bool, done.values()))
    summary = f"see {options.failed}" if failed else f"fewer than {3 / max(len(done), 1):.2%} fail (95 %)"
    print(f"{len(done)} plans in all, {failed} failed: {summary}")
    return 1 if failed else 0


def _do(cycles: Cycles, backend: str, seed: int, failed: Path) -> str:
    """Run one plan. Returns what was wrong, "" for nothing."""
    lanes = drawn_on(backend, seed)
    plan = random_plan(seed, backend, longest_ttl(lanes))
    began = time.monotonic()
    cycle = cycles.run(plan, lanes)
    took = time.monotonic() - began
    print(f"{seed:>5} {backend:<10} {plan.name}: {'failed' if cycle.wrong else 'clean'} ({took:.1f} s)", flush=True)
    if cycle.wrong:
        _keep(plan, cycle, failed)
    return cycle.wrong


def _read(file: Path) -> dict[tuple[str, int], str]:
    """(backend, seed) → what was wrong, of the plans done so far; a line that was cut short counts as not done."""
    done = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        with contextlib.suppress(ValueError, KeyError):
            plan = json.loads(line)
            done[plan["backend"], plan["seed"]] = plan["wrong"]
    return done


def _keep(plan: Plan, cycle: PlanResult, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{plan.backend}-{plan.seed}.json").write_text(json.dumps(plan.to_json(), indent=1) + "\n")
    if cycle.record is not None:
        run = Run.create(folder, {"command": ["python", "-m", "suites", "soak"], "seed": plan.seed})
        run.save_trial(cycle.record)
        print(f"     see {run.close({})}")
