"""``etcd``: a queue of keys under one prefix, ordered by create_revision, each on its client's lease.

The recipe of etcd's own `concurrency.Mutex` (https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency): put a key of
one's own with a lease in a transaction, hold the lock while no key under the prefix has a lower create_revision, and
wait for the deletion of the next lower one. The watch is our own and resumes by revision: that of etcd3 0.12.0 neither
resumes nor ends. Before it grants, the client reads that its key is still there, since a waiter's lease may have
expired meanwhile (etcd #11456). The fencing token is the create_revision.

What its authors claim: exclusion as long as a client stops when its lease may have ended, order of arrival, and freedom
once the lease of a dead holder has expired. Jepsen, "etcd 3.4.3" (2020): etcd locks are not real, use the revision as a
fencing token. Their leases can also end early: a leader that was frozen revokes on its return what its successor had
prolonged meanwhile (etcd #12528 and #15247; less often since 3.5.11, but seen here on 3.5.16).

An answer that is lost ends the whole session: its lease is kept alive no more, so whatever the request did is undone
with the lease, even where it arrives late.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Self
from urllib.parse import quote

from etcd3.transactions import Create, Delete, Get, Put

from checkers.claims import Claim, Hazard
from checkers.wire import Reason
from infra.access import OPEN, Access
from suites.lock import Declarations, Grant, Indeterminate, LockError, Refused, new_owner, now
from suites.locks.etcd_endpoints import Endpoints
from suites.locks.etcd_lease import DRIFT, Leases
from suites.locks.promises import CLAIMS, CONSENSUS_CLAIMS, HAZARDS, TOKEN_CLAIMS, TOKEN_HAZARDS

LOOK: Final = 1.0
"""Seconds; a waiter looks at the queue at least this often, whatever its watch says."""
PAUSE: Final = 0.02
"""Seconds between two looks while no member answers."""

STOOD_STILL: Final = ("pause-server", "stall-disk")  # a disk that is only slow deposes nobody

OLD_LEADER: Final = (
    # A leader that stood still may revoke, when it comes back, leases that its successor had prolonged. In the field it
    # is the disk that does it: the leader waits for its log to be written, and is deposed meanwhile (etcd #15247).
    Hazard("server-exclusion", STOOD_STILL, "revoked-early", certain=False),
    Hazard("holder-exclusion", STOOD_STILL, "revoked-early", certain=False),
)


@dataclass(frozen=True, slots=True)
class Queue:
    """What stood under a lock's prefix at a revision. keys: create_revision → key."""

    revision: int
    keys: Mapping[int, bytes]

    def next_lower(self, token: int) -> bytes | None:
        """The key right before ours. Raises Refused(NOT_OWNER) when ours is not there."""
        if token not in self.keys:
            raise Refused(Reason.NOT_OWNER, "the key is gone")
        lower = max((revision for revision in self.keys if revision < token), default=None)
        return None if lower is None else self.keys[lower]


class EtcdLock(Declarations):
    """See the module. A call returns within its timeout plus three requests (1.8 s) and maybe a login (2 s)."""

    name: ClassVar[str] = "etcd"
    backend: ClassVar[str] = "etcd"
    lease: ClassVar[str] = "session"
    tokens: ClassVar[bool] = True
    fair: ClassVar[bool] = True
    drift: ClassVar[float] = DRIFT
    grain: ClassVar[float] = 0.0
    min_ttl: ClassVar[float] = 2.0
    bounds: ClassVar[Mapping[str, float]] = {"recovery": 10.0}
    claims: ClassVar[tuple[Claim, ...]] = CLAIMS + TOKEN_CLAIMS + CONSENSUS_CLAIMS
    hazards: ClassVar[tuple[Hazard, ...]] = HAZARDS + TOKEN_HAZARDS + OLD_LEADER

    def __init__(self, etcd: Endpoints, leases: Leases) -> None:
        self._etcd = etcd
        self._leases = leases

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> Self:
        """Asks every endpoint once for a lease."""
        etcd = Endpoints(endpoints, access)
        client = cls(etcd, Leases(etcd, ttl))
        for last in range(len(endpoints) - 1, -1, -1):
            try:
                client._leases.open()
                break
            except Refused:
                if not last:
                    etcd.close()
                    raise
        return client

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """Queue up and wait."""
        deadline = now() + int(timeout * 1e9)
        lease = self._leases.open()
        owner = new_owner()
        prefix, key = _prefix(name), _key(name, owner)
        sent = now()
        try:
            token, queue = self._enqueue(prefix, key, lease.id)
        except LockError as error:
            if not (isinstance(error, Refused) and error.reason is Reason.UNAVAILABLE):
                self._leases.give_up(lease.id)
            raise
        try:
            while (ahead := queue.next_lower(token)) is not None and now() < deadline:
                self._etcd.await_deletion(ahead, queue.revision + 1, min(LOOK, (deadline - now()) / 1e9))
                queue = self._look(prefix) or queue
            if ahead is None:
                lease = self._leases.proven(lease.id)
                return Grant(name, owner, token, sent, lease.ttl, lease.expires, lease.id)
            self._delete(key, token)
        except LockError as error:
            self._leases.give_up(lease.id)
            if isinstance(error, Refused) and error.reason is Reason.NOT_OWNER:
                raise
            raise Indeterminate(str(error)) from error
        if timeout == 0:
            raise Refused(Reason.HELD)
        return None

    def renew(self, grant: Grant) -> None:
        """The lease is what can be renewed."""
        if grant.session != self.session:
            raise Refused(Reason.NOT_OWNER)
        self._leases.keep_alive(grant.session)

    def release(self, grant: Grant) -> None:
        """Delete the key if it is still the one of this grant; where that fails it goes with the lease."""
        try:
            deleted = self._delete(_key(grant.name, grant.owner), grant.token or 0)
        except LockError:
            self._leases.give_up(grant.session)
            raise
        if not deleted:
            raise Refused(Reason.NOT_OWNER)

    def close(self) -> None:
        """Revoke the lease, and with it all grants, if one request can do it."""
        session = self.session
        if session:
            with contextlib.suppress(LockError):
                self._etcd.call(lambda client: client.revoke_lease(session))
        self._etcd.close()

    def belief(self, grant: Grant) -> bool:
        """Whether the grant's lease is the present one and cannot have expired."""
        lease = self._leases.present
        return lease is not None and lease.id == grant.session and now() < lease.expires

    @property
    def session(self) -> int:
        """The id of the lease; 0 from its end to the next call."""
        lease = self._leases.present
        return 0 if lease is None else lease.id

    @property
    def opened(self) -> int:
        """When the present lease was asked for (ns), 0 without one."""
        lease = self._leases.present
        return 0 if lease is None else lease.opened

    def keep_alive(self) -> None:
        """One LeaseKeepAlive, or a new lease where there is none."""
        session = self.session
        if session:
            self._leases.keep_alive(session)
        else:
            self._leases.open()

    def _enqueue(self, prefix: str, key: str, lease_id: int) -> tuple[int, Queue]:
        """Put our key, and see in the same transaction who stands before it."""
        _, (put, found) = self._etcd.call(
            lambda client: client.transaction(
                compare=[Create(key) == 0],
                success=[Put(key, b"", lease_id), Get(prefix, prefix[:-1] + "0")],  # "0" comes right after "/"
                failure=[],
            )
        )
        token = int(put.response_put.header.revision)  # of the transaction, so the key's create_revision
        return token, Queue(token, {about.create_revision: about.key for _, about in found})

    def _look(self, prefix: str) -> Queue | None:
        """A linearizable read of the queue, or None where no answer came: reading again does no harm."""
        try:
            answer = self._etcd.call(lambda client: client.get_prefix_response(prefix, keys_only=True))
        except LockError:
            time.sleep(PAUSE)
            return None
        return Queue(answer.header.revision, {about.create_revision: about.key for about in answer.kvs})

    def _delete(self, key: str, token: int) -> bool:
        """Whether it was there."""
        deleted, _ = self._etcd.call(
            lambda client: client.transaction(compare=[Create(key) == token], success=[Delete(key)], failure=[])
        )
        return bool(deleted)


def _prefix(name: str) -> str:
    return f"/fencepost/{quote(name, safe='')}/"


def _key(name: str, owner: int) -> str:
    return f"{_prefix(name)}{owner:016x}"
