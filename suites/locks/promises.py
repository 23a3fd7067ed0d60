"""What lease locks have in common: the same promises while their holder runs, the same breakage when it is frozen.

A lease ends on the server's clock, whatever the holder does meanwhile. A holder that runs sees the end coming and
stops; one that is frozen (a long garbage collection, a suspended machine) wakes up inside, beside its successor.
Only a resource that refuses lower fencing tokens, on reads as well as on writes, is protected from it: see Kleppmann,
"How to do distributed locking" (2016), and Jepsen, "etcd 3.4.3" (2020), section 3.2.
"""

from __future__ import annotations

from typing import Final

from checkers.claims import Claim, Hazard

HOLDER_RUNS: Final = (
    "cut-*",
    "isolate-leader-*",
    "slow-links",
    "pause-server",
    "kill-server",
    "kill-holder",
)
"""Faults under which a holder either runs, and so notices, or is dead."""

CLAIMS: Final = (
    Claim("server-exclusion"),
    Claim("holder-exclusion", under=HOLDER_RUNS),
    Claim("recovery"),
)

TOKEN_CLAIMS: Final = (
    Claim("token-order"),
    Claim("fenced-store", stores=("fence-*",)),
    Claim("no-lost-update", stores=("fence-reads-and-writes",)),
)

HAZARDS: Final = (
    Hazard("holder-exclusion", ("freeze-holder", "late-write"), "frozen-past-ttl"),
    Hazard("fenced-store", ("freeze-holder", "late-write"), "frozen-past-ttl", stores=("unfenced",)),
    Hazard("no-lost-update", ("late-write",), "frozen-past-ttl", stores=("unfenced",)),
    Hazard(
        "no-lost-update", ("freeze-holder",), "frozen-past-ttl", stores=("unfenced", "fence-writes*"), certain=False
    ),
)

TOKEN_HAZARDS: Final = (
    # A fence on writes alone still accepts a stale write that lands between its successor's read and first write.
    Hazard("no-lost-update", ("late-write",), "frozen-past-ttl", stores=("fence-writes*",)),
)
