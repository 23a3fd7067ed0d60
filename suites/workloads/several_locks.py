"""Workloads that hold several locks at once, or whose workers have theirs apart from each other."""

from contextlib import ExitStack
from typing import ClassVar, Final

from suites.workloads.workload import Hold, Workload

SOON: Final = 0.1
"""Seconds that one with backoff waits for its second lock."""
MOST: Final = 6
"""How often its pause doubles."""

TERM: Final = (1.1, 1.4)
"""TTLs that one that churns holds its first lock, least and most."""
STEPS: Final = 5
OTHERS: Final = 3
"""How many others it holds at once, in each step anew."""
SOUGHT: Final = 10
"""One of those others is among the first so many locks, so that somebody asks for it again soon."""

CALM: Final = (0, 1)
"""The locks of `Pairs`, by their indices, whose workers seldom meet."""
RENEWED: Final = 5
"""The lock that is held for long."""


class Apart(Workload):
    """Unrelated locks. Two workers want the first, one another: if it has to wait, the first is in its way."""

    name: ClassVar[str] = "apart"
    order: ClassVar[tuple[int, ...]] = (0, 1)
    keys: ClassVar[int] = 20
    workers: ClassVar[int] = 3
    unasked: ClassVar[tuple[str, ...]] = ("crash-release",)  # nobody waits for what the one held

    def section(self, hold: Hold) -> None:
        hold.check()
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0))


class Transfer(Workload):
    """Two locks at once, and the same entry in both lists.

    All workers take the first lock first, so nobody waits in a circle.
    """

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
    """Half of the workers take the second lock first, and each waits as long as it can for what another holds."""

    name: ClassVar[str] = "transfer-opposite"
    # Who deadlocks moves nothing, and a heal frees nobody.
    unasked: ClassVar[tuple[str, ...]] = ("no-lost-update", "recovery")
    order: ClassVar[tuple[int, ...]] = (0, 1)
    # A service that finds deadlocks does so within a second; it has two more before they count as not found.
    waits: ClassVar[float] = 1.0


class Backoff(Opposite):
    """A worker that does not get its second lock soon releases the first, and pauses longer each time before it tries
    again, at random so that two do not keep step (Metcalfe and Boggs, "Ethernet", 1976, section 4).
    """

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


class Churn(Workload):
    """Whoever holds one lock, for longer than a TTL, takes and releases others meanwhile, several at a time.

    A client that renews, or forgets, one of its locks for another is seen here: when it loses the first, somebody who
    waits for that gets in; when it does not free one of the others, the next who asks for it waits. So is one that
    renews a lock no longer when it has lost it once. All take the others in order: nobody waits in a circle.
    """

    name: ClassVar[str] = "churn"
    order: ClassVar[tuple[int, ...]] = (0, 1)
    returns: ClassVar[bool] = True
    holds: ClassVar[float] = 2.0  # a term, and the requests for the others
    keys: ClassVar[int] = 300
    workers: ClassVar[int] = 4
    unasked: ClassVar[tuple[str, ...]] = ("fifo", "herd-free")  # two want the same lock: nobody stands behind a waiter

    def section(self, hold: Hold) -> None:
        term = hold.ttl * hold.rng.uniform(*TERM)
        for _ in range(STEPS):
            hold.read()
            with ExitStack() as others:
                rest = hold.rng.sample(range(SOUGHT, hold.keys), OTHERS - 1)
                for key in (hold.rng.randrange(len(self.order), SOUGHT), *sorted(rest)):
                    others.enter_context(hold.also(hold.patience, key)).check()
                hold.work(term / STEPS)
            hold.write()


class Pairs(Workload):
    """Workers have their locks two by two, for faults at every message of a verb (`infra.faults.workers`).

    Each pair has a verb to itself, in the order of `infra.faults.workers.walks.WALKS`: those of the first two rest for
    so long that they seldom wait, those of the last hold for so long that they renew. Of a semaphore there is one more
    worker than permits; where the lock can be shared, one of a pair mostly reads while the other writes.
    """

    name: ClassVar[str] = "pairs"
    order: ClassVar[tuple[int, ...]] = (*CALM, 2, 3, 4, RENEWED)
    unasked: ClassVar[tuple[str, ...]] = ("fifo", "herd-free", "sharing")
    readers: ClassVar[float] = 0.5
    keys: ClassVar[int] = 6
    workers: ClassVar[int] = 12

    def section(self, hold: Hold) -> None:
        hold.work(hold.ttl * 0.5 if hold.key == RENEWED else hold.pace * hold.rng.uniform(0.3, 0.6))
        hold.check()

    def rest(self, hold: Hold) -> None:
        hold.work(hold.pace * (hold.rng.uniform(1.5, 3.0) if hold.key in CALM else hold.rng.uniform(0.0, 0.3)))
