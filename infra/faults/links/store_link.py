"""Faults on the way to the store: what a worker writes there comes late, or the answer to it is lost.

The store itself is never hurt. These are done to whatever backend is under test, to the links of one client group. In
each lane a worker of the group that is about to write is stalled until the link is as it shall be, so that it is a
write that comes late or is not answered: at a random moment it would mostly be the read before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from infra.faults import link_proof
from infra.faults.fault import SPANS, Fault
from infra.faults.fault_options import GROUP
from infra.faults.gate_scripts import catch, catch_within, hits_of, let_go, run_traps
from infra.faults.target import Hit, Target
from infra.network.links import Cut
from infra.network.topology import STORE


@dataclass(frozen=True, slots=True)
class StoreLink:
    """What a group sends to the store is held, or what the store answers is dropped."""

    group: str
    late: bool

    def describe(self) -> str:
        return f"hold what clients {self.group} send to the store" if self.late else f"lose {self._words()}"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by a question to the store through the link; those who are about to write go on then."""
        script = catch("between-read-and-write", "stall", group=self.group)
        traps = run_traps(target, script, catch_within(target.actors.ttl))
        begun = target.clock.now()
        if self.late:
            target.links.block(self.group, STORE, Cut.HOLD, target.by)
        else:
            target.links.block(STORE, self.group, Cut.DROP, target.by)
        shows = link_proof.SHOWS[Cut.HOLD] if self.late else link_proof.DOWN
        link_proof.await_silence(
            target, target.store_prober, [self._endpoint(target)], shows, f"{self.group} and the store are cut"
        )
        applied = target.clock.now()
        let_go(traps)
        return [Hit("cut", self._words(), begun, applied), *hits_of(traps)]

    def heal(self, target: Target) -> None:
        """Proven by a question to the store through the link."""
        target.actors.let_go(target.by)
        target.links.lift(target.by)
        link_proof.await_voices(
            target, target.store_prober, [self._endpoint(target)], f"{self.group} and the store are healed"
        )

    def _endpoint(self, target: Target) -> str:
        return urlsplit(target.environment.store_dsn(int(self.group.removeprefix("c")))).netloc.rpartition("@")[2]

    def _words(self) -> str:
        if self.late:
            return f"requests of clients {self.group} to the store"
        return f"replies of the store to clients {self.group}"


def _store_link(name: str, summary: str, how: str, sees: str, *, late: bool) -> Fault:
    return Fault(
        name,
        "cut",
        summary,
        lambda _, group: StoreLink(group, late),
        (GROUP,),
        spans=SPANS,
        needs=("store-link",),
        how=how,
        sees=sees,
    )


STORE_LINK: Final = (
    _store_link(
        "delayed-write",
        "what one group of clients writes to the store arrives late",
        "Toxiproxy: latency of a day on the bytes to the store",
        "no answer from the store; the write lands at the heal, whoever holds the lock by then",
        late=True,
    ),
    _store_link(
        "store-reply-lost",
        "the store does what one group of clients asks for, but its answers are lost",
        "Toxiproxy: timeout 0 on the bytes from the store",
        "no answer from the store; the write was done",
        late=False,
    ),
)
