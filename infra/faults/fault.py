"""What a fault is, and what several faults need: find the leader, await its successor, await a whole cluster."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self

from infra.backends import BACKENDS
from infra.backends.backend import Trait
from infra.cluster.node_repair import mend
from infra.cluster.nodes import Node
from infra.errors import Failed
from infra.faults.fault_options import Members, Option, Options, Site, checked, drawn
from infra.faults.link_probe import LinkAnswer
from infra.faults.target import Hit, Kind, Target

Need = Literal[
    "client-links", "peer-links", "store-link", "refusal", "pause", "kill", "stop", "wipe", "clock", "disk", "version",
    "failover", "workers", "tap", "load", "maintenance", "skew",
]  # fmt: skip
"""What must be possible for a fault. `stop`: stop a server in good order. `refusal`: refuse a client's connections.
`tap`: read the messages between a client and its links. `load`: write keys beside the locks. `skew`: move the wall
clock of a worker."""

Group = Literal["links", "servers", "clocks", "workers", "store"]  # what a fault is done to

PROVEN_WITHIN: Final = 3.0
"""Seconds within which a cut must show; measured: 20-300 ms."""
EFFECT_WITHIN: Final = 20.0
"""Seconds for peers to notice a fault. When bytes vanish, ZooKeeper takes 3, at times 8, longer on a busy machine."""
HEALED_WITHIN: Final = 40.0
"""Seconds within which a healed cluster must be whole: 0.1-7 measured, on an idle machine."""
SPANS: Final = (0.5, 1.0, 1.5, 2.0, 3.0)
"""How long most faults last, in `Fault.unit`s: a lease outlives the fault, or ends during it, or the next ends too."""
LOOK_EVERY: Final = 0.05
"""Seconds between two questions to a node. Questions without a pause make an election take longer."""


class FaultInjection(ABC):
    """A fault with every choice made. Only `apply` finds out who leads and who holds.

    Faults overlap. A fault acts on links and nodes under its key `target.by`, and heals them under the same key.
    """

    __slots__ = ()

    @abstractmethod
    def describe(self) -> str:
        """For people, before the run: "cut clients c2 from all nodes (drop)"."""

    @abstractmethod
    def apply(self, target: Target) -> Sequence[Hit]:
        """Apply the fault; return its hits once it is proven, [] if nobody can be hit. After Failed `heal` is due."""

    def heal(self, target: Target) -> None:
        """Undo what this injection did, whoever was hit, and nothing else. Idempotent. Raises Failed.

        Returns when that is undone. The runner waits for a whole cluster only when no other fault is on. A class that
        is a base of others undoes its own part, then calls the next one.
        """
        del target  # nothing is left of a fault that is over at once


class OnNodes(FaultInjection):
    """A fault injection whose heal lets all nodes go (`Node.let_go`)."""

    __slots__ = ()

    def heal(self, target: Target) -> None:
        for node in target.cluster.nodes:
            node.let_go(target.by)
        super().heal(target)


class OnWorkers(FaultInjection):
    """A fault injection whose heal lets its workers go (`Actors.let_go`)."""

    __slots__ = ()

    def heal(self, target: Target) -> None:
        target.actors.let_go(target.by)
        super().heal(target)


@dataclass(frozen=True, slots=True)
class World:
    """What faults can be done here, and to whom."""

    missing: Mapping[Need, str] = field(default_factory=dict)  # what is not possible -> the reason why
    members: Members = ()  # the names of the members of a target's cluster; () where the cluster is one of ours

    def without(self, need: Need, reason: str) -> Self:
        """A copy in which this need is not possible either."""
        return replace(self, missing={**self.missing, need: reason})


OURS: Final = World()
"""Clusters of ours, reached over their bridges: everything is possible."""
PUBLISHED: Final = "through a published port a refused connection is accepted first"
"""Why `refusal` is not possible where clients come through published ports: Docker accepts a connection first."""
NO_CLOCK: Final = "these servers run an image of your own, whose clock cannot be moved"
"""Why `clock` is not possible where `infra.cluster.clock_skew.in_image` says no."""
NO_TAP: Final = "messages are counted only where a trial starts the clients"
"""Why `tap` is not possible by hand."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault, as `all_faults` lists it."""

    name: str  # as in plans and on the command line
    kind: Kind  # what it does, as `FaultInterval.kind`
    summary: str  # one line for people who choose
    # (site, the checked options by name) -> the injection. Raises ValueError("option: what is wrong").
    inject: Callable[..., FaultInjection]
    options: tuple[Option, ...] = ()  # what a plan fixes about the fault, in the order in which values are drawn
    # How long the fault lasts by default, in `Fault.unit`s: a seed draws one of these; () if it is over at once.
    spans: tuple[float, ...] = ()
    # The unit of `spans`: a lease, an election (a lease if the backend has none), or the longest call of a client.
    about: Literal["lease", "election", "call"] = "lease"
    trait: Trait | None = None  # what the backend must have; `Backend.lacks` says why it does not
    needs: tuple[Need, ...] = ()  # what must be possible
    least: int = 1  # the fewest nodes that it takes; a target may have fewer than our clusters
    how: str = ""  # how it is done, in a few words
    sees: str = ""  # what a client sees of it, in a few words
    planned: str = ""  # why the fault needs a plan that sets its options, "" if it can be asked for by its name alone
    lasting: bool = False  # whether its effect is never undone, so that a plan with it can be run only once
    # For a fault on the session of a waiting worker: by how many seconds an acquire must wait longer than usual, so
    # that the fault can show.
    waits: float = 0.0
    strikes: Literal["", "renewal", "cancel"] = ""  # what the lock must support: renewals, or to give up when told
    workload: str = ""  # the workload whose lanes it strikes; they meet only such faults. "": all other workloads

    @property
    def group(self) -> Group:
        """What the fault is done to. A fault at a step of a worker is a fault on workers, whatever else it does."""
        if "store-link" in self.needs:
            return "store"
        if self.kind in ("clock", "skew"):
            return "clocks"
        if "workers" in self.needs:
            return "workers"
        return "links" if self.kind in ("cut", "slow", "reset") else "servers"

    @property
    def brief(self) -> str:
        """What it does, as a sentence."""
        return f"{self.summary[:1].upper()}{self.summary[1:]}."

    @property
    def text(self) -> str:
        """Three sentences: what it does, how it is done, what a client sees."""
        return f"{self.brief} How it is done: {self.how}. What a client sees: {self.sees}."

    @property
    def passes(self) -> bool:
        """Whether the whole fault happens in `apply`, so that nothing of it can stay on for a while."""
        return self.lasting or not (self.spans or self.planned)

    def make(self, backend: str, options: Options, members: Members = ()) -> FaultInjection:
        """The injection with these options. Raises ValueError("option: what is wrong")."""
        site = Site.of(backend, members)
        return self.inject(site, **checked(self.asked(site), options, site))

    def choose(self, rng: random.Random, backend: str, members: Members = ()) -> dict[str, Any]:
        """Random values for the options that are left to chance, as plain JSON."""
        site = Site.of(backend, members)
        return drawn(self.asked(site), rng, site)

    def asked(self, site: Site) -> list[Option]:
        """The options that the fault has at this site."""
        return [option for option in self.options if not (option.unless and site.has(option.unless))]

    def unit(self, backend: str, ttl: float) -> float:
        """Seconds of one unit of `spans`. ttl: the longest of the locks that are tried."""
        kind = BACKENDS[backend]
        return {"lease": ttl, "election": kind.election or ttl, "call": kind.call}[self.about]

    def lasts(self, rng: random.Random, backend: str, ttl: float) -> float:
        """A random time for which the fault lasts, in seconds."""
        return round(rng.choice(self.spans) * self.unit(backend, ttl), 3) if self.spans else 0.0

    def applies(self, backend: str, world: World = OURS) -> str | None:
        """None, or the reason why it cannot be done to this backend in this world."""
        site = Site.of(backend, world.members)
        if self.trait and not site.has(self.trait):
            return site.backend.lacks[self.trait]
        if (there_are := len(site.members)) < self.least:
            return f"it takes {self.least} nodes, and here {'is' if there_are == 1 else 'are'} {there_are}"
        return next((reason for need, reason in world.missing.items() if need in self.needs), None)


class Nobody(Failed):
    """No node or worker is in the role that a fault is aimed at. This is no error while another fault is on."""


def leader(target: Target, within: float = EFFECT_WITHIN) -> Node:
    """The node that leads now. Waits at most `within` seconds for an election to end. Raises Nobody if none leads."""
    node = target.clock.wait(target.patience(within), target.cluster.leader, LOOK_EVERY)
    if node is None:
        raise Nobody(f"{target.backend} has no leader to be hit")
    return node


def await_noticed(target: Target, noticed: Callable[[], bool], otherwise: str) -> str:
    """Wait until nodes notice the fault. Returns "", or a remark if they do not. otherwise: "no successor within"."""
    patience = target.patience(EFFECT_WITHIN)
    return "" if target.clock.wait(patience, noticed, LOOK_EVERY) else f"; {otherwise} {patience:.0f} s"


def await_successor(target: Target, old: Node) -> str:
    """Wait until the other nodes follow a new leader. Returns "", or a remark if they do not."""
    if len(target.cluster.nodes) == 1:
        return ""

    def succeeded() -> bool:
        healths = [None if node is old else node.health() for node in target.cluster.nodes]
        return target.kind.leader(healths) is not None

    return await_noticed(target, succeeded, "no successor within")


def await_whole(target: Target) -> None:
    """Wait until every link answers and all members serve and follow one leader. Raises Failed.

    A server that ended by itself is started again: one that found its disk full, say, or none of its peers. A learner
    gets its vote.
    A failover that could not be undone while other faults were on is undone first.
    """
    if target.kind.has(Trait.REPLICA) and (pair := target.environment.failover()):
        pair.fail_back()
    endpoints = [target.endpoints[link] for link in target.client_links]

    def whole() -> bool:
        if not target.cluster.ready():
            for node in target.cluster.nodes:
                mend(node, target.cluster)
            return False
        answers = target.prober.ask_all(endpoints, patience=1.0)
        return all(answer is LinkAnswer.ANSWERED for answer in answers)

    if not target.clock.wait(HEALED_WITHIN, whole, LOOK_EVERY):
        raise Failed(f"{target.backend} is not whole again {HEALED_WITHIN:.0f} s after the heal")


def always(injection: FaultInjection) -> Callable[[Site], FaultInjection]:
    """`Fault.inject` for a fault that leaves nothing to chance."""
    return lambda _: injection
