"""The base class of workloads (what a worker does while it holds the lock), and the verbs that they may use."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Final, Protocol

FENCES: Final = ("fence-writes", "fence-writes-strict", "fence-reads-and-writes")
"""Store modes that compare fencing tokens."""
MOST_UPDATES: Final = 5  # the most updates of the cell under one grant
BURST: Final = (2.0, 0.5)
"""Of so many seconds so many in which no section in a lane has work to do: holders follow each other as closely as the
lock lets them, so that a worker soon reads again what another has written meanwhile. Each lane has times of its own: if
all of a trial had the same, they would starve each other, and have no answers."""
AWAY_SHARE: Final = 0.25
AWAY: Final = (5.0, 20.0)
"""The share of the long rests, and how many steps of work they last, where workers may give up."""


class Stopped(Exception):
    """The section must end now: the client no longer believes that it holds, was refused, or has no answer."""


class HeldLock(Protocol):
    """The inside of a critical section. Each access first asks the client's belief, then goes to the store.

    Every method that touches something raises `Stopped` when the belief is gone, the store or the lock refused, a list
    is full, or an answer was lost: a holder whose write is unknown writes no more under that token.
    """

    rng: random.Random
    pace: float  # seconds that a short step of work takes here; slower backends get longer ones
    burst: float  # seconds by which the bursts of its lane come earlier than multiples of `BURST`
    ttl: float  # seconds; the TTL that was asked for
    patience: float  # seconds that an acquire waits
    keys: int  # how many locks the lane has
    key: int  # the index of the lock that is held here
    shared: bool  # whether other readers may be inside as well
    downgrades: bool  # whether a writer can become a reader
    writes_per_grant: int | None  # how many writes the store mode lets one grant do, None for any number

    def read(self) -> tuple[int, Sequence[int]]:
        """(value, elements) of the protected cell; value is -1 while it was never written."""

    def write(self, *, base: int | None = None, elements: Sequence[int] | None = None) -> int:
        """Write a fresh value, or, with `elements`, the list with a fresh value at its end. Returns the value.

        base: the value of the state that the list was read from. Every write passes the gate BETWEEN_READ_AND_WRITE
        (`suites.worker.gates`).
        """

    def effect(self, job: int) -> bool:
        """Do something that cannot be undone, and that no fence can refuse. It passes the same gate.

        False, only in store mode `idempotency-key`: the job had been claimed before, and nothing was done.
        """

    def check(self) -> None:
        """Check the belief and pass the same gate, as before a write, but touch nothing."""

    def again(self) -> AbstractContextManager[None]:
        """Acquire the held lock once more, and release it at the end of the block. Only for reentrant locks."""

    def also(self, timeout: float, key: int | None = None) -> AbstractContextManager[HeldLock]:
        """Acquire another of the lane's keys as well, within `timeout` seconds, and release it at the end of the block.

        key: its index, None for the next. Nothing is acquired once the trial is over.
        """

    def downgraded(self) -> AbstractContextManager[HeldLock]:
        """Go on as a reader until the end of the block, and hold nothing after it. Only where `downgrades` is true."""

    def write_late(self) -> None:
        """Write on purpose after the release, under the old token. The store must refuse it if it has seen a later one.

        The worker does this where the workload is `late`. Never raises `Stopped`.
        """

    def work(self, seconds: float) -> None:
        """Work that takes a while and touches nothing."""

    def stays(self) -> bool:
        """Whether a fault is on, other than one on workers, whose end a long holder should see."""


def updates(hold: HeldLock) -> int:
    """How many updates of the cell a section makes: often several, between which the grant may be lost."""
    return hold.writes_per_grant or hold.rng.randint(1, MOST_UPDATES)


def step_of(hold: HeldLock) -> float:
    """Seconds that a step of work takes in a section that begins now."""
    every, lasts = BURST
    return hold.pace if (time.monotonic() + hold.burst) % every >= lasts else 0.0


class Workload(ABC):
    """What workers do while they hold the lock: one critical section, again and again."""

    name: ClassVar[str]
    properties: ClassVar[tuple[str, ...]] = ()  # what the section exercises beyond the lock's own properties
    # Whether a worker may, between two grants, write once more under its old token (fenced modes only): the deliberate
    # stale write that exercises the fence even when nothing else goes wrong.
    late: ClassVar[bool] = False
    again: ClassVar[bool] = True  # whether it may, between two grants, release once more what it has released
    readers: ClassVar[float] = 0.0  # share of the workers that acquire as readers, in turns, if the lock can be shared
    several: ClassVar[bool] = False  # whether the section acquires other locks as well
    nests: ClassVar[bool] = False  # whether the section acquires the held lock again, if the lock allows that
    # Indices of the keys that workers acquire first, dealt out in turn; empty: a random key. A worker that alone asks
    # for its key takes a new key, as long as there are some, when a request got no answer: nobody knows what keeps the
    # old one.
    order: ClassVar[tuple[int, ...]] = ()
    gives_up: ClassVar[float] = 0.0  # share of the rounds that ask for the lock with little patience, or only try
    unasked: ClassVar[tuple[str, ...]] = ()  # properties of the lock that the section cannot exercise
    stores: ClassVar[tuple[str, ...]] = ("unfenced",)  # in which it can run (`infra.store.store.Mode`, and `guarded`)
    # Whether a trial goes on after a fault until every worker has held its first lock again, and released it.
    returns: ClassVar[bool] = False
    least_ttl: ClassVar[float] = 0.0  # seconds: the TTL is not shorter, whatever the lock's `min_ttl` is
    holds: ClassVar[float] = 1.0  # how many TTLs a holder stays at most, as a rule: workers that wait are as patient
    waits: ClassVar[float] = 0.0  # seconds that the section waits longer for another lock than an acquire does
    keys: ClassVar[int] = 1  # how many locks the lane has, each with a cell of the store
    workers: ClassVar[int] = 3  # how many processes compete for them
    crowds: ClassVar[int] = 3  # how many of their first rounds begin at the same instants

    @abstractmethod
    def section(self, hold: HeldLock) -> None:
        """Runs once per grant, between the gates AFTER_ACQUIRE and BEFORE_RELEASE."""

    def rest(self, hold: HeldLock) -> None:
        """After the release, before the next round: nothing but work.

        Workers that give up mostly queue, and rest at times until nobody wants the lock: then a try is granted.
        """
        away = self.gives_up and hold.rng.random() < AWAY_SHARE
        hold.work(hold.pace * hold.rng.uniform(*(AWAY if away else (0.0, 0.3))))
