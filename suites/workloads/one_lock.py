"""Workloads whose sections hold one lock, and what each of them shows."""

from typing import ClassVar, Final

from suites.workloads.workload import FENCES, HeldLock, Workload, step_of, updates

TERM: Final = (1.1, 1.9)  # how many TTLs a leader stays, least and most
STEPS: Final = 9
TERMS: Final = 5  # how many terms the longest stay lasts

READERS_STAY: Final = 2.0  # how many times as long as a writer a reader stays, so that readers meet
DOWNGRADES: Final = 0.25  # share of the writers that go on as readers
LONG: Final = 8  # after the first of so many downgrades in a row, the reader stays for longer than a TTL
TERM_AS_READER: Final = (1.1, 1.4)  # how many TTLs such a reader stays, least and most
STEPS_AS_READER: Final = 4


class Register(Workload):
    """Read, think and write, once or more, and read back, all under the token. Shows stale reads and stale writes."""

    name: ClassVar[str] = "register"
    properties: ClassVar[tuple[str, ...]] = ("fenced-store",)
    stores: ClassVar[tuple[str, ...]] = ("unfenced", *FENCES, "compare-owner", "guarded")
    late: ClassVar[bool] = True

    def section(self, hold: HeldLock) -> None:
        times, step = updates(hold), step_of(hold)
        for _ in range(times):
            hold.read()
            hold.work(step * hold.rng.uniform(0.5, 1.0) / times)
            hold.write()
        hold.read()


class Set(Workload):
    """Read the list, think, write it back with one more element, some times. Shows acknowledged updates that are gone.

    The elements of one list are its history: each write names the last element of the list that it was made from, so
    the final list says not only which updates were lost but who overwrote them.
    """

    name: ClassVar[str] = "set"
    properties: ClassVar[tuple[str, ...]] = ("no-lost-update",)
    stores: ClassVar[tuple[str, ...]] = (
        *("unfenced", "fence-writes", "fence-reads-and-writes", "compare-owner", "compare-and-set", "guarded"),
    )

    def section(self, hold: HeldLock) -> None:
        times, step = updates(hold), step_of(hold)
        for _ in range(times):
            base, elements = hold.read()
            hold.work(step * hold.rng.uniform(0.3, 0.6) / times)
            hold.write(base=base, elements=elements)
            hold.work(step * hold.rng.uniform(0.2, 0.4) / times)


class Inventory(Set):
    """Each element appended to the list sells the item whose number is the length of the list.

    Two elements appended to the same list sold the same item twice, whichever of them is lost.
    """

    name: ClassVar[str] = "inventory"
    properties: ClassVar[tuple[str, ...]] = ("no-duplicate", "no-lost-update")
    stores: ClassVar[tuple[str, ...]] = ("unfenced", "fence-reads-and-writes", "compare-owner", "compare-and-set")


class Once(Workload):
    """A list of finished jobs, each an effect that cannot be undone. The list's length is the number of the next job.

    The effect comes first and its entry in the list later, as in every worker of a queue. A worker that dies in between
    leaves a job that is done twice, with any lock; so may overlapping holders. An idempotency key prevents both.
    """

    name: ClassVar[str] = "once"
    properties: ClassVar[tuple[str, ...]] = ("no-duplicate",)
    stores: ClassVar[tuple[str, ...]] = ("unfenced", "idempotency-key")

    def section(self, hold: HeldLock) -> None:
        base, elements = hold.read()
        hold.effect(len(elements))  # with an idempotency key, a job that is done is only entered in the list
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0))
        hold.write(base=base, elements=elements)


class Work(Workload):
    """The section touches no data, so that several workers may be inside at once. For semaphores."""

    name: ClassVar[str] = "work"
    gives_up: ClassVar[float] = 0.2
    workers: ClassVar[int] = 5

    def section(self, hold: HeldLock) -> None:
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0))
        hold.check()
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0))


class Crowd(Workload):
    """Very many workers that want one lock."""

    name: ClassVar[str] = "crowd"
    workers: ClassVar[int] = 32

    def section(self, hold: HeldLock) -> None:
        hold.read()
        hold.work(hold.pace * hold.rng.uniform(0.2, 0.4))
        hold.write()


class Many(Crowd):
    """Very many locks."""

    name: ClassVar[str] = "many"
    keys: ClassVar[int] = 1_000
    workers: ClassVar[int] = 8


class Impatient(Workload):
    """Many want one lock, and some of them give up soon, amidst the queue, or only try.

    Leases outlast the time that a lock may take to be handed over, so one that was not given back shows.
    """

    name: ClassVar[str] = "impatient"
    least_ttl: ClassVar[float] = 2.0
    gives_up: ClassVar[float] = 0.4
    workers: ClassVar[int] = 6

    def section(self, hold: HeldLock) -> None:
        hold.read()
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0))
        hold.write()


class Leader(Workload):
    """The holder stays for longer than a TTL, and as long after a fault as without one: a holder that the service
    forgot, or that believes too long, is still there. It works in steps, so it stops soon after renewals fail.
    """

    name: ClassVar[str] = "leader"
    stores: ClassVar[tuple[str, ...]] = ("unfenced", "fence-writes")
    holds: ClassVar[float] = TERM[1]
    keys: ClassVar[int] = 2  # two offices: one of three workers waits, and takes its next turn in the other office
    unasked: ClassVar[tuple[str, ...]] = ("fifo", "herd-free")  # there is seldom a second waiter

    def section(self, hold: HeldLock) -> None:
        step, left = hold.ttl * hold.rng.uniform(*TERM) / STEPS, STEPS
        for _ in range(TERMS * STEPS):
            hold.read()
            hold.work(step)
            hold.write()
            left = STEPS if hold.stays() else left - 1
            if not left:
                break


class Share(Workload):
    """Readers hold together, and for longer; writers hold alone.

    If the lock can be downgraded, some writers go on as readers, at times for longer than a TTL. A client that does not
    renew what it downgraded then loses it to another writer.
    """

    name: ClassVar[str] = "share"
    stores: ClassVar[tuple[str, ...]] = ("unfenced", "fence-writes")
    readers: ClassVar[float] = 0.6
    gives_up: ClassVar[float] = 0.4
    workers: ClassVar[int] = 5

    def __init__(self) -> None:
        self._downgraded = 0  # how often the worker has gone on as a reader

    def section(self, hold: HeldLock) -> None:
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
                term = reader.ttl * reader.rng.uniform(*TERM_AS_READER) if stays else reader.pace
                for _ in range(STEPS_AS_READER):
                    reader.work(term / STEPS_AS_READER)
                    reader.read()


class Nested(Workload):
    """The holder acquires again, once or twice, and works on after the inner release, which must free nothing."""

    name: ClassVar[str] = "nested"
    nests: ClassVar[bool] = True

    def section(self, hold: HeldLock) -> None:
        hold.read()
        with hold.again():
            hold.work(hold.pace * hold.rng.uniform(0.2, 0.5))
            if hold.rng.random() < 0.5:
                with hold.again():
                    hold.read()
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0))
        hold.write()
