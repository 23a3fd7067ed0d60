"""Faults on servers: frozen for a while, killed and started again on their data, or killed and started without it.

Where there is a leader it is the one that is hit, and the fault goes on for a while after the others have elected
another. Of the five Redis servers it is the first, where the single-node lock lives, and maybe a second.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from infra.backends.backend import Trait
from infra.faults import fault, probe
from infra.faults.fault import PROVEN_WITHIN, Fault, Need, Nobody, Options, has
from infra.faults.probe import Answer
from infra.faults.target import Hit, Target
from infra.machine import Failed
from infra.nodes import Node
from infra.star import members

DOWN_FOR: Final = 1.5
"""Seconds; where a leader was hit they begin when another leads."""

WIPED_FOR: Final = 0.2
"""Seconds that a server without its data stays down; a short time, so that locks that it forgot are still held."""

LEADER: Final = "leader"
"""Stands for the node that leads at the moment of impact."""

FOLLOWER: Final = "follower"
"""Stands for the first node that does not."""

_MOST: Final = 2
"""Servers hit at once: a minority of Redlock's five."""


@dataclass(frozen=True, slots=True)
class Strike(fault.OnNodes):
    """Pause servers, kill them, or kill them and remove their data."""

    kind: Literal["pause", "kill", "wipe"]
    nodes: tuple[str, ...]

    def describe(self) -> str:
        if LEADER in self.nodes:
            return f"{self.kind} the leader until another leads, and"
        return f"{self.kind} {', '.join(self.nodes)}"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by the state of the container, for a pause also by its silence."""
        return [self._strike(target, node, role) for node, role in victims(target, self.nodes)]

    def _strike(self, target: Target, node: Node, role: str) -> Hit:
        begun = target.clock.now()
        if self.kind == "pause":
            _pause(target, node)
        else:
            kill(target, node)
        remark = fault.await_successor(target, node) if role == LEADER else ""
        if self.kind == "wipe":
            if remark and has(target.backend, Trait.MEMBERSHIP):
                # Only a majority can take the new member that starts in its place.
                raise Nobody(f"{node.name} keeps its data{remark}")
            node.wipe()
        return Hit(self.kind, named(node, role) + remark, begun, target.clock.now())


def victims(target: Target, names: Sequence[str]) -> Iterator[tuple[Node, str]]:
    """The nodes behind names, LEADER and FOLLOWER among them, each with its role or "". Raises Nobody.

    Who leads is asked once, and only where it matters.
    """
    leads = fault.leader(target) if LEADER in names or FOLLOWER in names else None
    for name in names:
        if name == LEADER and leads:
            yield leads, LEADER
        elif name == FOLLOWER:
            yield next(node for node in target.cluster.nodes if node is not leads), FOLLOWER
        else:
            yield target.node(name), ""


def named(node: Node, role: str) -> str:
    """For people: "etcd2 (leader)"."""
    return f"{node.name} ({role})" if role else node.name


def kill(target: Target, node: Node) -> None:
    """SIGKILL, and the proof. Raises Failed."""
    node.kill(target.by)
    if (state := node.state()) != "stopped":
        raise Failed(f"{node.name} was killed, but is {state}")


def _pause(target: Target, node: Node) -> None:
    node.pause(target.by)
    endpoint = "{}:{}".format(*node.address)
    # Another fault may have killed it.
    shows = {Answer.SILENT} if target.alone else {Answer.SILENT, Answer.CLOSED}
    if not target.clock.wait(PROVEN_WITHIN, lambda: probe.ask(target.backend, endpoint) in shows):
        raise Failed(f"{node.name} was paused ({node.state()}), but still answers")


def checked(backend: str, options: Options, most: int = _MOST) -> tuple[str, ...]:
    """The option `nodes`: one role or node where there are leaders, otherwise up to `most` nodes. Raises ValueError."""
    if has(backend, Trait.LEADER):
        return fault.checked_nodes(options["nodes"], (LEADER, *members(backend)), 1)
    return fault.checked_nodes(options["nodes"], members(backend), most)


def some(rng: random.Random, backend: str, most: int = _MOST) -> list[str]:
    """The leader; or the first node, where the single-node lock lives, and maybe others."""
    if has(backend, Trait.LEADER):
        return [LEADER]
    return fault.some_nodes(rng, backend, min(most, len(members(backend))))


def strike_server(kind: Literal["pause", "kill", "wipe"]) -> Fault:
    """The leader, or redis1 and maybe another."""

    def make(backend: str, options: Options) -> Strike:
        fault.only(options, "nodes")
        return Strike(kind, checked(backend, options))

    choose: Callable[[random.Random, str], Options] = lambda rng, backend: {"nodes": some(rng, backend)}  # noqa: E731
    what, how, sees, needs = _KINDS[kind]
    return Fault(
        f"{kind}-server",
        kind,
        f"the leader, or redis1 and maybe another, {what}",
        make,
        choose=choose,
        seconds=WIPED_FOR if kind == "wipe" else DOWN_FOR,
        needs=frozenset(needs),
        how=how,
        sees=sees,
    )


_KINDS: Final[dict[str, tuple[str, str, str, tuple[Need, ...]]]] = {
    "pause": (
        "is frozen for a while",
        "Docker: the container's processes frozen",
        "silence, then late answers",
        ("pause",),
    ),
    "kill": (
        "is killed, and started again on its data",
        "Docker: SIGKILL, start",
        "connections closed, then refused",
        ("kill",),
    ),
    "wipe": (
        "is killed, and started again without its data",
        "SIGKILL, the volume emptied, start; etcd: its member removed and a new one added",
        "as killed; Redis and PostgreSQL have forgotten everything, the others get it from their peers",
        ("kill", "wipe"),
    ),
}
