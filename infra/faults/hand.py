"""Faults by hand: `python -m infra fault NAME BACKEND`, for a person who explores with a client of their own.

    python -m infra up redis
    python -m infra fault clock-jump-forward redis --set seconds=61
    python -m infra fault freeze-holder redis --pid 4711 --for 3
    python -m infra fault --plan plan.json
    python -m infra heal

What is left to chance is drawn from `--seed`, unless `--set` says it. Without `--for` a fault stays until `heal`.
Faults on workers need a process: the gates are in the suite's own workers, so one of yours is hit wherever it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from infra.commands import arguments, attached
from infra.faults.fault import OURS
from infra.faults.plan import BadPlan, Plan, Step, compile_plan, parse
from infra.faults.register import FAULTS
from infra.faults.runner import Runner
from infra.faults.target import MonotonicClock, Target, Victim
from infra.machine import Failed, Unknown
from infra.star import BACKENDS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from infra.environment import Environment
    from infra.faults.target import Aim

SIGNALS: Final = {"freeze": signal.SIGSTOP, "kill": signal.SIGKILL}


class OneProcess:
    """A process of the user's own in the place of the workers (`infra.faults.target.Actors`); None: there is nobody.

    It is hit at once, since it has no gates.
    """

    def __init__(self, pid: int | None, ttl: float) -> None:
        """ttl: seconds."""
        self.ttl = ttl
        self._pid = pid
        self._victim: Victim | None = None

    def lanes(self) -> Sequence[str]:
        """One, if there is a process."""
        return () if self._pid is None else ("by hand",)

    def arm(self, lane: str, aim: Aim) -> None:
        """Signals it at once. Raises Failed where a signal cannot do it."""
        if self._pid is None:
            return
        if aim.action not in SIGNALS:
            why = "needs a gate inside the worker: pytest suites/ --faults does it to the suite's own"
            raise Failed(f"{aim.action} {why}")
        try:
            os.kill(self._pid, SIGNALS[aim.action])
        except OSError as error:
            raise Failed(f"process {self._pid}: {error.strerror}") from error
        self._victim = Victim(lane, self._pid, 0, MonotonicClock().now(), f"process {self._pid}")

    def caught(self, lane: str) -> Sequence[Victim]:
        """It, once it was hit."""
        del lane
        return () if self._victim is None else (self._victim,)

    def disarm(self, lane: str) -> None:
        """Nothing is armed for longer than a moment."""

    def thaw(self, victim: Victim) -> None:
        """Let it go on, if it lives."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim.process, signal.SIGCONT)

    def settled(self, victim: Victim) -> bool:
        """Nobody can know."""
        del victim
        return False

    def let_go(self, by: str) -> None:
        """Let it go on."""
        del by
        self.release_all()

    def release_all(self) -> None:
        """Let it go on."""
        if self._victim:
            self.thaw(self._victim)


def main(argv: Sequence[str]) -> int:
    """`python -m infra fault`: do a fault, or a plan, to an environment that is there."""
    parser = arguments("fault", "Do a fault to an environment (`up` makes one), or a plan with all its faults.")
    parser.add_argument("name", metavar="NAME", nargs="?", help="as `python -m infra faults` lists them")
    parser.add_argument("backend", metavar="BACKEND", nargs="?", help=f"of {', '.join(BACKENDS)}")
    parser.add_argument("--set", metavar="OPTION=VALUE", action="append", default=[], help="instead of chance; JSON")
    parser.add_argument("--for", metavar="SECONDS", type=float, dest="seconds", help="heal it after so long")
    parser.add_argument("--seed", type=int, default=1, help="what chance starts from (1)")
    parser.add_argument("--pid", type=int, help="your client's process, for faults on workers")
    parser.add_argument(
        "--ttl", type=float, default=2.0, help="seconds that your lock lives (2), for faults on workers"
    )
    parser.add_argument("--plan", metavar="FILE", help="a plan, instead of NAME and BACKEND; it heals what it does")
    with attached(parser, argv) as (environment, options):
        if bool(options.plan) == bool(options.name and options.backend):
            parser.error("say NAME and BACKEND, or --plan FILE")
        plan = _of_file(options.plan) if options.plan else _of_words(options)
        if plan.backend not in environment.clusters:
            raise Unknown(f"{plan.backend} does not run in {environment.name}; python -m infra up {plan.backend}")
        actors = OneProcess(options.pid, options.ttl)
        target = Target.of(environment, plan.backend, actors, MonotonicClock())
        if not options.pid and (blind := [step.fault for step in plan.steps if "workers" in FAULTS[step.fault].needs]):
            parser.error(f"{blind[0]} is done to a worker: --pid says which process is yours")
        if options.plan or options.seconds is not None:
            _run(plan, target)
        else:
            _leave(plan.steps[0], target, environment, options)
    return 0


def _of_file(name: str) -> Plan:
    try:
        return parse(Path(name).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise Unknown(f"--plan {name}: {getattr(error, 'strerror', None) or 'not a text'}") from error
    except BadPlan as error:
        raise Unknown(f"--plan {name}: {error}") from error


def _of_words(options: argparse.Namespace) -> Plan:
    """The plan of one step that the command line tells."""
    if options.name not in FAULTS:
        raise Unknown(f"no fault {options.name!r}; there are {', '.join(FAULTS)}")
    if options.backend not in BACKENDS:
        raise Unknown(f"no backend {options.backend!r}; there are {', '.join(BACKENDS)}")
    fault, told = FAULTS[options.name], dict(_option(text) for text in options.set)
    try:
        if fault.planned and fault.applies(options.backend, OURS) is None:
            drawn = Plan(fault.name, options.backend, options.seed, (Step(fault.name, 0.0, fault.seconds, {}),))
        else:
            drawn = compile_plan([options.name], options.seed, options.backend, options.ttl)
        step = drawn.steps[0]
        for_ = step.for_ if options.seconds is None else options.seconds
        step = replace(step, after=0.0, for_=for_, options={**step.options, **told})
        return Plan.from_json(replace(drawn, steps=(step,)).to_json())
    except BadPlan as error:
        raise Unknown(str(error).removeprefix("steps[0].")) from error


def _option(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    if name == "version":
        return name, value  # 3.10 is no number
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value  # a text without its quotes


def _run(plan: Plan, target: Target) -> None:
    """All of it, healed at the end."""
    print("\n".join(plan.describe()), flush=True)
    runner = Runner(plan, target)
    runner.cycle()
    for record in runner.records:
        times = ((record.applied - record.begun) / 1e9, (record.healed - record.healing) / 1e9)
        print(f"{record.name}: {record.target} (applied in {times[0]:.2f} s, healed in {times[1]:.2f} s)")


def _leave(step: Step, target: Target, environment: Environment, options: argparse.Namespace) -> None:
    """Do it and go; what was half done is healed."""
    injury = step.injury(target.backend)
    print(f"{injury.describe()} ...", flush=True)
    try:
        hits = injury.apply(target)
    except BaseException:
        injury.heal(target)
        raise
    for hit in hits:
        print(f"{step.fault}: {hit.target} (applied in {(hit.applied - hit.begun) / 1e9:.2f} s)")
    env = f" --env {options.env}" if options.env else ""
    left = [f"kill -CONT {options.pid}"] if options.pid else []
    if environment.unclean():
        left.append(f"python -m infra heal{env}")
    print(f"it stays; {' and '.join(left)} undoes it" if left else "nothing is left to heal")
