"""Faults on servers: frozen for a while, or killed and started again on their data.

Where there is a leader it is the one that is hit, and the fault goes on for a while after the others have elected
another. Of the five Redis servers it is the first, where the single-node lock lives, and maybe a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from infra.faults import fault, probe
from infra.faults.fault import LEADERS, PROVEN_WITHIN, Fault
from infra.faults.probe import Answer
from infra.faults.target import Hit
from infra.machine import Failed
from infra.star import MEMBERS

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from infra.faults.fault import Options
    from infra.faults.target import Target
    from infra.nodes import Node

DOWN_FOR: Final = 1.5
"""Seconds; where a leader was hit they begin when another leads."""

LEADER: Final = "leader"
"""Stands for the node that leads at the moment of impact."""

_MOST: Final = 2
"""Servers hit at once: a minority of Redlock's five."""


@dataclass(frozen=True, slots=True)
class Strike:
    """Pause or kill servers."""

    kind: Literal["pause", "kill"]
    nodes: tuple[str, ...]

    def describe(self) -> str:
        """See `Injury`."""
        if LEADER in self.nodes:
            return f"{self.kind} the leader until another leads, and"
        return f"{self.kind} {', '.join(self.nodes)}"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by the state of the container, for a pause also by its silence."""
        return [self._strike(target, name) for name in self.nodes]

    def heal(self, target: Target) -> None:
        """See `Injury`."""
        fault.heal_servers(target)

    def _strike(self, target: Target, name: str) -> Hit:
        node = fault.leader(target) if name == LEADER else target.node(name)
        begun = target.clock.now()
        if self.kind == "pause":
            _pause(target, node)
        else:
            node.kill()
            if node.state() != "stopped":
                raise Failed(f"{node.name} was killed, but is {node.state()}")
        said = node.name
        if name == LEADER:
            said += f" (leader){fault.await_successor(target, node)}"
        return Hit(self.kind, said, begun, target.clock.now())


def _pause(target: Target, node: Node) -> None:
    node.pause()
    endpoint = "{}:{}".format(*node.address)
    if not target.clock.wait(PROVEN_WITHIN, lambda: probe.ask(target.backend, endpoint) is Answer.SILENT):
        raise Failed(f"{node.name} was paused ({node.state()}), but still answers")


def strike_server(kind: Literal["pause", "kill"]) -> Fault:
    """The leader, or redis1 and maybe another."""

    def known(backend: str) -> Sequence[str]:
        return (LEADER, *MEMBERS[backend]) if backend in LEADERS else MEMBERS[backend]

    def make(backend: str, options: Options) -> Strike:
        fault.only(options, "nodes")
        most = 1 if backend in LEADERS else _MOST
        return Strike(kind, fault.checked_nodes(options["nodes"], known(backend), most))

    def choose(rng: random.Random, backend: str) -> Options:
        if backend in LEADERS:
            return {"nodes": [LEADER]}
        return {"nodes": fault.some_nodes(rng, backend, min(_MOST, len(MEMBERS[backend])))}

    what = "is frozen for a while" if kind == "pause" else "is killed, and started again on its data"
    return Fault(
        f"{kind}-server",
        kind,
        f"the leader, or redis1 and maybe another, {what}",
        make,
        choose=choose,
        seconds=DOWN_FOR,
    )
