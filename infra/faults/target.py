"""What a fault is applied to: the nodes and links of one backend, the workers that use it, and the clock.

Who leads, who holds and whom it hits is found out at the moment of impact. Times are ns, see `infra.waiting`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, Self, cast

from infra.backends import BACKENDS, STORE
from infra.background_writes import BackgroundWrites
from infra.faults.link_probe import Prober
from infra.network import topology
from infra.network.links import BY_HAND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.backends.backend import Backend
    from infra.cluster.nodes import Cluster, Node
    from infra.environment import Environment
    from infra.network.links import Links
    from infra.own_environment import OwnEnvironment
    from infra.waiting import Clock

Kind = Literal[
    "cut", "slow", "reset", "pause", "kill", "restart", "wipe", "disk", "clock", "freeze", "stall", "call", "failover",
    "version", "refuse", "skew", "maintenance",
]  # fmt: skip
"""What a fault does, in a word."""

Gate = Literal[
    "after-acquire", "between-read-and-write", "before-release", "in-renewal", "while-waiting", "after-renewal",
    "at-request", "at-answer", "at-renewal-request", "at-renewal-answer",
]  # fmt: skip
"""Where a worker that holds the lock, or waits for it, can be hit: see `checkers.row_format.Gate`."""
Action = Literal["freeze", "stall", "kill", "die", "call", "lose", "late", "reset", "cancel"]
"""What is done to it there: see `checkers.row_format.Action`. `die` is for the renewal alone."""
Verb = Literal["acquire", "renew", "release"]
"""What a client asks of a lock."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A worker that took an action at a gate."""

    lane: str
    process: int
    owner: int  # the grant that it held, or the session of one who waits
    at: int  # ns; when it reached the gate, just before the action
    target: str  # for people: "worker 2 of redis/register/unfenced"
    key: int = -1  # index of the key that it holds, or waits for; -1 where a lane has only one
    group: str = ""  # its client group, as an end of links: c1, c2, c3


@dataclass(frozen=True, slots=True)
class Aim:
    """What is done to whom, and where: to a worker that nothing has been done to yet."""

    gate: Gate
    action: Action
    key: int = -1  # only to who holds, or waits for, the key of this index; -1: to any
    group: str = ""  # only to workers of this client group; "": of any
    # Only to the worker of this victim, though something has been done to another thread of it; None: to any.
    worker: Victim | None = None
    # How long a `call` takes; how long after the worker has asked for what comes next a `freeze` does.
    seconds: float = 0.0
    by: str = BY_HAND  # under whose key: see `Actors.let_go`
    among: tuple[int, ...] = ()  # only workers of these numbers; (): of all
    verb: Verb = "acquire"  # at a request or an answer: of what; message: its number in that, from 1
    message: int = 0


class Actors(Protocol):
    """The workers of all lanes of a trial; the suites fill it in."""

    @property
    def ttl(self) -> float:
        """Seconds; the longest TTL of the lanes."""

    def lanes(self) -> Sequence[str]:
        """The names of the lanes whose workers can be hit."""

    def arm(self, lane: str, aim: Aim) -> None:
        """From now on a worker of the lane that reaches the gate takes the action, several if they come at once.

        Forgets whom an earlier arming of the same `Aim.among` caught (`caught` starts empty): they do not go on.
        """

    def caught(self, lane: str, among: tuple[int, ...] = ()) -> Sequence[Victim]:
        """Who took the action since the lane was armed for these workers, the earliest first."""

    def kill_waiter(self, lane: str, key: int) -> Victim | None:
        """Kill who has waited longest for this key, if another waits behind it or none comes soon. None: nobody yet."""

    def skew(self, seconds: Sequence[float], by: str) -> Sequence[Victim]:
        """Move the wall clocks of as many workers of each lane, each by so many seconds, until `let_go` of this key.

        Those are returned whose clocks have followed: not who is frozen.
        """

    def disarm(self, lane: str, among: tuple[int, ...] = ()) -> None:
        """Nobody of these takes the action from now on. When it returns, `caught` knows everybody who did."""

    def thaw(self, victim: Victim) -> None:
        """Let it go on, or end a call early; one whose renewal died gets another. Idempotent."""

    def settled(self, victim: Victim) -> bool:
        """Whether what it was doing when it was caught has ended since it was thawed, its release included (only its
        renewal, where it was caught in that), or the worker no longer lives.
        """

    def let_go(self, by: str) -> None:
        """Disarm what this key armed, thaw whom that caught, the latest first, set its clocks right. Idempotent."""

    def release_all(self) -> None:
        """Disarm every lane and let everybody go on. Idempotent; also when workers have died."""


class TappedActors(Actors, Protocol):
    """Workers with a tap between them and their links, for faults that need one: who they are, and what it counted."""

    def pairs(self, lane: str) -> Sequence[tuple[int, ...]]:
        """The numbers of the workers of a lane that have a lock to themselves, for each of its locks."""

    def rounds(self, lane: str, among: tuple[int, ...], verb: Verb) -> int:
        """How many rounds the threads of these workers that do this have ended, all in all."""

    def messages(self, lane: str, among: tuple[int, ...], verb: Verb) -> Sequence[int]:
        """How many such verbs of these workers had a first message from the server, how many a second, and so on."""

    def revive(self, lane: str) -> None:
        """Replace the dead workers of a lane."""

    def note(self, lane: str, verb: str, messages: int, hit: Sequence[int]) -> None:
        """What was found out of a verb of the lane's lock: how many messages it takes, and at which it was hit."""


@dataclass(frozen=True, slots=True)
class Hit:
    """What was hit, and when. Zero times are filled in by the runner: healed with the rest.

    target           for people, resolved: "etcd2 (leader) from etcd1, etcd3".
    begun, applied   ns; from the start of the application to its proof.
    healing, healed  ns; 0 unless the fault healed this one by itself.
    owner, process   the grant held, or the session of one who waits, and the process, for faults on workers.
    lane             of such a worker; "" for what hits all lanes.
    """

    kind: Kind
    target: str
    begun: int
    applied: int
    healing: int = 0
    healed: int = 0
    owner: int = 0
    process: int = -1
    lane: str = ""


STORE_PROBER: Final = Prober(STORE)

MASKED_FOR: Final = 5.0
"""Seconds to wait for an effect while another fault is on, which may prevent it altogether."""


@dataclass(frozen=True, slots=True)
class Target:
    """What the faults of one trial are done to."""

    backend: str
    cluster: Cluster
    links: Links
    groups: tuple[str, ...]  # client groups as ends of links: c1, c2, c3
    endpoints: Mapping[tuple[str, str], str]  # (group, node) -> `host:port` of the node through the links of that group
    actors: Actors
    clock: Clock
    prober: Prober  # asks the nodes through the links
    environment: Environment  # for what only it can do: the store's links, disks, failover
    writes: BackgroundWrites  # the client that writes beside the locks
    by: str = BY_HAND  # the key under which this fault does what it does, for the verbs of links and nodes
    alone: bool = True  # whether no other fault is on. If one is, it may mask what a proof looks for: see `link_proof`
    store_prober: Prober = STORE_PROBER  # asks the store

    @classmethod
    def of(cls, environment: Environment, backend: str, actors: Actors, clock: Clock) -> Self:
        """A backend of an environment that was booted there; KeyError otherwise."""
        cluster = environment.cluster(backend)
        endpoints = {
            (topology.client(group), node.name): endpoint
            for group in topology.GROUPS
            for node, endpoint in zip(cluster.nodes, environment.endpoints(backend, group), strict=True)
        }
        groups = tuple(map(topology.client, topology.GROUPS))
        kind = BACKENDS[backend]
        prober = Prober(kind, environment.access(backend))
        writes = BackgroundWrites(kind, [node.address for node in cluster.nodes])
        return cls(backend, cluster, environment.links, groups, endpoints, actors, clock, prober, environment, writes)

    @property
    def kind(self) -> Backend:
        """The kind of server that the nodes are."""
        return BACKENDS[self.backend]

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the nodes, in order."""
        return tuple(node.name for node in self.cluster.nodes)

    @property
    def own(self) -> OwnEnvironment:
        """The environment, for faults whose needs (`Fault.needs`) are met where the clusters are ours alone."""
        return cast("OwnEnvironment", self.environment)

    def patience(self, seconds: float) -> float:
        """Seconds to wait for an effect that takes so long at most while no other fault is on."""
        return seconds if self.alone else MASKED_FOR

    def node(self, name: str) -> Node:
        """By name; KeyError for one of another backend."""
        return {node.name: node for node in self.cluster.nodes}[name]
