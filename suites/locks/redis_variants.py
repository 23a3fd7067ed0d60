"""Locks on one Redis node with other scripts: read/write, for two holders at once, reentrant, and renewed for ever."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from checkers.claims import FROZEN, NO_FAULT, Claim, Hazard
from checkers.row_format import Reason
from suites.lock import Grant, Indeterminate, Refused, new_owner, now
from suites.locks.lease_claims import HAZARDS, INSIDE, SOUND, TOKEN_HAZARDS, as_semaphore, besides, may_break
from suites.locks.redis_node import NOW, TAKE
from suites.locks.redis_single import BY_LOSS, BY_RENEWAL, BY_THE_CLOCK, RedisLock
from suites.locks.reentrant import Reentrant

COMING: Final = 0.1
"""Seconds that the note of a waiting writer lasts: the writer polls a few times within it."""
_UNASKED: Final = ("no-lost-update",)
_UNWATCHED: Final = ("honest-belief", "fenced-store", "token-order")
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
_WITHDRAW: Final = "return redis.call('DEL', KEYS[3])"
PERMITS: Final = 2
_HOLDERS: Final = f"""{NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
"""
_AGAIN = """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('HINCRBY', KEYS[1], 'depth', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return tonumber(redis.call('HGET', KEYS[1], 'token'))"""


class RedisReadWrite(RedisLock):
    """``redis-rw``: a read/write lock on one Redis node.

    The writer has a key, which expires. Readers are in a set, each with the time at which its lease ends by the node's
    clock; every script first drops those that are over. A waiting writer leaves a note that keeps new readers out for
    `COMING`, so that readers who come and go do not keep it waiting for ever; if it gives up, it takes the note back.
    Redisson's RReadWriteLock is similar: its readers are fields of a hash, each with a key that expires. But they do
    not mind a waiting writer.

    What its authors claim: a writer is alone, and readers keep out no reader. Unlike Redisson's, grants carry a fencing
    token, larger than those of all who left before; readers that hold together share one. A writer may become a reader.
    """

    _noted = False  # whether the acquire has left a note

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

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """As for `RedisLock`, but up to four times `REQUEST` late; in doubt also if its note may keep readers out."""
        self._noted = False
        try:
            if grant := super().acquire(name, timeout):
                return grant
        except Refused:
            if self._noted:
                self._withdraw(name)
            raise
        self._withdraw(name)
        return None

    def acquire_shared(self, name: str, timeout: float) -> Grant | None:
        return self._wait(_ACQUIRE_SHARED, name, timeout)

    def downgrade(self, grant: Grant) -> Grant:
        owner, sent = new_owner(), now()
        token = self._call(_DOWNGRADE, grant.name, grant.owner, owner)
        if not token:
            raise Refused(Reason.NOT_OWNER)
        return self._granted(grant.name, owner, token, sent)

    def _call(self, script: str, name: str, owner: int, *more: int) -> int:
        answer = super()._call(script, name, owner, *more)
        if script == self.ACQUIRE:  # renewals come from another thread
            self._noted = not answer
        return answer

    def _withdraw(self, name: str) -> None:
        """Take back the note of a waiting writer; others that wait leave theirs again. Raises Indeterminate."""
        try:
            self._call(_WITHDRAW, name, 0)
        except Refused as refused:
            raise Indeterminate("a note that keeps readers out may be left") from refused


class RedisSemaphore(RedisLock):
    """``redis-semaphore``: a lock on one Redis node that two clients may hold at once.

    A sorted set of owners, each with the time at which its lease ends, as in the semaphores of J. Carlson, "Redis in
    Action" (2013), section 6.3; but by the node's own clock, not by its clients' clocks, which there have to agree to
    within a second for the count to be right. Redisson's RPermitExpirableSemaphore does the same.

    What its authors claim: never more than N at once while each holds for less than its TTL, and a dead holder's permit
    comes back. It is not fair, and has no fencing token: with N holders, no order of numbers would tell who is late.
    """

    tokens: ClassVar[bool] = False
    permits: ClassVar[int] = PERMITS
    bounds: ClassVar[Mapping[str, float]] = {"recovery": 3.0, "fail-fast": 1.5, "hand-over": 1.0}
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


class RedisReentrant(Reentrant, RedisLock):
    """``redis-reentrant``: a lock on one Redis node that its holder may acquire again.

    A hash holds the owner and how often it holds, as in Redisson's RLock, and also a fencing token. An acquire by the
    owner counts up and sets the whole TTL again. A release counts down, and deletes the lock at zero. As there, the
    client says who it is: here by the owner of the grant that it holds, which all its inner acquires share.

    What its authors claim: exclusion as of ``redis``; an inner acquire succeeds at once, and an inner release frees
    nothing. An inner acquire that finds the lock gone is refused: another client may have had it meanwhile.
    """

    claims: ClassVar[tuple[Claim, ...]] = (*RedisLock.claims, Claim("reentrancy", under=SOUND))
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *besides(("crash-release",), RedisLock.hazards),
        # A lock that the node has forgotten cannot be acquired again, nor is it held after an inner release.
        *(
            replace(hazard, property="reentrancy", certain=False)
            for hazard in (*BY_THE_CLOCK, *BY_LOSS)
            if hazard.property == "server-exclusion"
        ),
    )

    ACQUIRE: ClassVar[str] = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local token = redis.call('INCR', KEYS[2])
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'depth', 1, 'token', token)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return token"""
    RENEW: ClassVar[str] = """
if redis.call('HGET', KEYS[1], 'owner') == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0"""
    RELEASE: ClassVar[str] = """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
if redis.call('HINCRBY', KEYS[1], 'depth', -1) <= 0 then redis.call('DEL', KEYS[1]) end
return 1"""

    def _again(self, held: Grant) -> Grant:
        """Raises Refused(NOT_OWNER) if the client was wrong to believe that it holds the lock."""
        sent = now()
        token = self._call(_AGAIN, held.name, held.owner)
        if not token:
            raise Refused(Reason.NOT_OWNER)
        return self._granted(held.name, held.owner, token, sent)

    def _release_inner(self, grant: Grant) -> None:
        self._if_owner(self.RELEASE, grant)


class RedisWatchdog(RedisLock):
    """``redis-watchdog``: a lock that its library renews for as long as the process lives.

    As in Redisson's RLock (https://github.com/redisson/redisson/wiki/8.-distributed-locks-and-synchronizers, "Lock"): a
    client that asks for no lease time gets 30 s, and every third of that a watchdog "prolongs lock expiration while
    lock holder Redisson instance is alive". Here the worker's own renewals, which know nothing of its work, do that.

    What its authors claim: the lock of an instance that crashes does not stay held for ever. They do not claim it of a
    thread that hangs: its lock is renewed all the while. Nor does the client look at the clock: only the answer to a
    renewal ends its belief. It goes on for longer than its lease when its renewals do not arrive, because it is cut off
    (redisson/redisson#3636 asks about just that) or its machine is too busy to send them. So it cannot promise that two
    are never inside at once. There is no fencing token; Redisson has those in another lock, RFencedLock.
    """

    tokens: ClassVar[bool] = False
    min_ttl: ClassVar[float] = 1.2
    bounds: ClassVar[Mapping[str, float]] = {"recovery": 3.0, "crash-release": 0.5, "fail-fast": 1.5, "hand-over": 1.0}
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced", "leader/unfenced")
    claims: ClassVar[tuple[Claim, ...]] = besides((*_UNWATCHED, *INSIDE), RedisLock.claims)
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *besides(_UNWATCHED, (*HAZARDS, *BY_THE_CLOCK, *BY_LOSS)),
        *BY_RENEWAL,
        # The holder wakes up and goes on, where a client that looks at the clock stops.
        Hazard("no-lost-update", ("freeze-after-acquire", "freeze-before-release"), FROZEN, certain=False),
        # Only a client that holds for longer than its lease lasts can outlive the lease.
        *may_break(INSIDE, (NO_FAULT,), "outlived-ttl"),
    )

    PARTS: ClassVar[tuple[str, ...]] = ()
    ACQUIRE: ClassVar[str] = TAKE
    LOOKS_AT_CLOCK: ClassVar[bool] = False
