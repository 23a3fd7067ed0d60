"""Apart: two unrelated locks. Two workers want the first, one worker wants the second: if this one has to wait, the
first lock is in its way.
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
