"""``redis-watchdog``: a lock that its library renews for as long as the process lives.

As Redisson's RLock (https://github.com/redisson/redisson/wiki/8.-distributed-locks-and-synchronizers, "Lock"): who
asks for no lease time gets one of 30 s, and a watchdog "prolongs lock expiration while lock holder Redisson instance is
alive", every third of that. Here the worker's own renewals are the watchdog: they know nothing of the work either.

What its authors claim: the lock of an instance that crashes does not stay held for ever. They do not claim it of a
thread that hangs: its lock is renewed all the while. Nor does the client look at the clock: nothing but the answer to a
renewal ends its belief, so that it goes on for longer than its lease when its renewals do not arrive, be it cut off
(redisson/redisson#3636 asks about just that) or on a machine too busy to send them: that no two are inside at once is
nothing it can promise. There is no fencing token; Redisson has those in another lock, RFencedLock.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from checkers.claims import FROZEN, NO_FAULT, Claim, Hazard
from suites.locks.lease_claims import HAZARDS, besides
from suites.locks.redis_node import TAKE
from suites.locks.redis_single import BY_LOSS, BY_RENEWAL, BY_THE_CLOCK, RedisLock

_UNASKED: Final = ("honest-belief", "fenced-store", "token-order")


class RedisWatchdog(RedisLock):
    name: ClassVar[str] = "redis-watchdog"
    tokens: ClassVar[bool] = False
    min_ttl: ClassVar[float] = 1.2
    bounds: ClassVar[Mapping[str, float]] = {"recovery": 3.0, "crash-release": 0.5, "fail-fast": 1.5, "hand-over": 1.0}
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced", "leader/unfenced")
    claims: ClassVar[tuple[Claim, ...]] = besides((*_UNASKED, "holder-exclusion", "no-lost-update"), RedisLock.claims)
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *besides(_UNASKED, (*HAZARDS, *BY_THE_CLOCK, *BY_LOSS)),
        *BY_RENEWAL,
        # It wakes up and goes on where one that looks at the clock stops.
        Hazard("no-lost-update", ("freeze-after-acquire", "freeze-before-release"), FROZEN, certain=False),
        # Only who holds for longer than a lease lasts can outlive it.
        Hazard("holder-exclusion", (NO_FAULT,), "outlived-ttl", certain=False),
        Hazard("no-lost-update", (NO_FAULT,), "outlived-ttl", certain=False),
    )

    PARTS: ClassVar[tuple[str, ...]] = ()
    ACQUIRE: ClassVar[str] = TAKE
    LOOKS_AT_CLOCK: ClassVar[bool] = False
