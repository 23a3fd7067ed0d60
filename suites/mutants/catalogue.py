"""Bugs to plant in a correct lock, the fenced store, a server, the recorder or the checkers, and what must name them.

The bugs stand in the TOML files beside this module, one file for each place, each with a diff that plants the bug. If
released software, or a printed algorithm, had it, the entry says which. Wherever a lock can be named, `mutant:NAME`
names the lock with the bug, or the correct lock on the server with the bug. A bug without a lock is a bug in our own
code, which stored histories must show (`suites.tests.judge_mutants`).

The modules with the changes of a mutant are copies; the real modules stay as they are. A module is copied if it is
changed itself, or imports a changed module, however indirectly. The copies import each other; they share all else with
the rest of the process.
"""

import ast
import builtins
import importlib
import importlib.util
import linecache
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

PREFIX: Final = "mutant:"
"""The beginning of the name of a lock with a bug."""
FILES: Final = ("redis", "zookeeper", "etcd", "postgres", "store", "servers", "recorder", "checkers")
"""The TOML files, in the order of the catalogue."""
_SET_ASIDE: Final = 3


@dataclass(frozen=True, slots=True)
class Change:
    """file: path of a module in the repository; old: a text that stands there once; new: what takes its place."""

    file: str
    old: str
    new: str

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").replace("/", ".")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug.

    lock       the correct lock that is changed, or that runs on what is changed (`suites.locks.registry.LOCKS`); the
               bug is judged by its claims. "" for a bug that stored histories are to show.
    bug        what it does, in a sentence.
    found_by   properties of which one must be violated; others do not name the bug. Without a lock: ``judged`` if some
               history is judged otherwise, ``proof`` if the verifier of proofs rejects what a model says of a history.
    why        how the bug comes to violate it.
    fault      the fault that is expected to reveal it; "" without a lock.
    where      workload/store of the lanes in which it is tried under that fault: more than one where chance decides.
    origin     the released software or the printed algorithm that had it, "" for none.
    changes    of source code, from the `diff` of the file; () where the bug is in the server.
    server     the server that has the bug (`python -m infra planted`), "" for none.
    set_aside  whether it belongs to the third that is scored apart, and not looked at while the suite is improved.
    """

    name: str
    bug: str
    found_by: tuple[str, ...]
    why: str
    set_aside: bool
    lock: str = ""
    fault: str = ""
    where: tuple[str, ...] = ("set/unfenced",)
    origin: str = ""
    changes: tuple[Change, ...] = ()
    server: str = ""

    @property
    def lock_name(self) -> str:
        """As `--lock` and `suites.locks.registry` spell it."""
        return PREFIX + self.name

    @property
    def lanes(self) -> tuple[str, ...]:
        """The names of the lanes in which it is tried under its fault."""
        return tuple(f"{self.lock_name}/{lane}" for lane in self.where)


def mutant_of(lock: str) -> Mutant | None:
    """The bug of the lock of this name; None for a name without the prefix, or with one that names no bug."""
    return catalogue().get(lock.removeprefix(PREFIX)) if lock.startswith(PREFIX) else None


@cache
def catalogue() -> Mapping[str, Mutant]:
    """Name → mutant, for all mutants that are tried on real servers."""
    return {mutant.name: mutant for mutant in _all() if mutant.lock}


@cache
def on_stored_histories() -> Mapping[str, Mutant]:
    """Name → mutant, for all mutants that stored histories must show."""
    return {mutant.name: mutant for mutant in _all() if not mutant.lock}


@cache
def _all() -> tuple[Mutant, ...]:
    import msgspec  # workers load this module also where msgspec is not installed

    made: list[Mutant] = []
    for file in FILES:
        entries = tomllib.loads(Path(__file__).with_name(f"{file}.toml").read_text(encoding="utf-8"))
        for number, (name, entry) in enumerate(entries.items()):
            aside = number % _SET_ASIDE == _SET_ASIDE - 1
            entry |= {"name": name, "changes": _changes(entry.get("diff", "")), "set_aside": aside}
            made.append(msgspec.convert(entry, Mutant))
    return tuple(made)


def _changes(diff: str) -> list[dict[str, str]]:
    """The fields of each `Change`. Its lines come after a line `@@ FILE`. Before each stands a minus (it is in the old
    text), a plus (in the new text) or a space (in both); an empty line in both may stand without the space.
    """
    _, *parts = re.split(r"^@@ (.+)\n", diff, flags=re.MULTILINE)
    changes = []
    for file, text in zip(parts[::2], parts[1::2], strict=True):
        lines = text.splitlines(keepends=True)
        old, new = ("".join(line[1:] or line for line in lines if line[0] != other) for other in "+-")
        changes.append({"file": file, "old": old, "new": new})
    return changes


class AlteredModules:
    def __init__(self, mutant: Mutant) -> None:
        self._name = mutant.lock_name
        self._changes: dict[str, list[tuple[str, str]]] = {}
        for change in mutant.changes:
            self._changes.setdefault(change.module, []).append((change.old, change.new))
        self._loaded: dict[str, ModuleType] = {}

    def module(self, name: str) -> ModuleType:
        """The module of this name with the changes, or the real module if the changes do not concern it.

        Raises ValueError if a text to be changed does not stand exactly once in its file.
        """
        if not self._concerns(name, set()):
            return importlib.import_module(name)
        if name not in self._loaded:
            self._load(name)
        return self._loaded[name]

    def source(self, name: str) -> str:
        """The text of a module with the changes."""
        text = _file(name).read_text(encoding="utf-8")
        for old, new in self._changes.get(name, ()):
            if text.count(old) != 1:
                raise ValueError(f"{self._name}: this stands {text.count(old)} times in {name}, and not once: {old}")
            text = text.replace(old, new)
        return text

    def _load(self, name: str) -> None:
        text = self.source(name)
        module = ModuleType(f"{self._name}/{name}")
        shown = f"{_file(name)} ({self._name})"
        vars(module).update(__file__=shown, __builtins__={**vars(builtins), "__import__": self._import})
        linecache.cache[shown] = (len(text), None, text.splitlines(keepends=True), shown)
        # Dataclasses and errors look for the module of a class here.
        sys.modules[module.__name__] = self._loaded[name] = module
        exec(compile(text, shown, "exec"), vars(module))

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """The `__import__` of the copies."""
        if fromlist and _is_module(name):
            return self.module(name)
        real = __import__(name, globals, locals, fromlist or (), level)
        inner = [item for item in fromlist or () if _is_module(f"{name}.{item}")]
        if not inner:
            return real
        return SimpleNamespace(**vars(real) | {item: self.module(f"{name}.{item}") for item in inner})

    def _concerns(self, name: str, seen: set[str]) -> bool:
        """Whether the module is changed or imports a changed one. seen: modules that were looked at already."""
        seen.add(name)
        return name in self._changes or any(self._concerns(each, seen) for each in _imports(name) if each not in seen)


@cache
def modules_of(mutant: Mutant) -> AlteredModules:
    """The modules of a mutant; every call returns the same ones."""
    return AlteredModules(mutant)


@cache
def _is_module(name: str) -> bool:
    """Whether the name is that of a module of ours, not of a package."""
    return name.partition(".")[0] in ("suites", "infra", "checkers", "results") and _file(name).is_file()


def _file(name: str) -> Path:
    return Path(__file__).parents[2].joinpath(*name.split(".")).with_suffix(".py")


@cache
def _imports(name: str) -> frozenset[str]:
    imported = set()
    for node in ast.walk(ast.parse(_file(name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            imported |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(filter(_is_module, imported))
