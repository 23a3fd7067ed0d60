"""``redlock-delayed-restart``: Redlock whose nodes have no vote until they have been up for a TTL.

``redlock`` otherwise, with the remedy of its page ("Performance, crash recovery and fsync", antirez) against nodes that
forget: one that comes back from a crash stays away for a bit more than the longest TTL, so that every lock it may have
known is over. Here the script that votes looks at the node's own uptime, in whole seconds, and says no while that is
too short; renewals and releases are not kept waiting, since who has lost its data finds nothing to renew.

What its authors claim: exclusion without any persistence, with "an availability penalty": after a crash of the majority
nobody gets a lock for a TTL. What it does not cover: a replica that takes the node's place has been up all the while.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from checkers.claims import Claim, Hazard
from suites.locks.lease_claims import HAZARDS
from suites.locks.redlock import BY_ONE_NODE, Redlock

WIPED: Final = ("wipe-server",)


class RedlockDelayedRestart(Redlock):
    name: ClassVar[str] = "redlock-delayed-restart"
    bounds: ClassVar[Mapping[str, float]] = {**Redlock.bounds, "recovery": 7.0}
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced", "register/compare-owner")
    claims: ClassVar[tuple[Claim, ...]] = (
        *Redlock.claims,
        *(Claim(name, under=WIPED) for name in ("server-exclusion", "holder-exclusion", "honest-belief")),
    )
    hazards: ClassVar[tuple[Hazard, ...]] = (*HAZARDS, *(hazard for hazard in BY_ONE_NODE if hazard.under != WIPED))

    ACQUIRE: ClassVar[str] = """
local up = tonumber(string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(-?%d+)'))
-- Two moments in whole seconds may be a second closer to each other than they say; a clock set back makes it negative.
if (up - 1) * 1000 < ARGV[2] * 1.1 then return 0 end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0"""
