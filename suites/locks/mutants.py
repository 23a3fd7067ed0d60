"""Locks with one bug each, planted in a correct one: does the suite find what it is there to find?

Each changes the one thing that its docstring names, and promises what the correct lock promises.
`suites.lanes.mutant_catalogue` lists the property that must name each bug, and the fault under which it comes out.
"""

import contextlib
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final, Self

from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import ZnodeStat

from checkers.claims import Claim
from checkers.row_format import Reason
from infra.access import OPEN, Access
from suites.lock import Grant, LockError, Refused, now
from suites.locks.etcd import EtcdLock, Queue, Range
from suites.locks.kazoo_lock import KazooLock
from suites.locks.postgres_advisory import AdvisoryLock
from suites.locks.postgres_lease import LeaseLock
from suites.locks.postgres_session import PostgresSession, Rows
from suites.locks.redis_node import RELEASE, RENEW, RedisNode
from suites.locks.redis_rw import RedisReadWrite
from suites.locks.redis_single import RedisLock
from suites.locks.redlock import Redlock
from suites.locks.zookeeper import QueueNode, ZooKeeperLock, number

_STEAL: Final = """
if redis.call('PTTL', KEYS[1]) < ARGV[2] / 2 then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return redis.call('INCR', KEYS[2])
end
return 0"""
_LOOK: Final = "return redis.call('GET', KEYS[1]) == ARGV[1] and 1 or 0"
_DELETE: Final = "return redis.call('DEL', KEYS[1])"
_COUNT: Final = "return redis.call('INCR', KEYS[1])"
_STRANGER: Final = 1
"""No owner: they are random."""


class RenewsNothing(RedisLock):
    """Says that it has renewed, and sends nothing."""

    def renew(self, grant: Grant) -> None:
        """Acknowledged."""


class RenewsBriefly(RedisLock):
    """Renews for a tenth of the TTL: seconds taken for something else."""

    RENEW: ClassVar[str] = RENEW.replace("ARGV[2]", "math.floor(ARGV[2] / 10)")


class RenewsForLong(RedisLock):
    """Renews for four times the TTL: whoever dies after that blocks everybody else for so long."""

    RENEW: ClassVar[str] = RENEW.replace("ARGV[2]", "4 * ARGV[2]")


class RenewsUnderAnotherName(RedisLock):
    """Asks to renew with a wrong owner, so that it is told that the lock is gone."""

    def renew(self, grant: Grant) -> None:
        """Refused, always."""
        super().renew(replace(grant, owner=_STRANGER))


class BelievesForEver(RedisLock):
    """The client does not look at the clock: when renewals do not get through it goes on."""

    LOOKS_AT_CLOCK: ClassVar[bool] = False


class ForgetsTheOthers(RedisLock):
    """When it releases one of its locks, it renews none of the others any more, and says that it did."""

    def __init__(self, node: RedisNode, ttl: float) -> None:
        super().__init__(node, ttl)
        self._released = 0

    def renew(self, grant: Grant) -> None:
        """Only of what was granted since."""
        if grant.sent > self._released:
            super().renew(grant)

    def release(self, grant: Grant) -> None:
        """And forget."""
        super().release(grant)
        self._released = now()


class RenewsNeverAgain(RedisLock):
    """After a renewal that failed it never renews a lock of that name again, and says that it did."""

    def __init__(self, node: RedisNode, ttl: float) -> None:
        super().__init__(node, ttl)
        self._failed: set[str] = set()

    def renew(self, grant: Grant) -> None:
        """Unless it failed before."""
        if grant.name in self._failed:
            return
        try:
            super().renew(grant)
        except LockError:
            self._failed.add(grant.name)
            raise


class WaitsThoughItTries(RedisLock):
    """A try waits as long as anybody else."""

    min_ttl: ClassVar[float] = (
        2.0  # who hangs for longer than this keeps others waiting for longer than a call may take
    )

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """For as long as the longest of them."""
        return super().acquire(name, timeout or 30.0)


class DowngradesUnrenewed(RedisReadWrite):
    """What was downgraded is not renewed, and is said to be."""

    def __init__(self, node: RedisNode, ttl: float) -> None:
        super().__init__(node, ttl)
        self._downgraded = 0

    def downgrade(self, grant: Grant) -> Grant:
        """And note it."""
        reader = super().downgrade(grant)
        self._downgraded = reader.owner
        return reader

    def renew(self, grant: Grant) -> None:
        """Unless it was downgraded."""
        if grant.owner != self._downgraded:
            super().renew(grant)


class ReleasesThenReads(RedisReadWrite):
    """A downgrade releases, and waits for its turn as a reader: another writer may come in between."""

    def downgrade(self, grant: Grant) -> Grant:
        """Two requests."""
        self.release(grant)
        reader = self.acquire_shared(grant.name, self._ttl)
        if reader is None:
            raise Refused(Reason.TIMEOUT)
        return reader


class ByChecksum(RedisLock):
    """Names the lock by the CRC-32 of what it is called."""

    pace: ClassVar[float] = 0.5  # whoever waits for another lock waits for longer than a free one takes
    lanes: ClassVar[tuple[str, ...]] = ("apart/unfenced",)
    bounds: ClassVar[Mapping[str, float]] = {**RedisLock.bounds, "independence": 0.15}
    claims: ClassVar[tuple[Claim, ...]] = (*RedisLock.claims, Claim("independence"))

    @classmethod
    def _keys(cls, name: str) -> tuple[str, ...]:
        return super()._keys(str(zlib.crc32(name.encode())))


class CountsBeforeItHolds(RedisLock):
    """The token is counted up when it begins to ask, and not with the lock."""

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """Whoever waits longest comes with the lowest token."""
        token = self._node.call(_COUNT, (self._keys(name)[1] + ":asked",))
        grant = super().acquire(name, timeout)
        return grant and replace(grant, token=token)


class StealsEarly(RedisLock):
    """Takes a lock whose lease is more than half over."""

    ACQUIRE: ClassVar[str] = _STEAL


class ReleasesAlways(RedisLock):
    """Says that it has released, whatever it was told."""

    RELEASE: ClassVar[str] = RELEASE.replace("return 0", "return 1")


class LooksThenDeletes(RedisLock):
    """Looks whether the lock is its own, and then deletes it, in two requests."""

    def release(self, grant: Grant) -> None:
        """Refused only if it had been lost before the look."""
        self._if_owner(_LOOK, grant)
        self._call(_DELETE, grant.name, grant.owner)


class WaitsForAnswers(RedisLock):
    """Waits for an answer for as long as it takes."""

    def __init__(self, node: RedisNode, ttl: float) -> None:
        super().__init__(node, ttl)
        node.timeout = 60.0


class TwoOfFive(Redlock):
    """Two votes are enough for it."""

    def __init__(self, nodes: Sequence[RedisNode], ttl: float) -> None:
        super().__init__(nodes, ttl)
        self._quorum = 2


class NewestFirst(ZooKeeperLock):
    """The highest number holds, and not the lowest."""

    def _before(self, mine: str, queue: Sequence[str]) -> str | None:
        return super()._before(mine, queue[::-1])


class ByName(ZooKeeperLock):
    """Puts the queue in the order of the nodes' names, which begin with a random GUID."""

    def _before(self, mine: str, queue: Sequence[str]) -> str | None:
        return super()._before(mine, sorted(queue))


class FreesTwo(ZooKeeperLock):
    """Releases the next of the queue as well, who has just been granted the lock."""

    def release(self, grant: Grant) -> None:
        """Its own node, and then the lowest, whosever that is."""
        place = self._held.get(grant.owner)
        super().release(grant)
        if place is None:
            return
        parent = place.parent
        nodes = self._session.ask(lambda: self._zk.get_children_async(parent))
        if nodes:
            first = min(nodes, key=number)
            with contextlib.suppress(NoNodeError):
                self._session.ask(lambda: self._zk.delete_async(f"{parent}/{first}"))


class Persistent(ZooKeeperLock):
    """Its nodes are not ephemeral: they outlive their session."""

    def _enqueue(self, place: QueueNode, kind: str) -> tuple[int, str, ZnodeStat]:
        path, sent = f"{place.parent}/{place.guid}-{kind}", now()
        made, stat = self._session.ask(lambda: self._zk.create_async(path, sequence=True, include_data=True))
        return sent, made, stat


class CancelledStays(KazooLock):
    """One that is cancelled leaves its node in the queue."""

    def cancel(self) -> None:
        """Without kazoo's cleanup."""
        lock = self._awaited
        if lock is not None:
            lock._best_effort_cleanup = lambda: None
            lock.cancel()


class StaysInTheQueue(ZooKeeperLock):
    """Who gives up leaves its node in the queue."""

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """And calls it a timeout."""
        self._giving_up = True
        try:
            return super().acquire(name, timeout)
        finally:
            self._giving_up = False

    _giving_up: bool = False

    def _delete(self, place: QueueNode) -> bool:
        return self._giving_up or super()._delete(place)


class LeaseForToken(EtcdLock):
    """The token is the lease's identity, and not the revision of its key."""

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """The same for all grants of one client."""
        grant = super().acquire(name, timeout)
        return grant and replace(grant, token=grant.session)

    def release(self, grant: Grant) -> None:
        """Whatever revision it has."""
        self._etcd.call(lambda client: client.delete(self._keys[grant.owner]))


class WatchesTheHolder(EtcdLock):
    """Everybody who waits watches the first of the queue, and not the one before it."""

    def _ahead(self, queue: Queue, token: int) -> Range | None:
        before = queue.before(token)
        return (before[0], b"") if before else None


class WithoutLease(EtcdLock):
    """Its keys have no lease: nothing ends them."""

    def _enqueue(self, prefix: str, key: str, lease_id: int) -> tuple[int, Queue]:  # noqa: ARG002 - that is the bug
        return super()._enqueue(prefix, key, 0)


class GrantedWhenRefused(EtcdLock):
    """Takes an error for an empty queue, in which it is the first."""

    def _enqueue(self, prefix: str, key: str, lease_id: int) -> tuple[int, Queue]:
        try:
            return super()._enqueue(prefix, key, lease_id)
        except Refused:
            return 1, Queue((b"", b""), 1, {1: key.encode()})


class LocksShared(AdvisoryLock):
    """Takes the lock as a reader does, beside whom there may be others."""

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """Granted to everybody at once."""
        return self._take(name, timeout, "_shared")

    def _free(self, grant: Grant, mode: str = "_shared") -> None:
        super()._free(grant, mode)


class TakesEarly(LeaseLock):
    """Takes a row whose lease is more than half over."""

    ACQUIRE: ClassVar[str] = LeaseLock.ACQUIRE.replace(
        "l.expires <= clock_timestamp()", "l.expires <= clock_timestamp() + $3::interval / 2"
    )


class _ItsOwnTime(PostgresSession):
    """Tells the server what time it is."""

    def ask(self, session: int, statement: str, *params: object, wait: float = 0.0) -> Rows:
        """By the client's clock."""
        statement = statement.replace("clock_timestamp()", f"to_timestamp({time.time()})")
        return super().ask(session, statement, *params, wait=wait)


class ByItsOwnClock(LeaseLock):
    """Whether a lease is over is decided by the clock of the client that looks, and not by the server's."""

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> Self:
        """As the correct one."""
        session = _ItsOwnTime(endpoints[0], access, {})
        session.begin()
        return cls(session, ttl)
