"""A user's own model: ``--model package.module:Model`` or ``--model file.py:Model``, and what can be wrong with it.

In addition to what `Model` says, its class may have ``keyed = False`` (all keys share one state), and ``kinds``, the
set of `row_format.F` that the model is about (all by default). Every error of it is told in one line, as `ModelError`.
"""

import importlib
import runpy
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from checkers.history.foreign_values import shown, spelled
from checkers.history.history import History
from checkers.models.all_models import MODELS, Specification, make
from checkers.models.model import Illegal, Model, Operation, Settings, State
from checkers.models.operations import Operations
from checkers.row_format import F

OWN: Final = (Exception, SystemExit)
"""Exceptions that a user's code may raise. KeyboardInterrupt is none of them, so Ctrl-C still ends the program."""


class ModelError(Exception):
    """A model that cannot be used, or not on this history. The text is one line."""


def specification(name: str) -> Specification:
    """The model of this name, one of `MODELS` or a user's own. Raises ModelError."""
    if name in MODELS:
        return MODELS[name]
    place, _, attribute = name.rpartition(":")
    if not place or not attribute:
        raise ModelError(f"no model {shown(name)}: expected {', '.join(MODELS)}, file.py:Model or package.module:Model")
    try:
        maker: Any = _module(place)
        for part in attribute.split("."):
            maker = getattr(maker, part)
    except OWN as error:
        raise ModelError(f"model {shown(name)} cannot be loaded: {_in_a_line(error)}") from error
    for needed in ("initial", "step"):
        if not hasattr(maker, needed) and isinstance(maker, type):
            if needed == "initial" and "__init__" in vars(maker):
                continue  # instances may have it
            raise ModelError(f"model {shown(name)} has no {needed}")
    if not callable(maker):
        raise ModelError(f"model {shown(name)} is no class")
    try:
        kinds = frozenset(F(kind) for kind in getattr(maker, "kinds", F))
    except (TypeError, ValueError) as error:
        raise ModelError(f"model {shown(name)}: kinds are not a set of row_format.F: {_in_a_line(error)}") from error
    return Specification(name, kinds, partial(_made, name, maker), keyed=bool(getattr(maker, "keyed", True)))


class Own(Model):
    """A user's model, with defaults for what it leaves out. Whatever it raises becomes a ModelError."""

    def __init__(self, name: str, model: Any) -> None:
        self._name = name
        for needed in ("initial", "step"):
            if not hasattr(model, needed):
                raise ModelError(f"model {shown(name)} has no {needed}")
        self._step: Callable[[State, Operation], State | Illegal] = model.step
        self.initial: State = self._ask("initial", lambda: _hashable(model.initial))
        self._changes: Any = getattr(model, "changes", super().changes)
        self._evidence: Any = getattr(model, "evidence", super().evidence)
        self._needs: Any = getattr(model, "needs", super().needs)
        sees = getattr(model, "sees", Model.sees)
        if isinstance(sees, str) or not set(sees) <= set(Operation._fields):
            raise ModelError(f"model {shown(name)}: sees are not fields of an operation: {shown(str(sees))}")
        self.sees: Sequence[str] = tuple(sees)

    def step(self, state: State, operation: Operation) -> State | Illegal:
        try:
            return _hashable(self._step(state, operation))
        except OWN as error:
            raise self._error("step", error, operation) from error

    def changes(self, operation: Operation) -> bool:
        return bool(self._ask("changes", self._changes, operation))

    def evidence(self, operation: Operation) -> bool:
        return bool(self._ask("evidence", self._evidence, operation))

    def needs(self, operation: Operation, peers: Operations) -> Iterable[int] | None:
        def rows(operation: Operation) -> list[int] | None:
            needed = self._needs(operation, peers)
            return None if needed is None else [int(row) for row in needed]

        result: list[int] | None = self._ask("needs", rows, operation)
        return result

    def _ask(self, what: str, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return call(*args)
        except ModelError:
            raise
        except OWN as error:
            raise self._error(what, error, *(a for a in args if isinstance(a, Operation))) from error

    def _error(self, what: str, error: BaseException, *operations: Operation) -> ModelError:
        where = "".join(f" (on row {o.row}, {o.f.name.lower()} {shown(spelled(o.value))})" for o in operations)
        return ModelError(f"model {shown(self._name)}: {what}{where}: {_in_a_line(error)}")


def _module(place: str) -> Any:
    if not place.endswith(".py"):
        return importlib.import_module(place)
    if not Path(place).is_file():
        raise FileNotFoundError("no such file")
    return SimpleNamespace(**runpy.run_path(place))


def _made(name: str, maker: Any, history: History, settings: Settings) -> Own:
    try:
        model = make(maker, history, settings)
    except OWN as error:
        raise ModelError(f"model {shown(name)} cannot be made: {_in_a_line(error)}") from error
    return Own(name, model)


def _hashable(state: State) -> State:
    hash(state)
    return state


def _in_a_line(error: BaseException) -> str:
    text = next(iter(str(error).splitlines()), "")
    return shown(f"{type(error).__name__}: {text}" if text else type(error).__name__)
