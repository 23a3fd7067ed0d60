"""Churn: whoever holds one lock, for longer than a TTL, takes and releases others meanwhile, several at a time.

A client that renews, or forgets, one of its locks for another is seen here: when it loses the first, somebody who
waits for that gets in; when it does not free one of the others, the next who asks for it waits. So is one that renews
a lock no longer when it has lost it once. All take the others in order, so that nobody waits in a circle.
"""

from contextlib import ExitStack
from typing import ClassVar, Final

from suites.workloads.workload import Hold, Workload

TERM: Final = (1.1, 1.4)
"""TTLs, least and most."""
STEPS: Final = 5
OTHERS: Final = 6
"""How many others it holds at once, in each step anew."""


class Churn(Workload):
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
                for key in sorted(hold.rng.sample(range(len(self.order), hold.keys), OTHERS)):
                    others.enter_context(hold.also(hold.patience, key)).check()
                hold.work(term / STEPS)
            hold.write()
