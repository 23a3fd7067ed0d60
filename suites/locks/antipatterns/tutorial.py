"""The lock of many a tutorial, as it ought to be: what the locks beside it get wrong, each in one place.

SET NX PX with the owner in the value, polled; owner-checked scripts extend and release it. No fencing token.
"""

from collections.abc import Sequence
from typing import ClassVar, Final, Self

from checkers.claims import Claim, Hazard
from checkers.wire import Reason
from infra.access import OPEN, Access
from suites.lock import Declarations, Grant, Refused, new_owner, now
from suites.locks.antipatterns.promises import CLAIMS, HAZARDS, UNFENCED
from suites.locks.polling import pause_until
from suites.locks.redis_node import DRIFT, GRAIN, RELEASE, RENEW, Node, validity
from suites.locks.redis_single import POLL, REQUEST

_SET: Final = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end return 0"


class TutorialLock(Declarations):
    """See the module."""

    backend: ClassVar[str] = "redis"
    drift: ClassVar[float] = DRIFT
    grain: ClassVar[float] = GRAIN
    min_ttl: ClassVar[float] = 0.6
    lanes: ClassVar[tuple[str, ...]] = UNFENCED
    claims: ClassVar[tuple[Claim, ...]] = CLAIMS
    hazards: ClassVar[tuple[Hazard, ...]] = HAZARDS

    def __init__(self, node: Node, ttl: float) -> None:
        """ttl: seconds."""
        self.node = node
        self.ttl = ttl

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> Self:
        """Only the first endpoint is used."""
        node = Node(endpoints[0], REQUEST, access)
        node.ping()
        return cls(node, ttl)

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """A lost answer is Indeterminate at once; the lock it may have left behind ends with its TTL."""
        owner = new_owner()
        deadline = now() + int(timeout * 1e9)
        while True:
            sent = now()
            if self.taken(name, owner):
                return Grant(name, owner, None, sent, int(self.ttl * 1e9), sent + validity(self.ttl))
            if timeout == 0:
                raise Refused(Reason.HELD)
            if not pause_until(deadline, POLL):
                return None

    def taken(self, name: str, owner: int) -> bool:
        """One attempt."""
        return bool(self.node.call(_SET, (key_of(name),), owner, ms(self.ttl)))

    def renew(self, grant: Grant) -> None:
        """Set the whole TTL again."""
        if not self.node.call(RENEW, (key_of(grant.name),), grant.owner, ms(self.ttl)):
            raise Refused(Reason.NOT_OWNER)

    def release(self, grant: Grant) -> None:
        """Delete the key if it is still this grant's."""
        if not self.node.call(RELEASE, (key_of(grant.name),), grant.owner):
            raise Refused(Reason.NOT_OWNER)

    def close(self) -> None:
        """Hang up."""
        self.node.close()

    @classmethod
    def sweep(cls, endpoints: Sequence[str], names: Sequence[str], access: Access) -> None:
        """Of those without a TTL something may stay."""
        Node.sweep(endpoints[0], access, ((key_of(name),) for name in names))


def key_of(name: str) -> str:
    """The lock's key."""
    return f"fencepost:{{{name}}}"


def ms(ttl: float) -> int:
    """Milliseconds, from seconds."""
    return int(ttl * 1000)
