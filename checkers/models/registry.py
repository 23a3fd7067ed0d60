"""The models by their names: what ``--model`` knows, and where the specification and the engine of each are.

A model plugs in with one line of `_ENTRIES`: the module and class of its specification (`checkers.models.model.Model`
says how a class is made and what it may leave out), and the module and function of its engine, if it has one
(`checkers.models.engine.Engine`). Both are imported when the model is asked for, and not before.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, NamedTuple

from checkers.history.history import History
from checkers.models.engine import Engine
from checkers.models.model import Model, Settings
from checkers.wire import F

Certify = Callable[[History, Settings, bool, Sequence[int]], str | None]


@dataclass(frozen=True, slots=True)
class Specification:
    """One model, ready for use.

    kinds        what it speaks of: operations of other kinds are left out of everything.
    make         the sequential specification for a history; None for a class that has none (leases, `set-full`).
    engine       what decides most histories of the class, or None: all keys are left to the search.
    keyed        each key is judged alone, with a state of its own; else all keys share one.
    needs_times  means nothing where times are only places in the order of events.
    certify      where there is no sequential specification: whether a proof (valid: all rows that count, in order;
                 invalid: the rows that contradict each other) is accepted: None if it is, else what is wrong with it.
    """

    name: str
    kinds: frozenset[F]
    make: Callable[[History, Settings], Model | None]
    engine: Engine | None = None
    keyed: bool = True
    needs_times: bool = False
    certify: Certify | None = None


class _Entry(NamedTuple):
    """model, engine, certify: ``module:name``, of the packages `checkers.models`, `checkers.engines` and `checkers`."""

    kinds: frozenset[F]
    model: str = ""
    engine: str = ""
    keyed: bool = True
    needs_times: bool = False
    certify: str = ""


_LOCK: Final = frozenset({F.ACQUIRE, F.TRY_ACQUIRE, F.RELEASE})
_LEASE: Final = _LOCK | {F.RENEW, F.SESSION_OPEN, F.KEEP_ALIVE, F.SESSION_CLOSE, F.LOST, F.BELIEF}
_STORE: Final = frozenset({F.READ, F.WRITE})
_ADDS: Final = frozenset({F.READ, F.ADD})

_ENTRIES: Final[Mapping[str, _Entry]] = {
    "mutex": _Entry(_LOCK, "locks:Mutex", "locks:mutex"),
    "reentrant-mutex": _Entry(_LOCK, "locks:ReentrantMutex", "locks:reentrant_mutex"),
    "rwlock": _Entry(_LOCK, "locks:RWLock", "locks:rwlock"),
    "semaphore": _Entry(_LOCK, "locks:Semaphore", "locks:semaphore"),
    "lease": _Entry(_LEASE, "", "leases:lease", needs_times=True, certify="proofs.lease_least:certify"),
    "fencing-tokens": _Entry(_LOCK, "tokens:FencingTokens", "tokens:fencing_tokens"),
    "fenced-store": _Entry(_STORE, "stores:FencedStore", "fenced:fenced_store"),
    "register": _Entry(_STORE, "registers:Register", "registers:register"),
    "cas-register": _Entry(_STORE | {F.CAS}, "registers:CasRegister", "registers:cas_register"),
    "multi-register": _Entry(_STORE | {F.TRANSACT}, "registers:MultiRegister", keyed=False),
    "kv": _Entry(_STORE | {F.APPEND}, "registers:Kv", "registers:kv"),
    "set": _Entry(_ADDS, "accumulators:Set"),
    "set-full": _Entry(_ADDS, "", "set_full:set_full", certify="engines.set_full:certify"),
    "counter": _Entry(_ADDS, "accumulators:Counter"),
    "unique-ids": _Entry(frozenset({F.GENERATE}), "accumulators:UniqueIds"),
}


class _Models(Mapping[str, Specification]):
    def __init__(self) -> None:
        self._known: dict[str, Specification] = {}

    def __getitem__(self, name: str) -> Specification:
        if name not in self._known:
            self._known[name] = _specification(name, _ENTRIES[name])
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_ENTRIES)

    def __len__(self) -> int:
        return len(_ENTRIES)


MODELS: Final[Mapping[str, Specification]] = _Models()
"""Name → specification. Names alone cost no import."""


def make(maker: Any, history: History, settings: Settings) -> Model:
    """A model of its class (see `Model`). Raises whatever the class raises."""
    if hasattr(maker, "of"):
        model: Model = maker.of(history, settings)
        return model
    try:
        named = inspect.signature(maker).parameters.values()
        takes = any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in named)
    except (TypeError, ValueError):
        takes = False
    made: Model = maker(settings) if takes else maker()
    return made


def _specification(name: str, entry: _Entry) -> Specification:
    maker = _found("checkers.models", entry.model)
    return Specification(
        name,
        entry.kinds,
        lambda history, settings: None if maker is None else make(maker, history, settings),
        _found("checkers.engines", entry.engine),
        entry.keyed,
        entry.needs_times,
        _found("checkers", entry.certify),
    )


def _found(package: str, place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"{package}.{module}"), name) if name else None
