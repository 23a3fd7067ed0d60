"""Maintenance: what operators have servers do every week while clients go on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from infra.backends.answers import NO_ANSWER
from infra.backends.backend import Trait
from infra.errors import Failed
from infra.faults import fault
from infra.faults.fault import Fault, FaultInjection, Nobody
from infra.faults.target import Hit, Target


@dataclass(frozen=True, slots=True)
class Maintain(FaultInjection):
    """Maintain every member, one after another. All of it happens in `apply`."""

    def describe(self) -> str:
        return "have every server compact, rewrite or vacuum what it keeps,"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by what each server shows afterwards. A server that another fault keeps from it is left out."""
        hits = []
        for node in target.cluster.nodes:
            begun = target.clock.now()
            try:
                words = target.kind.maintain(node)
            except (*NO_ANSWER, Failed) as error:
                if target.alone:
                    raise Failed(f"{node.name} cannot be maintained: {error}") from error
                continue
            now = target.clock.now()
            hits.append(Hit("maintenance", f"{node.name} ({words})", begun, now, now, now))
        if not hits:
            raise Nobody("no server can be maintained now")
        return hits


MAINTENANCE: Final = Fault(
    "maintenance",
    "maintenance",
    "every server compacts, rewrites or vacuums what it keeps",
    fault.always(Maintain()),
    trait=Trait.MAINTAINED,
    needs=("maintenance",),
    how="etcd: compaction up to now, defragmentation; Redis: BGREWRITEAOF, BGSAVE; PostgreSQL: CHECKPOINT, VACUUM FULL",
    sees="answers come late; of etcd's history nothing is left for who asks for what was",
)
