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
from infra.faults.plan import random_plan
from results.run import Run
from suites.commands.cycles import Cycles, drawn_on
from suites.lanes.lane import longest_ttl


def main(count: int, seed: int, backend: Sequence[str], shape: Sequence[str], done: Path, failed: Path) -> int:
    """Exit status: 0 every plan left all clean and broke no promise, 1 one did not."""
    backends = backend or tuple(BACKENDS)
    wrong = _read(done)
    with Cycles(shapes=shape) as cycles:
        for number in range(count):
            key = backends[number % len(backends)], seed + number
            if key not in wrong:
                wrong[key] = _do(cycles, *key, failed)
                with done.open("a") as file:
                    file.write(json.dumps({"backend": key[0], "seed": key[1], "wrong": wrong[key]}) + "\n")
    many = sum(map(bool, wrong.values()))
    summary = f"see {failed}" if many else f"fewer than {3 / max(len(wrong), 1):.2%} fail (95 %)"
    print(f"{len(wrong)} plans in all, {many} failed: {summary}")
    return 1 if many else 0


def _do(cycles: Cycles, backend: str, seed: int, failed: Path) -> str:
    """Run one plan. Returns what was wrong, "" for nothing."""
    lanes = drawn_on(backend, seed)
    plan = random_plan(seed, backend, longest_ttl(lanes), cycles.members[backend])
    began = time.monotonic()
    cycle = cycles.run(plan, lanes)
    took = time.monotonic() - began
    print(f"{seed:>5} {backend:<10} {plan.name}: {'failed' if cycle.wrong else 'clean'} ({took:.1f} s)", flush=True)
    if cycle.wrong:
        failed.mkdir(parents=True, exist_ok=True)
        (failed / f"{backend}-{seed}.json").write_text(json.dumps(plan.to_json(), indent=1) + "\n")
        if cycle.record is not None:
            run = Run.create(failed, {"command": ["python", "-m", "suites", "soak"], "seed": seed})
            run.save_trial(cycle.record)
            print(f"     see {run.close({})}")
    return cycle.wrong


def _read(file: Path) -> dict[tuple[str, int], str]:
    """(backend, seed) → what was wrong, of the plans done so far; a line that was cut short counts as not done."""
    done = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        with contextlib.suppress(ValueError, KeyError):
            plan = json.loads(line)
            done[plan["backend"], plan["seed"]] = plan["wrong"]
    return done
