"""Runs a plan against a target: apply, hold, heal, step by step, and keeps what was done when.

A plan is run in cycles until the trial has seen what it needs. Whatever happens on the way, everything is healed:
by the step's own heal, and by `final_heal` when anything was raised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.faults import fault
from infra.faults.plan import MORE

if TYPE_CHECKING:
    from collections.abc import Callable

    from infra.faults.plan import Plan, Step
    from infra.faults.target import Hit, Kind, Target


@dataclass(frozen=True, slots=True)
class Record:
    """One fault on one victim; the fields of `checkers.history.FaultInterval`. Times in ns."""

    name: str
    kind: Kind
    target: str
    begun: int
    applied: int
    healing: int
    healed: int
    owner: int = 0
    process: int = -1


class Runner:
    """One plan on one target, for one trial. Not for two threads at once; `records` may be read at any time."""

    def __init__(self, plan: Plan, target: Target) -> None:
        """Does nothing yet."""
        self._plan = plan
        self._target = target
        self._records: list[Record] = []

    @property
    def records(self) -> tuple[Record, ...]:
        """What was done so far; a fault appears when it has been healed."""
        return tuple(self._records)

    def run(self, until: Callable[[], bool], seconds: float) -> int:
        """Cycles until the condition holds after one, or `seconds` have passed; how many. At least one.

        A plan without steps waits for the condition. Raises Failed or Stopped, after healing everything.
        """
        clock = self._target.clock
        deadline = clock.now() + int(seconds * 1e9)
        cycles = 0
        while True:
            if self._plan.steps:
                self.cycle()
            cycles += 1
            left = (deadline - clock.now()) / 1e9
            pause = min(MORE, left) if self._plan.steps else left
            if left <= 0 or clock.wait(pause, until) or clock.now() >= deadline:
                return cycles

    def cycle(self) -> None:
        """Every step of the plan once. Raises Failed or Stopped, after healing everything."""
        for step in self._plan.steps:
            try:
                self._target.clock.wait(step.after)
                self._take(step)
            except BaseException:
                self.final_heal()
                raise

    def final_heal(self) -> None:
        """Let every worker go on, heal every link, resume or start every node, and prove that all is whole.

        Idempotent. Raises Failed; or Stopped, when all is undone but not proven.
        """
        fault.heal_everything(self._target)

    def _take(self, step: Step) -> None:
        injury, clock = step.injury(self._plan.backend), self._target.clock
        hits: list[Hit] = []
        try:
            hits += injury.apply(self._target)
            if hits:
                # Counted from the last victim: a lane whose worker was caught late is frozen as long as any.
                since = max(hit.applied for hit in hits)
                clock.wait(max(step.for_ - (clock.now() - since) / 1e9, 0.0))
        finally:
            healing = clock.now()
            injury.heal(self._target)
            healed = clock.now()
            self._records += [
                Record(
                    step.fault,
                    hit.kind,
                    hit.target,
                    hit.begun,
                    hit.applied,
                    hit.healing or healing,
                    hit.healed or healed,
                    hit.owner,
                    hit.process,
                )
                for hit in hits
            ]
