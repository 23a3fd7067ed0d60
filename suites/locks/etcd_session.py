"""What every lock on an etcd lease has: the lease of its client, kept alive by the worker, and a key that goes with it.

An answer that is lost ends the whole session: its lease is kept alive no more, so whatever the request did is undone
with the lease, even where it arrives late.
"""

import contextlib
from collections.abc import Sequence
from functools import cache
from typing import ClassVar, Self
from urllib.parse import quote

from etcd3.transactions import Create, Delete

from checkers.row_format import Reason
from infra.access import OPEN, Access
from suites.lock import Declarations, Grant, LockError, Refused, now
from suites.locks.etcd_lease import DRIFT, Leases
from suites.locks.etcd_requests import Endpoints


class EtcdSession(Declarations):
    """A lock adds `acquire`, and notes in `_keys` what each grant rests on."""

    backend: ClassVar[str] = "etcd"
    lease: ClassVar[str] = "session"
    drift: ClassVar[float] = DRIFT
    grain: ClassVar[float] = 0.0

    def __init__(self, etcd: Endpoints, leases: Leases) -> None:
        self._etcd = etcd
        self._leases = leases
        self._keys: dict[int, str] = {}
        """By owner: the key of every grant so far: who refuses a write under one that is over is the server."""

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

    def renew(self, grant: Grant) -> None:
        if grant.session != self.session:
            raise Refused(Reason.NOT_OWNER)
        self._leases.keep_alive(grant.session)

    def release(self, grant: Grant) -> None:
        """Delete the key if it is still the one of this grant; where that fails it goes with the lease."""
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
        session = self.session
        if session:
            self._leases.keep_alive(session)
        else:
            self._leases.open()

    def _delete(self, key: str, token: int) -> bool:
        """Whether it was there, with this create_revision."""
        deleted, _ = self._etcd.call(
            lambda client: client.transaction(compare=[Create(key) == token], success=[Delete(key)], failure=[])
        )
        return bool(deleted)


@cache  # a worker asks for each of its few names all the time
def data_of(name: str) -> str:
    """The key of what is kept beside a lock."""
    return f"/fencepost/{quote(name, safe='')}"


def prefix_of(name: str) -> str:
    """What all keys of a lock begin with."""
    return f"{data_of(name)}/"
