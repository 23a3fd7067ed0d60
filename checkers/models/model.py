"""Sequential specifications: what one operation may answer in a state, and the state that it leaves behind.

A history is valid under a model if some order of its operations explains every answer: one that respects real time
(what returned before another was invoked comes before it), holds every operation that was answered, and any of the
unanswered ones. The specification is the only thing that engines, general search and verifier have in common.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol

from checkers.wire import FINAL, NESTED, SHARED, F, Outcome, Reason


class Illegal:
    """What `Model.step` answers when the operation cannot have ended so; a type of its own, since None is a state."""


ILLEGAL: Final = Illegal()

State = Hashable


class Operation(NamedTuple):
    """One operation as specifications see it. `ret` is `leases.INFINITY` where it was never answered.

    key, value, base  in the words of whoever recorded the history: what a file from elsewhere holds, the numbers of
                      our own recordings (`wire.NONE`: the initial value).
    owner             who holds: a grant's identity, or the process where the history has none. Never 0.
    token             `wire.NONE` for none.
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
        """It was acknowledged."""
        return self.outcome == Outcome.OK

    @property
    def failed(self) -> bool:
        """It certainly did not happen, or was refused."""
        return self.outcome == Outcome.FAIL

    @property
    def unknown(self) -> bool:
        """Nobody knows whether it happened, or will."""
        return self.outcome == Outcome.INFO

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


class Model(Protocol):
    """A sequential specification. Also the interface of a user's own (``--model package.module:Model``).

    A user's class needs `initial` and `step`; it is called without arguments, or with the `Settings` if it takes one.
    """

    @property
    def initial(self) -> State:
        """The state before everything. Hashable, and compared by value."""

    def step(self, state: State, operation: Operation) -> State | Illegal:
        """The state after the operation, ended as it did (unknown: as if it had happened), or `ILLEGAL`."""

    def changes(self, operation: Operation) -> bool:
        """Whether it can change any state; one that cannot is placed as soon as it fits. Optional: True."""


class Unset:
    """No value was given; a type of its own, since None is a value."""


UNSET: Final = Unset()


@dataclass(frozen=True, slots=True)
class Settings:
    """What a model needs to know beside the history. Options of ``python -m checkers`` have the same names.

    initial      the value before everything; `UNSET`: nil (of a register), nothing (of a collection), 0 (of a counter).
    permits      how many may hold at once.
    ttl          ns; of leases whose grants do not say it. 0: not known.
    drift        how much faster than true time the server's clock may run, as a fraction.
    failed_cas   what a failed compare-and-set proves: ``observes`` that the value was another, ``ignored`` nothing.
    nil_read     what a read that returned nil says: ``value`` that nil was there, ``unknown`` nothing.
    strict_try   whether a failed try-acquire, refused because held, proves that somebody held.
    store        rule of a fenced store: a store mode of `Facts`.
    """

    initial: Any = UNSET
    permits: int = 1
    ttl: int = 0
    drift: float = 0.0
    failed_cas: Literal["observes", "ignored"] = "observes"
    nil_read: Literal["value", "unknown"] = "value"
    strict_try: bool = False
    store: str = "fence-writes"
