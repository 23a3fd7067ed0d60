"""A witness told in words: who held which token when, what was read, and what should have been.

One sentence for each operation, in order of time, then what cannot be. Whatever comes from a file is hostile text:
control characters are escaped, and what is long is cut.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from checkers.engines.search import KeySearch
from checkers.engines.search_plan import OutOfTime
from checkers.history.foreign_values import shown, spelled
from checkers.history.history import History
from checkers.models.all_models import Specification
from checkers.models.model import UNSET, Model, Operation
from checkers.models.operations import Operations
from checkers.properties.conclusions import CONCLUSIONS_OF_MODELS
from checkers.row_format import LATE, NONE, F, Reason

TOLD: Final = 40  # operations that get a sentence; of more, the last ones
_SECONDS: Final = 0.5  # the most time for finding out what should have been
_STEPS: Final = 1_000_000  # the most steps of a search for it

_DEEDS: Final[Mapping[F, tuple[str, str, str]]] = {
    F.ACQUIRE: (
        "acquired the lock{reading}{token}",
        "was refused the lock{reading}{reason}",
        "asked for the lock{reading}",
    ),
    F.RELEASE: ("released the lock", "was refused the release{reason}", "asked to release the lock"),
    F.RENEW: ("renewed its lease{token}", "", ""),
    F.READ: ("read {value}{token}", "was refused a read{token}{reason}", ""),
    F.WRITE: (
        "{late}wrote {value}{token}",
        "{late}was refused the write of {value}{token}{reason}",
        "{late}sent the write of {value}{token}",
    ),
    F.CAS: ("replaced {base} by {value}", "failed to replace {base} by {value}", "asked to replace {base} by {value}"),
    F.ADD: ("added {value}", "", ""),
    F.APPEND: ("appended {value}", "", ""),
    F.TRANSACT: ("did at once {value}", "", ""),
    F.GENERATE: ("was given the identity {value}", "", ""),
}
"""What was done if it was acknowledged, if it failed, and if it had no answer. Empty: `_did` has other words."""


def tell(
    history: History, statement: Specification, model: Model | None, kind: str, rows: Sequence[int]
) -> tuple[str, ...]:
    """The story of a sub-history that proves a history invalid."""
    operations = Operations(history, np.array(sorted(rows), np.int64))
    teller = _Teller(history, statement)
    ordered = sorted(operations, key=lambda o: (o.inv if o.unknown else o.ret, o.row))
    left_out = [f"{len(ordered) - TOLD} operations came before these."] if len(ordered) > TOLD else []
    conclusion = CONCLUSIONS_OF_MODELS.get(kind, CONCLUSIONS_OF_MODELS["no-order"])
    story = [*left_out, *map(teller.sentence, ordered[-TOLD:]), conclusion]
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
        key = operation.key if isinstance(operation.key, str) else words(operation.key)  # a name has no quotes
        which = f" on {shown(key)}" if self._several else ""
        return f"{self.who(operation)} {self._did(operation)}{which}{self._when(operation)}{self._lines(operation)}."

    def who(self, operation: Operation) -> str:
        """The process, or in our own recordings its worker."""
        if operation.process < 0:
            return "The harness"
        if self._history.facts.backend:
            return f"Worker {operation.process % self._history.facts.workers}"
        return f"Process {operation.process}"

    def should(self, operations: Operations, model: Model) -> list[str]:
        """What should have been: the states that were possible when the operation without a place returned."""
        try:
            searched = KeySearch(operations, model, time.monotonic() + _SECONDS).run(_STEPS)
        except OutOfTime:
            return []
        if searched is None or not searched.stuck.rows:
            return []
        stuck = searched.stuck
        (operation,) = operations.only(stuck.rows[:1])
        states = dict.fromkeys(self._words(getattr(state, "value", state)) for state in stuck.states)
        who, there = self.who(operation), ""
        if operation.f in (F.READ, F.CAS) and states:
            there = f": when it returned, there can only have been {' or '.join(states)}"
        return [f"{who}'s {_name(operation)} fits nowhere{there}."]

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
        """A value in words; in our own recordings a number stands for the value before everything."""
        initial = type(value) is int and value == NONE and not self._history.values
        return "the initial value" if initial else words(value)

    def _did(self, operation: Operation) -> str:
        """The verb and what it was about; a missing answer is told with the time."""
        f = F.ACQUIRE if operation.f == F.TRY_ACQUIRE else operation.f
        acknowledged, failed, unanswered = _DEEDS.get(f, ("", "", ""))
        token = f" with token {operation.token}" if operation.token != NONE else ""
        value, base = self._words(operation.value), self._words(operation.base)
        reason = "" if operation.reason == Reason.NONE else f" ({operation.reason.name.lower().replace('_', '-')})"
        if template := acknowledged if operation.ok else failed if operation.failed else unanswered:
            reading = " for reading" if operation.shared else ""
            late = "late, " if operation.flags & LATE else ""
            return template.format(value=value, base=base, token=token, reason=reason, reading=reading, late=late)
        nothing = operation.value is UNSET or (operation.value == NONE and not self._history.values)
        about = "" if nothing else f" of {value}"
        ended = ", which succeeded," if operation.ok else f", which failed{reason}," if operation.failed else ""
        return f"asked for {_name(operation)}{about}{token}{ended}"


def words(value: Any) -> str:
    """A value as people read it, on one line and short."""
    if value is UNSET:
        return "nothing"
    try:
        return shown(spelled(value))
    except Exception as error:  # noqa: BLE001  a user's own class may do anything when it is shown
        return f"<{type(value).__name__}: {type(error).__name__}>"


def _name(operation: Operation) -> str:
    return operation.f.name.lower().replace("_", "-")
