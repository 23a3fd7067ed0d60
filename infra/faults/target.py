"""What a fault is applied to: the nodes and links of one backend, the workers that use it, and the clock.

Who leads, who holds and who is hit is found out when the fault is applied. Times are ns, see `infra.waiting`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Self, cast

from infra.backends import STORE as STORE_KIND
from infra.background_writes import BackgroundWrites
from infra.faults.link_probe import Prober
from infra.network.links import BY_HAND
from infra.network.topology import GROUPS, STORE, client
from infra.waiting import Clock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.backends.backend import Backend
    from infra.cluster.nodes import Cluster, Node
    from infra.environment import Environment
    from infra.network.links import Links
    from infra.own_environment import OwnEnvironment

Kind = Literal[
    "cut", "slow", "reset", "pause", "kill", "restart", "wipe", "disk", "clock", "freeze", "stall", "call", "failover",
    "version", "refuse", "skew", "maintenance",
]  # fmt: skip
"""What a fault does, in a word."""

Gate = Literal[
    "after-acquire", "between-read-and-write", "before-release", "in-renewal", "while-waiting", "after-renewal",
    "at-request", "at-answer", "at-renewal-request", "at-renewal-answer", "between-requests",
]  # fmt: skip
"""Where a worker that holds the lock, or waits for it, can be hit: see `checkers.row_format.Gate`."""
Action = Literal["freeze", "stall", "kill", "die", "call", "lose", "late", "reset", "cancel"]
"""What is done to the worker at the gate: see `checkers.row_format.Action`. `die` is for the renewal alone."""
Verb = Literal["acquire", "renew", "release"]
"""What a client asks of a lock."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A worker that took an action at a gate."""

    lane: str
    process: int
    owner: int  # the grant that it held; if it waited, its session
    at: int  # ns; when it reached the gate, just before the action
    target: str  # for people: "worker 2 of redis/register/unfenced"
    key: int = -1  # index of the key that it holds, or waits for; -1 where a lane has only one
    group: str = ""  # its client group, as an end of links: c1, c2, c3


@dataclass(frozen=True, slots=True)
class Aim:
    """Which action is done at which gate, and to which workers. A worker that is still caught is left out."""

    gate: Gate
    action: Action
    key: int = -1  # only a worker that holds, or waits for, the key of this index; -1: any
    group: str = ""  # only workers of this client group; "": any
    # Only the worker of this victim, although another thread of it is caught; None: any.
    worker: Victim | None = None
    # How long a `call` takes. For a `freeze`: how long after the start of the worker's next request; 0: at the gate.
    seconds: float = 0.0
    by: str = BY_HAND  # the key of the fault: see `Actors.let_go`
    among: tuple[int, ...] = ()  # only workers of these numbers; (): all
    verb: Verb = "acquire"  # for gates at requests and answers: the verb; message: the number in that verb, from 1
    message: int = 0


class Actors:
    """The workers of all lanes of a trial; the suites implement this.

    ttl: seconds; the longest TTL of the lanes. A subclass leaves out what its workers are never asked.
    """

    ttl: float

    def lanes(self) -> Sequence[str]:
        """The names of the lanes whose workers can be hit."""
        raise NotImplementedError

    def guarded(self) -> Sequence[str]:
        """Those of the lanes whose data the lock service keeps."""
        return ()

    def arm(self, lane: str, aim: Aim) -> None:
        """From now on a worker of the lane that reaches the gate takes the action. Several do if they come at once.

        Forgets the victims of an earlier arming of the same `Aim.among`, so `caught` starts empty; does not thaw them.
        """

    def caught(self, lane: str, among: tuple[int, ...] = ()) -> Sequence[Victim]:
        """The victims since the lane was armed for these workers, the earliest first."""
        raise NotImplementedError

    def kill_waiter(self, lane: str, key: int) -> Victim | None:
        """Kill the longest waiter for the key, if another waits behind it or none comes soon. None: nobody yet."""
        raise NotImplementedError

    def skew(self, seconds: Sequence[float], by: str) -> Sequence[Victim]:
        """Move wall clocks in each lane, the n-th living worker's by the n-th of `seconds`, until `let_go` of this key.

        Returns the workers whose clocks have followed; the clock of a frozen worker does not.
        """
        raise NotImplementedError

    def disarm(self, lane: str, among: tuple[int, ...] = ()) -> None:
        """From now on none of these workers takes the action. When this returns, `caught` knows all that did."""

    def thaw(self, victim: Victim) -> None:
        """Let the victim go on, or end its call early. A worker whose renewal died gets a new one. Idempotent."""

    def settled(self, victim: Victim) -> bool:
        """Whether the victim, since it was thawed, has ended the round that it was caught in, release included (if it
        was caught in a renewal: only that renewal), or the worker no longer lives.
        """
        raise NotImplementedError

    def let_go(self, by: str) -> None:
        """Disarm what this key armed, thaw its victims, the latest first, set right the clocks it moved. Idempotent."""

    def release_all(self) -> None:
        """Disarm every lane and let every worker go on. Idempotent; works also when workers have died."""

    # --- for faults that need a tap between workers and their links ---

    def pairs(self, lane: str) -> Sequence[tuple[int, ...]]:
        """For each lock of a lane: the numbers of the workers that have the lock to themselves."""
        raise NotImplementedError

    def rounds(self, lane: str, among: tuple[int, ...], verb: Verb) -> int:
        """How many rounds have ended, all in all, in those threads of these workers that do this verb."""
        raise NotImplementedError

    def messages(self, lane: str, among: tuple[int, ...], verb: Verb) -> Sequence[int]:
        """How often this verb of these workers got a first message from the server, how often a second, and so on."""
        raise NotImplementedError

    def revive(self, lane: str) -> None:
        """Replace the dead workers of a lane."""

    def note(self, lane: str, verb: str, messages: int, hit: Sequence[int]) -> None:
        """Note how many messages a verb of the lane's lock takes, and at which of them the verb was hit."""


@dataclass(frozen=True, slots=True)
class Hit:
    """What was hit, and when. The runner fills in times that are 0: such a hit is healed with the rest."""

    kind: Kind
    target: str  # for people, resolved: "etcd2 (leader) from etcd1, etcd3"
    begun: int  # ns; the start of the application
    applied: int  # ns; its proof
    healing: int = 0  # ns; 0 unless the fault healed this hit by itself
    healed: int = 0  # ns; as `healing`
    owner: int = 0  # for faults on workers: the grant (of a waiting worker: the session)
    process: int = -1  # for faults on workers
    lane: str = ""  # the lane of that worker; "" for a fault that hits all lanes
    # (client group, node): while it lasts, no question of the group to the node gets an answer. Group "": all groups.
    silent: tuple[tuple[str, str], ...] = ()


STORE_PROBER: Final = Prober(STORE_KIND)

MASKED_FOR: Final = 5.0
"""Seconds to wait for an effect while another fault is on: the other fault may prevent the effect altogether."""


@dataclass(frozen=True, slots=True)
class Target:
    """What the faults of one trial are done to."""

    environment: Environment
    cluster: Cluster
    # (client group, node or STORE) -> `host:port` of that node, or of the store, through the links of the group
    endpoints: Mapping[tuple[str, str], str]
    actors: Actors
    clock: Clock
    prober: Prober  # asks the nodes through the links
    writes: BackgroundWrites  # the client that writes beside the locks
    by: str = BY_HAND  # the key under which this fault acts, for the verbs of links and nodes
    alone: bool = True  # whether no other fault is on. If one is, it may mask what a proof looks for: see `link_proof`
    store_prober: Prober = STORE_PROBER  # asks the store

    @classmethod
    def of(cls, environment: Environment, backend: str, actors: Actors) -> Self:
        """The target of a backend in an environment. Raises KeyError unless the backend was booted there."""
        cluster = environment.cluster(backend)
        endpoints = {
            (client(group), node.name): environment.endpoints_of(node.name, group)
            for group in GROUPS
            for node in cluster.nodes
        }
        endpoints |= {(client(group), STORE): environment.store_endpoint(group) for group in GROUPS}
        prober = Prober(cluster.kind, environment.access(backend))
        writes = BackgroundWrites(cluster.kind, cluster.nodes)
        return cls(environment, cluster, endpoints, actors, Clock(), prober, writes)

    @property
    def kind(self) -> Backend:
        """The kind of server that the nodes are."""
        return self.cluster.kind

    @property
    def backend(self) -> str:
        return self.kind.name

    @property
    def links(self) -> Links:
        return self.environment.links

    @property
    def client_links(self) -> list[tuple[str, str]]:
        """(client group, node) for each link between clients and nodes."""
        return [link for link in self.endpoints if link[1] != STORE]

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the nodes, in order."""
        return tuple(node.name for node in self.cluster.nodes)

    @property
    def own(self) -> OwnEnvironment:
        """The environment, for faults whose needs (`Fault.needs`) are met only if the clusters are ours."""
        return cast("OwnEnvironment", self.environment)

    def patience(self, seconds: float) -> float:
        """Seconds to wait for an effect. seconds: the most that the effect takes while no other fault is on."""
        return seconds if self.alone else MASKED_FOR

    def node(self, name: str) -> Node:
        """The node of this name. Raises KeyError for a node of another backend."""
        return {node.name: node for node in self.cluster.nodes}[name]
