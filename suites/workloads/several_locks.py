"""Workloads that hold several locks at once, or whose workers have separate locks."""

from contextlib import ExitStack
from typing import ClassVar, Final

from suites.workloads.workload import HeldLock, Workload

SOON: Final = 0.1  # seconds that a worker with backoff waits for its second lock
MOST: Final = 6  # how often the pause of that worker doubles at most
TERM: Final = (1.1, 1.4)  # how many TTLs a worker that churns holds its first lock, least and most
STEPS: Final = 5
OTHERS: Final = 3  # how many other locks it holds at once; each step takes new ones
SOUGHT: Final = 10  # one of those others is among the first so many locks, so that a worker soon asks for it again
TRIED: Final = 0.3
"""Share of the locks behind those that are only tried: nobody else wants most of them, so a try is granted."""
CALM: Final = (0, 1)  # indices of the locks of `Pairs` whose workers seldom meet
RENEWED: Final = 5  # index of the lock of `Pairs` that is held for long


class Apart(Workload):
    """Unrelated locks. Two workers want the first, a third another; if it has to wait, the first lock is in its way."""

    name: ClassVar[str] = "apart"
    order: ClassVar[tuple[int, ...]] = (0, 1)
    keys: ClassVar[int] = 20
    unasked: ClassVar[tuple[str, ...]] = ("crash-release",)  # nobody waits for the lock of the third

    def section(self, hold: HeldLock) -> None:
        hold.check()
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0))


class Beside(Apart):
    """The first lock is held for as long as a fault is on. The third worker takes its own for moments, without a pause.

    So a fault meets a lease, and a client that asks again at once. If this relies on an earlier answer, it shows.
    """

    name: ClassVar[str] = "beside"
    keys: ClassVar[int] = 2  # the third keeps to its lock, and sees all of its tokens
    crowds: ClassVar[int] = 0  # a fault may strike in those rounds already

    def section(self, hold: HeldLock) -> None:
        hold.check()
        hold.work(hold.pace * hold.rng.uniform(0.1, 0.3))
        while hold.key == self.order[0] and hold.stays():
            hold.check()
            hold.work(hold.pace)


class Transfer(Workload):
    """Two locks at once, and the same entry in both lists.

    All workers take the first lock first, so nobody waits in a circle.
    """

    name: ClassVar[str] = "transfer"
    several: ClassVar[bool] = True
    properties: ClassVar[tuple[str, ...]] = ("no-lost-update", "deadlock-free")
    order: ClassVar[tuple[int, ...]] = (0,)
    keys: ClassVar[int] = 2
    workers: ClassVar[int] = 4

    def section(self, hold: HeldLock) -> None:
        hold.work(hold.pace * hold.rng.uniform(0.2, 0.5))
        with hold.also(hold.patience + self.waits) as other:
            self.move(hold, other)

    def move(self, first: HeldLock, second: HeldLock) -> None:
        balances = [(account, *account.read()) for account in (first, second)]
        first.work(first.pace * first.rng.uniform(0.5, 1.0))
        for account, base, elements in balances:
            account.write(base=base, elements=elements)


class Opposite(Transfer):
    """Half of the workers take the second lock first, and each waits as long as it can for what another holds."""

    name: ClassVar[str] = "transfer-opposite"
    # Workers in a deadlock move nothing, and a heal frees none of them.
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
        self._missed = 0  # how often in a row the second lock was not got

    def section(self, hold: HeldLock) -> None:
        hold.work(hold.pace * hold.rng.uniform(0.2, 0.5))
        self._missed += 1
        with hold.also(SOON) as other:
            self._missed = 0
            self.move(hold, other)

    def rest(self, hold: HeldLock) -> None:
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.5) * 2 ** min(self._missed, MOST))


class Churn(Workload):
    """A worker holds one lock for longer than a TTL, and takes and releases others meanwhile, several at a time.

    This shows a client that renews, or forgets, one of its locks for another. If it loses the first lock, a worker that
    waits for it gets in. If it does not free another, the next worker that asks for that lock waits. A client that
    never again renews a lock lost once shows too. All take the others in order, so nobody waits in a circle.
    """

    name: ClassVar[str] = "churn"
    several: ClassVar[bool] = True
    order: ClassVar[tuple[int, ...]] = (0, 1)
    returns: ClassVar[bool] = True
    holds: ClassVar[float] = 2.0  # a term, and the requests for the others
    keys: ClassVar[int] = 300
    workers: ClassVar[int] = 4
    unasked: ClassVar[tuple[str, ...]] = ("fifo", "herd-free")  # two want the same lock: nobody queues behind a waiter

    def section(self, hold: HeldLock) -> None:
        term = hold.ttl * hold.rng.uniform(*TERM)
        for _ in range(STEPS):
            hold.read()
            with ExitStack() as others:
                rest = hold.rng.sample(range(SOUGHT, hold.keys), OTHERS - 1)
                for key in (hold.rng.randrange(len(self.order), SOUGHT), *sorted(rest)):
                    patience = 0.0 if key >= SOUGHT and hold.rng.random() < TRIED else hold.patience
                    others.enter_context(hold.also(patience, key)).check()
                hold.work(term / STEPS)
            hold.write()


class Pairs(Workload):
    """Each two workers have a lock to themselves, for faults at every message of a verb (`infra.faults.workers`).

    Each pair has a verb to itself, in the order of `infra.faults.workers.walks.WALKS`. The workers of the first two
    pairs rest so long that they seldom wait; those of the last hold so long that they renew. A lock has one more worker
    than permits if it is a semaphore. If it can be shared, one of a pair mostly reads while the other writes.
    """

    name: ClassVar[str] = "pairs"
    order: ClassVar[tuple[int, ...]] = (*CALM, 2, 3, 4, RENEWED)
    unasked: ClassVar[tuple[str, ...]] = ("fifo", "herd-free", "sharing")
    again: ClassVar[bool] = False  # the tap would count its messages as those of the first release
    readers: ClassVar[float] = 0.5
    keys: ClassVar[int] = 6
    workers: ClassVar[int] = 12

    def section(self, hold: HeldLock) -> None:
        hold.work(hold.ttl * 0.5 if hold.key == RENEWED else hold.pace * hold.rng.uniform(0.3, 0.6))
        hold.check()

    def rest(self, hold: HeldLock) -> None:
        hold.work(hold.pace * (hold.rng.uniform(1.5, 3.0) if hold.key in CALM else hold.rng.uniform(0.0, 0.3)))
