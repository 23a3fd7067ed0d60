"""What the further locks on one Redis node have in common: each verb is one Lua script, and a waiter polls.

The key of the lock comes first, then what else belongs to it, all in one slot of a Redis Cluster. The first argument
is the owner, the second the TTL in milliseconds. An acquire answers with something positive, the fencing token where
there is one; renewals and releases answer 1, or 0 when the lock is no longer the owner's.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Self

from checkers.wire import Reason
from infra.access import OPEN, Access
from suites.lock import Declarations, Grant, Refused, new_owner, now
from suites.locks.polling import pause_until
from suites.locks.redis_node import DRIFT, GRAIN, RELEASE, RENEW, Node, validity
from suites.locks.redis_single import POLL, REQUEST, RedisLock

NOW: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
"""The node's clock in milliseconds, for scripts that must end leases by themselves."""


class ScriptedLock(Declarations):
    """A lock on one Redis node. The class variables are its scripts, the names of its further keys, and how it
    speaks to the node.
    """

    ACQUIRE: ClassVar[str]
    RENEW: ClassVar[str] = RENEW
    RELEASE: ClassVar[str] = RELEASE
    PARTS: ClassVar[tuple[str, ...]] = ()
    NODE: ClassVar[type[Node]] = Node

    backend: ClassVar[str] = "redis"
    lease: ClassVar[str] = "grant"
    drift: ClassVar[float] = DRIFT
    grain: ClassVar[float] = GRAIN
    min_ttl: ClassVar[float] = 0.6
    bounds: ClassVar[Mapping[str, float]] = RedisLock.bounds

    def __init__(self, node: Node, ttl: float) -> None:
        """ttl: seconds."""
        self._node = node
        self._ttl = ttl

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> Self:
        """Only the first endpoint is used: the others are other, independent nodes."""
        node = cls.NODE(endpoints[0], REQUEST, access)
        node.ping()
        return cls(node, ttl)

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """A lost answer is Indeterminate at once; the lock it may have left behind ends with its TTL."""
        return self._wait(self.ACQUIRE, name, timeout)

    def renew(self, grant: Grant) -> None:
        """Set the whole TTL again."""
        self._if_owner(self.RENEW, grant)

    def release(self, grant: Grant) -> None:
        """Free it if it is still this grant's."""
        self._if_owner(self.RELEASE, grant)

    def close(self) -> None:
        """Hang up; a lock that is still held ends with its TTL."""
        self._node.close()

    @classmethod
    def sweep(cls, endpoints: Sequence[str], names: Sequence[str], access: Access) -> None:
        """Counters and queues stay for ever otherwise."""
        Node.sweep(endpoints[0], access, map(cls._keys, names))

    @classmethod
    def _keys(cls, name: str) -> tuple[str, ...]:
        key = f"fencepost:{{{name}}}"
        return (key, *(f"{key}:{part}" for part in cls.PARTS))

    @property
    def _ms(self) -> int:
        return int(self._ttl * 1000)

    def _call(self, script: str, name: str, owner: int, *more: int) -> int:
        return self._node.call(script, self._keys(name), owner, self._ms, *more)

    def _wait(self, script: str, name: str, timeout: float) -> Grant | None:
        """Ask again and again until the script grants or the time has passed."""
        owner = new_owner()
        deadline = now() + int(timeout * 1e9)
        while True:
            sent = now()
            answer = self._call(script, name, owner)
            if answer:
                return self._granted(name, owner, answer, sent)
            if timeout == 0:
                raise Refused(Reason.HELD)
            if not pause_until(deadline, POLL):
                return None

    def _granted(self, name: str, owner: int, answer: int, sent: int) -> Grant:
        """sent: ns; just before the request was sent that was answered."""
        token = answer if self.tokens else None
        return Grant(name, owner, token, sent, int(self._ttl * 1e9), sent + validity(self._ttl))

    def _if_owner(self, script: str, grant: Grant) -> None:
        if not self._call(script, grant.name, grant.owner):
            raise Refused(Reason.NOT_OWNER)
