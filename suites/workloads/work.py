"""Work: nothing but work inside, so that several may be inside at once. For semaphores, and for the lock alone."""

from typing import ClassVar

from suites.workloads.workload import Hold, Workload


class Work(Workload):
    name: ClassVar[str] = "work"
    workers: ClassVar[int] = 5

    def section(self, hold: Hold) -> None:
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0))
        hold.check()
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0))
