"""The specification of a worker, sent to the fork server as one JSON object."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from infra.access import OPEN, Access
from infra.network import topology

GUARDED: Final = "guarded"
"""The one store mode that is not the store's: the lock service keeps the data (`suites.lock.Guards`)."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Everything a worker needs. Times in seconds."""

    recordings: str  # the folder for the worker's recording
    lane: str
    lock: str  # a spelling that `suites.locks.registry` knows
    endpoints: tuple[str, ...]
    ttl: float
    workload: str  # `module:Class`
    store_dsn: str
    store_mode: str
    keys: tuple[str, ...]  # names of the locks, equal to the keys in the store
    number: int  # this worker's among those of its lane (see `process` in `checkers.row_format`)
    count: int  # how many these are
    seed: str
    acquire_timeout: float
    store_timeout: float
    pace: float  # how long a short step of work takes; slower backends get longer ones
    # Rounds per second that the worker begins, at random times (a Poisson process), whether those before have ended or
    # not; 0: a round begins when the last one is over.
    rate: float = 0.0
    generation: int = 0  # how many workers of this number have died before
    access: Access = OPEN  # how the endpoints let us in; it is not written to any file

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The inverse of `dataclasses.asdict`."""
        tuples = {name: tuple(fields[name]) for name in ("endpoints", "keys")}
        return cls(**{**fields, **tuples, "access": Access(**fields["access"])})

    @property
    def recording(self) -> Path:
        return Path(self.recordings) / f"{self.lane.replace('/', '.')}.{self.number}.{self.generation}.rec"

    @property
    def name(self) -> str:
        return f"worker {self.number} of {self.lane}"

    @property
    def group(self) -> str:
        """Its client group, as an end of links: c1, c2, c3."""
        return topology.client(group_of(self.number))

    @property
    def step(self) -> int:
        """The distance from one process number of a thread to its next."""
        return 2 * self.count

    @property
    def first_process(self) -> int:
        """The first process number of the main thread; the renewal thread's is `count` above."""
        return self.number + self.generation * _PER_GENERATION * self.step

    @property
    def first_value(self) -> int:
        """The first value that it writes; the next ones are `count` apart, so that no two workers write the same."""
        return self.number + self.generation * _PER_GENERATION * self.count


def group_of(number: int) -> int:
    """The client group of the worker of this number: workers are dealt out to the groups in turn."""
    return topology.GROUPS[number % len(topology.GROUPS)]


_PER_GENERATION = 1 << 16  # process numbers, and values, for one generation of a worker; its recording has fewer rows


class Process:
    """The process number of one thread of a worker: a new one after each unknown outcome."""

    __slots__ = ("_step", "number")

    def __init__(self, number: int, step: int) -> None:
        self.number = number
        self._step = step

    def crashed(self) -> None:
        """Take a new number: the present one has an operation without an answer and is never used again."""
        self.number += self._step
