"""What all lease locks have in common: their claims while the holder runs, and their hazards when the holder is frozen.

A lease ends on the server's clock, whatever the holder does meanwhile. A holder that runs sees the end coming and
stops. A holder that is frozen (a long garbage collection, a suspended machine) wakes up inside, beside its successor.
Only a resource that refuses lower fencing tokens, on reads as well as on writes, is protected from it: see Kleppmann,
"How to do distributed locking" (2016), and Jepsen, "etcd 3.4.3" (2020), section 3.2.

Every fault belongs to one of the groups below; nothing is claimed under a fault without a group.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from checkers.claims import FROZEN, NO_FAULT, Claim, Hazard

Promise = TypeVar("Promise", Claim, Hazard)

EXCLUSION: Final = ("server-exclusion", "holder-exclusion")
INSIDE: Final = ("holder-exclusion", "no-lost-update")
"""Properties that break when a client is inside whose lease is over."""

LINKS: Final = (
    *("cut-*", "isolate-leader-*", "split-*", "mute-leader", "deafen-leader", "lose-*", "reset-connections"),
    *("flap-links", "slow-links", "slow-close", "throttle-links", "slice-links"),
)
"""Links lose, delay and cut. An unanswered request has an unknown outcome; a client without answers stops in time."""

SERVERS: Final = (
    *("pause-server", "kill-server", "crash-after-acquire", "restart-*"),
    *("*-disk", "change-leader", "refuse-writes", "*-version", "kill-under-load", "cascade", "rejoin-then-lead"),
    *("maintenance", "kill-in-maintenance"),
)
"""A server may stop and come back with what it had acknowledged."""

BOUNDARIES: Final = tuple(f"at-every-request-{what}" for what in ("kill", "lose", "late", "reset", "pass", "cancel"))
"""Between two requests of a verb a client may die, lose its answer or its connection, give up, and so on."""
STORE: Final = ("delayed-write", "store-reply-lost")
"""Faults on the protected store; the lock is not touched."""

RUNNING: Final = (
    *("kill-holder", "kill-before-release", "kill-after-renewal", "kill-renewal", "kill-waiter"),
    *("late-release", "stall-holder", "stall-renewal", "stall-waiter", "long-call", "skew-workers"),
)
"""Faults on workers under which a holder runs (and so notices the end of its lease), is dead, or has left."""

FROZEN_INSIDE: Final = ("freeze-*", "late-write")
"""Faults under which a holder certainly does not run when its lease ends, and is still inside when it goes on."""
FROZEN_BETWEEN: Final = ("at-every-request-freeze", "at-every-two-requests-freeze", "at-every-request-crash")
"""A client is frozen between requests of a verb until another holds or a server is back; inside only if it renews."""

CLOCKS: Final = ("clock-*",)
LOSSES: Final = ("wipe-server", "promote-replica")
"""Faults under which data that a server had acknowledged are gone."""

HOLDER_RUNS: Final = (*LINKS, *SERVERS, *STORE, *RUNNING, *BOUNDARIES)
SOUND: Final = (*HOLDER_RUNS, *FROZEN_INSIDE, *FROZEN_BETWEEN)
"""Faults under which clocks run and data stay: a lock service needs to withstand all of them."""
CRASHES: Final = ("kill-holder", "kill-before-release", "kill-after-renewal", "freeze-successor")
"""Faults under which a holder dies, and its successor waits for its lease to end."""
HANGS: Final = ("stall-holder", "long-call")
"""Faults under which a holder hangs while its renewal goes on."""

CLAIMS: Final = (
    Claim("server-exclusion", under=SOUND),
    Claim("holder-exclusion", under=HOLDER_RUNS),
    Claim("recovery", under=SOUND),
    # A client that was frozen believes nothing while it does not run, and first looks at its clock when it runs.
    Claim("honest-belief", under=SOUND),
    Claim("owner-release", under=SOUND),
    Claim("honest-renewal", under=SOUND),
    Claim("crash-release", under=(*LINKS, *SERVERS, *STORE, *CRASHES, *FROZEN_INSIDE, *FROZEN_BETWEEN, *BOUNDARIES)),
    Claim("fail-fast"),
    Claim("hand-over"),
)

TOKEN_CLAIMS: Final = (
    Claim("token-order", under=SOUND),
    # The fence compares numbers, wherever they come from.
    Claim("fenced-store", stores=("fence-*",)),
    Claim("no-lost-update", under=SOUND, stores=("fence-reads-and-writes",)),
)

FENCED_QUEUE_CLAIMS: Final = (
    *(*CLAIMS, *TOKEN_CLAIMS),
    # Each client waits only for the client right before it.
    *(Claim("fifo", under=SOUND), Claim("herd-free")),
    # The service that grants the lock refuses the write, whatever the holder believes and however late it comes.
    *(Claim(name, under=SOUND, stores=("guarded",)) for name in ("fenced-store", "no-lost-update")),
    # Members agree before they acknowledge, so a member that comes back empty gets all data from the others.
    *(replace(claim, under=("wipe-server",)) for claim in (*CLAIMS, *TOKEN_CLAIMS)),
)
"""All claims of a queue with tokens, on members that agree, and of the data beside the queue."""
WOKEN_ALL: Final = Hazard("herd-free", (NO_FAULT,), "woken-all", certain=False)
"""The hazard of a queue in which one release may wake several waiters."""

HAZARDS: Final = (
    Hazard("holder-exclusion", FROZEN_INSIDE, FROZEN),
    Hazard("holder-exclusion", FROZEN_BETWEEN, FROZEN, certain=False),
    # The holder is frozen after it has made sure that it holds, just before it writes. If it is frozen elsewhere, it
    # makes sure again before it writes, unless the fault hits its renewal just while it writes.
    Hazard("fenced-store", ("freeze-holder", "late-write"), FROZEN, stores=("unfenced",)),
    Hazard("fenced-store", ("freeze-in-renewal",), FROZEN, stores=("unfenced",), certain=False),
    Hazard("no-lost-update", ("late-write",), FROZEN, stores=("unfenced",)),
    Hazard(
        "no-lost-update",
        ("freeze-holder", "freeze-in-renewal"),
        FROZEN,
        stores=("unfenced", "fence-writes*"),
        certain=False,
    ),
    # The lock was held when the write was sent. Without a fence, the late write overwrites the writes after it.
    # If it lands between a holder's read and write, the holder overwrites it in turn, and no update is missing.
    Hazard("no-lost-update", ("delayed-write",), "late-delivery", stores=("unfenced",), certain=False),
    Hazard("no-lost-update", ("delayed-write",), "late-delivery", stores=("fence-writes*",), certain=False),
)

TOKEN_HAZARDS: Final = (
    # A fence on writes alone still accepts a stale write that lands between the successor's read and first write.
    Hazard("no-lost-update", ("late-write",), FROZEN, stores=("fence-writes*",)),
)


def may_break(
    properties: Sequence[str], under: tuple[str, ...], mechanism: str, **limits: tuple[str, ...]
) -> tuple[Hazard, ...]:
    """A hazard that need not show, for each property. limits: `stores`, `nodes` and `workloads` of a `Hazard`."""
    return tuple(Hazard(name, under, mechanism, certain=False, **limits) for name in properties)


def besides(properties: Sequence[str], promises: Sequence[Promise]) -> tuple[Promise, ...]:
    """The claims or hazards about other properties."""
    return tuple(promise for promise in promises if promise.property not in properties)


def without(properties: Sequence[str], bounds: Mapping[str, float]) -> Mapping[str, float]:
    return {name: bound for name, bound in bounds.items() if name not in properties}


_OF_ONE_HOLDER: Final = (
    *("token-order", "fenced-store", "no-lost-update", "fifo", "herd-free"),
    # With several permits nobody can tell which of them was passed on.
    *("owner-release", "crash-release", "honest-belief"),
)


def as_semaphore(promises: Sequence[Promise]) -> tuple[Promise, ...]:
    """The same claims or hazards for a semaphore, which has no tokens, no store to protect, and several permits.

    Under ``late-write`` the supposed successor of the frozen holder may have held another permit all the while.
    """
    kept: list[Promise] = []
    for promise in besides(_OF_ONE_HOLDER, promises):
        if promise.property == "server-exclusion":
            promise = replace(promise, property="permits")
        if "late-write" in promise.under and isinstance(promise, Hazard):
            kept.append(replace(promise, under=("late-write",), certain=False))
            promise = replace(promise, under=tuple(fault for fault in promise.under if fault != "late-write"))
        kept.append(promise)
    return tuple(kept)
