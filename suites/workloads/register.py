"""Register: read, think, write, read back, all under the lock's token. Shows stale reads and stale writes."""

from typing import ClassVar

from suites.workloads.workload import FENCES, Hold, Workload


class Register(Workload):
    name: ClassVar[str] = "register"
    properties: ClassVar[tuple[str, ...]] = ("fenced-store",)
    stores: ClassVar[tuple[str, ...]] = ("unfenced", *FENCES, "compare-owner", "guarded")
    late: ClassVar[bool] = True

    def section(self, hold: Hold) -> None:
        hold.read()
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0))
        hold.write()
        if hold.writes_per_grant is None and hold.rng.random() < 0.5:
            hold.write()
        hold.read()
