"""``redis-fair``: a lock on one Redis node that clients get in the order in which they asked for it.

The idea is that of Redisson's RFairLock: a queue in Redis, and for each waiter the time of its last sign of life. Each
look of a waiter is one. The script that looks drops all that gave none for `PATIENCE`: otherwise a dead waiter would
keep the others out for ever. As in ``redis``, the script that takes the lock counts a fencing token up.

What its authors claim: besides exclusion, that a waiter is not overtaken as long as it goes on asking. A waiter that
was dropped is put at the end when it comes back, so its turn counts from then. Signs of life are times of the node's
wall clock, and are compared only with that clock: a sign from the future counts as none.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from checkers.claims import Claim, Hazard
from checkers.row_format import Reason
from suites.lock import Grant, Indeterminate, Refused, new_owner, now
from suites.locks.lease_claims import HAZARDS, SOUND, TOKEN_HAZARDS
from suites.locks.polling import pause_until
from suites.locks.redis_node import NOW
from suites.locks.redis_single import BY_LOSS, BY_THE_CLOCK, RedisLock

PATIENCE: Final = 0.5
"""Seconds after which a waiter that has not asked again loses its place. Redisson gives it five."""

_HELD: Final = -3
_WAITED_FOR: Final = -2
_WAITING: Final = -1
_QUEUED: Final = 0
"""Answers to an acquire that is not granted. To a try: the lock is held, or others wait for it. To a waiter: it was in
the queue already, or joined it now. A grant is answered with twice its token, plus 1 if the waiter joined only now."""

_DROP: Final = """
local gone = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[3])
for _, one in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. now, '+inf')) do gone[#gone + 1] = one end
for _, one in ipairs(gone) do
  redis.call('ZREM', KEYS[2], one)
  redis.call('ZREM', KEYS[3], one)
end
"""
_LEAVE: Final = """
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
return 1"""


class RedisFair(RedisLock):
    fair: ClassVar[bool] = True
    bounds: ClassVar[Mapping[str, float]] = {
        **RedisLock.bounds,
        "recovery": 4.0,
        "crash-release": 0.5 + PATIENCE,  # the killed client may have waited at the head of the queue
        "fail-fast": 2.2,  # a client that gives up asks once more, to leave the queue
    }
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced", "register/fence-reads-and-writes", "impatient/unfenced")
    claims: ClassVar[tuple[Claim, ...]] = (*RedisLock.claims, Claim("fifo", under=SOUND))
    hazards: ClassVar[tuple[Hazard, ...]] = HAZARDS + TOKEN_HAZARDS + BY_THE_CLOCK + BY_LOSS

    PARTS: ClassVar[tuple[str, ...]] = ("queue", "signs", "places", "fence")
    ACQUIRE: ClassVar[str] = f"""{NOW}{_DROP}
local joined = false
if ARGV[4] == '1' then
  if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
    redis.call('ZADD', KEYS[2], redis.call('INCR', KEYS[4]), ARGV[1])
    joined = true
  end
  redis.call('ZADD', KEYS[3], now, ARGV[1])
end
local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
local held = redis.call('EXISTS', KEYS[1]) == 1
if not held and (first == ARGV[1] or not first) then
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('ZREM', KEYS[3], ARGV[1])
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return redis.call('INCR', KEYS[5]) * 2 + (joined and 1 or 0)
end
if ARGV[4] == '0' then return held and {_HELD} or {_WAITED_FOR} end
return joined and {_QUEUED} or {_WAITING}"""

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """See `LockClient`. A waiter that an unanswered request left in the queue is dropped after `PATIENCE`."""
        owner, queued = new_owner(), 0
        deadline = now() + int(timeout * 1e9)
        try:
            while True:
                sent = now()
                answer = self._call(self.ACQUIRE, name, owner, int(PATIENCE * 1000), int(timeout > 0))
                if answer > 0:
                    token, joined = divmod(answer, 2)
                    queued = now() if joined else queued or now()
                    return replace(self._granted(name, owner, token, sent), queued=queued)
                if answer == _QUEUED:
                    queued = now()
                if timeout == 0:
                    raise Refused(Reason.HELD if answer == _HELD else Reason.DENIED)
                if not pause_until(deadline):
                    self._call(_LEAVE, name, owner)
                    return None
        except Refused as refusal:
            if queued:
                raise Indeterminate(f"still in the queue: {refusal}") from refusal
            raise
