"""Register: read, think and write, some times, and read back, all under the lock's token. Shows stale reads and stale
writes.
"""

from typing import ClassVar

from suites.workloads.workload import FENCES, Hold, Workload, updates


class Register(Workload):
    name: ClassVar[str] = "register"
    properties: ClassVar[tuple[str, ...]] = ("fenced-store",)
    stores: ClassVar[tuple[str, ...]] = ("unfenced", *FENCES, "compare-owner", "guarded")
    late: ClassVar[bool] = True

    def section(self, hold: Hold) -> None:
        times = updates(hold)
        for _ in range(times):
            hold.read()
            hold.work(hold.pace * hold.rng.uniform(0.5, 1.0) / times)
            hold.write()
        hold.read()
