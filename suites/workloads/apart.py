"""Apart: two locks that have nothing to do with each other. One is wanted by two workers, the other by one: whatever
this one waits for, it is the other lock that is in its way.
"""

from typing import ClassVar

from suites.workloads.workload import Hold, Workload


class Apart(Workload):
    name: ClassVar[str] = "apart"
    order: ClassVar[tuple[int, ...]] = (0, 1)
    keys: ClassVar[int] = 2
    workers: ClassVar[int] = 3
    unasked: ClassVar[tuple[str, ...]] = ("crash-release",)  # nobody waits for what the one held

    def section(self, hold: Hold) -> None:
        hold.check()
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0))
