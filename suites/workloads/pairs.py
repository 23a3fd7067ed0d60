"""Pairs: workers have their locks two by two, for faults at every message of a verb (`infra.faults.workers`).

Each pair has a verb to itself, in the order of `infra.faults.workers.walks.WALKS`: the first rests for so
long that it seldom waits for the other, the last holds for so long that it renews. Of a semaphore there is one more
worker than permits; where the lock can be shared, one of a pair mostly reads while the other writes.
"""

from typing import ClassVar, Final

from suites.workloads.workload import Hold, Workload

CALM: Final = 0
"""The lock, by its index, whose workers seldom meet."""
RENEWED: Final = 4
"""The lock that is held for long."""


class Pairs(Workload):
    name: ClassVar[str] = "pairs"
    order: ClassVar[tuple[int, ...]] = (CALM, 1, 2, 3, RENEWED)
    unasked: ClassVar[tuple[str, ...]] = ("fifo", "herd-free", "sharing")
    readers: ClassVar[float] = 0.5
    keys: ClassVar[int] = 5
    workers: ClassVar[int] = 10

    def section(self, hold: Hold) -> None:
        hold.work(hold.ttl * 0.5 if hold.key == RENEWED else hold.pace * hold.rng.uniform(0.3, 0.6))
        hold.check()

    def rest(self, hold: Hold) -> None:
        hold.work(hold.pace * (hold.rng.uniform(1.5, 3.0) if hold.key == CALM else hold.rng.uniform(0.0, 0.3)))
