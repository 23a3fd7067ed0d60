"""Locks on one key of etcd."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from etcd3.transactions import Create, Get, Put

from checkers.claims import NO_FAULT, Claim, Hazard
from checkers.row_format import Reason
from suites.lock import NEVER, Grant, Indeterminate, LockError, Refused, new_owner, now
from suites.locks.etcd import LOOK, EtcdLock
from suites.locks.etcd_requests import Endpoints
from suites.locks.etcd_session import Leases, prefix_of
from suites.locks.lease_claims import INSIDE, besides, may_break, without

_OTHERS = ("honest-belief", "token-order", "fenced-store", "fifo", "herd-free")


class EtcdKey(EtcdLock):
    """``etcd-key``: one key with a lease, which a client puts in a transaction if the key does not exist.

    This is the lock that comes to mind first, and that of etcdctl's examples and many libraries: a transaction compares
    that the key was never created and puts it; otherwise the client watches the key, and tries again when it is
    deleted. Before it grants, the client makes sure that its lease lives. The fencing token is the create_revision.

    What its authors claim: exclusion as long as a client stops when its lease may have ended. There is no order of
    arrival, and a deletion wakes every waiter: compare ``etcd``.
    """

    fair: ClassVar[bool] = False
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced", "register/fence-reads-and-writes")
    claims: ClassVar[tuple[Claim, ...]] = besides(("fifo", "herd-free"), EtcdLock.claims)
    hazards: ClassVar[tuple[Hazard, ...]] = (*EtcdLock.hazards, Hazard("herd-free", (NO_FAULT,), "woken-all"))

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """Within the timeout plus three requests (1.8 s) and maybe a login (2 s)."""
        deadline = now() + int(timeout * 1e9)
        lease = self._leases.open()
        owner = new_owner()
        key = self._keys[owner] = f"{prefix_of(name)}key"
        mine = False
        try:
            while True:
                lease, sent = self._leases.open(), now()  # the lease of the last try may have ended in the wait
                mine, revision = self._put(key, lease.id)
                if mine:
                    lease = self._leases.proven(lease.id)
                    return Grant(name, owner, revision, sent, lease.ttl, lease.expires, lease.id)
                left = (deadline - now()) / 1e9
                if left <= 0:
                    break
                self.wakes += self._etcd.await_deletion(key.encode(), b"", revision + 1, min(LOOK, left))
        except LockError as error:
            if error.reason is Reason.UNAVAILABLE and not mine:
                raise
            self._leases.failed(lease.id, error)
            if error.reason is Reason.NOT_OWNER or (error.reason and not mine):
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


class EtcdKeepaliveDies(EtcdKey):
    """``etcd-keepalive-dies``: the thread that keeps the lease alive ends at the first error, and nobody is told.

    The thread is a loop around `refresh` without a try: the first answer that does not come raises out of it, and the
    thread is gone. The lease ends a TTL later, and so does every later lease of this process. The holder sees nothing
    of it: it does not look at the clock. Two mistakes, and each of them is enough together with a long hold: a client
    must notice that it keeps nothing alive, and stop before its lease can have ended. The rest is ``etcd-key``.

    What is claimed: the lock itself excludes. Nothing is claimed of its holders: one slow answer is an error already.
    """

    tokens: ClassVar[bool] = False
    pace: ClassVar[float] = 4.0  # work that lasts longer than the lease, which is what a keep-alive is for
    bounds: ClassVar[Mapping[str, float]] = without(("honest-belief",), EtcdKey.bounds)
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced",)
    claims: ClassVar[tuple[Claim, ...]] = besides((*_OTHERS, *INSIDE), EtcdKey.claims)
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *besides((*_OTHERS, "no-lost-update"), EtcdKey.hazards),
        # The work takes so long that a late write mostly arrives before a successor's write.
        *(replace(hazard, certain=False) for hazard in EtcdKey.hazards if hazard.property == "no-lost-update"),
        Hazard("holder-exclusion", ("cut-client-drop",), "outlived-ttl"),
        *may_break(INSIDE, (NO_FAULT,), "outlived-ttl"),
    )

    def __init__(self, etcd: Endpoints, leases: Leases) -> None:
        super().__init__(etcd, leases)
        self._died = False

    def acquire(self, name: str, timeout: float) -> Grant | None:
        grant = super().acquire(name, timeout)
        return grant and replace(grant, expires=NEVER)

    def keep_alive(self) -> None:
        """Raises Refused(UNAVAILABLE) for good once anything went wrong: nothing is sent any more."""
        if self._died:
            raise Refused(Reason.UNAVAILABLE, "the thread is dead")
        try:
            super().keep_alive()
        except LockError:
            self._died = True
            raise

    def belief(self, grant: Grant) -> bool:
        """A client that was granted the lock believes in it for ever."""
        return grant.expires == NEVER
