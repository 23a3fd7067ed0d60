"""What every lock on an etcd lease has: its client's lease, which the worker keeps alive, and a key that ends with it.

An acquire or release without an answer gives the lease up, and the lease's end undoes what it did, however late.
"""

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, Final, Self
from urllib.parse import quote

from etcd3.transactions import Create, Delete

from checkers.row_format import Reason
from infra.access import OPEN, Access
from suites.lock import Declarations, Grant, Indeterminate, LockError, Refused, now
from suites.locks.etcd_requests import Endpoints

DRIFT: Final = 0.001
"""How fast a server's clock may run against ours; etcd's leases follow the monotonic one."""


@dataclass(frozen=True, slots=True)
class Lease:
    """ttl: ns, as granted. opened, alive: ns; just before its creation and its last answered keep-alive were sent."""

    id: int
    ttl: int
    opened: int
    alive: int

    @property
    def expires(self) -> int:
        """When (ns) a client must stop believing in it."""
        return self.alive + int(self.ttl * (1 - DRIFT))


NONE: Final = Lease(0, 0, 0, 0)
"""Stands where there is no lease: etcd numbers none 0."""


class Leases:
    """The lease that a client's keys live on: opened when needed, kept alive, given up when an answer was lost.

    At most one at a time. Two threads may use it.
    """

    def __init__(self, etcd: Endpoints, ttl: float) -> None:
        """ttl: seconds; etcd takes whole ones, and grants at least one and a half election timeouts."""
        self._etcd = etcd
        self._ttl = max(1, round(ttl))
        self._changing = threading.Lock()
        self.present = NONE

    def open(self) -> Lease:
        """The present lease, or a new one. Raises Refused, never Indeterminate: an unknown lease holds no key."""
        with self._changing:
            lease = self.present
            if now() >= lease.expires:
                sent = now()
                try:
                    granted = self._etcd.call(lambda client: client.lease(self._ttl))
                except Indeterminate as error:
                    raise Refused(Reason.UNAVAILABLE, str(error)) from error
                lease = self.present = Lease(granted.id, granted.ttl * 10**9, sent, sent)
            return lease

    def give_up(self, lease_id: int) -> bool:
        """Stop keeping the lease alive, so that it ends with all its keys. Returns whether it was the present one."""
        with self._changing:
            if self.present.id != lease_id:
                return False
            self.present = NONE
            return True

    def failed(self, lease_id: int, error: LockError) -> None:
        """Give up the lease on which an acquire failed. If the error says that the lease is over, set its `session`."""
        self.give_up(lease_id)
        if isinstance(error, Refused) and error.reason is Reason.NOT_OWNER:
            error.session = lease_id

    def keep_alive(self, lease_id: int) -> None:
        """Send one LeaseKeepAlive. Raises Refused or Indeterminate; the latter also if the other thread has given the
        lease up: that thread may have revoked it, and then its end is nobody else's doing.
        """
        sent = now()
        try:
            if self._etcd.keep_alive(lease_id) <= 0:
                raise Refused(Reason.NOT_OWNER, f"lease {lease_id:#x} is gone")
        except Refused as refusal:
            if refusal.reason is Reason.NOT_OWNER and not self.give_up(lease_id):
                raise Indeterminate(f"lease {lease_id:#x} was given up") from refusal
            raise
        with self._changing:
            if self.present.id == lease_id:
                self.present = replace(self.present, alive=max(self.present.alive, sent))

    def proven(self, lease_id: int) -> Lease:
        """The lease, with a recent sign of life. Raises as `keep_alive`."""
        lease = self.present
        if lease.id == lease_id and now() - lease.alive > lease.ttl // 3:
            self.keep_alive(lease_id)
            lease = self.present
        if lease.id != lease_id:
            raise Refused(Reason.NOT_OWNER, f"lease {lease_id:#x} is gone")
        return lease


class EtcdSession(Declarations):
    """A lock adds `acquire`, and stores in `_keys` the key on which each grant rests."""

    backend: ClassVar[str] = "etcd"
    lease: ClassVar[str] = "session"
    drift: ClassVar[float] = DRIFT
    grain: ClassVar[float] = 0.0

    def __init__(self, etcd: Endpoints, leases: Leases) -> None:
        self._etcd = etcd
        self._leases = leases
        self._keys: dict[int, str] = {}
        """Owner → key, of every grant so far: it is the server that refuses a write under a grant that is over."""

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> Self:
        """Asks one endpoint after another for a lease, each at most once."""
        etcd = Endpoints(endpoints, access)
        client = cls(etcd, Leases(etcd, ttl))
        for left in reversed(range(len(endpoints))):
            try:
                client._leases.open()
                break
            except Refused:
                if not left:
                    etcd.close()
                    raise
        return client

    def renew(self, grant: Grant) -> None:
        if grant.session != self.session:
            raise Refused(Reason.NOT_OWNER)
        self._leases.keep_alive(grant.session)

    def release(self, grant: Grant) -> None:
        """Delete the key if it still belongs to this grant. If the request fails, the key goes with the lease."""
        key = self._keys.get(grant.owner)
        try:
            deleted = key is not None and self._delete(key, grant.token or 0)
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
        lease = self._leases.present
        return lease.id == grant.session and now() < lease.expires

    @property
    def session(self) -> int:
        """The id of the lease; 0 from its end to the next call."""
        return self._leases.present.id

    @property
    def opened(self) -> int:
        """When the present lease was asked for (ns), 0 without one."""
        return self._leases.present.opened

    def keep_alive(self) -> None:
        session = self.session
        if session:
            self._leases.keep_alive(session)
        else:
            self._leases.open()

    def _delete(self, key: str, token: int) -> bool:
        """Delete a key. Returns whether it was there, with this create_revision."""
        deleted, _ = self._etcd.call(
            lambda client: client.transaction(compare=[Create(key) == token], success=[Delete(key)], failure=[])
        )
        return bool(deleted)


@cache  # a worker asks for each of its few names all the time
def data_of(name: str) -> str:
    """The key of the data beside a lock."""
    return f"/fencepost/{quote(name, safe='')}"


def prefix_of(name: str) -> str:
    """What all keys of a lock begin with."""
    return f"{data_of(name)}/"
