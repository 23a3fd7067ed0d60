"""``redis``: a lock on one Redis node.

SET NX PX with the owner in the value takes the lock, and owner-checked Lua scripts extend and release it: the "correct
implementation with a single instance" of https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/.
Beyond that page, the script that takes the lock counts a fencing token up, so that both happen or neither.

What its authors claim: mutual exclusion while the lock is held for less than its TTL, and freedom from deadlock, since
the key expires. Lock and token hold as long as the node keeps its data: with an append-only file and fsync always they
survive kill and restart; without, or with asynchronous failover, they go back. The lock also needs the node's wall
clock. The fence does not: tokens are in order whatever the clock says.

The other locks on one Redis node are this lock with other scripts.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Self

from checkers.claims import ANY, Claim, Hazard
from checkers.row_format import Reason
from infra.access import OPEN, Access
from suites.lock import NEVER, Declarations, Grant, Refused, new_owner, now
from suites.locks.lease_claims import CLAIMS, CLOCKS, EXCLUSION, HANGS, HAZARDS, LOSSES, TOKEN_CLAIMS, TOKEN_HAZARDS
from suites.locks.polling import polled
from suites.locks.redis_node import DRIFT, GRAIN, RELEASE, RENEW, RedisNode, validity

REQUEST: Final = 0.3
"""Seconds; bounds a connect and an answer. A call returns within its timeout plus twice this."""
BOUNDS: Final = {"recovery": 3.0, "crash-release": 0.5, "honest-belief": 0.0, "fail-fast": 1.5, "hand-over": 1.0}

NODE: Final = ("redis1",)
"""The node on which the lock lives. Faults on the other nodes do not affect the lock."""

SELDOM: Final = (
    *((name, (ANY,), False) for name in (*EXCLUSION, "honest-belief", "honest-renewal")),
    ("fenced-store", ("unfenced",), False),
)
"""(property, store modes, not certain): the holder of that moment may leave before the next client comes in."""

BY_THE_CLOCK: Final = tuple(
    # Keys expire by the node's wall clock (https://redis.io/docs/latest/commands/expire/, "How Redis expires keys"):
    # a clock that is set ahead ends every lock at once, and so does a clock that was behind and is set right.
    Hazard(name, (fault,), mechanism, stores=stores, certain=certain, nodes=NODE)
    for fault, mechanism, sure in (
        ("clock-jump-forward", "expired-by-jump", True),
        ("clock-jump-back", "expired-by-return", True),
        ("clock-strobe", "expired-by-drift", True),
        ("clock-drift", "expired-by-drift", False),  # a lock is mostly released long before
    )
    for name, stores, certain in (
        ("server-exclusion", ("unfenced",), sure),  # the store has no part in it: one lane shows it
        *SELDOM,
        ("no-lost-update", ("unfenced", "fence-writes*"), False),
    )
)

BY_LOSS: Final = tuple(
    # The page above: a replica that is promoted need not have the lock ("safety violation!"). So with lost data.
    Hazard(name, ("wipe-server", "promote-replica"), "state-lost", stores, sure, NODE, ("[!l]*",) if sure else (ANY,))
    for name, stores, sure in (
        ("token-order", (ANY,), True),  # the counter goes back; but it does not count while a `leader` stays
        *SELDOM,
        ("no-lost-update", (ANY,), False),  # two holders may get the same token: no fence can tell them apart
    )
)

# A client that renews in the background keeps the lock of a job that hangs.
BY_RENEWAL: Final = (Hazard("crash-release", HANGS, "hung-but-renewed"),)


class RedisLock(Declarations):
    """A lock on one Redis node: each verb is one script, and a waiter polls.

    KEYS[1] is the lock, the keys after it are its `PARTS`, all in one slot of a Redis Cluster. ARGV[1] is the owner,
    ARGV[2] the TTL in milliseconds. ACQUIRE answers 0 or a positive number, the fencing token where there is one; RENEW
    and RELEASE answer 1, or 0 when the lock is no longer the owner's.
    """

    backend: ClassVar[str] = "redis"
    tokens: ClassVar[bool] = True
    drift: ClassVar[float] = DRIFT
    grain: ClassVar[float] = GRAIN
    min_ttl: ClassVar[float] = 0.6
    nodes: ClassVar[tuple[str, ...]] = NODE
    bounds: ClassVar[Mapping[str, float]] = BOUNDS
    claims: ClassVar[tuple[Claim, ...]] = (
        *CLAIMS,
        *TOKEN_CLAIMS,
        Claim("token-order", under=CLOCKS),
        Claim("no-lost-update", under=CLOCKS, stores=("fence-reads-and-writes",)),
        Claim("recovery", under=LOSSES),
        Claim("owner-release"),  # the owner is compared where the key is deleted
    )
    hazards: ClassVar[tuple[Hazard, ...]] = (*HAZARDS, *TOKEN_HAZARDS, *BY_THE_CLOCK, *BY_LOSS, *BY_RENEWAL)

    PARTS: ClassVar[tuple[str, ...]] = ("fence",)
    ACQUIRE: ClassVar[str] = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[2]) end
return 0"""
    RENEW: ClassVar[str] = RENEW
    RELEASE: ClassVar[str] = RELEASE
    LOOKS_AT_CLOCK: ClassVar[bool] = True
    """Whether the client stops believing when its lease may have ended by its own clock."""

    def __init__(self, node: RedisNode, ttl: float) -> None:
        self._node = node
        self._ttl = ttl

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> Self:
        """Only the first endpoint is used: the others are other, independent nodes."""
        node = RedisNode(endpoints[0], REQUEST, access)
        node.ping()
        return cls(node, ttl)

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """A lost answer is Indeterminate at once; a lock that the request may have taken ends with its TTL."""
        return self._wait(self.ACQUIRE, name, timeout)

    def renew(self, grant: Grant) -> None:
        self._if_owner(self.RENEW, grant)

    def release(self, grant: Grant) -> None:
        self._if_owner(self.RELEASE, grant)

    def close(self) -> None:
        """Hang up; a lock that is still held ends with its TTL."""
        self._node.close()

    @classmethod
    def sweep(cls, endpoints: Sequence[str], names: Sequence[str], access: Access) -> None:
        """Delete counters and queues, which no TTL ends: tokens must not go back while a client may hold an old one."""
        RedisNode.sweep(endpoints[0], access, map(cls._keys, names))

    @classmethod
    def _keys(cls, name: str) -> tuple[str, ...]:
        key = f"fencepost:{{{name}}}"  # the braces keep all of them in one slot of a Redis Cluster
        return (key, *(f"{key}:{part}" for part in cls.PARTS))

    @property
    def _ms(self) -> int:
        return int(self._ttl * 1000)

    def _call(self, script: str, name: str, owner: int, *more: int) -> int:
        return self._node.call(script, self._keys(name), owner, self._ms, *more)

    def _wait(self, script: str, name: str, timeout: float) -> Grant | None:
        """Run the script again and again until it grants or the time has passed."""
        owner = new_owner()

        def attempt() -> Grant | None:
            sent = now()
            answer = self._call(script, name, owner)
            return self._granted(name, owner, answer, sent) if answer else None

        return polled(attempt, timeout)

    def _granted(self, name: str, owner: int, answer: int, sent: int) -> Grant:
        """sent: ns; just before the answered request was sent."""
        token = answer if self.tokens else None
        expires = sent + validity(self._ttl) if self.LOOKS_AT_CLOCK else NEVER
        return Grant(name, owner, token, sent, int(self._ttl * 1e9), expires)

    def _if_owner(self, script: str, grant: Grant) -> None:
        if not self._call(script, grant.name, grant.owner):
            raise Refused(Reason.NOT_OWNER)
