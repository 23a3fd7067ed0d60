"""What a fault is, and what several of them need: the leader, its successor, and the way back to a whole cluster."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from infra import probes
from infra.faults import probe
from infra.faults.probe import Answer
from infra.machine import Failed
from infra.star import MEMBERS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from infra.faults.target import Hit, Kind, Target
    from infra.nodes import Node

Options = Mapping[str, Any]
"""What a plan fixes about a fault, as plain JSON."""

PROVEN_WITHIN: Final = 3.0
"""Seconds within which a cut must show; it measures 20-300 ms."""

EFFECT_WITHIN: Final = 20.0
"""Seconds within which peers must notice. ZooKeeper in a black hole takes 3, at times 8, longer on a busy box."""

HEALED_WITHIN: Final = 40.0
"""Seconds within which a healed cluster must be whole: 0.1-7 measured, on an idle machine."""

LEADERS: Final = ("zookeeper", "etcd")
"""Backends whose members talk to each other and elect a leader."""


LOOK_EVERY: Final = 0.05
"""Seconds between two questions to a node: asked without a pause, an election takes longer."""


class Injury(Protocol):
    """A fault with every choice made. Who leads and who holds is found out by `apply`."""

    def describe(self) -> str:
        """For people, before the run: "cut clients c2 from all nodes (drop)"."""

    def apply(self, target: Target) -> Sequence[Hit]:
        """Do it, and return when it is proven to be done. Raises Failed or Stopped; then `heal` is still due."""

    def heal(self, target: Target) -> None:
        """Undo it, whoever was hit, and return when all is proven to be whole. Idempotent. Raises Failed or Stopped."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to hurt, as it stands in the register.

    name     as in plans and on the command line.
    kind     what it does, as `FaultInterval.kind`.
    summary  one line for people who choose.
    make     (backend, options) -> the injury. Raises ValueError("option: what is wrong").
    choose   (rng, backend) -> the options: everything that is left to chance, as plain JSON. None: there are none.
    seconds, ttls  how long it goes on by default: so many seconds and so many TTLs.
    unfit    backend -> the reason why it cannot be done there.
    refuses  whether it is in that a client's connections are refused: where clients come through published ports,
             Docker accepts them first.
    """

    name: str
    kind: Kind
    summary: str
    make: Callable[[str, Options], Injury]
    choose: Callable[[random.Random, str], Options] | None = None
    seconds: float = 0.0
    ttls: float = 0.0
    unfit: Mapping[str, str] = field(default_factory=dict)
    refuses: bool = False

    def applies(self, backend: str, published: bool = False) -> str | None:  # noqa: FBT001
        """None, or the reason why it cannot be done to this backend. published: by `infra.reach.needs_published`."""
        if published and self.refuses:
            return "through a published port a refused connection is accepted first"
        return self.unfit.get(backend)


def leader(target: Target) -> Node:
    """Who leads at this moment; waits for an election that is on. Raises Failed when there is none."""
    found: list[Node] = []

    def found_one() -> bool:
        node = target.cluster.leader()
        found.extend([node] if node else [])
        return bool(found)

    if not target.clock.wait(EFFECT_WITHIN, found_one, LOOK_EVERY):
        raise Failed(f"{target.backend} has no leader to be hit")
    return found[-1]


def await_successor(target: Target, old: Node) -> str:
    """Wait until the other nodes follow one of themselves; "", or a remark that they did not."""

    def succeeded() -> bool:
        healths = [None if node is old else node.health() for node in target.cluster.nodes]
        return probes.leader(target.backend, healths) is not None

    return (
        ""
        if target.clock.wait(EFFECT_WITHIN, succeeded, LOOK_EVERY)
        else f"; no successor within {EFFECT_WITHIN:.0f} s"
    )


def heal_links(target: Target) -> None:
    """Undo every cut and delay. Steps of a plan never overlap, so nothing of another fault is undone."""
    target.links.heal_all()
    await_whole(target)


def heal_servers(target: Target) -> None:
    """Resume who is paused, start who is stopped."""
    for node in target.cluster.nodes:
        node.resume()
        if node.state() == "stopped":
            node.start()
    await_whole(target)


def heal_everything(target: Target) -> None:
    """All of it, each even if another fails; what fails last is raised."""
    with ExitStack() as stack:
        stack.callback(heal_servers, target)
        stack.callback(target.links.heal_all)
        stack.callback(target.actors.release_all)


def await_whole(target: Target) -> None:
    """Wait until every link answers and all members serve and follow one leader. Raises Failed."""
    endpoints = list(target.endpoints.values())

    def whole() -> bool:
        if not target.cluster.ready():
            return False
        answers = probe.ask_all(target.backend, endpoints, patience=1.0)
        return all(answer is Answer.ANSWERED for answer in answers)

    if not target.clock.wait(HEALED_WITHIN, whole, LOOK_EVERY):
        raise Failed(f"{target.backend} is not whole again {HEALED_WITHIN:.0f} s after the heal")


def only(options: Options, *known: str) -> None:
    """Raises ValueError unless exactly the known options are there."""
    for name in options:
        if name not in known:
            raise ValueError(f"{name}: there is no such option" + (f" ({', '.join(known)})" if known else ""))
    for name in known:
        if name not in options:
            raise ValueError(f"{name}: is missing")


def checked_nodes(names: object, known: Sequence[str], most: int) -> tuple[str, ...]:
    """The option `nodes`. Raises ValueError."""
    if not (isinstance(names, list) and names and all(name in known for name in names)):
        raise ValueError(f"nodes: must be a list of {', '.join(known)}, not {names!r}")
    if len(set(names)) < len(names) or len(names) > most:
        raise ValueError(f"nodes: must be at most {most} different nodes, not {names!r}")
    return tuple(names)


def some_nodes(rng: random.Random, backend: str, most: int) -> list[str]:
    """Up to `most` nodes at random. Of redis the first, where the single-node lock lives, is always among them."""
    names = MEMBERS[backend]
    count = rng.randint(1, most)
    if backend == "redis":
        return [names[0], *sorted(rng.sample(names[1:], count - 1))]
    return sorted(rng.sample(names, count))
