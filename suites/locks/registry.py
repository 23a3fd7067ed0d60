"""The locks that exist, and the class behind a name."""

import hashlib
import importlib
import importlib.util
import inspect
import sys
import tomllib
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Final, cast

from infra.suggestions import instead
from suites.lock import Declarations, LockClient
from suites.mutants.catalogue import PREFIX, modules_of, mutant_of

FAMILIES: Final[Mapping[str, Mapping[str, str]]] = {
    family: {name: f"suites.locks.{where}" for name, where in locks.items()}
    for family, locks in tomllib.loads(Path(__file__).with_name("lock_classes.toml").read_text("utf-8")).items()
}
"""Family → name → ``module:Class``."""

BY_DESIGN: Final = ("Anti-patterns", "Without a lock")
"""Families of locks that are wrong by design: they exclude nobody, or break other promises, without any fault."""

CONTROLS: Final = frozenset(
    {"etcd-keepalive-dies", "postgres-bouncer", *(name for family in BY_DESIGN for name in FAMILIES[family])}
)
"""Positive controls: the locks of the families `BY_DESIGN`, and two locks that are broken by how they are used."""

LOCKS: Final[Mapping[str, str]] = {name: where for locks in FAMILIES.values() for name, where in locks.items()}

_VERBS: Final = ("open", "acquire", "renew", "release", "close")


class UnknownLock(LookupError):
    """A lock does not exist or cannot be tried. The message says in one line what is wrong, and which locks exist."""


def spelling(name: str) -> str:
    """The lock as ``module:Class``, ``file.py:Class`` or ``mutant:NAME``, from any name for it. Raises UnknownLock."""
    if name in LOCKS:
        return LOCKS[name]
    if name.startswith(PREFIX):
        if mutant_of(name) is None:
            raise UnknownLock(f"no bug {name!r} is planted: `python -m suites mutants` lists all that can be")
        return name
    if name.endswith(".py"):
        raise UnknownLock(f"--lock {name} does not say which class of the file, FILE.py:CLASS; {_classes(name)}")
    module, _, attribute = name.rpartition(":")
    if not module or not attribute:
        raise UnknownLock(f"no lock {name!r}, and no module:Class or file.py:Class; {instead(name, LOCKS)}")
    return f"{Path(module).resolve()}:{attribute}" if module.endswith(".py") else name


def load(name: str) -> type[LockClient]:
    """The class of a lock: a name of `LOCKS`, ``module:Class``, ``file.py:Class`` or ``mutant:NAME``.

    If the class lacks declarations, the result is a subclass that adds them. `suites.lanes.validate_declarations`
    checks whether those of the class make sense: that needs the checkers, so workers do not do it. Raises UnknownLock.
    """
    where = spelling(name)
    mutant = mutant_of(where)
    module, _, attribute = (LOCKS[mutant.lock] if mutant else where).rpartition(":")
    loaded = modules_of(mutant).module(module) if mutant else _loaded(module)
    cls = getattr(loaded, attribute, None)
    if not isinstance(cls, type):
        there = f"; {_classes(module)}" if module.endswith(".py") else ""
        raise UnknownLock(f"{module} has no class {attribute}{there}")
    if missing := _missing(cls):
        raise UnknownLock(f"{name} is no lock: it has no {', '.join(missing)} (see suites/lock.py)")
    if not isinstance(getattr(cls, "backend", None), str):
        raise UnknownLock(f"{name} does not say which backend it runs on: backend = 'redis', for instance")
    silent = {field: getattr(Declarations, field) for field in Declarations.__annotations__}
    added = {field: value for field, value in silent.items() if not hasattr(cls, field)}
    own = getattr(cls, "bounds", {})
    if name not in LOCKS and not mutant and isinstance(own, Mapping):
        added["bounds"] = {**Declarations.bounds, **own}
    if added:
        place = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
        cls = type(cls.__name__, (cls,), added | place)
    return cast(type[LockClient], cls)


def described(lock: type[LockClient]) -> str:
    """The docstring of the lock without its name: that of its class if it begins with the name, else of its module."""
    own = lock.__doc__ or ""
    text = inspect.cleandoc(own) if own.startswith("``") else inspect.getdoc(inspect.getmodule(lock)) or ""
    return text.partition(": ")[2] if text.startswith("``") else text


def imports(lock: type[LockClient]) -> set[str]:
    """The packages from which the modules of the lock, and our helper modules, import something when loaded."""
    own = {base.__module__ for base in lock.__mro__}
    waiting, seen = list(own), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen and (name in own or name.startswith("suites.locks.")):
            for value in vars(sys.modules[name]).values():
                module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
                waiting += [module] if isinstance(module, str) else []
        seen.add(name)
    return {name.partition(".")[0] for name in seen}


def module_for(lock: str, name: str) -> ModuleType:
    """Our module of this name as the workers of a lock load it: a mutant may have changed it. lock: see `load`."""
    mutant = mutant_of(lock)
    return modules_of(mutant).module(name) if mutant else importlib.import_module(name)


def _missing(cls: type) -> list[str]:
    return [verb for verb in _VERBS if not callable(getattr(cls, verb, None))]


def _classes(file: str) -> str:
    """A text for users: how to spell each lock in a file or, if there is none, which verbs its classes lack."""
    loaded = _loaded(file)
    own = [cls for cls in vars(loaded).values() if isinstance(cls, type) and cls.__module__ == loaded.__name__]
    if locks := [f"{file}:{cls.__name__}" for cls in own if not _missing(cls)]:
        return f"locks in it: {', '.join(locks)}"
    parts = [(cls, missing) for cls in own if len(missing := _missing(cls)) < len(_VERBS)]
    lack = "".join(f"; {cls.__name__} has no {', '.join(missing)}" for cls, missing in parts)
    return f"no class in it has the five verbs of a lock, {', '.join(_VERBS)} (see suites/your-own-lock.md){lack}"


def _loaded(module: str) -> ModuleType:
    """The module of this name or file. Raises UnknownLock, which names the line of a mistake in a user's file."""
    try:
        return _from_file(Path(module)) if module.endswith(".py") else _from_module(module)
    except UnknownLock:
        raise
    except (Exception, SystemExit) as error:
        raise UnknownLock(f"{module} cannot be loaded: {_in_a_line(error)}") from error


def _in_a_line(error: BaseException) -> str:
    """The error of a module in one line of text, with the place where it occurred."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"{error.filename}:{error.lineno}: {error.msg}: {(error.text or '').strip()}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    where = f"{frames[-1].filename}:{frames[-1].lineno}"
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        return f"{where} imports {error.name}, which is not installed for {sys.executable}"
    return f"{where}: {type(error).__name__}: {' '.join(str(error).split())}"


def _from_module(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(error.name + ".")):
            raise
        raise UnknownLock(f"no module {error.name}; a lock in a file is given as file.py:Class") from error


def _from_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise UnknownLock(f"no file {path}")
    # Each file is loaded only once.
    module = f"fencepost_lock_{hashlib.sha256(bytes(path)).hexdigest()[:12]}"
    if module not in sys.modules:
        spec = importlib.util.spec_from_file_location(module, path)
        assert spec is not None, "the name ends with .py"
        assert spec.loader is not None, "a file of Python has a loader"
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[module] = loaded
        try:
            spec.loader.exec_module(loaded)
        except BaseException:
            del sys.modules[module]
            raise
    return sys.modules[module]
