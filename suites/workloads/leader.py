"""Leader: the holder stays for longer than a TTL, in steps, so that it stops soon after its renewals fail."""

from typing import ClassVar, Final

from suites.workloads.workload import Hold, Workload

TERM: Final = (1.1, 1.9)
"""TTLs, least and most."""
STEPS: Final = 9


class Leader(Workload):
    name: ClassVar[str] = "leader"
    stores: ClassVar[tuple[str, ...]] = ("unfenced", "fence-writes")
    holds: ClassVar[float] = TERM[1]
    keys: ClassVar[int] = 2  # two offices: at most moments somebody is in one
    unasked: ClassVar[tuple[str, ...]] = ("fifo", "herd-free")  # and seldom anybody behind one that waits

    def section(self, hold: Hold) -> None:
        term = hold.ttl * hold.rng.uniform(*TERM)
        for _ in range(STEPS):
            hold.read()
            hold.work(term / STEPS)
            hold.write()
