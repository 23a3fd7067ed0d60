"""Maintenance: what operators have servers do every week while clients go on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from infra.backends.answers import NO_ANSWER
from infra.backends.backend import Trait
from infra.errors import Failed
from infra.faults.fault import EFFECT_WITHIN, LOOK_EVERY, Fault, FaultInjection, Nobody, always
from infra.faults.target import Hit, Target

AGAIN: Final = 2.0
"""Seconds for which servers are maintained again and again: what a compaction meets lasts milliseconds."""


@dataclass(frozen=True, slots=True)
class Maintain(FaultInjection):
    """Maintain every member, one after another, again and again. All of it happens in `apply`."""

    def describe(self) -> str:
        return f"for {AGAIN:.0f} s have every server compact, rewrite or vacuum what it keeps,"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by what each server shows afterwards. A server that another fault keeps from it is left out."""
        begun, hits, failed, within = target.clock.now(), dict[str, Hit](), dict[str, Exception](), AGAIN
        while target.clock.now() < begun + within * 1e9:
            for node in target.cluster.nodes:
                try:
                    words = target.kind.maintain(node)
                except (*NO_ANSWER, Failed) as error:
                    failed[node.name] = error
                    continue
                now = target.clock.now()
                applied = hits[node.name].applied if node.name in hits else now
                hits[node.name] = Hit("maintenance", f"{node.name} ({words})", begun, applied, now, now)
            target.clock.sleep(LOOK_EVERY)
            within = EFFECT_WITHIN if target.alone and len(hits) < len(target.members) else AGAIN  # if some stood still
        if target.alone and (never := [name for name in failed if name not in hits]):
            raise Failed(f"{never[0]} cannot be maintained: {failed[never[0]]}") from failed[never[0]]
        if not hits:
            raise Nobody("no server can be maintained now")
        return [hits[name] for name in target.members if name in hits]


MAINTENANCE: Final = Fault(
    "maintenance",
    "maintenance",
    "every server compacts, rewrites or vacuums what it keeps, again and again",
    always(Maintain()),
    trait=Trait.MAINTAINED,
    needs=("maintenance",),
    how="for 2 s: etcd: compaction up to now, defragmentation; Redis: BGREWRITEAOF, BGSAVE; PostgreSQL: CHECKPOINT, "
    "VACUUM FULL",
    sees="answers come late; of etcd's history nothing is left for who asks for what was",
)
