"""Impatient: many want one lock, and some of them give up soon, amidst the queue, or only try."""

from typing import ClassVar

from suites.workloads.workload import Hold, Workload


class Impatient(Workload):
    name: ClassVar[str] = "impatient"
    gives_up: ClassVar[float] = 0.4
    workers: ClassVar[int] = 6

    def section(self, hold: Hold) -> None:
        hold.read()
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0))
        hold.write()
