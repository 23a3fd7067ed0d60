"""Faults on the wall clocks of workers: the clocks of two machines differ, and a clock jumps when somebody sets it.

A lock that stores the end of a lease by its client's clock, or compares it with that clock, trusts all clocks to agree.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from infra.cluster.clock_skew import FAR
from infra.faults.fault import Fault, OnWorkers
from infra.faults.fault_options import real, within
from infra.faults.target import Hit, Target
from infra.faults.workers.holder_faults import NEEDS

SECONDS: Final = (5, 90)  # seconds by which the clocks jump, least and most: longer than any TTL


@dataclass(frozen=True, slots=True)
class SkewWorkers(OnWorkers):
    """Move the wall clock of a worker of every lane back by so many seconds, and that of another forward."""

    seconds: float

    def describe(self) -> str:
        by = f"{self.seconds:g} s"
        return f"put the wall clock of a worker of every lane {by} back, and another's {by} forward"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by what the workers tell."""
        begun = target.clock.now()
        victims = target.actors.skew((-self.seconds, self.seconds), target.by)
        return [Hit("skew", hit.target, begun, hit.at, process=hit.process, lane=hit.lane) for hit in victims]


SKEW_WORKERS: Final = Fault(
    "skew-workers",
    "skew",
    "the wall clock of a worker of every lane jumps back, and another's forward, by more than any TTL",
    lambda _, seconds: SkewWorkers(seconds),
    (real("seconds", 0.15, FAR, within(SECONDS)),),
    spans=(1.0, 1.5, 2.0),
    needs=(*NEEDS, "skew"),
    how="time-machine: what the workers' Python code takes for the time of day",
    sees="its own time of day jumps, and is another than that of all others",
)
