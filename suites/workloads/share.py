"""Share: readers hold together, and for longer; writers hold alone."""

from typing import ClassVar, Final

from suites.workloads.workload import Hold, Workload

READERS_STAY: Final = 2.0
"""Times as long as a writer, so that they meet."""


class Share(Workload):
    name: ClassVar[str] = "share"
    stores: ClassVar[tuple[str, ...]] = ("unfenced", "fence-writes")
    readers: ClassVar[float] = 0.6
    workers: ClassVar[int] = 5

    def section(self, hold: Hold) -> None:
        hold.read()
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0) * (READERS_STAY if hold.shared else 1.0))
        if hold.shared:
            hold.read()
        else:
            hold.write()
