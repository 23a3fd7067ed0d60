"""Faults on a renewal: it hangs, or its thread dies, while the job itself takes longer than the lease.

In each lane a holder is stalled just after its acquire, as in a long job; when its renewal comes by next that is
caught too. So the lease of a client that runs ends while it holds. Such a client notices in time, by its own clock.
When all go on, a renewal that hung is sent late: its successor's lease is none of its business.

Or the renewal of one that waits hangs, and its lease ends before it is its turn (etcd #11456), or it dies waiting.
"""

from typing import Final

from infra.backends.backend import Trait
from infra.faults.fault import Fault, always
from infra.faults.gate_scripts import GateTrap, HitWorkers, Script, catch_within
from infra.faults.target import Action
from infra.faults.workers.holders import NEEDS, PAST_TTL

FREED_WITHIN: Final = 0.8
"""Seconds after its TTL within which a lease is over: some servers look twice a second."""

TOLD_WITHIN: Final = 1.0
"""Seconds for an answer to a renewal."""


def _hit_renewal(action: Action, fate: str) -> HitWorkers:
    def script(trap: GateTrap) -> Script:
        holder = yield from trap.catch("after-acquire", "stall")
        yield from trap.catch("in-renewal", action, worker=holder)

    doing = f"stall a holder of every lane, just after its acquire, whose renewal {fate},"
    return HitWorkers(doing, script, lambda ttl: catch_within(ttl) + ttl)


def _stall_waiter(trap: GateTrap) -> Script:
    """A waiter's lease ends while somebody else holds: it must not be granted anything on it any more.

    A holder is stalled just after its acquire, its renewal going on; then the renewal of one that waits for the same
    lock. When the waiter's lease is over its renewal goes on, and is told so; then the holder goes on, and releases.
    """
    actors = trap.target.actors
    try:
        holder = yield from trap.catch("after-acquire", "stall")
        waiter = yield from trap.catch("while-waiting", "stall", key=holder.key)
        yield from trap.wait(actors.ttl + FREED_WITHIN, lambda: False)
        trap.thaw(waiter)
        yield from trap.wait(TOLD_WITHIN, lambda: actors.settled(waiter))
    finally:
        trap.thaw_all()


def _kill_waiter(trap: GateTrap) -> Script:
    """Who waits at the front of a queue dies there: whoever is behind must get the lock all the same.

    A holder is stalled just after its acquire, its renewal going on, until the lease of the dead one is over.
    """
    try:
        holder = yield from trap.catch("after-acquire", "stall")
        yield from trap.kill_waiter(holder.key)
        yield from trap.wait(trap.target.actors.ttl + FREED_WITHIN, lambda: False)
    finally:
        trap.thaw_all()


RENEWALS: Final = (
    Fault(
        "stall-renewal",
        "stall",
        "the renewal of a worker of every lane hangs, and is sent when the lease is over",
        always(_hit_renewal("stall", "hangs")),
        spans=(PAST_TTL,),
        needs=NEEDS,
        renewal=True,
        how="both of its threads wait: just after its acquire, and about to renew",
        sees="its lease ends while it holds, and it notices; its renewal is refused",
    ),
    Fault(
        "kill-renewal",
        "kill",
        "the renewal of a worker of every lane dies, and the lease ends while it holds",
        always(_hit_renewal("die", "dies")),
        spans=(PAST_TTL,),
        needs=NEEDS,
        renewal=True,
        how="its main thread waits just after its acquire, the other ends when about to renew",
        sees="its lease ends while it holds, and it notices",
    ),
    Fault(
        "stall-waiter",
        "stall",
        "the renewal of a worker of every lane hangs while it waits, until its lease is over",
        always(
            HitWorkers(
                "stall a holder of every lane, and the renewal of one that waits for it until its lease is over",
                _stall_waiter,
                lambda ttl: 2 * catch_within(ttl) + ttl + FREED_WITHIN + TOLD_WITHIN,
            )
        ),
        trait=Trait.WAITING_LEASES,
        needs=NEEDS,
        waits=FREED_WITHIN + TOLD_WITHIN,
        how="two threads wait: a holder's main one, and a waiter's when about to renew",
        sees="its lease ends while it waits; its next keep-alive is refused, and then the lock is released",
    ),
)

KILL_WAITER: Final = Fault(
    "kill-waiter",
    "kill",
    "a worker of every lane is killed while it waits, with others behind it",
    always(
        HitWorkers(
            "stall a holder of every lane, kill one that waits for it, and wait until its lease is over",
            _kill_waiter,
            lambda ttl: 2 * catch_within(ttl) + ttl + FREED_WITHIN,
        )
    ),
    needs=NEEDS,
    how="a stall for the holder, SIGKILL for who has waited longest",
    sees="what it left in the queue must be gone when the holder releases",
)
