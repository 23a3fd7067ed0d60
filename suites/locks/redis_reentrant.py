"""``redis-reentrant``: a lock on one Redis node that its holder may acquire again.

A hash of the owner and how often it holds, as of Redisson's RLock, and its fencing token besides. An acquire by the
owner counts up and sets the whole TTL again; a release counts down, and deletes the lock when nothing is left. The
client says who it is, as there: here with the owner of the grant that it holds, which all its inner acquires share.

What its authors claim: exclusion as of ``redis``; an inner acquire succeeds at once and an inner release frees nothing.
An inner acquire that finds the lock gone is refused: it must not take what may have been somebody else's meanwhile.
"""

from dataclasses import replace
from typing import ClassVar

from checkers.claims import Claim, Hazard
from checkers.row_format import Reason
from suites.lock import Grant, Refused, now
from suites.locks.lease_claims import SOUND, besides
from suites.locks.redis_node import RedisNode
from suites.locks.redis_single import BY_LOSS, BY_THE_CLOCK, RedisLock
from suites.locks.reentrant import LANES

_AGAIN = """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('HINCRBY', KEYS[1], 'depth', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return tonumber(redis.call('HGET', KEYS[1], 'token'))"""


class RedisReentrant(RedisLock):
    name: ClassVar[str] = "redis-reentrant"
    reentrant: ClassVar[bool] = True
    lanes: ClassVar[tuple[str, ...]] = LANES
    claims: ClassVar[tuple[Claim, ...]] = (*RedisLock.claims, Claim("reentrancy", under=SOUND))
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *besides(("crash-release",), RedisLock.hazards),
        # What the node has forgotten nobody can hold again, nor still hold after an inner release.
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

    def __init__(self, node: RedisNode, ttl: float) -> None:
        super().__init__(node, ttl)
        self._held: dict[str, list[int]] = {}
        """Name → the owner of what this client holds, as often as it holds."""

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """At once, whatever the timeout, where this client holds it: with the same owner and token.

        Raises Refused(NOT_OWNER) where it only thought so.
        """
        held = self._held.get(name)
        if not held:
            grant = super().acquire(name, timeout)
            if grant is not None:
                self._held[name] = [grant.owner]
            return grant
        owner, sent = held[0], now()
        token = self._call(_AGAIN, name, owner)
        if not token:
            raise Refused(Reason.NOT_OWNER)
        held.append(owner)
        return self._granted(name, owner, token, sent)

    def release(self, grant: Grant) -> None:
        """Once for every acquire; with the last one the client holds it no longer, however that ends."""
        held = self._held.get(grant.name, [])
        if grant.owner in held:
            held.remove(grant.owner)
        super().release(grant)
