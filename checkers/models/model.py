"""Sequential specifications: what one operation may answer in a state, and the state that it leaves behind.

A history is valid under a model if some order of its operations explains every answer: one that respects real time
(what returned before another was invoked comes before it), holds every operation that was answered, and any of the
unanswered ones. The specification is the only thing that engines, general search and verifier have in common.
"""

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol

from checkers.row_format import FINAL, NESTED, SHARED, F, Outcome, Reason


class Unusable(Exception):
    """A usage error: what the model has to know is missing, or not of this class. The text tells row or line."""


class Illegal:
    """What `Model.step` answers when the operation cannot have ended so; a type of its own, since None is a state."""


ILLEGAL: Final = Illegal()

State = Hashable

# A name of the module is found in a quarter of the time that a member of an enumeration takes.
_OK, _FAIL, _INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO


class Operation(NamedTuple):
    """One operation as specifications see it. `ret` is `row_format.INFINITY` where it was never answered.

    key, value, base  in the words of whoever recorded the history: what a file from elsewhere holds (`UNSET` where it
                      has nothing), the numbers of our own recordings (`row_format.NONE`: the initial value).
    owner             who holds: a grant's identity, or the process where the history has none. Never 0.
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
        """It certainly did not happen, or was refused."""
        return self.outcome == _FAIL

    @property
    def unknown(self) -> bool:
        return self.outcome == _INFO

    @property
    def shared(self) -> bool:
        """A reader's acquire or release."""
        return bool(self.flags & SHARED)

    @property
    def nested(self) -> bool:
        """An acquire of what this owner holds already, or the release that undoes it."""
        return bool(self.flags & NESTED)

    @property
    def final(self) -> bool:
        """A read after everything else, past the fence."""
        return bool(self.flags & FINAL)


class Unset:
    """No value was given; None is a value."""


UNSET: Final = Unset()


class Peers(Protocol):
    """The operations of one key (of the whole history where a model has no keys), for rules that look things up."""

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
        """Those that fit all that is given, in order of invocation.

        kinds   of these kinds; none given: of any.
        tokens  with a token in this range, both ends included.
        meets   whose time from invocation to return has an instant in common with this range, in ns.
        """


class Deduction(NamedTuple):
    """What follows from the answers of the operations of one key."""

    valid: bool
    # Valid: all that took effect, in an order that explains every answer. Invalid: some that contradict each
    # other, as far as is known; the last one has no place.
    rows: Sequence[int]


class Model(Protocol):
    """A sequential specification. Also the interface of a user's own (``--model package.module:Model``).

    A class needs `initial` and `step`; all else is optional, and stands here as it is by default. It is made by its
    class method ``of(history, settings)`` if it has one, else from the `Settings` if it takes an argument.

    sees  the fields of an operation that `step`, `changes` and `evidence` look at: operations that agree in them are
          interchangeable. Fewer make shorter searches. By default all that say nothing of time.
    """

    sees: Sequence[str] = tuple(name for name in Operation._fields if name not in ("row", "inv", "ret"))

    @property
    @abstractmethod
    def initial(self) -> State:
        """The state before everything. Hashable, and compared by value."""

    @abstractmethod
    def step(self, state: State, operation: Operation) -> State | Illegal:
        """The state after the operation, ended as it did (unknown: as if it had happened), or `ILLEGAL`."""

    def changes(self, operation: Operation) -> bool:
        """Whether it can change any state; one that cannot is placed as soon as it fits."""
        del operation
        return True

    def evidence(self, operation: Operation) -> bool:
        """Whether a failed operation proves something, so that `step` must explain it; others are left out."""
        del operation
        return False

    def needs(self, operation: Operation, peers: Peers) -> Iterable[int] | None:
        """Rows of the operations of its key that may not be dropped from a sub-history that keeps `operation`.

        A set of rows is closed if it holds what each of its rows needs. The promise: no closed subset of a valid
        history is invalid, so that an invalid one proves that the history is. For instance the writes of the value that
        a read returned, the release of an acquire and the reverse, the attempts that can have held during a refused
        try. Whether the own row, or rows that are no evidence, are among them does not matter.

        None keeps the promise for any specification. It means: where it was answered, all that was invoked by its
        return and changes anything; else nothing. For in an order of the whole history, what is then missing and
        changes anything stands behind all answered operations that stay, where the order may as well end.
        """
        del operation, peers
        return None

    def deduced(self, operations: Peers) -> Deduction | None:
        """What answers alone say of a key, as reads do of what only grows; None: a search must. Not of a user's own."""
        del operations
        return None


@dataclass(frozen=True, slots=True)
class Settings:
    """What a model needs to know beside the history. Options of ``python -m checkers`` have the same names."""

    # The value before everything; `UNSET`: nil (of a register), nothing (of a collection), 0 (of a counter).
    initial: Any = UNSET
    permits: int = 1  # how many may hold at once
    ttl: int = 0  # ns; of leases whose grants do not say it. 0: not known
    drift: float = 0.0  # how much faster than true time the server's clock may run, as a fraction
    # What a failed compare-and-set proves: ``observes`` that the value was another, ``ignored`` nothing.
    failed_cas: Literal["observes", "ignored"] = "observes"
    # What a read that returned nil says: ``value`` that nil was there, ``unknown`` nothing.
    nil_read: Literal["value", "unknown"] = "value"
    strict_try: bool = False  # whether a failed try-acquire, refused because held, proves that somebody held
    store: str = "fence-writes"  # rule of a fenced store: a store mode of `Facts`
