"""``kazoo-lock``: kazoo's own Lock, as its users use it: acquire with a timeout, work, release.

It is a queue of ephemeral sequential nodes with a UUID in their names, as in ``zookeeper``
(https://kazoo.readthedocs.io/en/latest/api/recipe/lock.html). What is judged here is the library: what it calls
acquired or released is so, and a client believes that it holds for as long as `is_acquired` says so.

What its authors claim: exclusion, and that a node whose creation was not answered is found again by its UUID. They ask
their users to stop at SUSPENDED. Nothing in the lock does that: `is_acquired` stays true when the session is lost, and
`release` does not report that the node is gone. A wait that took too long withdraws "best effort" (kazoo #732). If that
fails, the entry of a living session stays in the queue, and nobody says so; the node of a failed release stays as well.
Then nobody gets the lock while that session lives. There is no token but the czxid of `lock.node`.
"""

import contextlib
from collections.abc import Mapping
from typing import Any, ClassVar, Final
from urllib.parse import quote

from kazoo import exceptions
from kazoo.handlers.threading import KazooTimeoutError

from checkers.claims import NO_FAULT, Claim, Hazard
from checkers.row_format import Reason
from suites.lock import NEVER, Grant, Indeterminate, Refused, new_owner, now
from suites.locks.lease_claims import FROZEN_INSIDE, HOLDER_RUNS, INSIDE, STORE, besides, may_break, without
from suites.locks.zookeeper import ZooKeeperLock
from suites.locks.zookeeper_session import ROOT, InSession, ZooKeeperSession

_UNBOUNDED: Final = ("honest-belief", "fail-fast")
_OTHERS: Final = (*_UNBOUNDED, "token-order", "fenced-store", "fifo", "herd-free", "owner-release")
_LATE: Final = tuple(fault for fault in (*HOLDER_RUNS, *FROZEN_INSIDE, "wipe-server") if fault not in STORE)


class KazooLock(InSession):
    """kazoo decides how long a call may take, and when it sends pings: the history sees only the worker's writes."""

    lease: ClassVar[str] = "session"  # what kazoo calls released proves nothing about the session
    # A node that kazoo leaves behind stays for ever: it shows as soon as a session could have ended and another begun.
    bounds: ClassVar[Mapping[str, float]] = {**without(_UNBOUNDED, ZooKeeperLock.bounds), "recovery": 5.0}
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced", "impatient/unfenced")
    claims: ClassVar[tuple[Claim, ...]] = (
        *besides((*_OTHERS, *INSIDE), ZooKeeperLock.claims),
        Claim("holder-exclusion", under=STORE),
        Claim("no-lost-update", under=(NO_FAULT,)),
    )
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *besides(_OTHERS, ZooKeeperLock.hazards),
        *may_break(INSIDE, (NO_FAULT,), "outlived-ttl"),
        Hazard("owner-release", (NO_FAULT,), "released-by-another", certain=False),
        Hazard("recovery", _LATE, "left-behind", certain=False),
    )

    def __init__(self, session: ZooKeeperSession, ttl: float) -> None:
        super().__init__(session, ttl)
        self._locks: dict[int, Any] = {}
        """Owner → kazoo's lock."""
        self._awaited: Any = None
        """kazoo's lock that an acquire waits for; None without an acquire."""

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """kazoo waits, tries again, and cleans up as it sees fit. A timeout of kazoo is a timeout here."""
        session = self._session.adopt()
        lock = self._awaited = self._session.zk.Lock(f"{ROOT}/{quote(name, safe='')}")
        owner, sent = new_owner(), now()
        try:
            acquired = lock.acquire(blocking=timeout > 0, timeout=timeout or None)
        except (exceptions.LockTimeout, exceptions.CancelledError):
            acquired = False
        except (exceptions.KazooException, KazooTimeoutError) as error:
            raise Indeterminate(repr(error)) from error
        finally:
            self._awaited = None
        if acquired:
            with contextlib.suppress(Refused):  # not connected any more; kazoo does not mind, nor do we
                session = self._session.adopt()
            self._locks[owner] = lock
            return Grant(name, owner, None, sent, self._ttl, NEVER, session)
        if timeout == 0:
            raise Refused(Reason.HELD)
        return None

    def cancel(self) -> None:
        lock = self._awaited
        if lock is not None:
            lock.cancel()

    def release(self, grant: Grant) -> None:
        lock = self._locks.pop(grant.owner, None)
        try:
            if lock is None or not lock.release():
                raise Refused(Reason.NOT_OWNER)
        except exceptions.SessionExpiredError as error:
            raise Refused(Reason.NOT_OWNER, repr(error)) from error
        except (exceptions.KazooException, KazooTimeoutError) as error:
            raise Indeterminate(repr(error)) from error

    def belief(self, grant: Grant) -> bool:
        lock = self._locks.get(grant.owner)
        return lock is not None and bool(lock.is_acquired)
