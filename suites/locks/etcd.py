"""``etcd``: a queue of keys under one prefix, ordered by create_revision, each attached to its client's lease.

This is the recipe of etcd's own `concurrency.Mutex` (https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency): a
client puts its own key with its lease in a transaction, holds the lock while no key under the prefix has a lower
create_revision, and otherwise waits until the next lower key is deleted. The watch is our own and resumes by revision:
that of etcd3 0.12.0 neither resumes nor ends. Before it grants, the client reads that its key is still there, since its
lease may have expired while it waited (etcd #11456). The fencing token is the create_revision.

What its authors claim: exclusion as long as a client stops when its lease may have ended, order of arrival, and that
the lock is free once a dead holder's lease has expired. Jepsen, "etcd 3.4.3" (2020): etcd locks are not real, use the
revision as a fencing token. Leases can also end early: a leader that was frozen, when it comes back, revokes leases
that its successor had prolonged meanwhile (etcd #12528 and #15247; less often since 3.5.11, but seen here on 3.5.16).

Data can be kept beside the queue: one transaction compares the create_revision of the holder's own key and writes, as
in Jepsen's ``lock-etcd-set``. Once a holder's lease is over, nothing that it sends is accepted, however late.
"""

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from etcd3.transactions import Create, Get, Put

from checkers.claims import Claim, Hazard
from checkers.row_format import Reason
from infra.access import Access
from suites.lock import Grant, Indeterminate, LockError, Refused, new_owner, now
from suites.locks.etcd_requests import Endpoints
from suites.locks.etcd_session import EtcdSession, data_of, prefix_of
from suites.locks.guarded import decoded, encoded
from suites.locks.lease_claims import FENCED_QUEUE_CLAIMS, HAZARDS, TOKEN_HAZARDS, may_break

LOOK: Final = 1.0
"""Seconds; a waiter looks at the queue at least this often, whatever its watch says."""
PAUSE: Final = 0.02
"""Seconds between two looks while no member answers."""

STOOD_STILL: Final = ("pause-server", "stall-disk")  # a disk that is only slow deposes no leader

OLD_LEADER: Final = may_break(
    # A leader that stood still may revoke, when it comes back, leases that its successor had prolonged. In the field,
    # the disk causes this: the leader waits for its log to be written, and is deposed meanwhile (etcd #15247).
    ("server-exclusion", "holder-exclusion", "honest-belief", "honest-renewal", "fifo", "members-agree"),
    STOOD_STILL,
    "revoked-early",
)

EXCLUSIVE: Final = "x"
SHARED: Final = "s"

Range = tuple[bytes, bytes]
"""A key and an empty key, or the first key of a range and the key after its last one."""


@dataclass(frozen=True, slots=True)
class Queue:
    """The keys under a lock's prefix at a revision. keys: create_revision → key, in the order of arrival."""

    whole: Range
    revision: int
    keys: Mapping[int, bytes]

    def before(self, token: int) -> list[bytes]:
        """The keys before our key. Raises Refused(NOT_OWNER) if our key is gone."""
        if token not in self.keys:
            raise Refused(Reason.NOT_OWNER, "the key is gone")
        return [key for revision, key in self.keys.items() if revision < token]


class EtcdLock(EtcdSession):
    """See the module. A call returns within its timeout plus three requests (1.8 s) and maybe a login (2 s)."""

    tokens: ClassVar[bool] = True
    fair: ClassVar[bool] = True
    bounds: ClassVar[Mapping[str, float]] = {
        "recovery": 10.0,
        "crash-release": 2.0,  # the leader looks twice a second for ended leases; members then agree on it
        "honest-belief": 0.1,
        "fail-fast": 4.0,
        "hand-over": 1.0,
    }
    claims: ClassVar[tuple[Claim, ...]] = FENCED_QUEUE_CLAIMS
    hazards: ClassVar[tuple[Hazard, ...]] = HAZARDS + TOKEN_HAZARDS + OLD_LEADER

    wakes: int = 0

    def acquire(self, name: str, timeout: float) -> Grant | None:
        return self._take(name, timeout, EXCLUSIVE)

    def read(self, grant: Grant, key: str) -> tuple[int, Sequence[int]] | None:
        answers = self._guarded(grant, Get(data_of(key)))
        return None if answers is None else decoded(answers[0][0][0] if answers[0] else b"")

    def write(self, grant: Grant, key: str, value: int, elements: Sequence[int]) -> bool:
        return self._guarded(grant, Put(data_of(key), encoded(value, elements))) is not None

    @classmethod
    def final(cls, endpoints: Sequence[str], key: str, access: Access) -> tuple[int, Sequence[int]]:
        with contextlib.closing(Endpoints(endpoints, access)) as etcd:
            data, _ = etcd.call(lambda client: client.get(data_of(key)))
        return decoded(data or b"")

    @classmethod
    def sweep(cls, endpoints: Sequence[str], names: Sequence[str], access: Access) -> None:
        """Delete the data beside the queues. The queues themselves go with their leases."""
        with contextlib.closing(Endpoints(endpoints, access)) as etcd:
            for key in map(data_of, names):
                etcd.call(lambda client, key=key: client.delete(key))  # type: ignore[misc]

    def _take(self, name: str, timeout: float, kind: str) -> Grant | None:
        """See `acquire`. kind: `EXCLUSIVE` or `SHARED`, which the key contains."""
        deadline = now() + int(timeout * 1e9)
        lease = self._leases.open()
        owner = new_owner()
        prefix = prefix_of(name)
        key = self._keys[owner] = f"{prefix}{kind}{owner:016x}"
        sent = now()
        try:
            token, queue = self._enqueue(prefix, key, lease.id)
        except LockError as error:
            if error.reason is not Reason.UNAVAILABLE:
                self._leases.failed(lease.id, error)
            raise
        queued = now()
        try:
            while (ahead := self._ahead(queue, token)) is not None and now() < deadline:
                woken = self._etcd.await_deletion(*ahead, queue.revision + 1, min(LOOK, (deadline - now()) / 1e9))
                if (seen := self._look(prefix)) is not None:
                    queue = seen
                    self.wakes += woken
            if ahead is None:
                lease = self._leases.proven(lease.id)
                return Grant(name, owner, token, sent, lease.ttl, lease.expires, lease.id, queued)
            self._delete(key, token)
        except LockError as error:
            self._leases.failed(lease.id, error)
            if error.reason is Reason.NOT_OWNER:
                raise
            raise Indeterminate(str(error)) from error
        if timeout == 0:
            raise Refused(Reason.HELD)
        return None

    def _ahead(self, queue: Queue, token: int) -> Range | None:
        """The key or range whose deletion our key waits for; None when the turn of our key has come."""
        before = queue.before(token)
        return (before[-1], b"") if before else None

    def _guarded(self, grant: Grant, deed: Get | Put) -> list[Any] | None:
        """The answer to the deed, None if the grant's key was gone. Raises LockError."""
        key, token = self._keys.get(grant.owner), grant.token or 0
        if key is None:
            return None
        held, answers = self._etcd.call(
            lambda client: client.transaction(compare=[Create(key) == token], success=[deed], failure=[])
        )
        return answers if held else None

    def _enqueue(self, prefix: str, key: str, lease_id: int) -> tuple[int, Queue]:
        """Put our key, and read the queue in the same transaction. Returns (token, queue)."""
        _, (put, queue) = self._etcd.call(
            lambda client: client.transaction(
                compare=[Create(key) == 0],
                success=[Put(key, b"", lease_id), Get(*_range(prefix))],
                failure=[],
            )
        )
        token = int(put.response_put.header.revision)  # of the transaction, so the key's create_revision
        return token, _queue(prefix, token, [about for _, about in queue])

    def _look(self, prefix: str) -> Queue | None:
        """A linearizable read of the queue, or None if no answer came: reading again does no harm."""
        try:
            answer = self._etcd.call(lambda client: client.get_prefix_response(prefix, keys_only=True))
        except LockError:
            time.sleep(PAUSE)
            return None
        return _queue(prefix, answer.header.revision, answer.kvs)


def _range(prefix: str) -> Range:
    """All keys of a lock: "0" comes right after "/"."""
    return prefix.encode(), prefix[:-1].encode() + b"0"


def _queue(prefix: str, revision: int, entries: Sequence[Any]) -> Queue:
    """entries: each with its create_revision and its key."""
    ordered = sorted(entries, key=lambda entry: int(entry.create_revision))
    return Queue(_range(prefix), revision, {entry.create_revision: entry.key for entry in ordered})
