"""Faults on disks: slow, stalled, full.

A fault hits the disk of the leader, of redis1 and another, or of the only server. ZooKeeper takes the disks of a
majority, the leader's and followers' (`Backend.disks`): its leader acknowledges what other members have kept, and goes
on leading whatever its own disk does. A follower that does not keep what it was told is dropped after syncLimit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from infra.backends.backend import Trait
from infra.cluster.disk_sidecars import STALL
from infra.cluster.nodes import Node
from infra.errors import Failed, succeeds
from infra.faults import fault
from infra.faults.fault import EFFECT_WITHIN, LOOK_EVERY, PROVEN_WITHIN, SPANS, Fault, Nobody
from infra.faults.fault_options import FOLLOWER, LEADER, number, victims, within
from infra.faults.servers.strikes import hit_by, named
from infra.faults.target import Hit, Target

DELAYS: Final = (20, 80)
"""ms for each synchronisation, least and most; a write of etcd waits for three. Less than any election or timeout."""
ENOUGH: Final = 1_000_000
"""Bytes of a write that a full disk cannot keep, at the latest when repeated. ZooKeeper and etcd take no larger one.

A server first writes to the space that it has set aside: pages that it freed, and files that it made longer.
"""
_STALLED: Final = 0.5
"""Seconds without an acknowledgement that show a stall; without a stall it comes within milliseconds."""


@dataclass(frozen=True, slots=True)
class SlowDisk(fault.FaultInjection):
    """Make every synchronisation take `delay_ms` longer. None: no synchronisation ends before the heal."""

    nodes: tuple[str, ...]
    delay_ms: int | None

    def describe(self) -> str:
        how = "stall" if self.delay_ms is None else f"slow by {self.delay_ms} ms"
        return f"{how} the disks of {', '.join(self.nodes)}"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by a late or unanswered write to each node; with a leader, only the first: another may lead then."""
        hit = list(hit_by(target, self.nodes))
        for node, _ in hit:
            if (state := node.state()) != "running":
                raise Nobody(f"{node.name} is {state}, and does nothing with its disk")
        begun = target.clock.now()
        for node, _ in hit:
            target.own.disks.slow(node.name, STALL if self.delay_ms is None else self.delay_ms / 1000, target.by)
        for node, role in hit[:1] if target.kind.has(Trait.LEADER) else hit:
            self._prove(target, node, leads=role == LEADER)
        words = ", ".join(named(node, role) for node, role in hit)
        if self.delay_ms is None and target.kind.has(Trait.STALL_DEPOSES) and hit[0][1] == LEADER:
            words += fault.await_successor(target, hit[0][0])
        return [Hit("disk", words, begun, target.clock.now())]

    def heal(self, target: Target) -> None:
        target.own.disks.clear(target.by)

    def _prove(self, target: Target, node: Node, *, leads: bool) -> None:
        def shows() -> bool:
            written = target.kind.write(node, patience=_STALLED if self.delay_ms is None else 10.0)
            if written.outcome == "kept":
                return self.delay_ms is not None and written.seconds >= self.delay_ms / 1000
            # Who leads no more refuses: an election may not end on such disks. Else another fault has it refuse.
            lost = written.outcome == "refused" and leads and target.cluster.leader() is not node
            return not target.alone or (self.delay_ms is None and (written.outcome == "silent" or lost))

        if not target.clock.wait(PROVEN_WITHIN, shows):
            raise Failed(f"the disk of {node.name} is slow, but writes are acknowledged as fast as before")


@dataclass(frozen=True, slots=True)
class FillDisk(fault.OnNodes):
    """Leave no room on the disks."""

    nodes: tuple[str, ...]

    def describe(self) -> str:
        return f"fill the disks of {', '.join(self.nodes)}"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by the room that is left, seen from outside, and by a write that is refused or ends the server."""
        return [self._fill(target, node, role) for node, role in hit_by(target, self.nodes)]

    def heal(self, target: Target) -> None:
        """See `FaultInjection`. A server that ended is started again."""
        target.own.disks.clear(target.by)
        fault.OnNodes.heal(self, target)

    def _fill(self, target: Target, node: Node, role: str) -> Hit:
        if (state := node.state()) != "running":
            raise Nobody(f"{node.name} is {state}, and does nothing with its disk")
        disks = target.own.disks
        begun = target.clock.now()
        disks.fill(node.name, target.by)
        if not target.clock.wait(PROVEN_WITHIN, lambda: disks.room(node.name) == 0, LOOK_EVERY):
            raise Failed(f"the disk of {node.name} was filled, but has {disks.room(node.name)} bytes left")

        ends = target.kind.has(Trait.ENDS_WHEN_FULL)

        def shows() -> bool:
            """Whether it has ended or, if it need not, refuses a write. A write without an answer may still be kept."""
            if node.state() == "stopped":
                return True
            outcome = target.kind.write(node, size=ENOUGH).outcome
            return (outcome == "refused" and not ends) or (outcome != "kept" and not target.alone)

        if not target.clock.wait(EFFECT_WITHIN, shows, LOOK_EVERY):
            raise Failed(f"the disk of {node.name} is full, but it goes on as before")
        if ends:
            target.clock.wait(PROVEN_WITHIN, lambda: node.state() == "stopped", LOOK_EVERY)
        if ended := node.state() == "stopped":
            _bury(target, node)
        remark = fault.await_successor(target, node) if role == LEADER else ""
        words = f"{named(node, role)}{', which ended' if ended else ''}{remark}"
        return Hit("disk", words, begun, target.clock.now())


def _bury(target: Target, node: Node) -> None:
    """Have the links of a node that ended by itself refuse. Toxiproxy still dials it for seconds. Raises Failed."""
    if not target.clock.wait(EFFECT_WITHIN, lambda: succeeds(lambda: node.kill(target.by)), LOOK_EVERY):
        raise Failed(f"{node.name} ended, and its links cannot be told")


_ROLES: Final = (LEADER, FOLLOWER)
_WAITED_FOR: Final = victims(known=_ROLES, roles=lambda site: site.backend.disks)  # the disks that a write waits for

_OF_DISKS: Final = partial(Fault, kind="disk", spans=SPANS, needs=("disk",))

DISKS: Final = (
    # Slow enough to be felt, fast enough that no leader is deposed.
    _OF_DISKS(
        "slow-disk",
        summary="every synchronisation of a disk takes some tens of milliseconds more",
        inject=lambda _, nodes, delay_ms: SlowDisk(nodes, delay_ms),
        options=(_WAITED_FOR, number("delay_ms", 1, 10_000, within(DELAYS), "a number of milliseconds")),
        how="strace beside the server delays fsync and its kin",
        sees="every acknowledged write takes so much longer, and what waits behind it",
    ),
    # In real life, a stalled disk is what deposes etcd leaders.
    _OF_DISKS(
        "stall-disk",
        summary="no synchronisation of a disk ends, until it heals",
        inject=lambda _, nodes: SlowDisk(nodes, None),
        options=(_WAITED_FOR,),
        how="the same with a delay of an hour, broken off",
        sees="no write is acknowledged until the heal (etcd: until another leads); Redis answers nothing at all",
    ),
    _OF_DISKS(
        "fill-disk",
        summary="no room is left on a disk",
        inject=lambda _, nodes: FillDisk(nodes),
        options=(victims(known=_ROLES),),
        how="ballast in a file without a name on the volume, a tmpfs of limited size",
        sees="Redis and etcd end, ZooKeeper's leader stops serving, PostgreSQL refuses what needs room",
    ),
)
