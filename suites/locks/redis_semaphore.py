"""``redis-semaphore``: two may hold at once, on one Redis node.

A sorted set of owners with the moment at which each one's lease ends, as the semaphores of J. Carlson, "Redis in
Action" (2013), section 6.3; but by the node's own clock, not by those of its clients, which there have to agree to
within a second for the count to be right. Redisson's RPermitExpirableSemaphore does the same.

What its authors claim: never more than N at once while each holds for less than its TTL, and permits of the dead come
back. It is not fair, and it has no fencing token: two may hold at once, and no order of numbers would tell who is late.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from checkers.claims import Claim, Hazard
from suites.locks.lease_claims import as_semaphore
from suites.locks.redis_node import NOW
from suites.locks.redis_single import RedisLock

PERMITS: Final = 2

_HOLDERS: Final = f"""{NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
"""


class RedisSemaphore(RedisLock):
    name: ClassVar[str] = "redis-semaphore"
    tokens: ClassVar[bool] = False
    permits: ClassVar[int] = PERMITS
    bounds: ClassVar[Mapping[str, float]] = {"recovery": 3.0, "fail-fast": 1.5}
    lanes: ClassVar[tuple[str, ...]] = ("work/unfenced",)
    claims: ClassVar[tuple[Claim, ...]] = as_semaphore(RedisLock.claims)
    hazards: ClassVar[tuple[Hazard, ...]] = as_semaphore(RedisLock.hazards)

    PARTS: ClassVar[tuple[str, ...]] = ()
    ACQUIRE: ClassVar[str] = f"""{_HOLDERS}
if redis.call('ZCARD', KEYS[1]) >= {PERMITS} then return 0 end
return redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])"""
    RENEW: ClassVar[str] = f"""{_HOLDERS}
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
return 1"""
    RELEASE: ClassVar[str] = f"""{_HOLDERS}
return redis.call('ZREM', KEYS[1], ARGV[1])"""
