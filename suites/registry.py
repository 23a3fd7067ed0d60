"""Which locks exist, and the class behind a name that was asked for."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Final, cast

from suites.lock import Declarations, LockClient

FAMILIES: Final[Mapping[str, Mapping[str, str]]] = {
    "Redis": {
        "redis": "suites.locks.redis_single:RedisLock",
        "redlock": "suites.locks.redlock:Redlock",
    },
    "ZooKeeper": {
        "zookeeper": "suites.locks.zookeeper:ZooKeeperLock",
    },
    "etcd": {
        "etcd": "suites.locks.etcd:EtcdLock",
    },
}
"""Family → name → ``module:Class``. Nothing is imported before it is asked for: each needs its own client library."""

LOCKS: Final[Mapping[str, str]] = {name: where for locks in FAMILIES.values() for name, where in locks.items()}

_VERBS: Final = ("open", "acquire", "renew", "release", "close")


class UnknownLock(LookupError):
    """No such lock. The text lists what exists, or says what is missing."""


def spelling(name: str) -> str:
    """``module:Class`` or ``file.py:Class`` of a lock, however it was asked for. Raises UnknownLock."""
    if name in LOCKS:
        return LOCKS[name]
    module, _, attribute = name.rpartition(":")
    if not module or not attribute:
        raise UnknownLock(f"no lock {name!r}; there are {', '.join(LOCKS)}, or give module:Class or file.py:Class")
    return f"{Path(module).resolve()}:{attribute}" if module.endswith(".py") else name


def lock(name: str) -> type[LockClient]:
    """The class of a lock: a name of `LOCKS`, ``module:Class`` or ``file.py:Class``.

    What a class does not declare is filled in by a subclass of it (`suites.lock.Declarations`). Raises UnknownLock;
    what goes wrong inside the module comes out as it is.
    """
    module, _, attribute = spelling(name).rpartition(":")
    loaded = _from_file(Path(module)) if module.endswith(".py") else _from_module(module)
    found = getattr(loaded, attribute, None)
    if not isinstance(found, type):
        raise UnknownLock(f"{module} has no class {attribute}")
    missing = [verb for verb in _VERBS if not callable(getattr(found, verb, None))]
    if missing:
        raise UnknownLock(f"{name} is no lock: it has no {', '.join(missing)} (see suites/lock.py)")
    if not isinstance(getattr(found, "backend", None), str):
        raise UnknownLock(f"{name} does not say which backend it runs on: backend = 'redis', for instance")
    if not issubclass(found, Declarations):
        named = {"name": getattr(found, "name", attribute), "__module__": found.__module__}
        found = type(found.__name__, (found, Declarations), named | {"__qualname__": found.__qualname__})
    return cast(type[LockClient], found)


def _from_module(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(error.name + ".")):
            raise
        raise UnknownLock(f"no module {error.name}; by name there are {', '.join(LOCKS)}") from error


def _from_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise UnknownLock(f"no file {path}")
    # One module for one file, however often it is asked for.
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
