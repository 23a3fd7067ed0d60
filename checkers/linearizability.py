"""Whether a history is valid under a model, with its proof: engine first, then search, then the least proof.

An engine decides most keys at once. The search decides the keys that the engine leaves, key by key. If the history is
invalid, its earliest contradiction is made as small as possible, and told. Invalid beats unknown.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Final, NamedTuple

import numpy as np

from checkers.engines.search import Searched, search_keys
from checkers.history.counting import Ints
from checkers.history.foreign_values import shown
from checkers.history.history import History
from checkers.models.all_models import Specification
from checkers.models.engine_answer import Conflict, EngineAnswer
from checkers.models.model import Model, Settings, Unusable
from checkers.models.operations import WHOLE, ByKey
from checkers.models.user_model import ModelError, specification
from checkers.proofs.shrink import Shrunk, shrink
from checkers.proofs.witness import tell
from checkers.row_format import Outcome

NO_ORDER: Final = "no-order"  # kind of a conflict that the search found
SHRINKING: Final = 10.0  # seconds at most that are spent on making a proof small
OVERTIME: Final = 0.1  # part of the budget that shrinking may still take if the answer took all of it
_NAMED: Final = 3  # keys that a reason names; the rest are counted


class Least(NamedTuple):
    """What proves that a history is invalid."""

    rows: tuple[int, ...] = ()  # the operations, in order of invocation
    minimal: bool = False  # whether none of them can be left out; False if the budget was spent before that was known
    story: tuple[str, ...] = ()  # the same in sentences


@dataclass(frozen=True, slots=True)
class ModelResult:
    """What a model says of a history. The proof is made when it is asked for: it can cost more than the answer."""

    valid: bool | None  # None: unknown; `reason` says which key and why
    model: str
    operations: int  # how many of the history's operations the model speaks of
    kind: str = ""  # invalid: what happened, a short term (`checkers.properties.conclusions` has its sentence)
    key: int = WHOLE  # invalid: the index of the key, `operations.WHOLE` if the model knows no keys
    reason: str = ""
    least: Callable[[], Least] = Least  # called if valid is False; `rows`, `minimal` and `story` are its parts
    # Called if valid is True: rows, those of each key in an order that explains every answer.
    order: Callable[[], Ints] = lambda: np.empty(0, np.int64)

    @property
    def rows(self) -> tuple[int, ...]:
        return self.least().rows

    @property
    def minimal(self) -> bool:
        return self.least().minimal

    @property
    def story(self) -> tuple[str, ...]:
        return self.least().story


def decide(history: History, model: str | Specification, settings: Settings | None = None) -> ModelResult:
    """Judges a history. model: a name (`MODELS`), a user's own (`package.module:Class`), or its specification.

    Raises ModelError, in one line, if the model cannot be used; BadHistory if the history is none of its kind.
    """
    return _Case(history, model, settings or Settings()).judge()


class _Case:
    def __init__(self, history: History, model: str | Specification, settings: Settings) -> None:
        self._history = history
        self._statement = specification(model) if isinstance(model, str) else model
        self._settings = settings
        self._deadline = time.monotonic() + settings.budget
        if self._statement.needs_times and history.clock is not None:
            raise ModelError(f"model {self._statement.name} needs times, and here only the order of events is known")
        try:
            self._model = self._statement.make(history, settings)
        except ValueError as error:
            raise ModelError(f"model {self._statement.name}: {error}") from error
        self._keys = ByKey(history, self._statement.kinds, keyed=self._statement.keyed)

    def judge(self) -> ModelResult:
        answer = self._engine()
        if answer.conflicts:
            return self._contradicted(self._earliest(answer.conflicts))
        name, operations = self._statement.name, len(self._keys)
        searched: Mapping[int, Searched] = {}
        if answer.undecided and self._model is not None:
            keys = {key: self._keys[key] for key in answer.undecided}
            searched = search_keys(keys, self._model, max(self._deadline - time.monotonic(), 0.0))
            for key, result in searched.items():
                if result.valid is False:
                    return self._invalid(Conflict(NO_ORDER, key, result.suspects or result.stuck.rows[:1]))
        open_keys = {
            key: searched[key].reason if key in searched else why
            for key, why in answer.undecided.items()
            if key not in searched or searched[key].valid is None
        }
        if open_keys:
            return self._unknown(open_keys)
        orders = [np.array(result.order, np.int64) for result in searched.values()]
        return ModelResult(True, name, operations, order=lambda: np.concatenate([answer.order(), *orders]))

    def _engine(self) -> EngineAnswer:
        if self._statement.engine is not None:
            try:
                return self._statement.engine(self._history, self._settings)
            except Unusable as error:
                raise ModelError(f"model {self._statement.name}: {error}") from error
        return EngineAnswer((), dict.fromkeys(self._keys.keys, ""), lambda: np.empty(0, np.int64))

    def _earliest(self, conflicts: Sequence[Conflict]) -> Conflict:
        """The conflict that was complete first: all its operations were invoked, and had returned if they ever did."""
        columns = self._history.columns
        rows = np.array([row for conflict in conflicts for row in conflict.rows], np.int64)
        ends = np.where(columns["outcome"][rows] == Outcome.INFO, columns["inv"][rows], columns["ret"][rows])
        begins = np.cumsum([0, *(len(conflict.rows) for conflict in conflicts[:-1])])
        return conflicts[int(np.argmin(np.maximum.reduceat(ends, begins)))]

    def _contradicted(self, conflict: Conflict) -> ModelResult:
        """The result for a conflict that the engine found. The search must confirm it, on the least proof found."""
        shrunk = None if self._model is None else self._shrunk(conflict, self._model)
        if shrunk is not None and shrunk.refuted:
            error = f"{conflict.kind} was found, which the search does not confirm: an error of this program"
            return self._unknown({conflict.key: error})
        return self._invalid(conflict, shrunk)

    def _invalid(self, conflict: Conflict, shrunk: Shrunk | None = None) -> ModelResult:
        least = cache(partial(self._least, conflict, shrunk))
        return ModelResult(False, self._statement.name, len(self._keys), conflict.kind, conflict.key, least=least)

    def _shrunk(self, conflict: Conflict, model: Model) -> Shrunk:
        deadline = time.monotonic() + min(self._left(), SHRINKING)
        return shrink(self._keys.only(conflict.key), model, conflict.rows, deadline)

    def _left(self) -> float:
        """Seconds that a proof may take."""
        return max(self._deadline - time.monotonic(), OVERTIME * self._settings.budget)

    def _least(self, conflict: Conflict, shrunk: Shrunk | None) -> Least:
        rows, certify = tuple(sorted(conflict.rows)), self._statement.certify
        if self._model is not None:
            shrunk = shrunk or self._shrunk(conflict, self._model)
            rows, minimal = shrunk.rows or rows, shrunk.minimal
        else:
            settings = replace(self._settings, budget=self._left())
            minimal = certify is not None and certify(self._history, settings, False, rows) is None
        return Least(rows, minimal, tell(self._history, self._statement, self._model, conflict.kind, rows))

    def _unknown(self, keys: Mapping[int, str]) -> ModelResult:
        named = [f"{self._named(key)}{why}" for key, why in list(keys.items())[:_NAMED]]
        if len(keys) > _NAMED:
            named.append(f"and {len(keys) - _NAMED} more keys")
        return ModelResult(None, self._statement.name, len(self._keys), reason="; ".join(named))

    def _named(self, key: int) -> str:
        names = self._history.facts.keys
        if key == WHOLE or len(names) <= 1:
            return ""
        return f"key {shown(names[key])}: "
