"""``redis-rw``: a read/write lock on one Redis node.

A key for the writer, which expires, and a set of readers with the moment at which each one's lease ends by the node's
clock: every script first drops those who are over. A writer that waits leaves a note which keeps new readers out for
`COMING`, so that readers who come and go do not keep it waiting for ever. As Redisson's RReadWriteLock, whose readers
are fields of a hash with a key each to expire; those of Redisson do not mind a writer that waits.

What its authors claim: a writer is alone, and readers keep out no reader. Beyond Redisson's, grants carry a fencing
token, larger than those of all who left before; readers that hold together share one. A writer may become a reader.
"""

from typing import ClassVar, Final

from checkers.claims import Claim, Hazard
from checkers.row_format import Reason
from suites.lock import Grant, Refused, new_owner, now
from suites.locks.lease_claims import HAZARDS, TOKEN_HAZARDS, besides
from suites.locks.redis_node import NOW
from suites.locks.redis_single import BY_LOSS, BY_THE_CLOCK, RedisLock

COMING: Final = 0.1
"""Seconds that a waiting writer's note lasts: a few of its looks."""

_UNASKED: Final = ("no-lost-update",)

_READERS: Final = f"""{NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
"""
_ACQUIRE_SHARED: Final = f"""{_READERS}
if redis.call('EXISTS', KEYS[1], KEYS[3]) > 0 then return 0 end
local alone = redis.call('ZCARD', KEYS[2]) == 0
redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[1])
return alone and redis.call('INCR', KEYS[4]) or tonumber(redis.call('GET', KEYS[4]))"""

_DOWNGRADE: Final = f"""{_READERS}
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[3])
return redis.call('INCR', KEYS[4])"""


class RedisReadWrite(RedisLock):
    name: ClassVar[str] = "redis-rw"
    lanes: ClassVar[tuple[str, ...]] = ("share/*", "register/fence-reads-and-writes")
    claims: ClassVar[tuple[Claim, ...]] = (*besides(_UNASKED, RedisLock.claims), Claim("sharing"))
    hazards: ClassVar[tuple[Hazard, ...]] = besides(_UNASKED, (*HAZARDS, *TOKEN_HAZARDS, *BY_THE_CLOCK, *BY_LOSS))

    PARTS: ClassVar[tuple[str, ...]] = ("readers", "coming", "fence")
    ACQUIRE: ClassVar[str] = f"""{_READERS}
if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
  redis.call('SET', KEYS[3], 1, 'PX', {int(COMING * 1000)})
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('DEL', KEYS[3])
return redis.call('INCR', KEYS[4])"""
    RENEW: ClassVar[str] = f"""{_READERS}
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[1])
return 1"""
    RELEASE: ClassVar[str] = f"""{_READERS}
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return redis.call('ZREM', KEYS[2], ARGV[1])"""

    def acquire_shared(self, name: str, timeout: float) -> Grant | None:
        return self._wait(_ACQUIRE_SHARED, name, timeout)

    def downgrade(self, grant: Grant) -> Grant:
        owner, sent = new_owner(), now()
        token = self._call(_DOWNGRADE, grant.name, grant.owner, owner)
        if not token:
            raise Refused(Reason.NOT_OWNER)
        return self._granted(grant.name, owner, token, sent)
