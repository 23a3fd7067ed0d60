"""A witness told in words: who held which token when, what was read, and what should have been.

One sentence for each operation, in order of time, then what cannot be. Whatever comes from a file is hostile text:
control characters are escaped, and what is long is cut.
"""

import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from checkers.engines.search_plan import OutOfTime, plan
from checkers.engines.search_states import OutOfMemory, StateSearch
from checkers.history.history import History
from checkers.history.values import shown, told
from checkers.models.model import UNSET, Model, Operation
from checkers.models.operations import Operations, Source
from checkers.models.registry import Specification
from checkers.wire import LATE, NONE, F, Reason

TOLD: Final = 40
"""Operations that get a sentence; of more, the last ones."""
_SECONDS: Final = 0.5
"""What finding out what should have been may cost."""

CONCLUSIONS: Final = {
    "element-duplicated": "An element that was added once was read twice.",
    "element-lost": "The element had been added, and no later read shows it.",
    "failed-without-reason": "The compare-and-set failed although the value can only have been the expected one.",
    "granted-inside-a-hold": "So the lock was granted while an earlier grant was certainly in force.",
    "lost-early": "So a lease was over before its time.",
    "needless-refusal": "Nothing can have raised the bar above the token that was refused.",
    "no-order-of-values": "Each of these values must have been overwritten before the other was.",
    "no-order-within-token": "Under one token, each of these values must have been overwritten before the other was.",
    "not-a-collection": "What was read is no collection.",
    "not-the-latest-value": "The value that was read had been overwritten before.",
    "overlap": "So two owners held the lock at once.",
    "overwritten-value-read-later": "A later token's read saw what was no longer the last value of its token.",
    "refused-value-read": "The value was read although its write had been refused.",
    "refused-while-free": "A try was refused although nobody can have held the lock.",
    "release-by-another": "The lock was released by somebody who cannot have held it.",
    "release-lied": "So a release was acknowledged although the lock had gone to another.",
    "renewal-lied": "So a renewal was acknowledged although the lock had gone to another.",
    "second-acquire": "The lock was acquired by somebody who held it already.",
    "second-write-accepted": "A strict store accepts one write of a token.",
    "stale-read": "The read was answered although a later token had been accepted before.",
    "stale-write-accepted": "The write was accepted although a later token had been accepted before.",
    "token-not-larger": "A later grant must have a larger token.",
    "token-repeated": "Two grants have the same token.",
    "too-many": "So more owners held it at once than there are permits.",
    "value-never-written": "Nobody wrote the value that was read.",
    "value-read-before-write": "The value was read before its write was sent.",
    "value-read-below-its-token": "A read under a lower token saw what was written under a higher one.",
    "value-replaced-twice": "A value that was written once was compared and replaced twice.",
    "values-in-a-circle": "Each of these values can only have come after the other.",
}
"""Kind of conflict → what cannot be. Of any other kind it is said that no order explains the answers."""
NO_ORDER: Final = "No order of these operations explains all their answers."


def tell(
    history: History, statement: Specification, model: Model | None, kind: str, rows: Sequence[int]
) -> tuple[str, ...]:
    """The story of a sub-history that proves a history invalid."""
    operations = Operations(Source(history), np.array(sorted(rows), np.int64))
    teller = _Teller(history, statement)
    ordered = sorted(operations, key=lambda o: (o.inv if o.unknown else o.ret, o.row))
    left_out = [f"{len(ordered) - TOLD} operations came before these."] if len(ordered) > TOLD else []
    story = [*left_out, *map(teller.sentence, ordered[-TOLD:]), CONCLUSIONS.get(kind, NO_ORDER)]
    if model is not None:
        story += teller.should(operations, model)
    return tuple(story)


class _Teller:
    def __init__(self, history: History, statement: Specification) -> None:
        self._history = history
        self._several = statement.keyed and len(history.facts.keys) > 1
        times = history.columns["inv"] if history.clock is None else history.clock[:, 0]
        self._zero = int(times[times > 0].min()) if (times > 0).any() else 0

    def sentence(self, operation: Operation) -> str:
        """Who did what, on which key where there are several, when, and where it stands in the file."""
        key = f" on {shown(plain(operation.key))}" if self._several else ""
        return f"{self.who(operation)} {self._did(operation)}{key}{self._when(operation)}{self._lines(operation)}."

    def who(self, operation: Operation) -> str:
        """The process, or in our own recordings its worker."""
        if operation.process < 0:
            return "The harness"
        if self._history.facts.backend:
            return f"Worker {operation.process % self._history.facts.workers}"
        return f"Process {operation.process}"

    def should(self, operations: Operations, model: Model) -> list[str]:
        """What should have been: the states that can have been there when an operation returned that has no place."""
        try:
            planned = plan(operations, model, time.monotonic() + _SECONDS)
            search = StateSearch(planned, model, time.monotonic() + _SECONDS)
            if not search.run(1_000_000) or search.order is not None or not search.stuck.rows:
                return []
        except (OutOfTime, OutOfMemory):
            return []
        stuck = search.stuck
        (operation,) = operations.only(stuck.rows[:1])
        states = dict.fromkeys(self._words(getattr(state, "value", state)) for state in stuck.states)
        who = self.who(operation)
        if operation.f in (F.READ, F.CAS) and states:
            there = " or ".join(states)
            return [
                f"{who}'s {operation.f.name.lower()} fits nowhere: when it returned, there can only have been {there}."
            ]
        return [f"{who}'s {_name(operation)} fits nowhere."]

    def _when(self, operation: Operation) -> str:
        inv = self._clock(operation, 0)
        if operation.unknown:
            return f" {inv}, and never got an answer" if inv else ", and never got an answer"
        ret = self._clock(operation, 1)
        if not inv or not ret:
            return ""
        return f" {inv}" if inv == ret else f" between {inv.removeprefix('at ')} and {ret.removeprefix('at ')}"

    def _clock(self, operation: Operation, end: int) -> str:
        history = self._history
        if history.clock is not None:
            ns = int(history.clock[operation.row][end])
            return f"at {(ns - self._zero) / 1e9:.6g} s" if ns > 0 else ""
        if history.lines is not None and history.facts.ttl == 0 and operation.inv <= 2 * len(history):
            return ""  # a place in the order of lines is no time
        return f"at {((operation.ret if end else operation.inv) - self._zero) / 1e9:.6f} s"

    def _lines(self, operation: Operation) -> str:
        if self._history.lines is None:
            return ""
        lines = [str(line) for line in self._history.lines[operation.row].tolist() if line > 0]
        return f" (line{'s' if len(lines) > 1 else ''} {' and '.join(lines)})" if lines else ""

    def _words(self, value: Any) -> str:
        """A value; in our own recordings there is a number for the one before everything."""
        return (
            "the initial value" if type(value) is int and value == NONE and not self._history.values else words(value)
        )

    def _did(self, operation: Operation) -> str:
        """The verb and what it was about; an answer that is missing is told with the time."""
        token = f" with token {operation.token}" if operation.token != NONE else ""
        value, base = self._words(operation.value), self._words(operation.base)
        reading = " for reading" if operation.shared else ""
        late = "late, " if operation.flags & LATE else ""
        reason = "" if operation.reason == Reason.NONE else f" ({operation.reason.name.lower().replace('_', '-')})"
        match operation.f, operation.ok, operation.failed:
            case ((F.ACQUIRE | F.TRY_ACQUIRE), True, _):
                return f"acquired the lock{reading}{token}"
            case ((F.ACQUIRE | F.TRY_ACQUIRE), _, True):
                return f"was refused the lock{reading}{reason}"
            case ((F.ACQUIRE | F.TRY_ACQUIRE), _, _):
                return f"asked for the lock{reading}"
            case F.RELEASE, True, _:
                return "released the lock"
            case F.RELEASE, _, True:
                return f"was refused the release{reason}"
            case F.RELEASE, _, _:
                return "asked to release the lock"
            case F.READ, True, _:
                return f"read {value}{token}"
            case F.READ, _, True:
                return f"was refused a read{token}{reason}"
            case F.WRITE, True, _:
                return f"{late}wrote {value}{token}"
            case F.WRITE, _, True:
                return f"{late}was refused the write of {value}{token}{reason}"
            case F.WRITE, _, _:
                return f"{late}sent the write of {value}{token}"
            case F.CAS, True, _:
                return f"replaced {base} by {value}"
            case F.CAS, _, True:
                return f"failed to replace {base} by {value}"
            case F.CAS, _, _:
                return f"asked to replace {base} by {value}"
            case F.GENERATE, True, _:
                return f"was given the identity {value}"
            case F.RENEW, True, _:
                return f"renewed its lease{token}"
            case F.ADD, True, _:
                return f"added {value}"
            case F.APPEND, True, _:
                return f"appended {value}"
            case F.TRANSACT, True, _:
                return f"did at once {value}"
        nothing = operation.value is UNSET or (operation.value == NONE and not self._history.values)
        about = "" if nothing else f" of {value}"
        ended = ", which succeeded," if operation.ok else f", which failed{reason}," if operation.failed else ""
        return f"asked for {_name(operation)}{about}{token}{ended}"


def words(value: Any) -> str:
    """A value as people read it, on one line and short."""
    if value is UNSET:
        return "nothing"
    try:
        return shown(told(value))
    except Exception as error:  # noqa: BLE001  a user's own class may do anything when it is shown
        return f"<{type(value).__name__}: {type(error).__name__}>"


def plain(value: Any) -> str:
    """A name: without quotes."""
    return value if isinstance(value, str) else words(value)


def _name(operation: Operation) -> str:
    return operation.f.name.lower().replace("_", "-")
