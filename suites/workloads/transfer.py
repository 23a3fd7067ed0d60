"""Transfer: two locks at once, and the same entry in both lists.

Three disciplines. In order: all workers take the first lock first, so nobody waits in a circle. Opposite: half of the
workers take the second lock first, and each waits as long as it can for what another holds. With backoff: as opposite,
but a worker that does not get its second lock soon releases the first, and pauses longer each time before it tries
again, at random so that two workers do not keep step (Metcalfe and Boggs, "Ethernet", 1976, section 4).
"""

from typing import ClassVar, Final

from suites.workloads.workload import Hold, Workload

SOON: Final = 0.1
"""Seconds that one with backoff waits for its second lock."""
MOST: Final = 6
"""How often its pause doubles."""


class Transfer(Workload):
    name: ClassVar[str] = "transfer"
    properties: ClassVar[tuple[str, ...]] = ("no-lost-update", "deadlock-free")
    order: ClassVar[tuple[int, ...]] = (0,)
    keys: ClassVar[int] = 2
    workers: ClassVar[int] = 4

    def section(self, hold: Hold) -> None:
        hold.work(hold.pace * hold.rng.uniform(0.2, 0.5))
        with hold.also(hold.patience + self.waits) as other:
            self.move(hold, other)

    def move(self, first: Hold, second: Hold) -> None:
        balances = [(account, *account.read()) for account in (first, second)]
        first.work(first.pace * first.rng.uniform(0.5, 1.0))
        for account, base, elements in balances:
            account.write(base=base, elements=elements)


class Opposite(Transfer):
    name: ClassVar[str] = "transfer-opposite"
    # Who deadlocks moves nothing, and a heal frees nobody.
    unasked: ClassVar[tuple[str, ...]] = ("no-lost-update", "recovery")
    order: ClassVar[tuple[int, ...]] = (0, 1)
    # A service that finds deadlocks does so within a second; it has two more before they count as not found.
    waits: ClassVar[float] = 1.0


class Backoff(Opposite):
    name: ClassVar[str] = "transfer-backoff"
    unasked: ClassVar[tuple[str, ...]] = ()
    waits: ClassVar[float] = 0.0

    def __init__(self) -> None:
        self._missed = 0
        """How often in a row the second lock was not got."""

    def section(self, hold: Hold) -> None:
        hold.work(hold.pace * hold.rng.uniform(0.2, 0.5))
        self._missed += 1
        with hold.also(SOON) as other:
            self._missed = 0
            self.move(hold, other)

    def rest(self, hold: Hold) -> None:
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.5) * 2 ** min(self._missed, MOST))
