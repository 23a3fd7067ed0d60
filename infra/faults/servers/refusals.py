"""Errors: servers that answer, and refuse what they are asked to write.

Clients are told so by an error that says nothing of their lock. A renewal that failed for that is to be sent again: the
lease is still there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from infra.backends import BACKENDS
from infra.backends.backend import Trait
from infra.cluster.nodes import Node
from infra.errors import Failed
from infra.faults.fault import LOOK_EVERY, PROVEN_WITHIN, Fault, OnNodes
from infra.faults.fault_options import victims
from infra.faults.servers.strikes import hit_by, named
from infra.faults.target import Hit, Target

BRIEF: Final = (0.25, 0.5, 1.0, 2.0)
"""TTLs: a lease outlives most of them, if it is renewed afterwards."""


@dataclass(frozen=True, slots=True)
class RefuseWrites(OnNodes):
    """Have servers answer every write with an error."""

    nodes: tuple[str, ...]

    def describe(self) -> str:
        return f"have {', '.join(self.nodes)} refuse every write"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by a write of our own, which is refused."""
        begun = target.clock.now()
        refusing = [named(node, role) for node, role in hit_by(target, self.nodes) if self._refuses(target, node)]
        return [Hit("refuse", ", ".join(refusing), begun, target.clock.now())] if refusing else []

    def _refuses(self, target: Target, node: Node) -> bool:
        """Tell it to; False where another fault keeps it from answering."""
        access = target.environment.access(target.backend)
        if not target.alone and not node.ready():
            return False
        node.refuse(target.by)

        def refused() -> bool:
            return BACKENDS[target.backend].write(node.address, access).outcome == "refused"

        shown = target.clock.wait(PROVEN_WITHIN, refused, LOOK_EVERY)
        if not shown and target.alone:
            raise Failed(f"{node.name} was told to refuse writes, and keeps them")
        return shown


REFUSE_WRITES: Final = Fault(
    "refuse-writes",
    "refuse",
    "servers answer every write with an error",
    lambda _, nodes: RefuseWrites(nodes),
    (victims(),),
    spans=BRIEF,
    trait=Trait.REFUSES_WRITES,
    needs=("failover",),
    how="Redis: CONFIG SET min-replicas-to-write; etcd: the alarm NOSPACE, which binds all members",
    sees="an error at once; what was written before is still there, and etcd renews leases",
)
