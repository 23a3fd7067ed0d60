"""Modules with the changes of a mutant, beside the real ones, which stay as they are.

A module is made anew where it is changed itself, or imports one that is, however indirectly. The copies import each
other; everything else they share with the rest of the process.
"""

import ast
import builtins
import importlib
import importlib.util
import linecache
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from suites.mutants.catalogue import Mutant


class AlteredModules:
    def __init__(self, mutant: Mutant) -> None:
        self._name = mutant.lock_name
        self._changes: dict[str, list[tuple[str, str]]] = {}
        for change in mutant.changes:
            self._changes.setdefault(change.module, []).append((change.old, change.new))
        self._loaded: dict[str, ModuleType] = {}

    def module(self, name: str) -> ModuleType:
        """The module of this name with the changes; the real one where they do not concern it.

        Raises ValueError where a text to be changed does not stand in its file once.
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
        """What stands for `__import__` in the copies."""
        if fromlist and _is_module(name):
            return self.module(name)
        real = __import__(name, globals, locals, fromlist or (), level)
        inner = [item for item in fromlist or () if _is_module(f"{name}.{item}")]
        if not inner:
            return real
        return SimpleNamespace(**vars(real) | {item: self.module(f"{name}.{item}") for item in inner})

    def _concerns(self, name: str, seen: set[str]) -> bool:
        """Whether the module is changed or imports one that is. seen: those that were looked at already."""
        seen.add(name)
        return name in self._changes or any(self._concerns(each, seen) for each in _imports(name) if each not in seen)


@cache
def modules_of(mutant: Mutant) -> AlteredModules:
    """The modules of a mutant, the same ones however often it is asked for."""
    return AlteredModules(mutant)


@cache
def _is_module(name: str) -> bool:
    """Whether it is a module of ours, and no package."""
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
