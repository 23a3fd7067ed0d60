"""What lease locks have in common: the same promises while their holder runs, the same breakage when it is frozen.

A lease ends on the server's clock, whatever the holder does meanwhile. A holder that runs sees the end coming and
stops; one that is frozen (a long garbage collection, a suspended machine) wakes up inside, beside its successor.
Only a resource that refuses lower fencing tokens, on reads as well as on writes, is protected from it: see Kleppmann,
"How to do distributed locking" (2016), and Jepsen, "etcd 3.4.3" (2020), section 3.2.

Every fault has its place in one of the groups below; of one that has none nothing is claimed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from checkers.claims import Claim, Hazard
from checkers.mechanisms import FROZEN

LINKS: Final = (
    "cut-*",
    "isolate-leader-*",
    "split-*",
    "mute-leader",
    "deafen-leader",
    "lose-*",
    "reset-connections",
    "flap-links",
    "slow-links",
    "slow-close",
    "throttle-links",
    "slice-links",
)
"""A link may lose, delay and cut: an answer that does not come is unknown, and a client that hears nothing stops in
time."""

SERVERS: Final = (
    "pause-server",
    "kill-server",
    "crash-after-acquire",
    "restart-*",
    "*-disk",
    "change-leader",
    "replace-version",
)
"""A server may stop and come back with what it had acknowledged."""

STORE: Final = ("delayed-write", "store-reply-lost")
"""The lock is not touched."""

RUNNING: Final = ("kill-holder", "kill-before-release", "kill-renewal", "stall-holder", "stall-renewal", "long-call")
"""Faults on workers under which a holder either runs, and so notices the end of its lease, or is dead."""

FROZEN_INSIDE: Final = ("freeze-*", "late-write")
"""Faults under which a holder certainly does not run when its lease ends, and is still inside when it goes on."""

CLOCKS: Final = ("clock-*",)
LOSSES: Final = ("wipe-server", "promote-replica")
"""What a server had acknowledged is gone."""

HOLDER_RUNS: Final = (*LINKS, *SERVERS, *STORE, *RUNNING)
SOUND: Final = (*HOLDER_RUNS, *FROZEN_INSIDE)
"""Faults that no lock service need mind: its clocks run, and its data stay."""

CLAIMS: Final = (
    Claim("server-exclusion", under=SOUND),
    Claim("holder-exclusion", under=HOLDER_RUNS),
    Claim("recovery", under=SOUND),
)

TOKEN_CLAIMS: Final = (
    Claim("token-order", under=SOUND),
    # The fence compares numbers, wherever they come from.
    Claim("fenced-store", stores=("fence-*",)),
    Claim("no-lost-update", under=SOUND, stores=("fence-reads-and-writes",)),
)

CONSENSUS_CLAIMS: Final = tuple(replace(claim, under=("wipe-server",)) for claim in (*CLAIMS, *TOKEN_CLAIMS))
"""Where members agree before they acknowledge, one that comes back empty gets all of it from the others."""

HAZARDS: Final = (
    Hazard("holder-exclusion", FROZEN_INSIDE, FROZEN),
    # Frozen when it has made sure that it holds, and is about to write. Elsewhere it makes sure before it writes,
    # unless its renewal is hit just while it writes.
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
    # The lock was held when the write was sent; where no fence stands it overwrites what came after it.
    Hazard("no-lost-update", ("delayed-write",), "late-delivery", stores=("unfenced",)),
    Hazard("no-lost-update", ("delayed-write",), "late-delivery", stores=("fence-writes*",), certain=False),
)

TOKEN_HAZARDS: Final = (
    # A fence on writes alone still accepts a stale write that lands between its successor's read and first write.
    Hazard("no-lost-update", ("late-write",), FROZEN, stores=("fence-writes*",)),
)
