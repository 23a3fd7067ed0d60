"""Work: the section touches no data, so that several workers may be inside at once. For semaphores."""

from typing import ClassVar

from suites.workloads.workload import Hold, Workload


class Work(Workload):
    name: ClassVar[str] = "work"
    workers: ClassVar[int] = 5

    def section(self, hold: Hold) -> None:
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0))
        hold.check()
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0))
