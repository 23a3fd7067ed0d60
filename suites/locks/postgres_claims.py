"""What locks in a session of PostgreSQL have in common: no lease to outlive, and no notice when the session ends.

Such a lock is held until it is released or its session ends, and the server's clock has no part in it. A frozen holder
keeps the lock, so that nobody else is inside when it wakes up. A hung holder keeps it for ever. When the session ends,
the server gives the lock to the next client at once. The holder learns of it with its next statement: PostgreSQL sends
a farewell, which drivers read only then (psycopg's documentation, "Detecting disconnections").

Every fault has its place in one of the two groups.
"""

from typing import Final

from checkers.claims import Claim, Hazard
from suites.locks.lease_claims import CLOCKS, EXCLUSION, FROZEN_INSIDE, HAZARDS, RUNNING, STORE, may_break

_BETWEEN: Final = "at-every-request-"

MIN_TTL: Final = 1.5
"""Seconds. There is no lease; a holder asks every third of this time whether its session lives."""
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
"""Faults that end no session, unless the client itself gives the session up, and so knows of its end."""

ENDED: Final = (
    *("cut-*", "lose-*", "reset-connections", "flap-links"),
    *("kill-server", "kill-in-maintenance", "crash-after-acquire", "restart-*", "*-version", "wipe-server"),
    *(f"{_BETWEEN}{what}" for what in ("lose", "reset", "crash")),
)
"""Faults that end sessions, most often when the holders have given their sessions up already. Faults on links are among
them: the bytes that a cut swallowed make the connection useless, and the proxy ends the connection at the heal."""

TERMINATED: Final = ("terminate-backends",)

BOUNDS: Final = {"recovery": 3.0, "crash-release": 1.5, "honest-belief": 2.0, "fail-fast": 5.0, "hand-over": 1.0}
"""Seconds. The kernel closes a dead client's connection, and the session's own process at the server ends the session:
that takes milliseconds, and half a second on an overloaded machine."""
ASKS: Final = tuple(fault for fault in RUNNING if fault != "stall-renewal")
"""Faults under which a holder asks as often as always whether its session lives."""
DETECTED: Final = (*STORE, *RUNNING)
"""Faults under which the server finds a deadlock within deadlock_timeout (1 s), and can tell one of the clients."""

CLAIMS: Final = (
    *(Claim(name, under=KEPT) for name in EXCLUSION),
    # Without a fence, since no holder goes on inside after its lock was granted to another client.
    Claim("no-lost-update", under=tuple(fault for fault in KEPT if fault != "delayed-write"), stores=("unfenced",)),
    Claim("recovery"),
    Claim("crash-release", under=("kill-*", "freeze-successor")),
    # A frozen holder notices nothing, nor does a holder whose thread that asks is stalled.
    Claim("honest-belief", under=(*STORE, *ASKS, *CLOCKS, *SLOW, *ENDED, *TERMINATED)),
    Claim("fail-fast"),
    Claim("hand-over"),
)

HAZARDS_OF_SESSIONS: Final = (
    # A client that holds for long is still inside when the next client has connected again.
    *(Hazard(name, TERMINATED, "session-lost", workloads=("leader",)) for name in EXCLUSION),
    *may_break(EXCLUSION, (*ENDED, *TERMINATED), "session-lost"),
    *may_break(("fenced-store", "no-lost-update"), (*ENDED, *TERMINATED), "session-lost", stores=("unfenced",)),
    *(hazard for hazard in HAZARDS if hazard.mechanism == "late-delivery"),
    # The session of the hung holder lives, and the server looks at nothing else.
    Hazard("crash-release", ("stall-holder", "long-call"), "hung-but-renewed"),
)
HAZARDS_OF_WAITERS: Final = (
    # The server's check for deadlocks, or its answer, comes late: its timers go by the wall clock, and take longer if
    # that is set back. The refused client may be frozen, and keeps its lock. Then the others wait as long as they like.
    Hazard("deadlock-free", (*FROZEN_INSIDE, *CLOCKS, *SLOW, *ENDED, *TERMINATED), "opposite-order", certain=False),
    # Their sessions at the server also wait on after the clients have gone.
    Hazard("recovery", CLOCKS, "timers-set-back", workloads=("transfer*",), certain=False),
)
WITHOUT_LISTS: Final = tuple(hazard for hazard in HAZARDS_OF_SESSIONS if hazard.property != "no-lost-update")
"""For locks that are tried in no lane with a list."""
