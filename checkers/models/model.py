"""Sequential specifications: what one operation may answer in a state, and the state that it leaves behind.

A history is valid under a model if some order of its operations explains every answer. The order respects real time (an
operation that returned before another was invoked comes before it), and holds every answered operation and any of the
unanswered ones. The specification is the only thing that engines, general search and verifier have in common.
"""

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol

from checkers.row_format import FINAL, NESTED, SHARED, F, Outcome, Reason


class Unusable(Exception):
    """A usage error: a fact that the model needs is missing, or the history is not of its class. Tells row or line."""


class Illegal:
    """What `Model.step` returns if the operation cannot have ended so. It has its own type, since None is a state."""


ILLEGAL: Final = Illegal()

State = Hashable

# Looking up a name of the module takes a quarter of the time of looking up a member of an enumeration.
_OK, _FAIL, _INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO


class Operation(NamedTuple):
    """One operation as specifications see it. `ret` is `row_format.INFINITY` if it was never answered.

    key, value, base  as recorded: what a file from elsewhere holds (`UNSET` if it holds nothing), or the numbers of our
                      own recordings (`row_format.NONE`: the initial value).
    owner             the holder: a grant's identity, or the process if the history has none. Never 0.
    token             `row_format.NONE` for none.
    """

    row: int
    f: F
    outcome: Outcome
    inv: int
    ret: int
    process: int
    key: Hashable
    owner: int
    token: int
    value: Any
    base: Any
    flags: int = 0
    reason: Reason = Reason.NONE

    @property
    def ok(self) -> bool:
        return self.outcome == _OK

    @property
    def failed(self) -> bool:
        """Whether it certainly did not happen, or was refused."""
        return self.outcome == _FAIL

    @property
    def unknown(self) -> bool:
        return self.outcome == _INFO

    @property
    def shared(self) -> bool:
        """Whether it is a reader's acquire or release."""
        return bool(self.flags & SHARED)

    @property
    def nested(self) -> bool:
        """Whether it acquires what this owner holds already, or is the release that undoes that."""
        return bool(self.flags & NESTED)

    @property
    def final(self) -> bool:
        """Whether it is a read after everything else, past the fence."""
        return bool(self.flags & FINAL)


class Unset:
    """No value was given; None is a value."""


UNSET: Final = Unset()


class Peers(Protocol):
    """The operations of one key (of the whole history if a model has no keys), for rules that look things up."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Operation]: ...

    def where(
        self,
        *kinds: F,
        owner: int | None = None,
        value: Any = UNSET,
        base: Any = UNSET,
        tokens: tuple[int, int] | None = None,
        meets: tuple[int, int] | None = None,
    ) -> Sequence[Operation]:
        """The operations that fit all that is given, in order of invocation.

        kinds   only of these kinds; if none is given, of any kind.
        tokens  only with a token in this range, both ends included.
        meets   only if the time from invocation to return has an instant in common with this range, in ns.
        """


class Deduction(NamedTuple):
    """What follows from the answers of the operations of one key."""

    valid: bool
    # Valid: all operations that took effect, in an order that explains every answer. Invalid: some operations that
    # contradict each other, as far as is known; the last one has no place.
    rows: Sequence[int]


class Model(Protocol):
    """A sequential specification. Also the interface of a user's own (``--model package.module:Model``).

    A class needs `initial` and `step`. All else is optional; the defaults are here. A model is made by the class method
    ``of(history, settings)`` if there is one, else by the class, with the `Settings` if it takes an argument.

    sees  the fields of an operation that `step`, `changes` and `evidence` look at: operations that agree in them are
          interchangeable. Fewer fields make shorter searches. The default is all fields that say nothing of time.
    """

    sees: Sequence[str] = tuple(name for name in Operation._fields if name not in ("row", "inv", "ret"))

    @property
    @abstractmethod
    def initial(self) -> State:
        """The state before everything. Hashable, and compared by value."""

    @abstractmethod
    def step(self, state: State, operation: Operation) -> State | Illegal:
        """The state after the operation with its outcome (unknown: as if it had happened), or `ILLEGAL`."""

    def changes(self, operation: Operation) -> bool:
        """Whether the operation can change any state. If it cannot, it is placed as soon as it fits."""
        del operation
        return True

    def evidence(self, operation: Operation) -> bool:
        """Whether a failed operation proves something, so that `step` must explain it. Others are left out."""
        del operation
        return False

    def needs(self, operation: Operation, peers: Peers) -> Iterable[int] | None:
        """Rows of the operations of its key that must stay in a sub-history that keeps `operation`.

        A set of rows is closed if it holds what each of its rows needs. The promise: no closed subset of a valid
        history is invalid, so an invalid closed subset proves that the history is invalid. For instance a read needs
        the writes of its value, an acquire and its release need each other, and a refused try needs the attempts that
        can have held during it. The own row, and rows that are no evidence, may be among the rows or not.

        None keeps the promise for any specification. It means: an answered operation needs all that was invoked by its
        return and changes anything, an unanswered one nothing. In an order of the whole history, operations that are
        missing then and change anything come after all answered ones that stay, and the order may end before them.
        """
        del operation, peers
        return None

    def deduced(self, operations: Peers) -> Deduction | None:
        """What the answers alone prove of a key, e.g. of what only grows; None: a search must. Not of users' models."""
        del operations
        return None


@dataclass(frozen=True, slots=True)
class Settings:
    """What a model needs to know beside the history. Options of ``python -m checkers`` have the same names."""

    # The value before everything; `UNSET`: nil (of a register), nothing (of a collection), 0 (of a counter).
    initial: Any = UNSET
    permits: int = 1  # how many may hold at once
    ttl: int = 0  # ns; the TTL of leases whose grants do not say it. 0: not known
    drift: float = 0.0  # how much faster than true time the server's clock may run, as a fraction
    # What a failed compare-and-set proves. ``observes``: the value was another; ``ignored``: nothing.
    failed_cas: Literal["observes", "ignored"] = "observes"
    # What a read that returned nil says. ``value``: nil was there; ``unknown``: nothing.
    nil_read: Literal["value", "unknown"] = "value"
    strict_try: bool = False  # whether a failed try-acquire, refused because held, proves that somebody held
    store: str = "fence-writes"  # rule of a fenced store: a store mode of `Facts`
