"""Faults by hand: `python -m infra fault NAME BACKEND`, for a person who explores with a client of their own.

infra/README.md has examples. Options that are left to chance are drawn from `--seed`. Faults on workers need a process
of yours. Only the suite's own workers have gates, so yours is hit wherever it is, and only with what a signal can do.
"""

import json
import math
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from infra import lifetime
from infra.backends import BACKENDS
from infra.cluster import frozen
from infra.commands import CLEAN_WITHIN, attached, print_faults
from infra.docker import machine, owner
from infra.errors import Failed, UnknownName
from infra.faults.all_faults import FAULTS
from infra.faults.fault import NO_CLOCK, NO_TAP, OURS, FaultInjection
from infra.faults.fault_options import Members
from infra.faults.gate_scripts import HitWorkers
from infra.faults.plan import BadPlan, Plan, Step, compile_plan, parse
from infra.faults.runner import Runner
from infra.faults.target import Actors, Aim, Target, Victim
from infra.own_environment import OwnEnvironment
from infra.suggestions import command, instead
from infra.waiting import Clock

_Text = str | None
_ByBackend = Mapping[str, Members]

LISTS: Final = ("nodes", "order", "groups")
"""Options that take several names, and so may be given as `a,b`."""
SIGNALS: Final = {"freeze": signal.SIGSTOP, "kill": signal.SIGKILL}
"""What can be done to a process without a gate in it."""


def main(name: _Text, backend: _Text, plan: _Text, process: _Text, env: _Text, ttl: float, **drawn: Any) -> int:
    """process: the number of the process that takes the place of workers. drawn: see `_of_words`."""
    hit = None if process is None else pid(process)
    if not 0 < ttl < math.inf:
        raise UnknownName(f"--ttl: must be seconds, more than 0, not {ttl}")
    with lifetime.asked_once(), attached(env) as environment:
        members = {each: kind.members for each, kind in environment.kinds.items()}
        if plan and not name:
            planned = _of_file(plan, members)
        elif name and backend and not plan:
            planned = _of_words(name, backend, ttl, members, **drawn)
        else:
            raise UnknownName("say NAME and BACKEND, or --plan FILE")
        _check_workers(planned, hit)
        _check_possible(planned, environment)
        target = Target.of(environment, planned.backend, OneProcess(hit, ttl, environment.name))
        words = partial(_words, pid=hit)
        if plan or drawn["seconds"] is not None:
            print("\n".join(planned.describe(words)), flush=True)
            Runner(planned, target, partial(print, flush=True)).cycle()
            if left := environment.still_unclean(CLEAN_WITHIN):
                print_faults(left)
        else:
            step = replace(planned.steps[0], for_=0.0)
            print(f"{step.describe(planned.backend, words, planned.members)} ...", flush=True)
            _leave(planned.steps[0], target)
    return 0


def _check_workers(plan: Plan, pid: int | None) -> None:
    """Raises UnknownName if a fault on workers cannot be done to a process without gates, or no process is given."""
    for step in plan.steps:
        if "workers" not in FAULTS[step.fault].needs:
            continue
        injection = step.injection(plan.backend, plan.members)
        if not (isinstance(injection, HitWorkers) and injection.action in SIGNALS):
            why = "needs a gate inside the worker: pytest suites/ --faults does it to the suite's own"
            raise UnknownName(f"{step.fault} {why}")
        if pid is None:
            raise UnknownName(f"{step.fault} is done to a worker: --pid says which process is yours")


def _check_possible(plan: Plan, environment: OwnEnvironment) -> None:
    """Raises UnknownName if a step of the plan cannot be done in this environment."""
    if plan.backend not in environment.clusters:
        up = command(f"up {plan.backend} --env {environment.name}")
        raise UnknownName(f"{plan.backend} does not run in {environment.name}; {up}")
    movable = all(node.process.has_clock() for node in environment.cluster(plan.backend).nodes)
    world = OURS.without("tap", NO_TAP)
    world = world if movable else world.without("clock", NO_CLOCK)
    for step in plan.steps:
        if reason := FAULTS[step.fault].applies(plan.backend, world):
            raise UnknownName(f"{step.fault} does not apply to {plan.backend}: {reason}")


def _words(injection: FaultInjection, pid: int | None) -> str:
    """What the fault does by hand, in words: it hits a process, and not a worker at a gate."""
    if isinstance(injection, HitWorkers):
        return f"{injection.action} process {pid}, wherever it is,"
    return injection.describe()


def _of_file(name: str, members: _ByBackend) -> Plan:
    try:
        return parse(Path(name).read_text(), members)
    except (OSError, UnicodeDecodeError) as error:
        raise UnknownName(f"--plan {name}: {getattr(error, 'strerror', None) or 'not a text'}") from error
    except BadPlan as error:
        raise UnknownName(f"--plan {name}: {error}") from error


def _of_words(
    name: str, backend: str, ttl: float, members: _ByBackend, chosen: Sequence[str], seconds: float | None, seed: int
) -> Plan:
    """The plan of one step from the command line. chosen: `OPTION=VALUE`. seconds: None: the fault stays."""
    if name not in FAULTS:
        raise UnknownName(f"no fault {name!r}; {instead(name, FAULTS)}")
    if backend not in BACKENDS:
        raise UnknownName(f"no backend {backend!r}; {instead(backend, BACKENDS)}")
    fault = FAULTS[name]
    try:
        if fault.planned and fault.applies(backend, OURS) is None:
            drawn = Plan(name, backend, seed, (Step(name, 0.0, 0.0, {}),))
        else:
            drawn = compile_plan([name], seed, backend, ttl, members[backend])
        step = drawn.steps[0]
        for_ = step.for_ if seconds is None else seconds
        step = replace(step, after=0.0, for_=for_, options={**step.options, **dict(map(_option, chosen))})
        return Plan.from_json(replace(drawn, steps=(step,)).to_json(), members[backend])
    except BadPlan as error:
        needed = f"; {fault.name} {fault.planned}" if fault.planned else ""
        raise UnknownName(str(error).removeprefix("steps[0].") + needed) from error


def _option(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    if name == "version":
        return name, value  # 3.10 is no number
    try:
        return name, json.loads(value)
    except ValueError:  # a text without its quotes
        return name, value.split(",") if name in LISTS else value


def _leave(step: Step, target: Target) -> None:
    """Apply the fault and leave it on. If `apply` raises, what it did is healed."""
    injection = step.injection(target.backend, target.members)
    try:
        hits = injection.apply(target)
    except BaseException:
        injection.heal(target)
        raise
    for hit in hits:
        print(f"{step.fault}: applied after {(hit.applied - hit.begun) / 1e9:.1f} s: {hit.target}")
    heal = f"it stays; {command(f'heal --env {target.environment.name}')} undoes it"
    print(heal if target.environment.unclean() else "nothing is left to heal")


# --- the process ---


class OneProcess(Actors):
    """A process of the user's own in place of workers. It has no gates, so it is hit at once."""

    def __init__(self, pid: int | None, ttl: float, environment: str = "") -> None:
        """pid: None: no process. ttl: seconds. environment: its heal also lets the process go on, if it is frozen."""
        self.ttl = ttl
        self._pid = pid
        self._environment = environment
        self._label = "" if pid is None else owner.label_of(pid)
        self._victim: Victim | None = None
        self._by = ""  # the key of the fault that hit it

    def lanes(self) -> Sequence[str]:
        return () if self._pid is None else ("by hand",)

    def arm(self, lane: str, aim: Aim) -> None:
        """Signals the process at once. Raises Failed if the process has ended."""
        if self._pid is None:
            return
        if aim.action == "freeze":
            frozen.note(self._environment, self._pid)
        if not self._signal(SIGNALS[aim.action]):
            raise Failed(f"process {self._pid} has ended")
        self._victim, self._by = Victim(lane, self._pid, 0, Clock().now(), f"process {self._pid}"), aim.by

    def caught(self, lane: str, among: tuple[int, ...] = ()) -> Sequence[Victim]:
        del lane, among
        return () if self._victim is None else (self._victim,)

    def thaw(self, victim: Victim) -> None:
        self._signal(signal.SIGCONT)
        frozen.forget(self._environment, victim.process)

    def let_go(self, by: str) -> None:
        if by == self._by:
            self.release_all()

    def release_all(self) -> None:
        if self._victim:
            self.thaw(self._victim)

    def _signal(self, number: signal.Signals) -> bool:
        """Send the signal. False if the process no longer lives: its number may be another process's by now."""
        if self._pid is None or owner.label_of(self._pid) != self._label:
            return False
        try:
            os.kill(self._pid, number)
        except ProcessLookupError:
            return False
        return True


def pid(text: str) -> int:
    """The number of a process that may be hit: it lives, is ours to signal, and does not run us. Raises UnknownName."""
    number = int(text) if text.strip().isdecimal() else 0
    if number <= 1:
        raise UnknownName(f"--pid: must be the number of your client's process, not {text!r}")
    try:
        os.kill(number, 0)
    except (ProcessLookupError, OverflowError):
        raise UnknownName(f"--pid: there is no process {number}") from None
    except PermissionError:
        raise UnknownName(f"--pid: process {number} is not ours to signal") from None
    # The number may be a thread's. Then its process counts, since a signal to a thread goes to the whole process.
    if _told(number, "Tgid", "pid") in {os.getpgrp(), os.getpid(), *_ancestors(os.getpid())}:
        raise UnknownName(f"--pid: process {number} is this command, or runs it")
    return number


def _ancestors(process: int) -> Iterator[int]:
    """The parent, its parent, and so on."""
    while process > 1:
        process = _told(process, "PPid", "ppid")
        yield process


def _told(process: int, field: str, column: str) -> int:
    """A number that /proc tells of a process, or ps where there is no /proc (macOS); 0 when the process has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        if Path("/proc/self").exists():
            return 0
        lines = [f"{field}:{machine.run(['ps', '-o', f'{column}=', '-p', str(process)])}"]
    return int(next(line for line in lines if line.startswith(f"{field}:")).partition(":")[2])
