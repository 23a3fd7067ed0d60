"""``etcd-v3lock``: the lock service of etcd's servers, used through their JSON gateway.

``POST /v3/lock/lock`` with a name and a lease waits at the server until the lock is granted, and answers with a key;
``POST /v3/lock/unlock`` deletes that key. The client must keep the lease alive. Jepsen tested this service ("etcd
3.4.3", 2020, section 3.2: "Locks Aren't Real"), and it is used here as there: without a token, by a holder that does
not look at the clock. The holder goes on until the answer to a keep-alive says that the lease is gone.

What its authors claim: "a lock on a given name held until Unlock is called or until the lease expires"
(https://etcd.io/docs/v3.5/dev-guide/api_concurrency_reference_v3/). Before 3.5 the server granted the lock to a waiter
whose lease had died while it waited (#11456); since then it answers "session is expired". It acknowledges every unlock.

If a wait takes too long, the client ends its lease: only that removes its entry from the server's queue for certain.
"""

import base64
import contextlib
import http.client
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Self

from checkers.claims import NO_FAULT, Claim, Hazard
from checkers.row_format import Reason
from suites.lock import NEVER, Grant, Indeterminate, LockError, Refused, new_owner, now
from suites.locks import etcd
from suites.locks.etcd_requests import REQUEST
from suites.locks.etcd_session import EtcdSession, data_of
from suites.locks.lease_claims import HOLDER_RUNS, INSIDE, STORE, besides, may_break, without

TRY: Final = 0.2
"""Seconds that a try waits: the service can only wait for the lock."""

_NOT_FOUND: Final = 5
_OVER: Final = ("session is expired", "requested lease not found")
_LATE: Final = tuple(fault for fault in (*HOLDER_RUNS, "wipe-server") if fault not in STORE)
_UNLOCKS_ALWAYS: Final = Hazard("owner-release", (NO_FAULT,), "released-by-another", certain=False)
_OTHERS: Final = ("honest-belief", "token-order", "fenced-store", "fifo", "herd-free")
_WRITES: Final = (*INSIDE, "fenced-store")


class TookTooLong(Indeterminate):
    """No answer in time."""


def post(member: str, path: str, body: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
    """One request to the JSON gateway of a member (``host:port``). Raises Refused, TookTooLong or Indeterminate."""
    host, _, port = member.rpartition(":")
    with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=REQUEST)) as connection:
        try:
            connection.connect()
        except OSError as error:
            raise Refused(Reason.UNAVAILABLE, f"{member}: {error}") from error
        try:
            connection.sock.settimeout(timeout)
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            raw = answer.read()
        except TimeoutError as error:
            raise TookTooLong(f"{member}: no answer within {timeout:.1f} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise Indeterminate(f"{member}: {error!r}") from error
    try:
        content: Mapping[str, Any] = json.loads(raw)
    except ValueError as error:
        raise Indeterminate(f"{member}: {answer.status}: {raw[:100]!r}") from error
    if answer.status == http.HTTPStatus.OK:
        return content
    text = f"{member}: {content.get('error') or content.get('message')}"
    if content.get("code") == _NOT_FOUND or any(words in text for words in _OVER):
        raise Refused(Reason.NOT_OWNER, text)
    raise Indeterminate(text)


class EtcdV3Lock(EtcdSession):
    """See the module. A call returns within its timeout plus three requests (1.8 s)."""

    bounds: ClassVar[Mapping[str, float]] = without(("honest-belief",), etcd.EtcdLock.bounds)
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced", "register/unfenced")
    claims: ClassVar[tuple[Claim, ...]] = (
        *besides((*_OTHERS, *INSIDE, "owner-release"), etcd.EtcdLock.claims),
        Claim("holder-exclusion", under=STORE),
        Claim("no-lost-update", under=(NO_FAULT,)),
    )
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *besides(("honest-belief", "token-order"), etcd.EtcdLock.hazards),
        *may_break(_WRITES, _LATE, "answer-past-ttl"),
        # "Can also occur in healthy clusters": a holder that is late with a keep-alive goes on all the same.
        *may_break(_WRITES, (NO_FAULT,), "outlived-ttl"),
        _UNLOCKS_ALWAYS,
    )

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float) -> Self:  # type: ignore[override]
        """See `EtcdSession.open`. Neither passwords nor TLS: requests to the gateway are not encrypted."""
        return super().open(endpoints, ttl)

    def acquire(self, name: str, timeout: float) -> Grant | None:
        lease = self._leases.open()
        owner, sent = new_owner(), now()
        try:
            granted = self._post("lock", {"name": _encoded(data_of(name)), "lease": lease.id}, timeout or TRY)
        except TookTooLong as late:
            self._give_up(lease.id, late)
            if timeout == 0:
                raise Refused(Reason.HELD, str(late)) from late
            return None
        except LockError as error:
            self._leases.failed(lease.id, error)
            raise
        self._keys[owner] = base64.b64decode(granted["key"]).decode()
        return self._granted(Grant(name, owner, None, sent, lease.ttl, NEVER, lease.id))

    def release(self, grant: Grant) -> None:
        """Unlock. If the request fails, the key goes with the lease."""
        key = self._keys.pop(grant.owner, None)
        if key is None:
            raise Refused(Reason.NOT_OWNER)
        try:
            self._post("unlock", {"key": _encoded(key)}, REQUEST)
        except LockError:
            self._leases.give_up(grant.session)
            raise

    def belief(self, grant: Grant) -> bool:
        """The client believes until the answer to a keep-alive says that the lease is gone."""
        return grant.session == self.session

    def _granted(self, grant: Grant) -> Grant:
        return grant

    def _give_up(self, lease_id: int, late: TookTooLong) -> None:
        """Leave the queue for certain. Raises Indeterminate."""
        self._leases.give_up(lease_id)
        try:
            self._etcd.call(lambda client: client.revoke_lease(lease_id))
        except Refused as refusal:
            if refusal.reason is not Reason.NOT_OWNER:  # NOT_OWNER: the lease is gone already
                raise Indeterminate(f"{late}; {refusal}") from refusal

    def _post(self, verb: str, body: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        """Ask the member that is preferred, and prefer the next one if it fails. Raises as `post` does."""
        member = self._etcd.member
        try:
            return post(member, f"/v3/lock/{verb}", body, timeout)
        except TookTooLong:
            raise
        except LockError as error:
            if error.reason is not Reason.NOT_OWNER:
                self._etcd.leave(member)
            raise


class EtcdV3LockChecked(EtcdV3Lock):
    """``etcd-v3lock-checked``: the service of ``etcd-v3lock``, used by a client that reads its key after the grant.

    The token is the key's create_revision. No key: a void grant (#11456). The client stops when its lease may be over.
    """

    tokens: ClassVar[bool] = True
    bounds: ClassVar[Mapping[str, float]] = etcd.EtcdLock.bounds
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced", "register/fence-reads-and-writes")
    claims: ClassVar[tuple[Claim, ...]] = besides(("fifo", "herd-free", "owner-release"), etcd.EtcdLock.claims)
    hazards: ClassVar[tuple[Hazard, ...]] = (*etcd.EtcdLock.hazards, _UNLOCKS_ALWAYS)

    belief = EtcdSession.belief

    def _granted(self, grant: Grant) -> Grant:
        """Read the token, and make sure of the lease. Raises Refused(NOT_OWNER) for a void grant, or Indeterminate."""
        key = self._keys[grant.owner]
        try:
            _, key_info = self._etcd.call(lambda client: client.get(key))
            if key_info is None:
                raise Refused(Reason.NOT_OWNER, "the grant was void: its key is gone")
            lease = self._leases.proven(grant.session)
        except LockError as error:
            self._leases.failed(grant.session, error)
            if error.reason is Reason.NOT_OWNER:
                raise
            raise Indeterminate(str(error)) from error
        return replace(grant, token=int(key_info.create_revision), expires=lease.expires)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
