"""Sequential specifications: what one operation may answer in a state, and the state that it leaves behind.

A history is valid under a model if some order of its operations explains every answer. The order respects real time (an
operation that returned before another was invoked comes before it), and holds every answered operation and any of the
unanswered ones. The specification is the only thing that engines, general search and verifier have in common.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol

from checkers.models.operations import UNSET as UNSET  # with all else that the author of a model needs
from checkers.models.operations import Operation as Operation
from checkers.models.operations import Operations


class Unusable(ValueError):
    """A usage error: a fact that the model needs is missing, or the history is not of its class. Tells row or line."""


class Illegal:
    """What `Model.step` returns if the operation cannot have ended so. It has its own type, since None is a state."""


ILLEGAL: Final = Illegal()

State = Any  # hashable, and compared by value


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

    initial: State  # the state before everything

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

    def needs(self, operation: Operation, peers: Operations) -> Iterable[int] | None:
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

    def deduced(self, operations: Operations) -> Deduction | None:
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
    budget: float = 60.0  # seconds after which a judgement is given up as unknown
