"""What a fault is, and what several of them need: the leader, its successor, and the way back to a whole cluster."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol, Self

from infra.backends import BACKENDS
from infra.backends.backend import Trait
from infra.cluster.nodes import Node
from infra.errors import Failed
from infra.faults.fault_options import Members, Option, Options, Site, checked, drawn
from infra.faults.link_probe import LinkAnswer
from infra.faults.target import Hit, Kind, Target

Need = Literal[
    "client-links", "peer-links", "store-link", "refusal", "pause", "kill", "stop", "wipe", "clock", "disk", "version",
    "failover", "workers", "tap", "load", "maintenance", "skew",
]  # fmt: skip
"""What must be possible for a fault: `stop` is an orderly one, `refusal` that a client's connections are refused, `tap`
that what passes between a client and its links can be read, `load` that keys are written beside the locks,
`skew` that the wall clock of a worker is moved."""

Group = Literal["links", "servers", "clocks", "workers", "store"]
"""What faults are done to."""

PROVEN_WITHIN: Final = 3.0
"""Seconds within which a cut must show; it measures 20-300 ms."""

EFFECT_WITHIN: Final = 20.0
"""Seconds within which peers must notice. ZooKeeper in a black hole takes 3, at times 8, longer on a busy box."""

HEALED_WITHIN: Final = 40.0
"""Seconds within which a healed cluster must be whole: 0.1-7 measured, on an idle machine."""

SPANS: Final = (0.5, 1.0, 1.5, 2.0, 3.0)
"""How long faults go on as a rule, in units of what they are about: a lease survives it, or ends, or the next does."""

LOOK_EVERY: Final = 0.05
"""Seconds between two questions to a node: asked without a pause, an election takes longer."""


class FaultInjection(Protocol):
    """A fault with every choice made. Who leads and who holds is found out by `apply`.

    Faults overlap. What is done to links and nodes is done under the key `target.by`, and healed under it.
    """

    def describe(self) -> str:
        """For people, before the run: "cut clients c2 from all nodes (drop)"."""

    def apply(self, target: Target) -> Sequence[Hit]:
        """Do it, and return when it is proven; [] when there is nobody to be hit. After Failed `heal` is still due."""

    def heal(self, target: Target) -> None:
        """Undo what this one did, whoever was hit, and nothing else. Idempotent. Raises Failed.

        Returns when it is undone: that the cluster is whole again is awaited when no other fault is on.
        """


class Momentary:
    """A fault injection that is over at once. The classes below undo more, each before those that follow as bases."""

    __slots__ = ()

    def heal(self, target: Target) -> None:
        """There is nothing to undo."""


class OnNodes(Momentary):
    """A fault injection that is undone where all nodes are let go."""

    __slots__ = ()

    def heal(self, target: Target) -> None:
        for node in target.cluster.nodes:
            node.let_go(target.by)
        super().heal(target)


class OnWorkers(Momentary):
    """A fault injection that is undone where its workers are let go."""

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
        """The same, but this is not possible either."""
        return replace(self, missing={**self.missing, need: reason})


OURS: Final = World()
"""Clusters of ours, reached over their bridges: everything is possible."""

PUBLISHED: Final = "through a published port a refused connection is accepted first"
"""Why `refusal` is not possible where clients come through published ports: Docker accepts them first."""

NO_CLOCK: Final = "these servers run an image of your own, whose clock cannot be moved"
"""Why `clock` is not possible where `infra.cluster.clock_skew.in_image` says no."""

NO_TAP: Final = "messages are counted only where a trial starts the clients"
"""Why `tap` is not possible by hand."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to hurt, as it stands in the register."""

    name: str  # as in plans and on the command line
    kind: Kind  # what it does, as `FaultInterval.kind`
    summary: str  # one line for people who choose
    # (site, the checked options by name) -> the injection. Raises ValueError("option: what is wrong").
    inject: Callable[..., FaultInjection]
    options: tuple[Option, ...] = ()  # what a plan fixes about it, in the order in which chance decides
    # How long it goes on by default, in `Fault.unit`s, of which a seed draws one; () for what is over at once.
    spans: tuple[float, ...] = ()
    # What that unit is: a lease, an election (a lease where there are none), or the longest call of a client.
    about: Literal["lease", "election", "call"] = "lease"
    trait: Trait | None = None  # what the backend must have; the backend says why it has it not
    needs: tuple[Need, ...] = ()  # what must be possible
    least: int = 1  # how many nodes there must be; a target may have fewer than ours
    how: str = ""  # how it is done, in a few words
    sees: str = ""  # what a client sees of it, in a few words
    planned: str = ""  # the reason why it is only done where a plan says how, "" where it can be asked for by its name
    lasting: bool = False  # whether what it does is never undone, so that a plan with it can be run only once
    # Of what strikes those who wait, in their sessions: seconds by which workers must be ready to wait longer for
    # a lock than they are else, so that it can show.
    waits: float = 0.0
    strikes: Literal["", "renewal", "cancel"] = ""  # what a lock must do to meet it: renew, or give up when told
    workload: str = ""  # the workload whose lanes it strikes, which meet nothing else; "": all the others

    @property
    def group(self) -> Group:
        """What it is done to. What strikes at a step of a worker is a fault on workers, whatever else it does."""
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
        """Whether all of it happens while it is applied, so that nothing is left that could go on for a while."""
        return self.lasting or not (self.spans or self.planned)

    def make(self, backend: str, options: Options, members: Members = ()) -> FaultInjection:
        """With these choices made. Raises ValueError("option: what is wrong")."""
        site = Site.of(backend, members)
        return self.inject(site, **checked(self.asked(site), options, site))

    def choose(self, rng: random.Random, backend: str, members: Members = ()) -> dict[str, Any]:
        """Everything that is left to chance, as plain JSON."""
        site = Site.of(backend, members)
        return drawn(self.asked(site), rng, site)

    def asked(self, site: Site) -> list[Option]:
        """The options that it has there."""
        return [option for option in self.options if not (option.unless and site.has(option.unless))]

    def unit(self, backend: str, ttl: float) -> float:
        """Seconds of what it is about. ttl: the longest of the locks that are tried."""
        kind = BACKENDS[backend]
        return {"lease": ttl, "election": kind.election or ttl, "call": kind.call}[self.about]

    def lasts(self, rng: random.Random, backend: str, ttl: float) -> float:
        """Seconds for which it goes on, left to chance."""
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
    """There is nobody in the role that a fault is aimed at. While another fault is on that is no error."""


def leader(target: Target, within: float = EFFECT_WITHIN) -> Node:
    """Who leads at this moment; waits for an election that is on, so many seconds. Raises Nobody when there is none."""
    leaders: list[Node] = []

    def has_leader() -> bool:
        node = target.cluster.leader()
        leaders.extend([node] if node else [])
        return bool(leaders)

    if not target.clock.wait(target.patience(within), has_leader, LOOK_EVERY):
        raise Nobody(f"{target.backend} has no leader to be hit")
    return leaders[-1]


def await_noticed(target: Target, noticed: Callable[[], bool], otherwise: str) -> str:
    """Wait until nodes have noticed; "", or a remark that they have not. otherwise: "no successor within"."""
    patience = target.patience(EFFECT_WITHIN)
    return "" if target.clock.wait(patience, noticed, LOOK_EVERY) else f"; {otherwise} {patience:.0f} s"


def await_successor(target: Target, old: Node) -> str:
    """Wait until the other nodes follow one of themselves; "", or a remark that they did not."""
    if len(target.cluster.nodes) == 1:
        return ""

    def succeeded() -> bool:
        healths = [None if node is old else node.health() for node in target.cluster.nodes]
        return target.kind.leader(healths) is not None

    return await_noticed(target, succeeded, "no successor within")


def await_whole(target: Target) -> None:
    """Wait until every link answers and all members serve and follow one leader. Raises Failed.

    Who ended by itself, as a server does that finds its disk full or none of its peers, is started again.
    A failover that could not be undone while other faults were on is undone first.
    """
    if target.kind.has(Trait.REPLICA) and (pair := target.environment.failover()):
        pair.fail_back()
    endpoints = list(target.endpoints.values())

    def whole() -> bool:
        if not target.cluster.ready():
            for node in target.cluster.nodes:
                node.revive()
            return False
        answers = target.prober.ask_all(endpoints, patience=1.0)
        return all(answer is LinkAnswer.ANSWERED for answer in answers)

    if not target.clock.wait(HEALED_WITHIN, whole, LOOK_EVERY):
        raise Failed(f"{target.backend} is not whole again {HEALED_WITHIN:.0f} s after the heal")


def always(injection: FaultInjection) -> Callable[[Site], FaultInjection]:
    """`Fault.inject` of what leaves nothing to chance."""
    return lambda _: injection
