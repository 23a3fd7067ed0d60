"""Share: readers hold together, and for longer; writers hold alone.

Where the lock can, some writers go on as readers, for longer than a TTL at times: a client that does not renew what it
downgraded loses it to another writer then.
"""

from typing import ClassVar, Final

from suites.workloads.workload import Hold, Workload

READERS_STAY: Final = 2.0
"""Times as long as a writer, so that they meet."""
DOWNGRADES: Final = 0.25
"""Share of the writers that go on as readers."""
LONG: Final = 8
"""Of so many in a row one stays for longer than a TTL, the first of them."""
TERM: Final = (1.1, 1.4)
"""TTLs that they stay, least and most."""
STEPS: Final = 4


class Share(Workload):
    name: ClassVar[str] = "share"
    stores: ClassVar[tuple[str, ...]] = ("unfenced", "fence-writes")
    readers: ClassVar[float] = 0.6
    workers: ClassVar[int] = 5

    def __init__(self) -> None:
        self._downgraded = 0
        """How often."""

    def section(self, hold: Hold) -> None:
        hold.read()
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0) * (READERS_STAY if hold.shared else 1.0))
        if hold.shared:
            hold.read()
            return
        hold.write()
        if hold.downgrades and hold.rng.random() < DOWNGRADES:
            stays = self._downgraded % LONG == 0
            self._downgraded += 1
            with hold.downgraded() as reader:
                term = reader.ttl * reader.rng.uniform(*TERM) if stays else reader.pace
                for _ in range(STEPS):
                    reader.work(term / STEPS)
                    reader.read()
