"""Faults on a holder: frozen past its lease, hung, killed, or in a long call; and its successor likewise.

Every lane is hit, each by itself; a lane in which nobody reached the gate in time is left alone. A freeze stops the
renewal too, as a long pause of a garbage collector does: the lease runs out, and the holder wakes up beside its
successor. A hung job's lock is renewed all the while, so that nobody else gets it.
"""

from collections.abc import Mapping
from typing import Any, Final

from infra.faults.fault import Fault, FaultInjection, Need, always
from infra.faults.gate_scripts import GateTrap, HitWorkers, Script, catch, catch_within
from infra.faults.target import Action, Gate, Kind

PAST_TTL: Final = 1.6
"""How many TTLs a holder is hit for: its lease is over, unless it is renewed, and its successor at work."""

SETTLED_WITHIN: Final = 0.5
"""Seconds within which a thawed worker must have written and released; it measures 20-200 ms."""

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
    """A holder of every lane. About to write means: it has made sure that it still holds. No client closes that gap."""
    doing = f"{action} a holder of every lane, {_WHERE[gate]},"
    return HitWorkers(doing + {"kill": " and wait"}.get(action, ""), catch(gate, action), action=action)


def _call(trap: GateTrap) -> Script:
    yield from trap.catch("after-acquire", "call", seconds=PAST_TTL * trap.target.actors.ttl)


def _late_write(trap: GateTrap) -> Script:
    """A stale write between its successor's read and write: what a fence on writes alone does not stop.

    A holder is frozen between its read and its write. When its lease is over a successor gets in and is stalled at the
    same place, its renewal going on. Then the first is thawed, writes and releases what is no longer its own; when that
    is over the successor goes on and writes as well. So a release that frees somebody else's lock lets a third one in.
    """
    try:
        first = yield from trap.catch("between-read-and-write", "freeze")
        # At once and not when the lease is over: whoever gets in too early deserves to be seen as well.
        yield from trap.catch("between-read-and-write", "stall", key=first.key)
        trap.thaw(first)
        yield from trap.wait(SETTLED_WITHIN, lambda: trap.target.actors.settled(first))
    finally:
        trap.thaw_all()


def _freeze_successor(trap: GateTrap) -> Script:
    """A holder is killed, and whoever gets its lock next is frozen past its own lease."""
    first = yield from trap.catch("after-acquire", "kill")
    yield from trap.catch("after-acquire", "freeze", key=first.key)


def _fault(name: str, kind: Kind, summary: str, injection: FaultInjection, how: str, sees: str, **more: Any) -> Fault:
    """Goes on for longer than a TTL unless `spans` are given."""
    return Fault(
        name, kind, summary, always(injection), needs=NEEDS, how=how, sees=sees, **{"spans": (PAST_TTL,), **more}
    )


def _freeze_at(gate: Gate, sees: str, *, renewal: bool = False) -> Fault:
    return _fault(
        f"freeze-{gate}",
        "freeze",
        f"{_LANES} is frozen {_WHERE[gate]}, for longer than the TTL",
        _hit("freeze", gate),
        f"SIGSTOP, {_WHERE[gate]}",
        sees,
        renewal=renewal,
    )


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
        renewal=True,
    ),
    _fault(
        "late-write",
        "freeze",
        "a holder frozen past its TTL writes between its successor's read and write",
        HitWorkers(
            "freeze a holder of every lane between its read and its write until its successor stands there too",
            _late_write,
            # A wait for somebody at the gate, and the lease with what servers add to it, before another comes there.
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
    _fault(
        "kill-holder",
        "kill",
        f"{_LANES} is killed while it holds",
        _hit("kill", "after-acquire"),
        "SIGKILL, just after its acquire",
        "its successor waits until the lease ends",
    ),
    _fault(
        "kill-before-release",
        "kill",
        f"{_LANES} is killed when its work is done, before it releases",
        _hit("kill", "before-release"),
        "SIGKILL, about to release",
        "its successor waits until the lease ends",
    ),
    _fault(
        "kill-after-renewal",
        "kill",
        f"{_LANES} is killed just after its renewal was acknowledged",
        _hit("kill", "after-renewal"),
        "SIGKILL, just after its renewal",
        "its successor waits until the lease ends that was renewed",
        renewal=True,
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
