"""Set: read the list, think, write it back with one more element, some times. Shows lost updates: acknowledged and yet
gone.

The elements of one list are its history: each write names the last element of the list that it was made from, so
the final list says not only which updates were lost but who overwrote them.
"""

from typing import ClassVar

from suites.workloads.workload import Hold, Workload, updates


class Set(Workload):
    name: ClassVar[str] = "set"
    properties: ClassVar[tuple[str, ...]] = ("no-lost-update",)
    stores: ClassVar[tuple[str, ...]] = (
        "unfenced",
        "fence-writes",
        "fence-reads-and-writes",
        "compare-owner",
        "compare-and-set",
        "guarded",
    )

    def section(self, hold: Hold) -> None:
        times = updates(hold)
        for _ in range(times):
            base, elements = hold.read()
            hold.work(hold.pace * hold.rng.uniform(0.3, 0.6) / times)
            hold.write(base=base, elements=elements)
            hold.work(hold.pace * hold.rng.uniform(0.2, 0.4) / times)
