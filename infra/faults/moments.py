"""Faults on links and servers at the one moment that matters: just after a worker has acquired.

In each lane a holder is stalled before it does anything with what it has got; then the link is cut, or the server
crashes; and only then the holder goes on. Its renewal goes on all the while, as far as it still can.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from infra.faults import fault
from infra.faults.ambush import catch_within, hits_of, lie_in_wait
from infra.faults.fault import HEALED_WITHIN, LEADERS, LOOK_EVERY, MASKED_FOR, Fault
from infra.faults.holders import NEEDS, without_options
from infra.faults.links import CUT_FOR, CutClients, heal_clients
from infra.faults.target import Hit
from infra.links import Cut
from infra.machine import Failed
from infra.star import members

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from infra.faults.ambush import Ambush, Course
    from infra.faults.fault import Options
    from infra.faults.target import Target
    from infra.nodes import Node

HOWS: Final = (Cut.DROP, Cut.HOLD)
"""How a holder may be cut: it must not be told."""


@dataclass(frozen=True, slots=True)
class CutHolder:
    """The client group of the holder that is caught first; in the other lanes a holder of the same group."""

    how: Cut

    def describe(self) -> str:
        """See `Injury`."""
        return f"cut the clients of a holder from all nodes ({self.how}), just after its acquire,"

    def apply(self, target: Target) -> Sequence[Hit]:
        """The cut is proven by questions; the holders go on then, and no earlier."""
        found: list[str] = []

        def course(ambush: Ambush) -> Course:
            while True:
                holder = yield from ambush.catch("after-acquire", "stall", group=found[0] if found else "")
                if not found:
                    found.append(holder.group)
                if holder.group == found[0]:
                    return
                ambush.thaw(holder)

        ambushes = lie_in_wait(target, course, catch_within(target.actors.ttl))
        if not found:
            return []
        cuts = CutClients(self.how, (found[0],), members(target.backend)).apply(target)
        _let_go(ambushes)
        stalls = [replace(hit, target=f"{hit.target} ({found[0]})") for hit in hits_of(ambushes)]
        said = "whose workers have just acquired"
        return [*(replace(hit, target=f"{hit.target}, {said}") for hit in cuts), *stalls]

    def heal(self, target: Target) -> None:
        """See `Injury`."""
        target.actors.let_go(target.by)
        heal_clients(target, list(target.endpoints))


@dataclass(frozen=True, slots=True)
class CrashAfterAcquire:
    """The leader, or the first server, is killed and started again before the holders do anything.

    All of it happens in `apply`, so nothing is left to hold.
    """

    def describe(self) -> str:
        """See `Injury`."""
        return "kill the server that leads (or redis1) when a holder of every lane has acquired, and start it again"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Returns when the server serves again and the holders go on."""

        def course(ambush: Ambush) -> Course:
            yield from ambush.catch("after-acquire", "stall")

        ambushes = lie_in_wait(target, course, catch_within(target.actors.ttl))
        if not hits_of(ambushes):
            return []
        crash = self._crash(target)
        _let_go(ambushes)
        return [crash, *hits_of(ambushes)]

    def heal(self, target: Target) -> None:
        """See `Injury`."""
        target.actors.let_go(target.by)
        for node in target.cluster.nodes:
            node.let_go(target.by)

    def _crash(self, target: Target) -> Hit:
        leads = target.backend in LEADERS
        node = fault.leader(target) if leads else target.node(members(target.backend)[0])
        begun = target.clock.now()
        node.kill(target.by)
        if node.state() != "stopped":
            raise Failed(f"{node.name} was killed, but is {node.state()}")
        applied = target.clock.now()
        node.let_go(target.by)
        _await_service(target, node)
        said = f"{node.name} (leader)" if leads else node.name
        return Hit("kill", f"{said}, between two operations", begun, applied, applied, target.clock.now())


def _await_service(target: Target, node: Node) -> None:
    """Until it serves again, unless another fault prevents it. Raises Failed."""
    patience = HEALED_WITHIN if target.alone else MASKED_FOR
    if not target.clock.wait(patience, node.ready, LOOK_EVERY) and target.alone:
        raise Failed(f"{node.name} was killed and started again, but does not serve within {patience:.0f} s")


def _let_go(ambushes: Sequence[Ambush]) -> None:
    for ambush in ambushes:
        ambush.thaw_all()


def cut_holder() -> Fault:
    """A grant that its holder cannot keep, or give back."""

    def make(_: str, options: Options) -> CutHolder:
        fault.only(options, "how")
        if options["how"] not in HOWS:
            raise ValueError(f"how: must be {' or '.join(HOWS)}, not {options['how']!r}")
        return CutHolder(Cut(options["how"]))

    def choose(rng: random.Random, _: str) -> Options:
        return {"how": str(rng.choice(HOWS))}

    return Fault(
        "cut-holder",
        "cut",
        "a worker of every lane loses all nodes just after its acquire",
        make,
        choose=choose,
        seconds=CUT_FOR,
        needs=NEEDS | {"client-links"},
        how="its main thread waits until its group is cut (Toxiproxy: bytes dropped or held)",
        sees="it can neither renew nor release; what it sends is lost, or comes late",
    )


def crash_after_acquire() -> Fault:
    """A grant must survive the server's crash."""
    return Fault(
        "crash-after-acquire",
        "kill",
        "the leader, or redis1, crashes between a worker's acquire and what it does next",
        without_options(CrashAfterAcquire()),
        needs=NEEDS | {"kill"},
        how="its main thread waits while the server is killed (SIGKILL) and started again",
        sees="some requests fail; what was granted stays granted",
    )
