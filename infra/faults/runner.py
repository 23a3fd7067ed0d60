"""Runs a plan against a target: applies faults, holds them, heals them, and records what was done when.

A plan is run in cycles until the trial has seen what it needs. While a fault is being applied, the next one waits, and
the time of the others stands still: a holder that is frozen while a server is replaced stays frozen until its lease is
over there too. Everything is healed: by the heal of each step, and by `final_heal` when anything was raised.
"""

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace

from infra.faults import fault
from infra.faults.all_faults import FAULTS
from infra.faults.plan import Plan, Step
from infra.faults.target import Hit, Target


@dataclass(frozen=True, slots=True)
class Record(Hit):
    """A hit with its fault's name and all times known: a `checkers.history.history.FaultInterval`, and its lane."""

    name: str = field(kw_only=True)


@dataclass(slots=True)
class _On:
    """A fault that is applied, or is about to be. begun: ns. until: ns; when its heal is due."""

    step: Step
    injection: fault.FaultInjection
    target: Target
    begun: int
    until: int = 0
    hits: list[Hit] = field(default_factory=list)


class Runner:
    """One plan on one target, for one trial. Not for two threads at once; `records` may be read at any time."""

    def __init__(self, plan: Plan, target: Target, say: Callable[[str], None] = lambda _: None) -> None:
        """Does nothing yet. say: called with a line of text when something has just happened, or begins."""
        self._plan = plan
        self._say = say
        self._target = target
        self._records: list[Record] = []
        self._keys = itertools.count(1)

    @property
    def records(self) -> tuple[Record, ...]:
        """What was done so far; a fault appears when it has been healed."""
        return tuple(self._records)

    def cycle(self) -> None:
        """Do every step of the plan once. Raises Failed, after healing everything."""
        on: list[_On] = []
        try:
            for group in _groups(self._plan.steps):
                self._overlapping(group, on)
        except BaseException:
            healing = self._target.clock.now()
            self._say("broken off, healing everything")
            try:
                self.final_heal()
                self._say(f"healed in {self._since(healing):.1f} s")
            finally:
                for active in on:
                    if not active.hits:  # nobody knows whom it hit, and since when
                        members, kind = ", ".join(self._target.members), FAULTS[active.step.fault].kind
                        active.hits.append(Hit(kind, members, active.begun, 0))
                    self._note(active, healing)
            raise

    def final_heal(self) -> None:
        """Let every worker go on, heal every link, resume or start every node, and prove that all is whole.

        Idempotent. Each of these is done even if another fails. Raises Failed for the last that fails.
        """
        with ExitStack() as stack:
            stack.callback(fault.await_whole, self._target)
            stack.callback(self._target.environment.heal)
            stack.callback(self._target.actors.release_all)

    def _overlapping(self, group: Sequence[Step], on: list[_On]) -> None:
        """Run steps side by side, one change at a time. `on` holds the faults that are on; it is empty at the end."""
        clock = self._target.clock
        coming = deque(group)
        begin = clock.now() + _ns(coming[0].after)
        while coming or on:
            first = min(on, key=lambda active: active.until, default=None)
            if coming and (first is None or begin <= first.until):
                self._wait_until(begin)
                self._begin(coming.popleft(), on)
                begin = clock.now() + _ns(coming[0].after) if coming else 0
            elif first is not None:
                self._wait_until(first.until)
                self._end(first, on)

    def _begin(self, step: Step, on: list[_On]) -> None:
        clock = self._target.clock
        target = replace(self._target, by=f"step{next(self._keys)}", alone=not on)
        active = _On(step, step.injection(self._plan.backend, self._plan.members), target, clock.now())
        on.append(active)
        try:
            active.hits += active.injection.apply(target)
        except fault.Nobody:
            if target.alone:
                raise
        for other in on[:-1]:
            other.until += clock.now() - active.begun
        for hit in active.hits:
            self._say(f"{step.fault}: applied after {(hit.applied - hit.begun) / 1e9:.1f} s: {hit.target}")
        if not active.hits:
            self._say(f"{step.fault}: there is nobody to be hit")
        # Counted from the last victim, so that a lane whose worker was caught late is frozen as long as any other.
        since = max((hit.applied for hit in active.hits), default=0)
        active.until = since + _ns(step.for_) if active.hits else clock.now()

    def _end(self, active: _On, on: list[_On]) -> None:
        healing = self._target.clock.now()
        self._say(f"{active.step.fault}: healing")
        last = len(on) == 1
        active.injection.heal(replace(active.target, alone=last))
        if last:
            fault.await_whole(self._target)
        on.remove(active)
        self._note(active, healing)
        self._say(f"{active.step.fault}: healed in {self._since(healing):.1f} s")

    def _note(self, active: _On, healing: int) -> None:
        healed = self._target.clock.now()
        hits = [replace(hit, healing=hit.healing or healing, healed=hit.healed or healed) for hit in active.hits]
        self._records += [Record(**asdict(hit), name=active.step.fault) for hit in hits]

    def _since(self, when: int) -> float:
        return (self._target.clock.now() - when) / 1e9

    def _wait_until(self, when: int) -> None:
        self._target.clock.sleep(max((when - self._target.clock.now()) / 1e9, 0.0))


def _groups(steps: Sequence[Step]) -> list[Sequence[Step]]:
    """Groups of steps that overlap: a step, and the steps beside it that follow."""
    begins = [number for number, step in enumerate(steps) if number == 0 or not step.beside]
    return [steps[begin:end] for begin, end in itertools.pairwise([*begins, len(steps)])]


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
