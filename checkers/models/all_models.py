"""The models by their names: what ``--model`` knows, and where the specification and the engine of each are.

A model plugs in with one line of `MODELS`: the module and class of its specification (`checkers.models.model.Model`
says how a class is made and what it may leave out), and the module and function of its engine, if it has one
(`checkers.models.engine_answer.Engine`). Both are imported when they are called, and not before.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from typing import Any, Final, cast

from checkers.history.history import History
from checkers.models.engine_answer import Engine
from checkers.models.model import Model, Settings
from checkers.row_format import F

Certify = Callable[[History, Settings, bool, Sequence[int]], str | None]


@dataclass(frozen=True, slots=True)
class Specification:
    """One model, ready for use."""

    name: str
    kinds: frozenset[F]  # what it speaks of: operations of other kinds are left out of everything
    # The sequential specification for a history; None for a class that has none (leases, `set-full`).
    make: Callable[[History, Settings], Model | None]
    engine: Engine | None = None  # what decides most histories of the class, or None: all keys are left to the search
    keyed: bool = True  # each key is judged alone, with a state of its own; else all keys share one
    needs_times: bool = False  # means nothing if times are only places in the order of events
    # Checks a proof if there is no sequential specification (valid: all rows that count, in order; invalid: the rows
    # that contradict each other). Returns None if it accepts the proof, else what is wrong with it.
    certify: Certify | None = None


def _later(place: str) -> Callable[..., Any] | None:
    """A function that calls ``module:name`` of this package, and imports it only then; None for no name."""
    return (lambda *args: resolve_name(f"checkers.{place}")(*args)) if place else None


def _entry(
    name: str, kinds: frozenset[F], model: str = "", engine: str = "", *, certify: str = "", **more: bool
) -> Specification:
    """model, engine, certify: the ``module:name`` of each, empty for none. more: fields of `Specification`."""
    return Specification(name, kinds, partial(_made, model), _later(engine), certify=_later(certify), **more)


def _made(place: str, history: History, settings: Settings) -> Model | None:
    return make(resolve_name(f"checkers.{place}"), history, settings) if place else None


def make(maker: Any, history: History, settings: Settings) -> Model:
    """A model of its class (see `Model`). Raises whatever the class raises."""
    if hasattr(maker, "of"):
        return cast(Model, maker.of(history, settings))
    try:
        named = inspect.signature(maker).parameters.values()
        takes = any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in named)
    except (TypeError, ValueError):
        takes = False
    return cast(Model, maker(settings) if takes else maker())


_LOCK: Final = frozenset({F.ACQUIRE, F.TRY_ACQUIRE, F.RELEASE})
_LEASE: Final = _LOCK | {F.RENEW, F.SESSION_OPEN, F.KEEP_ALIVE, F.SESSION_CLOSE, F.LOST, F.BELIEF}
_STORE: Final = frozenset({F.READ, F.WRITE})
_ADDS: Final = frozenset({F.READ, F.ADD})

MODELS: Final[Mapping[str, Specification]] = {
    entry.name: entry
    for entry in (
        _entry("mutex", _LOCK, "models.locks:Mutex", "engines.locks:mutex"),
        _entry("reentrant-mutex", _LOCK, "models.locks:ReentrantMutex", "engines.locks:reentrant_mutex"),
        _entry("rwlock", _LOCK, "models.locks:RWLock", "engines.locks:rwlock"),
        _entry("semaphore", _LOCK, "models.locks:Semaphore", "engines.locks:semaphore"),
        _entry("lease", _LEASE, "", "engines.leases:lease", needs_times=True, certify="proofs.lease_least:certify"),
        _entry("fencing-tokens", _LOCK, "models.locks:FencingTokens", "engines.tokens:fencing_tokens"),
        _entry("fenced-store", _STORE, "models.stores:FencedStore", "engines.fenced:fenced_store"),
        _entry("register", _STORE, "models.registers:RegisterModel", "engines.registers:register"),
        _entry("cas-register", _STORE | {F.CAS}, "models.registers:CasRegister", "engines.registers:cas_register"),
        _entry("multi-register", _STORE | {F.TRANSACT}, "models.registers:MultiRegister", keyed=False),
        _entry("kv", _STORE | {F.APPEND}, "models.kv:Kv", "engines.registers:kv"),
        _entry("set", _ADDS, "models.accumulators:SetModel"),
        _entry("set-full", _ADDS, "", "engines.set_full:set_full", certify="engines.set_full:certify"),
        _entry("counter", _ADDS, "models.accumulators:Counter"),
        _entry("unique-ids", frozenset({F.GENERATE}), "models.accumulators:UniqueIds"),
    )
}
"""Name → specification. Reading the names imports nothing."""
