"""The lease that an etcd client's keys live on: opened when needed, kept alive, given up when an answer was lost."""

import threading
from dataclasses import dataclass, replace
from typing import Final

from checkers.row_format import Reason
from suites.lock import Indeterminate, LockError, Refused, now
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


class Leases:
    """At most one lease at a time. Two threads may use it."""

    def __init__(self, etcd: Endpoints, ttl: float) -> None:
        """ttl: seconds; etcd takes whole ones, and grants at least one and a half election timeouts."""
        self._etcd = etcd
        self._ttl = max(1, round(ttl))
        self._changing = threading.Lock()
        self.present: Lease | None = None

    def open(self) -> Lease:
        """The present lease, or a new one. Raises Refused, never Indeterminate: a lease nobody knows holds no key."""
        with self._changing:
            lease = self.present
            if lease is None or now() >= lease.expires:
                sent = now()
                try:
                    granted = self._etcd.call(lambda client: client.lease(self._ttl))
                except Indeterminate as error:
                    raise Refused(Reason.UNAVAILABLE, str(error)) from error
                lease = self.present = Lease(granted.id, granted.ttl * 10**9, sent, sent)
            return lease

    def give_up(self, lease_id: int) -> bool:
        """Send no more keep-alives for it, so that it ends with all its keys. Whether it was the present one."""
        with self._changing:
            if self.present is None or self.present.id != lease_id:
                return False
            self.present = None
            return True

    def failed(self, lease_id: int, error: LockError) -> None:
        """Give up the lease on which an acquire failed. An error that calls the lease over names it from now on."""
        self.give_up(lease_id)
        if isinstance(error, Refused) and error.reason is Reason.NOT_OWNER:
            error.session = lease_id

    def keep_alive(self, lease_id: int) -> None:
        """One LeaseKeepAlive. Raises Refused or Indeterminate, this also where the other thread gave the lease up
        meanwhile: it may have revoked it, and then its end is nobody else's doing.
        """
        present = self.present is not None and self.present.id == lease_id
        sent = now()
        try:
            if self._etcd.keep_alive(lease_id) <= 0:
                raise Refused(Reason.NOT_OWNER, f"lease {lease_id:#x} is gone")
        except Refused as refusal:
            if refusal.reason is Reason.NOT_OWNER and not self.give_up(lease_id) and present:
                raise Indeterminate(f"lease {lease_id:#x} was given up meanwhile") from refusal
            raise
        with self._changing:
            if self.present is not None and self.present.id == lease_id:
                self.present = replace(self.present, alive=max(self.present.alive, sent))

    def proven(self, lease_id: int) -> Lease:
        """The lease, with a recent sign of life. As `keep_alive` raises."""
        lease = self.present
        if lease is not None and lease.id == lease_id and now() - lease.alive > lease.ttl // 3:
            self.keep_alive(lease_id)
            lease = self.present
        if lease is None or lease.id != lease_id:
            raise Refused(Reason.NOT_OWNER, f"lease {lease_id:#x} is gone")
        return lease
