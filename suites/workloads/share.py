"""Share: most come to read, beside each other, and some to write, alone."""

from __future__ import annotations

from typing import ClassVar

from suites.workload import Hold, Workload


class Share(Workload):
    name: ClassVar[str] = "share"
    readers: ClassVar[float] = 0.7
    workers: ClassVar[int] = 5

    def section(self, hold: Hold) -> None:
        hold.read()
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0))
        if hold.shared:
            hold.read()
        else:
            hold.write()
