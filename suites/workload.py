"""What a workload is: what a worker does while it holds the lock, and what it is allowed to ask of the hold."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import ClassVar, Protocol


class Stopped(Exception):
    """The section must end now: the client no longer believes that it holds, was refused, or has no answer."""


class Hold(Protocol):
    """The inside of a critical section. Each access first asks the client's belief, then goes to the store.

    `read` and `write` raise `Stopped` when the belief is gone, the store refused, or an answer was lost: a holder
    whose write is unknown writes no more under that token.
    """

    rng: random.Random
    pace: float
    """Seconds that a short step of work takes here; slower backends get longer ones."""
    writes_per_grant: int | None
    """How many writes the store mode lets one grant do, None for any number."""

    def read(self) -> tuple[int, Sequence[int]]:
        """(value, elements) of the protected cell; value is -1 while it was never written."""

    def write(self, *, base: int | None = None, elements: Sequence[int] | None = None) -> int:
        """Write a fresh value, or, with `elements`, the list with a fresh value at its end. Returns the value.

        base: the value of the state that the list was read from. Every write comes by the gate
        BETWEEN_READ_AND_WRITE (`suites.gates`).
        """

    def work(self, seconds: float) -> None:
        """Work that takes a while and touches nothing."""


class Workload(Protocol):
    """One critical section, again and again.

    properties  what the section exercises beyond the lock's own properties.
    late        whether a worker may, between two grants, write once more under its old token (fenced modes only):
                the deliberate stale write that exercises the fence even when nothing else goes wrong.
    readers     the share of the rounds that ask for the lock beside other readers, where it can do that.
    nests       whether the section acquires again what it holds, where the lock allows it.
    keys        how many locks the lane has, and with them cells of the store.
    workers     how many processes compete for them.
    """

    name: ClassVar[str]
    properties: ClassVar[tuple[str, ...]]
    late: ClassVar[bool]
    readers: ClassVar[float]
    nests: ClassVar[bool]
    keys: ClassVar[int]
    workers: ClassVar[int]

    def section(self, hold: Hold) -> None:
        """Runs once per grant, between the gates AFTER_ACQUIRE and BEFORE_RELEASE."""
