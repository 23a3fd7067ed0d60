"""Faults on a renewal: it hangs, or its thread dies, while the job itself takes longer than the lease.

In each lane a holder is stalled just after its acquire, as in a long job; when its renewal comes by next that is
caught too. So the lease of a client that runs ends while it holds. Such a client notices in time, by its own clock.
When all go on, a renewal that hung is sent late: its successor's lease is none of its business.

Or the renewal of one that waits hangs, and its lease ends before it is its turn (etcd #11456, `StallWaiter`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from infra.backends.backend import Trait
from infra.faults.ambush import Ambush, Course, catch_within, hits_of, lie_in_wait
from infra.faults.fault import Fault, OnWorkers, always
from infra.faults.holders import NEEDS, PAST_TTL
from infra.faults.target import Hit, Target

FREED_WITHIN: Final = 0.8
"""Seconds after its TTL within which a lease is over: some servers look twice a second."""

TOLD_WITHIN: Final = 1.0
"""Seconds for an answer to a renewal."""

_SAID: Final[Mapping[str, str]] = {"stall": "hangs", "die": "dies"}


@dataclass(frozen=True, slots=True)
class HitRenewal(OnWorkers):
    """See the module."""

    action: Literal["stall", "die"]

    def describe(self) -> str:
        return f"stall a holder of every lane, just after its acquire, whose renewal {_SAID[self.action]},"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Returns when every lane has caught both threads of one, or too much time has passed."""
        ttl = target.actors.ttl

        def course(ambush: Ambush) -> Course:
            holder = yield from ambush.catch("after-acquire", "stall")
            yield from ambush.catch("in-renewal", self.action, worker=holder)

        return hits_of(lie_in_wait(target, course, catch_within(ttl) + ttl))


@dataclass(frozen=True, slots=True)
class StallWaiter(OnWorkers):
    """A waiter's lease ends while somebody else holds: it must not be granted anything on it any more.

    In each lane a holder is stalled just after its acquire, its renewal going on; then the renewal of one that waits
    for the same lock. When the waiter's lease is over its renewal goes on, and is told so; then the holder goes on, and
    releases. All of it happens in `apply`.
    """

    def describe(self) -> str:
        return "stall a holder of every lane, and the renewal of one that waits for it until its lease is over"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Returns when every lane is through, or too much time has passed; nobody is caught any more."""
        ttl = target.actors.ttl

        def course(ambush: Ambush) -> Course:
            try:
                holder = yield from ambush.catch("after-acquire", "stall")
                waiter = yield from ambush.catch("while-waiting", "stall", key=holder.key)
                yield from ambush.wait(ttl + FREED_WITHIN, lambda: False)
                ambush.thaw(waiter)
                yield from ambush.wait(TOLD_WITHIN, lambda: target.actors.settled(waiter))
            finally:
                ambush.thaw_all()

        return hits_of(lie_in_wait(target, course, 2 * catch_within(ttl) + ttl + FREED_WITHIN + TOLD_WITHIN))


RENEWALS: Final = (
    Fault(
        "stall-renewal",
        "stall",
        "the renewal of a worker of every lane hangs, and is sent when the lease is over",
        always(HitRenewal("stall")),
        ttls=PAST_TTL,
        needs=NEEDS,
        renewal=True,
        how="both of its threads wait: just after its acquire, and about to renew",
        sees="its lease ends while it holds, and it notices; its renewal is refused",
    ),
    Fault(
        "kill-renewal",
        "kill",
        "the renewal of a worker of every lane dies, and the lease ends while it holds",
        always(HitRenewal("die")),
        ttls=PAST_TTL,
        needs=NEEDS,
        renewal=True,
        how="its main thread waits just after its acquire, the other ends when about to renew",
        sees="its lease ends while it holds, and it notices",
    ),
    Fault(
        "stall-waiter",
        "stall",
        "the renewal of a worker of every lane hangs while it waits, until its lease is over",
        always(StallWaiter()),
        trait=Trait.WAITING_LEASES,
        needs=NEEDS,
        waits=FREED_WITHIN + TOLD_WITHIN,
        how="two threads wait: a holder's main one, and a waiter's when about to renew",
        sees="its lease ends while it waits; its next keep-alive is refused, and then the lock is released",
    ),
)
