"""``redlock-unchecked``: Redlock without its look at the clock, and without a small timeout for each node.

``redlock`` otherwise, and what it leaves out the page of Redlock asks for: that the client "computes how much time
elapsed in order to acquire the lock", and a timeout that is small compared to the TTL, which "prevents the client from
remaining blocked for a long time trying to talk with a Redis node which is down". This client waits for every answer
for as long as `REQUEST`, and counts its lease from the last of them.

What it shows is the heart of a debate. Kleppmann, "How to do distributed locking" (2016), has a client stop while the
answers are on their way; antirez, "Is Redlock safe?" (2016), replies that Redlock is immune to that, because it checks
the time again when it has them. So it is, and this one is not: one node that stands still for longer than the TTL makes
every acquire return when the lock is over at all the others. The service does nothing wrong.

An answer that is slow for any other reason, a busy machine's included, does the same in part: the client believes for
longer than it holds by as much as the answer took. So whether two are inside at once is nothing it can promise at all.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from checkers.claims import NO_FAULT, Claim, Hazard
from suites.lock import now
from suites.locks.lease_claims import besides
from suites.locks.redis_node import validity
from suites.locks.redlock import Redlock

_UNASKED: Final = ("honest-belief", "crash-release", "fail-fast", "fenced-store")
_LATE: Final = "answer-past-ttl"


class RedlockUnchecked(Redlock):
    name: ClassVar[str] = "redlock-unchecked"
    bounds: ClassVar[Mapping[str, float]] = {"recovery": 6.0, "hand-over": 1.5}
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced",)
    pace: ClassVar[float] = 0.3  # whoever comes after the pause finds somebody inside, whose lease was over long before
    claims: ClassVar[tuple[Claim, ...]] = besides((*_UNASKED, "holder-exclusion", "no-lost-update"), Redlock.claims)
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *besides(_UNASKED, Redlock.hazards),
        Hazard("holder-exclusion", ("pause-server",), _LATE),
        *(
            Hazard(name, (NO_FAULT,), mechanism, certain=False)
            for name in ("holder-exclusion", "no-lost-update")
            for mechanism in (_LATE, "outlived-ttl")
        ),
    )

    REQUEST: ClassVar[float] = 5.0

    def _expires(self, _sent: int) -> int:
        return now() + validity(self._ttl)
