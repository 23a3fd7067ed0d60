"""What a fault is done to: the nodes and links of one backend, the workers that use it, and the clock.

Who leads, who holds and whom it hits is found out at the moment of impact. Times are nanoseconds of CLOCK_MONOTONIC,
the clock of every record.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, Self

from infra import star
from infra.links import BY_HAND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from infra.environment import Environment
    from infra.links import Links
    from infra.nodes import Cluster, Node

Kind = Literal[
    "cut", "slow", "reset", "pause", "kill", "restart", "wipe", "disk", "clock", "freeze", "stall", "call", "failover",
    "version",
]  # fmt: skip
"""What a fault does, in a word."""

Gate = Literal["after-acquire", "between-read-and-write", "before-release", "in-renewal", "while-waiting"]
"""Where a worker that holds the lock, or waits for it, can be hit: see `checkers.wire.Gate`."""
Action = Literal["freeze", "stall", "kill", "die", "call"]
"""What is done to it there: see `checkers.wire.Action`. `die` is for the renewal alone."""

POLL: Final = 0.005
"""Seconds between two looks at a condition that costs nothing, such as a byte of shared memory."""


class Stopped(Exception):
    """The trial was told to stop while a fault waited."""


class Clock(Protocol):
    """Time as the faults see it; tests bring one of their own."""

    def now(self) -> int:
        """The present time in ns."""

    def wait(self, seconds: float, until: Callable[[], bool] | None = None, every: float = POLL) -> bool:
        """Wait until the condition is true, looking `every` so many seconds, `seconds` at most; whether it came true.

        Raises Stopped.
        """


class MonotonicClock:
    """The real one. Setting `stop` ends every wait with Stopped."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self._stop = stop or threading.Event()

    def now(self) -> int:
        """The present time in ns of CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def wait(self, seconds: float, until: Callable[[], bool] | None = None, every: float = POLL) -> bool:
        """See `Clock`. The condition is looked at once more when the time is over."""
        deadline = time.monotonic() + seconds
        while True:
            late = (left := deadline - time.monotonic()) <= 0
            if until is not None and until():
                return True
            if late:
                return False
            if self._stop.wait(left if until is None else min(every, left)):
                raise Stopped


@dataclass(frozen=True, slots=True)
class Victim:
    """A worker that took an action at a gate.

    owner   the grant that it held, or the session of one who waits.
    at      ns; when it reached the gate, just before the action.
    target  for people: "worker 2 of redis/register/unfenced".
    key     index of the key that it holds, or waits for; -1 where a lane has only one.
    group   its client group, as an end of links: c1, c2, c3.
    """

    lane: str
    process: int
    owner: int
    at: int
    target: str
    key: int = -1
    group: str = ""


@dataclass(frozen=True, slots=True)
class Aim:
    """What is done to whom, and where: to a worker that nothing has been done to yet.

    key      only to who holds, or waits for, the key of this index; -1: to any.
    group    only to workers of this client group; "": of any.
    worker   only to the worker of this victim, though something has been done to another thread of it; None: to any.
    seconds  how long a `call` takes; how long after the worker has asked for what comes next a `freeze` does.
    by       under whose key: see `Actors.let_go`.
    """

    gate: Gate
    action: Action
    key: int = -1
    group: str = ""
    worker: Victim | None = None
    seconds: float = 0.0
    by: str = BY_HAND


class Actors(Protocol):
    """The workers of all lanes of a trial; the suites fill it in."""

    @property
    def ttl(self) -> float:
        """Seconds; the longest TTL of the lanes."""

    def lanes(self) -> Sequence[str]:
        """The names of the lanes whose workers can be hit."""

    def arm(self, lane: str, aim: Aim) -> None:
        """From now on a worker of the lane that reaches the gate takes the action, several if they come at once.

        Forgets whom an earlier arming caught (`caught` starts empty), without letting them go on.
        """

    def caught(self, lane: str) -> Sequence[Victim]:
        """Who took the action since the lane was armed, the earliest first."""

    def disarm(self, lane: str) -> None:
        """Nobody takes the action from now on. When it returns, `caught` knows everybody who did."""

    def thaw(self, victim: Victim) -> None:
        """Let it go on, or end a call early; one whose renewal died gets another. Idempotent."""

    def settled(self, victim: Victim) -> bool:
        """Whether what it was at when it was caught has ended since it was thawed, or the worker no longer lives.

        That is, its release included, or its renewal, where it was caught in that.
        """

    def let_go(self, by: str) -> None:
        """Disarm what was armed under this key, and thaw whom that caught, the latest first. Idempotent."""

    def release_all(self) -> None:
        """Disarm every lane and let everybody go on. Idempotent; also when workers have died."""


@dataclass(frozen=True, slots=True)
class Hit:
    """What was hit, and when. Zero times are filled in by the runner: healed with the rest.

    target           for people, resolved: "etcd2 (leader) from etcd1, etcd3".
    begun, applied   ns; from the start of the application to its proof.
    healing, healed  ns; 0 unless the fault healed this one by itself.
    owner, process   the grant held, or the session of one who waits, and the process, for faults on workers.
    """

    kind: Kind
    target: str
    begun: int
    applied: int
    healing: int = 0
    healed: int = 0
    owner: int = 0
    process: int = -1


@dataclass(frozen=True, slots=True)
class Target:
    """What the faults of one trial are done to.

    groups       client groups as ends of links: c1, c2, c3.
    endpoints    (group, node) -> `host:port` of the node through the links of that group.
    environment  for what only it can do: the store's links, disks, failover.
    by           the key under which this fault does what it does, for the verbs of links and nodes.
    alone        whether no other fault is on. If one is, it may mask what a proof looks for: a link that should be
                 silent may refuse. A proof then accepts whatever the others can make of it, but never that nothing is.
    """

    backend: str
    cluster: Cluster
    links: Links
    groups: tuple[str, ...]
    endpoints: Mapping[tuple[str, str], str]
    actors: Actors
    clock: Clock
    environment: Environment
    by: str = BY_HAND
    alone: bool = True

    @classmethod
    def of(cls, environment: Environment, backend: str, actors: Actors, clock: Clock) -> Self:
        """A backend of an environment that was booted there; KeyError otherwise."""
        endpoints = {
            (star.client(group), node): endpoint
            for group in star.GROUPS
            for node, endpoint in zip(star.members(backend), environment.endpoints(backend, group), strict=True)
        }
        groups = tuple(map(star.client, star.GROUPS))
        cluster = environment.cluster(backend)
        return cls(backend, cluster, environment.links, groups, endpoints, actors, clock, environment)

    def node(self, name: str) -> Node:
        """By name; KeyError for one of another backend."""
        for node in self.cluster.nodes:
            if node.name == name:
                return node
        raise KeyError(name)
