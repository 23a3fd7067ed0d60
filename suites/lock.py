"""What a lock client is: five verbs, a grant, and two exceptions; and the types of its declarations, with validators.

    LockError
    ├── Refused          it certainly did not happen (recorded as ``fail``)
    └── Indeterminate    it may have happened (recorded as ``info``): a timeout, a lost connection

Any other error of a library counts as Indeterminate too (`in_doubt`); a TypeError, or another mistake in the adapter,
breaks the trial. Clients never retry silently: a request whose answer is lost is Indeterminate at once.
"""

import inspect
import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Protocol, Self, get_args, runtime_checkable

from checkers.claims import Claim, Hazard
from checkers.row_format import Reason
from infra.access import Access

NEVER: Final = 1 << 62
"""ns; later than anything."""


class LockError(Exception):
    """Base of the two outcomes that are not success."""

    reason: Reason | None = None
    """Why it was refused; None if it is in doubt."""


class Refused(LockError):
    """The operation certainly did not happen. Only `Reason.HELD` is evidence that somebody held the lock.

    session: of an acquire, the client's session that the service called over; 0 if it called none over.
    """

    reason: Reason

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason.name.lower()}: {detail}" if detail else reason.name.lower())
        self.reason = reason
        self.session = 0


class Indeterminate(LockError):
    """The operation may have happened, may happen later, or never will."""


def in_doubt(error: Exception) -> str:
    """What an error says that leaves it unknown whether something happened. Raises it again if it is a mistake in code.

    Libraries have errors of their own, and raise OSError and its kinds (TimeoutError, ConnectionError), RuntimeError,
    EOFError, and Exception itself. Any other error of Python's own is a mistake.
    """
    unknown = isinstance(error, OSError) or type(error) in (RuntimeError, EOFError, Exception)
    if isinstance(error, _MISTAKES) or (type(error).__module__ == "builtins" and not unknown):
        raise error
    name, text = type(error).__name__, " ".join(str(error).split())
    return text if isinstance(error, LockError) else f"{name}: {text}".removesuffix(": ")


@dataclass(frozen=True, slots=True)
class Grant:
    """What an acquire returned."""

    name: str
    owner: int  # identity of this grant, unique per acquire attempt (`new_owner`), never zero
    token: int | None  # fencing token, or None for locks that have none
    sent: int  # ns of CLOCK_MONOTONIC; just before the earliest request that the grant rests on was sent
    ttl: int  # ns; the effective TTL that the server gave
    # When the client must stop believing, unless it renews before (ns of CLOCK_MONOTONIC). A renewal extends the belief
    # by `expires - sent`: it ends so long after the renewal was sent. In a session this counts from its creation, and a
    # keep-alive extends it by `ttl`. `NEVER` for a client that does not look at the clock. See `Believes` as well.
    expires: int
    session: int = 0  # identity of the lease or session behind it, 0 for none
    # When the request that put the client into the queue was answered (ns of CLOCK_MONOTONIC), 0 if there is no queue.
    queued: int = 0


_BOUNDS: Final = {"recovery": 10.0, "crash-release": 2.0, "honest-belief": 0.5, "fail-fast": 2.0, "hand-over": 2.0}
_MISTAKES: Final = (TypeError, AttributeError, NameError, AssertionError, ImportError)
"""These are mistakes in code even where they are of a library's own kind."""
LEASES: Final = ("grant", "touch", "session", "quorum", "none")


def number(value: object) -> bool:
    """Whether it is a finite number. A bool is an int to Python, and here a mistake."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def texts(value: object) -> bool:
    """Whether it is a sequence of texts and not a text."""
    return isinstance(value, tuple | list) and all(isinstance(item, str) for item in value)


# Types of declarations: each with a test of a value, and what the user is told if the value does not pass.
Flag = Annotated[bool, lambda value: isinstance(value, bool), "it must be True or False"]
Seconds = Annotated[float, lambda value: number(value) and value >= 0, "it must be a number of seconds, 0 or more"]
Ttl = Annotated[
    float, lambda value: number(value) and value > 0, "it must be a number of seconds above 0, for example 2.0"
]
Fraction = Annotated[
    float, lambda value: number(value) and 0 <= value < 1, "it must be a fraction from 0 up to 1, for example 0.01"
]
Count = Annotated[int, lambda value: type(value) is int and value > 0, "it must be a whole number, 1 or more"]
Bounds = Annotated[
    Mapping[str, float],
    lambda value: isinstance(value, Mapping),
    "it must be a dict, for example {'recovery': 2.0}",
]
Patterns = Annotated[tuple[str, ...], texts, "it must be a tuple of patterns, for example ('register/*',)"]
Lease = Annotated[str, lambda value: value in LEASES, f"there are: {', '.join(LEASES)}"]


def validators(cls: type) -> dict[str, tuple[Callable[[object], bool], str]]:
    """Name → (test, answer), of the declarations that this class annotates with one of these types."""
    kinds = {name: get_args(annotation)[0] for name, annotation in cls.__annotations__.items()}
    return {name: kind.__metadata__ for name, kind in kinds.items() if hasattr(kind, "__metadata__")}


class Declarations(Protocol):
    """The declarations of a lock, with the values of one that declares nothing. What each means: your-own-lock.md."""

    lease: ClassVar[Lease] = "grant"
    tokens: ClassVar[Flag] = False
    fair: ClassVar[Flag] = False
    drift: ClassVar[Fraction] = 0.01
    grain: ClassVar[Seconds] = 0.01
    lag: ClassVar[Fraction] = 0.0
    min_ttl: ClassVar[Ttl] = 2.0
    bounds: ClassVar[Bounds] = _BOUNDS
    via: ClassVar[str] = ""
    nodes: ClassVar[Patterns] = ("*",)
    lanes: ClassVar[Patterns] = (
        *("register/*", "set/unfenced", "set/fence-*", "set/compare-owner", "set/guarded"),
        *("churn/*", "impatient/*", "leader/*", "transfer/*", "transfer-backoff/*", "crowd/*", "many/*"),
        *("inventory/unfenced", "inventory/fence-*", "inventory/compare-owner", "once/*", "share/*", "nested/*"),
    )
    excludes: ClassVar[Flag] = True
    permits: ClassVar[Count] = 1
    reentrant: ClassVar[Flag] = False
    several: ClassVar[Flag] = True
    renewed: ClassVar[Flag] = True
    pace: ClassVar[Seconds] = 0.0
    claims: ClassVar[tuple[Claim, ...]] = ()
    hazards: ClassVar[tuple[Hazard, ...]] = ()


class LockClient(Declarations, Protocol):
    """One worker's connection to one lock service, with the declarations of the lock and its backend.

    `renew` runs in a thread of its own, so it may overlap any other call.
    """

    backend: ClassVar[str]

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float) -> Self:
        """Connect. endpoints: ``host:port`` of every node, the one to prefer first. ttl: seconds.

        May raise any error of the library's; then it is called again, for half a minute. A lock that can speak to a
        cluster with passwords or TLS takes an `access` as well; then it raises Refused(DENIED) if it is not let in.
        """

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """Wait up to `timeout` seconds. None: the time passed and nothing of ours is left behind.

        `timeout` 0 is a try and raises Refused(HELD). Raises Indeterminate where something of ours may remain.
        """

    def renew(self, grant: Grant) -> None:
        """Extend the lease. Raises Refused(NOT_OWNER) when the server says that the lease is over, or Indeterminate."""

    def release(self, grant: Grant) -> None:
        """Raises Refused(NOT_OWNER) when the server says that the lock was no longer ours, or Indeterminate.

        It may be called once more for a grant, when another client may hold the lock: this must free nothing.
        """

    def close(self) -> None:
        """Let go of the connection, in which a renewal may still be under way. A library's error is noted."""


@runtime_checkable
class Believes(Protocol):
    """Optional: a client that learns of the loss of its lock by itself (a session event, a watch).

    The worker believes that it holds while this says so and the clock is before `Grant.expires`.
    """

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


@runtime_checkable
class Shares(Protocol):
    """Optional: a read/write lock."""

    def acquire_shared(self, name: str, timeout: float) -> Grant | None:
        """As `acquire`, beside other readers but no writer. The grant is released, and renewed, like any other."""


@runtime_checkable
class Downgrades(Protocol):
    """Optional: a read/write lock whose writer may become a reader, and lets no other writer in between."""

    def downgrade(self, grant: Grant) -> Grant:
        """Exchange the writer's grant, which is then over, for a reader's. Raises as `release`."""


@runtime_checkable
class Cancels(Protocol):
    """Optional: a client that can be told to give up while it waits."""

    def cancel(self) -> None:
        """Called by another thread. An acquire under way returns soon, with its grant or, as at its timeout, None."""


@runtime_checkable
class Wakes(Protocol):
    """Optional: a client that is woken while it waits, by a watch or a message, and counts how often."""

    @property
    def wakes(self) -> int:
        """How often the client has been woken so far."""


@runtime_checkable
class Guards(Protocol):
    """Optional: a lock service that also keeps data, and changes them only for the holder (store mode `guarded`).

    Chubby's sequencer: see Burrows, "The Chubby lock service" (2006), section 2.4.
    """

    def read(self, grant: Grant, key: str) -> tuple[int, Sequence[int]] | None:
        """(value, elements), value -1 if never written; None: refused, the grant is no longer valid.

        Raises Refused(UNAVAILABLE) or Indeterminate.
        """

    def write(self, grant: Grant, key: str, value: int, elements: Sequence[int]) -> bool:
        """Whether the write was accepted. One request checks the grant and writes. Raises as `read`."""

    @classmethod
    def final(cls, endpoints: Sequence[str], key: str, access: Access) -> tuple[int, Sequence[int]]:
        """What the key holds, without any grant. Raises LockError."""


@runtime_checkable
class Sweeps(Protocol):
    """Optional: a lock that can remove what its dead clients leave behind, if it does not end with a lease."""

    @classmethod
    def sweep(cls, endpoints: Sequence[str], names: Sequence[str], access: Access) -> None:
        """Remove all traces of these locks, which nobody uses any more. Raises LockError."""


def admitted(lock: type[LockClient]) -> bool:
    """Whether `open` of the lock takes an `access`."""
    return "access" in inspect.signature(lock.open).parameters


def opened(lock: type[LockClient], endpoints: Sequence[str], ttl: float, access: Access) -> LockClient:
    """A client of this lock. Raises as `LockClient.open` does."""
    if access.open or not admitted(lock):
        return lock.open(endpoints, ttl)
    return lock.open(endpoints, ttl, access)  # type: ignore[call-arg]


def grain_of(lock: type[Declarations], ttl: float) -> float:
    """Seconds by which the server may end a lease of this TTL early."""
    return lock.grain + lock.lag * max(ttl - lock.min_ttl, 0.0)


def new_owner() -> int:
    """A fresh identity for an acquire attempt: 63 random bits, never zero."""
    return secrets.randbits(62) + 1


def now() -> int:
    """ns of CLOCK_MONOTONIC, the clock of every record."""
    return time.monotonic_ns()
