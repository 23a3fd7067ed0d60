"""Whether a history is valid under a model, with the proof of the answer: engine first, then search, then the least.

An engine decides most keys at once. What it leaves goes to the search, key by key. Of what is invalid, the earliest
contradiction is made as small as it can be, and told. Invalid beats unknown: a key that is certainly bad makes the
history invalid, whatever else was not decided.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final, NamedTuple

import numpy as np

from checkers.engines.search import Searched, search_keys
from checkers.history.history import History
from checkers.history.values import shown
from checkers.models.engine import Answer, Conflict
from checkers.models.model import Settings, Unusable
from checkers.models.operations import WHOLE, ByKey, Rows
from checkers.models.own import ModelError, specification
from checkers.models.registry import Specification
from checkers.proofs.shrink import Shrunk, shrink
from checkers.proofs.witness import tell
from checkers.wire import Outcome

BUDGET: Final = 60.0
"""Seconds, where nothing else is said."""
NO_ORDER: Final = "no-order"
"""Kind of a conflict that the search found."""
SHRINKING: Final = 10.0
"""Seconds at most that are spent on making a proof small."""
OVERTIME: Final = 0.1
"""Part of the budget that is left for that where all was spent to find out."""
_NAMED: Final = 3
"""Keys that a reason names; the rest are counted."""


class Least(NamedTuple):
    """What proves that a history is invalid.

    rows     the operations, in order of invocation.
    minimal  whether none of them can be left out; not where the budget was spent before that was known.
    story    the same in sentences.
    """

    rows: tuple[int, ...] = ()
    minimal: bool = False
    story: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer, and its proof, which is made when it is asked for: it can cost more than the verdict.

    valid       None: unknown; `reason` says which key and why.
    operations  how many the model speaks of.
    kind        invalid: what happened, a short term (`checkers.proofs.witness` has its sentence).
    key         invalid: the index of the key, `operations.WHOLE` where the model knows none.
    least       called where valid is False; `rows`, `minimal` and `story` are its parts.
    order       called where valid is True: rows, those of each key in an order that explains every answer.
    """

    valid: bool | None
    model: str
    operations: int
    kind: str = ""
    key: int = WHOLE
    reason: str = ""
    least: Callable[[], Least] = Least
    order: Callable[[], Rows] = lambda: np.empty(0, np.int64)

    @property
    def rows(self) -> tuple[int, ...]:
        return self.least().rows

    @property
    def minimal(self) -> bool:
        return self.least().minimal

    @property
    def story(self) -> tuple[str, ...]:
        return self.least().story


def decide(
    history: History, model: str | Specification, settings: Settings | None = None, budget: float = BUDGET
) -> Judgement:
    """Judges a history. model: a name (`registry.MODELS`), a user's own (`package.module:Class`), or its specification.

    budget: seconds, of which only engines know nothing; they need few.
    Raises ModelError where the model cannot be used, in one line; BadHistory where the history is none of its kind.
    """
    return _Case(history, model, settings or Settings(), budget).judge()


class _Case:
    def __init__(self, history: History, model: str | Specification, settings: Settings, budget: float) -> None:
        self._history = history
        self._statement = specification(model) if isinstance(model, str) else model
        self._settings = settings
        self._budget = budget
        self._deadline = time.monotonic() + budget
        if self._statement.needs_times and history.clock is not None:
            raise ModelError(f"model {self._statement.name} needs times, and here only the order of events is known")
        try:
            self._model = self._statement.make(history, settings)
        except ValueError as error:
            raise ModelError(f"model {self._statement.name}: {error}") from error
        self._keys = ByKey(history, self._statement.kinds, keyed=self._statement.keyed)

    def judge(self) -> Judgement:
        answer = self._engine()
        if answer.conflicts:
            return self._contradicted(self._earliest(answer.conflicts))
        searched: Mapping[int, Searched] = {}
        if answer.undecided and self._model is not None:
            keys = {key: self._keys[key] for key in answer.undecided}
            searched = search_keys(keys, self._model, max(self._deadline - time.monotonic(), 0.0))
            for key, found in searched.items():
                if found.valid is False:
                    conflict = Conflict(NO_ORDER, key, found.suspects or found.stuck.rows[:1])
                    return self._invalid(conflict, partial(self._told, conflict))
        open_keys = {
            key: searched[key].reason if key in searched else why
            for key, why in answer.undecided.items()
            if key not in searched or searched[key].valid is None
        }
        if open_keys:
            return self._unknown(open_keys)
        orders = [found.order for found in searched.values()]
        return Judgement(True, self._statement.name, len(self._keys), order=lambda: _joined(answer.order(), orders))

    def _engine(self) -> Answer:
        if self._statement.engine is not None:
            try:
                return self._statement.engine(self._history, self._settings)
            except Unusable as error:
                raise ModelError(f"model {self._statement.name}: {error}") from error
        return Answer((), dict.fromkeys(self._keys.keys, ""), lambda: np.empty(0, np.int64))

    def _earliest(self, conflicts: Sequence[Conflict]) -> Conflict:
        """The one that had happened first: all its operations had been invoked, and had returned where they did."""
        columns = self._history.columns
        rows = np.array([row for conflict in conflicts for row in conflict.rows], np.int64)
        ends = np.where(columns["outcome"][rows] == Outcome.INFO, columns["inv"][rows], columns["ret"][rows])
        begins = np.cumsum([0, *(len(conflict.rows) for conflict in conflicts[:-1])])
        return conflicts[int(np.argmin(np.maximum.reduceat(ends, begins)))]

    def _contradicted(self, conflict: Conflict) -> Judgement:
        """The engine says so. The search must, too, of the least that it finds."""
        if self._model is None:
            return self._invalid(conflict, partial(self._certified, conflict))
        shrunk = self._shrunk(conflict)
        if shrunk.refuted:
            said = f"{conflict.kind} was found, which the search does not confirm: an error of this program"
            return self._unknown({conflict.key: said})
        return self._invalid(conflict, partial(self._told, conflict, shrunk))

    def _invalid(self, conflict: Conflict, least: Callable[[], Least]) -> Judgement:
        name = self._statement.name
        return Judgement(False, name, len(self._keys), conflict.kind, conflict.key, least=cache(least))

    def _shrunk(self, conflict: Conflict) -> Shrunk:
        assert self._model is not None
        now = time.monotonic()
        seconds = min(max(self._deadline - now, OVERTIME * self._budget), SHRINKING)
        return shrink(self._keys.one(conflict.key), self._model, conflict.rows, now + seconds)

    def _told(self, conflict: Conflict, shrunk: Shrunk | None = None) -> Least:
        shrunk = shrunk or self._shrunk(conflict)
        rows = shrunk.rows or tuple(sorted(conflict.rows))
        story = tell(self._history, self._statement, self._model, conflict.kind, rows)
        return Least(rows, shrunk.minimal, story)

    def _certified(self, conflict: Conflict) -> Least:
        rows = tuple(sorted(conflict.rows))
        certify = self._statement.certify
        minimal = certify is not None and certify(self._history, self._settings, False, rows) is None
        return Least(rows, minimal, tell(self._history, self._statement, None, conflict.kind, rows))

    def _unknown(self, keys: Mapping[int, str]) -> Judgement:
        named = [f"{self._named(key)}{why}" for key, why in list(keys.items())[:_NAMED]]
        if len(keys) > _NAMED:
            named.append(f"and {len(keys) - _NAMED} more keys")
        return Judgement(None, self._statement.name, len(self._keys), reason="; ".join(named))

    def _named(self, key: int) -> str:
        names = self._history.facts.keys
        if key == WHOLE or len(names) <= 1:
            return ""
        return f"key {shown(names[key])}: "


def _joined(first: Rows, others: Sequence[Sequence[int]]) -> Rows:
    return np.concatenate([first, *(np.array(order, np.int64) for order in others)])
