"""``etcd-key``: one key, which whoever finds none puts there with a lease, in a transaction.

The lock that comes to mind first, and that of etcdctl's examples and many libraries: compare that the key was never
created, put it, and otherwise watch it and try again once it is deleted. Before it grants, the client makes sure that
its lease lives. The fencing token is the create_revision.

What its authors claim: exclusion as long as a client stops when its lease may have ended. There is no order of arrival,
and a deletion wakes everybody who waits: compare ``etcd``.
"""

from typing import ClassVar

from etcd3.transactions import Create, Get, Put

from checkers.claims import NO_FAULT, Claim, Hazard
from checkers.row_format import Reason
from suites.lock import Grant, Indeterminate, LockError, Refused, new_owner, now
from suites.locks.etcd import LOOK, EtcdLock
from suites.locks.etcd_session import prefix_of
from suites.locks.lease_claims import besides


class EtcdKey(EtcdLock):
    """See the module. A call returns within its timeout plus three requests (1.8 s) and maybe a login (2 s)."""

    name: ClassVar[str] = "etcd-key"
    fair: ClassVar[bool] = False
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced", "register/fence-reads-and-writes")
    claims: ClassVar[tuple[Claim, ...]] = besides(("fifo", "herd-free"), EtcdLock.claims)
    hazards: ClassVar[tuple[Hazard, ...]] = (*EtcdLock.hazards, Hazard("herd-free", (NO_FAULT,), "woken-all"))

    def acquire(self, name: str, timeout: float) -> Grant | None:
        deadline = now() + int(timeout * 1e9)
        lease = self._leases.open()
        owner = new_owner()
        key = self._keys[owner] = f"{prefix_of(name)}key"
        mine = False
        try:
            while True:
                lease, sent = self._leases.open(), now()  # that of the last try may have ended while it waited
                mine, revision = self._put(key, lease.id)
                if mine:
                    lease = self._leases.proven(lease.id)
                    return Grant(name, owner, revision, sent, lease.ttl, lease.expires, lease.id)
                left = (deadline - now()) / 1e9
                if left <= 0:
                    break
                self._wakes += self._etcd.await_deletion(key.encode(), b"", revision + 1, min(LOOK, left))
        except LockError as error:
            refused = error.reason if isinstance(error, Refused) else None
            if refused is Reason.UNAVAILABLE and not mine:
                raise
            self._leases.failed(lease.id, error)
            if refused is Reason.NOT_OWNER or (refused and not mine):
                raise
            raise Indeterminate(str(error)) from error
        if timeout == 0:
            raise Refused(Reason.HELD)
        return None

    def _put(self, key: str, lease_id: int) -> tuple[bool, int]:
        """Whether the key is ours, and the revision at which that was so."""
        mine, ((answer),) = self._etcd.call(
            lambda client: client.transaction(
                compare=[Create(key) == 0], success=[Put(key, b"", lease_id)], failure=[Get(key)]
            )
        )
        if mine:
            return True, int(answer.response_put.header.revision)
        ((_, about),) = answer
        return False, int(about.response_header.revision)
