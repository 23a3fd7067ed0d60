"""The base class of workloads (what a worker does while it holds the lock), and the verbs that they may use."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Final, Protocol

FENCES: Final = ("fence-writes", "fence-writes-strict", "fence-reads-and-writes")
"""Store modes that compare fencing tokens."""
MOST_UPDATES: Final = 5
"""Of the cell under one grant."""


class Stopped(Exception):
    """The section must end now: the client no longer believes that it holds, was refused, or has no answer."""


class Hold(Protocol):
    """The inside of a critical section. Each access first asks the client's belief, then goes to the store.

    All that touch something raise `Stopped` when the belief is gone, the store or the lock refused, or an answer was
    lost: a holder whose write is unknown writes no more under that token.
    """

    rng: random.Random
    pace: float
    """Seconds that a short step of work takes here; slower backends get longer ones."""
    ttl: float
    """Seconds; what was asked for."""
    patience: float
    """Seconds that an acquire waits."""
    keys: int
    """How many locks the lane has."""
    key: int
    """Which of them this one is, by its index."""
    shared: bool
    """Whether other readers may be inside as well."""
    downgrades: bool
    """Whether a writer can become a reader."""
    writes_per_grant: int | None
    """How many writes the store mode lets one grant do, None for any number."""

    def read(self) -> tuple[int, Sequence[int]]:
        """(value, elements) of the protected cell; value is -1 while it was never written."""

    def write(self, *, base: int | None = None, elements: Sequence[int] | None = None) -> int:
        """Write a fresh value, or, with `elements`, the list with a fresh value at its end. Returns the value.

        base: the value of the state that the list was read from. Every write comes by the gate
        BETWEEN_READ_AND_WRITE (`suites.worker.gates`).
        """

    def effect(self, job: int) -> bool:
        """Do something that cannot be undone, and that no fence can refuse. It comes by the same gate.

        False, in the store mode `idempotency-key` alone: somebody has claimed the job before, and nothing was done.
        """

    def check(self) -> None:
        """Make sure of the hold and come by the same gate, as before a write, but touch nothing."""

    def again(self) -> AbstractContextManager[None]:
        """Acquire once more what is held, and release it at the end of the block. Of reentrant locks only."""

    def also(self, timeout: float, key: int | None = None) -> AbstractContextManager[Hold]:
        """Acquire another of the lane's keys as well, within `timeout` seconds, and release it at the end of the block.

        key: its index, None for the next. Nothing is acquired once the trial is over.
        """

    def downgraded(self) -> AbstractContextManager[Hold]:
        """Go on as a reader until the end of the block, and hold nothing after it. Of clients that `downgrades`."""

    def work(self, seconds: float) -> None:
        """Work that takes a while and touches nothing."""

    def stays(self) -> bool:
        """Whether a fault is on, not one on workers, that whoever holds for long should see the end of."""


def updates(hold: Hold) -> int:
    """How many updates of the cell a section makes: often several, between which the grant may be lost."""
    return hold.writes_per_grant or hold.rng.randint(1, MOST_UPDATES)


class Workload(ABC):
    """What workers do while they hold the lock: one critical section, again and again.

    properties  what the section exercises beyond the lock's own properties.
    late        whether a worker may, between two grants, write once more under its old token (fenced modes only):
                the deliberate stale write that exercises the fence even when nothing else goes wrong.
    readers     the share of the workers that acquire as readers, in turns, where the lock can be shared.
    nests       whether the section acquires the lock again that it holds, where the lock allows it.
    order       indices of the keys that workers acquire first, dealt out in turn; empty: a random key. Who is alone in
                asking for its key takes a new one, as long as there are some, when a request got no answer: nobody
                knows what keeps the old one.
    gives_up    the share of the rounds that ask for the lock with little patience, or only try.
    unasked     properties of the lock that the section cannot exercise.
    stores      the store modes in which it can run (`infra.store.store.Mode`, and ``guarded``).
    returns     whether a trial goes on after a fault until every worker has held its first lock again, and released it.
    holds       TTLs for which a holder stays at most, as a rule: who waits for it has the patience.
    waits       seconds for which it waits longer for another lock than an acquire does.
    keys        how many locks the lane has, and with them cells of the store.
    workers     how many processes compete for them.
    """

    name: ClassVar[str]
    properties: ClassVar[tuple[str, ...]] = ()
    late: ClassVar[bool] = False
    readers: ClassVar[float] = 0.0
    nests: ClassVar[bool] = False
    order: ClassVar[tuple[int, ...]] = ()
    gives_up: ClassVar[float] = 0.0
    unasked: ClassVar[tuple[str, ...]] = ()
    stores: ClassVar[tuple[str, ...]] = ("unfenced",)
    returns: ClassVar[bool] = False
    holds: ClassVar[float] = 1.0
    waits: ClassVar[float] = 0.0
    keys: ClassVar[int] = 1
    workers: ClassVar[int] = 3

    @abstractmethod
    def section(self, hold: Hold) -> None:
        """Runs once per grant, between the gates AFTER_ACQUIRE and BEFORE_RELEASE."""

    def rest(self, hold: Hold) -> None:
        """After the release, before the next round: nothing but work."""
        hold.work(hold.pace * hold.rng.uniform(0.0, 0.3))
