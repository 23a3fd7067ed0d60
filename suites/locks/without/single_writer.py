"""``single-writer``: one queue for each resource, whose writer for good is the worker that first asks for it.

No two workers ever write the same resource, so there is nothing to exclude and no lease that could end. Actor
frameworks, partitioned logs and sharded workers rely on this. The others would hand their work to the writer's queue;
here they have nothing to do, and their acquires time out. The writer's identity is in a Redis key that is set once.

What it costs: somebody must move the queue of a dead writer, with a lock or by hand. Nothing here does.
"""

import time
from collections.abc import Sequence
from typing import ClassVar, Final, Self

from checkers.claims import Claim, Hazard
from infra.access import OPEN, Access
from suites.lock import NEVER, Grant, new_owner, now
from suites.locks.lease_claims import CLOCKS, FROZEN_INSIDE, LINKS, RUNNING, SERVERS
from suites.locks.redis_node import RedisNode
from suites.locks.redis_single import REQUEST
from suites.locks.without.no_lock import NoLock

POLL: Final = 0.1
"""Seconds between two looks into the directory."""

_WRITER: Final = """
redis.call('SET', KEYS[1], ARGV[1], 'NX')
if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end
return 0"""


class SingleWriter(NoLock):
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced", "once/unfenced")
    claims: ClassVar[tuple[Claim, ...]] = tuple(
        Claim(name, under=(*LINKS, *SERVERS, *RUNNING, *FROZEN_INSIDE, *CLOCKS))
        for name in ("no-lost-update", "no-duplicate")
    )
    hazards: ClassVar[tuple[Hazard, ...]] = (
        # An unanswered write of the writer may arrive after its next write.
        Hazard("no-lost-update", ("delayed-write",), "late-delivery", certain=False),
    )

    def __init__(self, node: RedisNode, ttl: float) -> None:
        super().__init__(ttl)
        self._node = node
        self._me = new_owner()

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> Self:
        """The directory is on the first node."""
        node = RedisNode(endpoints[0], REQUEST, access)
        node.ping()
        return cls(node, ttl)

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """Always granted to the writer of the resource, and never to another worker."""
        deadline = time.monotonic() + timeout
        while not self._node.call(_WRITER, (_key(name),), self._me):
            if time.monotonic() + POLL > deadline:
                return None
            time.sleep(POLL)
        return Grant(name, new_owner(), None, now(), self._ttl, NEVER)

    def close(self) -> None:
        self._node.close()

    @classmethod
    def sweep(cls, endpoints: Sequence[str], names: Sequence[str], access: Access) -> None:
        """Delete the entries of the directory, which nothing else removes."""
        RedisNode.sweep(endpoints[0], access, ((_key(name),) for name in names))


def _key(name: str) -> str:
    return f"fencepost:writer:{{{name}}}"
