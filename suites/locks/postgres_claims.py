"""What locks have in common that live in a session of PostgreSQL: no lease, so nothing to outlive, and nobody to tell.

Such a lock is held until it is released or its session ends, and the server's clock has no part in it. A frozen holder
keeps it, so that nobody else is inside when it wakes up; so does one that hangs, for ever. When the session ends the
server gives the lock to the next at once, and the holder learns of it with its next statement: PostgreSQL sends a
farewell that drivers read only then (psycopg's documentation, "Detecting disconnections").

Every fault has its place in one of the two groups.
"""

from typing import Final

from checkers.claims import Claim, Hazard
from suites.locks.lease_claims import CLOCKS, FROZEN_INSIDE, HAZARDS, RUNNING, STORE

_BETWEEN: Final = "at-every-request-"

MIN_TTL: Final = 1.5
"""Seconds. There is no lease: a third of this is how often a holder asks whether its session lives."""

SLOW: Final = ("slow-links", "slow-close", "throttle-links", "slice-links", "pause-server", "*-disk", "maintenance")
"""Faults under which answers come late."""

KEPT: Final = (
    *(f"{_BETWEEN}{what}" for what in ("freeze", "pass", "kill", "late", "cancel")),
    *STORE,
    *RUNNING,
    *FROZEN_INSIDE,
    *CLOCKS,
    *SLOW,
    *("at-every-two-requests-freeze", "refuse-writes"),
)
"""Faults that end no session, unless the client gives it up itself and so knows of it."""

ENDED: Final = (
    *("cut-*", "lose-*", "reset-connections", "flap-links"),
    *("kill-server", "crash-after-acquire", "restart-*", "*-version", "wipe-server"),
    *(f"{_BETWEEN}{what}" for what in ("lose", "reset", "crash")),
)
"""Faults that end sessions, most often when their holders have given them up already. Links are among them: what a cut
swallowed makes the connection useless, and the proxy ends it at the heal."""

TERMINATED: Final = ("terminate-backends",)

BOUNDS: Final = {"recovery": 3.0, "crash-release": 1.5, "honest-belief": 2.0, "fail-fast": 5.0, "hand-over": 1.0}
"""Seconds. A dead client's connection is closed by its kernel, and its session ended by a process of its own: that
measures milliseconds, and half a second where the machine has more to do than it can."""

ASKS: Final = tuple(fault for fault in RUNNING if fault != "stall-renewal")
"""Faults under which a holder asks for its session as often as always."""

DETECTED: Final = (*STORE, *RUNNING)
"""Faults under which the server finds those who wait for each other within deadlock_timeout (1 s), and can tell one."""

EXCLUSION: Final = ("server-exclusion", "holder-exclusion")

CLAIMS: Final = (
    *(Claim(name, under=KEPT) for name in EXCLUSION),
    # Without a fence, since nobody goes on inside after his lock was given to another.
    Claim("no-lost-update", under=tuple(fault for fault in KEPT if fault != "delayed-write"), stores=("unfenced",)),
    Claim("recovery"),
    Claim("crash-release", under=("kill-*", "freeze-successor")),
    # Who is frozen notices nothing, and no more does one whose thread that asks is stalled.
    Claim("honest-belief", under=(*STORE, *ASKS, *CLOCKS, *SLOW, *ENDED, *TERMINATED)),
    Claim("fail-fast"),
    Claim("hand-over"),
)

HAZARDS_OF_SESSIONS: Final = (
    # Who holds for long is still at it when the next has connected again.
    *(Hazard(name, TERMINATED, "session-lost", workloads=("leader",)) for name in EXCLUSION),
    *(Hazard(name, (*ENDED, *TERMINATED), "session-lost", certain=False) for name in EXCLUSION),
    *(
        Hazard(name, (*ENDED, *TERMINATED), "session-lost", stores=("unfenced",), certain=False)
        for name in ("fenced-store", "no-lost-update")
    ),
    *(hazard for hazard in HAZARDS if hazard.mechanism == "late-delivery"),
    # Its session lives, and that is all that the server looks at.
    Hazard("crash-release", ("stall-holder", "long-call"), "hung-but-renewed"),
)
HAZARDS_OF_WAITERS: Final = (
    # The server's look, or what it has to say, comes late: its timers go by the wall clock, and lengthen where that is
    # set back. Who was told may be frozen, and keeps what it has. Then they wait for as long as they like.
    Hazard("deadlock-free", (*FROZEN_INSIDE, *CLOCKS, *SLOW, *ENDED, *TERMINATED), "opposite-order", certain=False),
    # And so do their sessions at the server after they themselves have gone.
    Hazard("recovery", CLOCKS, "timers-set-back", certain=False, workloads=("transfer*",)),
)
WITHOUT_LISTS: Final = tuple(hazard for hazard in HAZARDS_OF_SESSIONS if hazard.property != "no-lost-update")
"""For locks that are tried in no lane with a list."""
