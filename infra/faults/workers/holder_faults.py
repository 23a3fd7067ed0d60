"""Faults on a holder (frozen past its lease, hung, killed, or in a long call), on its renewal, and on waiters.

Every lane is hit by itself. A lane in which no worker reaches the gate in time is left alone. A freeze stops the
renewal too, as a long pause of a garbage collector does: the lease runs out, and the holder wakes up beside its
successor. The lock of a hung job is renewed all the while, so no other worker gets it.

A renewal hangs, or its thread dies, while the job takes longer than the lease: a holder is stalled just after its
acquire, and its next renewal is caught. So the lease of a running client ends while the client holds; the client
notices that by its own clock. A renewal that hung is sent late, and must not touch the successor's lease. Or a waiter's
renewal hangs and its lease ends before its turn comes (etcd #11456), or a waiter dies.
"""

from collections.abc import Mapping
from typing import Any, Final

from infra.backends.backend import Trait
from infra.faults.fault import Fault, FaultInjection, Need, always
from infra.faults.gate_scripts import GateTrap, HitWorkers, Script, catch, catch_within
from infra.faults.target import Action, Gate, Kind

PAST_TTL: Final = 1.6
"""TTLs for which a holder is hit. Then its lease is over, unless it is renewed, and its successor is at work."""
SETTLED_WITHIN: Final = 0.5
"""Seconds within which a thawed worker must have written and released; measured: 20-200 ms."""
INTRUDES_WITHIN: Final = 0.3
"""Seconds within which a worker gets in, if a late message has freed another's lock: clients poll several times."""
FREED_WITHIN: Final = 0.8
"""Seconds after its TTL within which a lease is over: some servers look for ended leases twice a second."""
TOLD_WITHIN: Final = 1.0
"""Seconds for an answer to a renewal."""

NEEDS: Final[tuple[Need, ...]] = ("workers",)

_LANES: Final = "a worker of every lane"
_WHERE: Final[Mapping[Gate, str]] = {
    "after-acquire": "just after its acquire",
    "between-read-and-write": "about to write",
    "before-release": "about to release",
    "in-renewal": "about to renew",
    "after-renewal": "just after its renewal",
}


def _hit(action: Action, gate: Gate) -> HitWorkers:
    """Hit a holder of every lane. One about to write has just checked that it holds; no client can close that gap."""
    doing = f"{action} a holder of every lane, {_WHERE[gate]},"
    return HitWorkers(doing + {"kill": " and wait"}.get(action, ""), catch(gate, action), action=action)


def _call(trap: GateTrap) -> Script:
    yield from trap.catch("after-acquire", "call", seconds=PAST_TTL * trap.target.actors.ttl)


def _late_write(trap: GateTrap) -> Script:
    """A stale write between the successor's read and write. A fence on writes alone does not stop this write.

    A holder is frozen between its read and its write. When its lease is over, a successor gets in and is stalled at the
    same place, or in the middle of its read if that takes two requests, while its renewal goes on. Then the first is
    thawed, writes, and releases what is no longer its own. A release that frees another's lock lets a third worker in.
    After that the successor goes on and writes as well.
    """
    try:
        first = yield from trap.catch("between-read-and-write", "freeze")
        # Armed at once and not when the lease is over, so that a worker that gets in too early is caught as well.
        yield from trap.catch("between-requests", "stall", key=first.key)
        yield from trap.settle(first, SETTLED_WITHIN)
        yield from trap.pause(INTRUDES_WITHIN)
    finally:
        trap.thaw_all()


def _freeze_successor(trap: GateTrap) -> Script:
    """A holder is killed, and the worker that gets its lock next is frozen past its own lease."""
    first = yield from trap.catch("after-acquire", "kill")
    yield from trap.catch("after-acquire", "freeze", key=first.key)


def _hit_renewal(action: Action, fate: str) -> HitWorkers:
    def script(trap: GateTrap) -> Script:
        holder = yield from trap.catch("after-acquire", "stall")
        yield from trap.catch("in-renewal", action, worker=holder)

    doing = f"stall a holder of every lane, just after its acquire, whose renewal {fate},"
    return HitWorkers(doing, script, lambda ttl: catch_within(ttl) + ttl)


def _stall_waiter(trap: GateTrap) -> Script:
    """A waiter's lease ends while another worker holds: the waiter must not be granted anything on that lease any more.

    A holder is stalled just after its acquire, while its renewal goes on. Then the renewal of a waiter for that lock is
    stalled. When the waiter's lease is over, its renewal goes on and is told so; then the holder goes on and releases.
    """
    try:
        holder = yield from trap.catch("after-acquire", "stall")
        waiter = yield from trap.catch("while-waiting", "stall", key=holder.key)
        yield from trap.pause(trap.target.actors.ttl + FREED_WITHIN)
        yield from trap.settle(waiter, TOLD_WITHIN)
    finally:
        trap.thaw_all()


def _kill_waiter(trap: GateTrap) -> Script:
    """The worker at the front of a queue dies while it waits. The workers behind it must get the lock all the same.

    A holder is stalled just after its acquire, while its renewal goes on, until the lease of the dead worker is over.
    """
    try:
        holder = yield from trap.catch("after-acquire", "stall")
        yield from trap.kill_waiter(holder.key)
        yield from trap.pause(trap.target.actors.ttl + FREED_WITHIN)
    finally:
        trap.thaw_all()


def _fault(name: str, kind: Kind, summary: str, injection: FaultInjection, how: str, sees: str, **more: Any) -> Fault:
    """A fault that goes on for longer than a TTL unless `spans` are given."""
    return Fault(
        name, kind, summary, always(injection), needs=NEEDS, how=how, sees=sees, **{"spans": (PAST_TTL,), **more}
    )


def _freeze_at(gate: Gate, sees: str, **more: Any) -> Fault:
    summary = f"{_LANES} is frozen {_WHERE[gate]}, for longer than the TTL"
    how = f"SIGSTOP, {_WHERE[gate]}"
    return _fault(f"freeze-{gate}", "freeze", summary, _hit("freeze", gate), how, sees, **more)


def _kill_at(name: str, gate: Gate, when: str, lease: str = "the lease ends", **more: Any) -> Fault:
    how, sees = f"SIGKILL, {_WHERE[gate]}", f"its successor waits until {lease}"
    return _fault(name, "kill", f"{_LANES} is killed {when}", _hit("kill", gate), how, sees, **more)


FREEZES: Final = (
    _fault(
        "freeze-holder",
        "freeze",
        f"{_LANES} is frozen while it holds, for longer than the TTL",
        _hit("freeze", "between-read-and-write"),
        "SIGSTOP, between the look at the clock and the write",
        "its lease ends; thawed, it writes under an old token",
    ),
    _freeze_at("after-acquire", "its lease ends; thawed, it notices before it touches anything"),
    _freeze_at("before-release", "its lease ends; thawed, it releases what is no longer its own"),
    _freeze_at(
        "in-renewal",
        "its lease ends; thawed, it sends a renewal that is late, wherever its work stands",
        strikes="renewal",
    ),
    _fault(
        "late-write",
        "freeze",
        "a holder frozen past its TTL writes between its successor's read and write",
        HitWorkers(
            "freeze a holder of every lane between its read and its write until its successor stands there too",
            _late_write,
            # The wait for a worker at the gate, then the lease and what servers add to it until the successor comes.
            lambda ttl: catch_within(ttl) + 1.5 * ttl,
        ),
        "SIGSTOP for one, a stall for its successor, both about to write",
        "a write under an old token right before the successor's first",
        spans=(),
    ),
)

HOLDERS: Final = (
    _fault(
        "stall-holder",
        "stall",
        f"{_LANES} hangs while it holds, for longer than the TTL; its renewal goes on",
        _hit("stall", "between-read-and-write"),
        "its main thread waits, between the look at the clock and the write",
        "it keeps the lock, and everybody else waits",
    ),
    _fault(
        "long-call",
        "call",
        f"{_LANES} holds while it calls somebody else, for longer than the TTL; its renewal goes on",
        HitWorkers("keep a holder of every lane, just after its acquire, in a long call", _call, action="call"),
        "its main thread waits, and goes on by itself",
        "it keeps the lock, and everybody else waits",
    ),
    _kill_at("kill-holder", "after-acquire", "while it holds"),
    _kill_at("kill-before-release", "before-release", "when its work is done, before it releases"),
    _kill_at(
        "kill-after-renewal",
        "after-renewal",
        "just after its renewal was acknowledged",
        "the lease ends that was renewed",
        strikes="renewal",
    ),
    _fault(
        "freeze-successor",
        "freeze",
        "a holder of every lane is killed, and its successor frozen for longer than the TTL",
        HitWorkers(
            "kill a holder of every lane, freeze whoever gets its lock next,",
            _freeze_successor,
            lambda ttl: 2 * catch_within(ttl) + 1.5 * ttl,
        ),
        "SIGKILL for one, SIGSTOP for the next, just after their acquires",
        "two leases in a row must end by themselves",
    ),
)

RENEWALS: Final = (
    _fault(
        "stall-renewal",
        "stall",
        "the renewal of a worker of every lane hangs, and is sent when the lease is over",
        _hit_renewal("stall", "hangs"),
        "both of its threads wait: just after its acquire, and about to renew",
        "its lease ends while it holds, and it notices; its renewal is refused",
        strikes="renewal",
    ),
    _fault(
        "kill-renewal",
        "kill",
        "the renewal of a worker of every lane dies, and the lease ends while it holds",
        _hit_renewal("die", "dies"),
        "its main thread waits just after its acquire, the other ends when about to renew",
        "its lease ends while it holds, and it notices",
        strikes="renewal",
    ),
    _fault(
        "stall-waiter",
        "stall",
        "the renewal of a worker of every lane hangs while it waits, until its lease is over",
        HitWorkers(
            "stall a holder of every lane, and the renewal of one that waits for it until its lease is over",
            _stall_waiter,
            lambda ttl: 2 * catch_within(ttl) + ttl + FREED_WITHIN + TOLD_WITHIN,
        ),
        "two threads wait: a holder's main one, and a waiter's when about to renew",
        "its lease ends while it waits; its next keep-alive is refused, and then the lock is released",
        spans=(),
        trait=Trait.WAITING_LEASES,
        waits=FREED_WITHIN + TOLD_WITHIN,
    ),
)

KILL_WAITER: Final = _fault(
    "kill-waiter",
    "kill",
    "a worker of every lane is killed while it waits, with others behind it",
    HitWorkers(
        "stall a holder of every lane, kill one that waits for it, and wait until its lease is over",
        _kill_waiter,
        lambda ttl: 2 * catch_within(ttl) + ttl + FREED_WITHIN,
    ),
    "a stall for the holder, SIGKILL for who has waited longest",
    "what it left in the queue must be gone when the holder releases",
    spans=(),
)
