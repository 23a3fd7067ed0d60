"""What a lock client is: five verbs, a grant, and two exceptions.

    LockError
    ├── Refused          it certainly did not happen (recorded as ``fail``)
    └── Indeterminate    it may have happened (recorded as ``info``): a timeout, a lost connection

Anything else that an adapter raises is a bug in the adapter and aborts the trial. Clients never retry silently:
a request whose answer is lost is Indeterminate at once.
"""

from __future__ import annotations

import inspect
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self, cast, runtime_checkable

from checkers.claims import Claim, Hazard
from checkers.wire import Reason
from infra.access import Access


class LockError(Exception):
    """Base of the two outcomes that are not success."""


class Refused(LockError):
    """It certainly did not happen. Only `Reason.HELD` is evidence that somebody held the lock."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason.name.lower()}: {detail}" if detail else reason.name.lower())
        self.reason = reason


class Indeterminate(LockError):
    """It may have happened, may happen later, or never will."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What an acquire returned.

    owner    identity of this grant, unique per acquire attempt (`new_owner`), never zero.
    token    fencing token, or None for locks that have none.
    sent     ns of CLOCK_MONOTONIC; just before the earliest request that the grant rests on was sent.
    ttl      ns; the effective TTL that the server gave.
    expires  ns of CLOCK_MONOTONIC; when the client must stop believing, unless it renews before. In a session this
             counts from its creation or its last acknowledged keep-alive.
    session  identity of the lease or session behind it, 0 for none.
    """

    name: str
    owner: int
    token: int | None
    sent: int
    ttl: int
    expires: int
    session: int = 0


class LockClient(Protocol):
    """One worker's connection to one lock service.

    `renew` runs in a thread of its own, so it may overlap any other call.

    lease     what extends a hold at the server (see `checkers.history.Facts.lease`).
    tokens    whether grants carry fencing tokens.
    fair      whether the lock promises first-in-first-out order.
    drift     bound on how fast the server's clock may run against ours, as a fraction.
    grain     seconds by which the server may end a lease early.
    min_ttl   seconds; the shortest TTL worth asking for. The suite uses it, since waiting for TTLs costs time.
    recovery  seconds after the heal of any fault within which some client must get the lock again.
    """

    name: ClassVar[str]
    backend: ClassVar[str]
    lease: ClassVar[str]
    tokens: ClassVar[bool]
    fair: ClassVar[bool]
    drift: ClassVar[float]
    grain: ClassVar[float]
    min_ttl: ClassVar[float]
    recovery: ClassVar[float]
    claims: ClassVar[tuple[Claim, ...]]
    hazards: ClassVar[tuple[Hazard, ...]]

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float) -> Self:
        """Connect. endpoints: ``host:port`` of every node, the one to prefer first. ttl: seconds.

        Raises Refused(UNAVAILABLE) when nothing answers.
        """

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """Wait up to `timeout` seconds. None: the time passed and nothing of ours is left behind.

        `timeout` 0 is a try and raises Refused(HELD). Raises Indeterminate where a queue entry or a grant of ours
        may remain.
        """

    def renew(self, grant: Grant) -> None:
        """Extend the lease. Raises Refused(NOT_OWNER) when the server says that it is over, or Indeterminate."""

    def release(self, grant: Grant) -> None:
        """Raises Refused(NOT_OWNER) when the server says that it was no longer ours, or Indeterminate."""

    def close(self) -> None:
        """Let go of the connection; never raises."""


@runtime_checkable
class Believes(Protocol):
    """Optional: a client that learns of the loss of its lock by itself (a session event, a watch)."""

    def belief(self, grant: Grant) -> bool:
        """Whether the client thinks that it still holds the grant. Local and immediate: no request."""


@runtime_checkable
class Session(Protocol):
    """Optional: a client whose grants live in a session that exists before them and must be kept alive.

    The worker sends `keep_alive` every TTL/3 for as long as the client is open, since the server's own pings are
    invisible to the history; `renew` is then not called.
    """

    @property
    def session(self) -> int:
        """Identity of the present session; a new one after the old one ended."""

    @property
    def opened(self) -> int:
        """ns of CLOCK_MONOTONIC; just before the creation of the present session was sent."""

    def keep_alive(self) -> None:
        """One acknowledged request that extends the session. Raises Refused(NOT_OWNER) or Indeterminate.

        After Refused the client opens a new session by itself at the next acquire or keep_alive.
        """


class Admitted(Protocol):
    """Optional: a lock that can speak to a cluster with passwords or TLS: its `open` takes an `access` as well."""

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access = ...) -> LockClient:
        """See `LockClient.open`. Raises Refused(DENIED) when the cluster does not let us in."""


@runtime_checkable
class Sweeps(Protocol):
    """Optional: a lock that can remove what its dead clients leave behind and no lease ends."""

    @classmethod
    def sweep(cls, endpoints: Sequence[str], names: Sequence[str], access: Access) -> None:
        """Remove all traces of these locks, which nobody uses any more. Raises LockError."""


def admitted(lock: type[LockClient]) -> bool:
    """Whether the lock can be told how it is let in."""
    return "access" in inspect.signature(lock.open).parameters


def opened(lock: type[LockClient], endpoints: Sequence[str], ttl: float, access: Access) -> LockClient:
    """A client of this lock. Raises as `LockClient.open` does."""
    if access.open:
        return lock.open(endpoints, ttl)
    return cast(type[Admitted], lock).open(endpoints, ttl, access)


def new_owner() -> int:
    """A fresh identity for an acquire attempt: 63 random bits, never zero."""
    return secrets.randbits(62) + 1


def now() -> int:
    """ns of CLOCK_MONOTONIC, the clock of every record."""
    return time.monotonic_ns()
