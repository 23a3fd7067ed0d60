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
        "redis-watchdog": "suites.locks.redis_watchdog:RedisWatchdog",
        "redis-fair": "suites.locks.redis_fair:RedisFair",
        "redis-wait": "suites.locks.redis_wait:RedisWait",
        "redis-rw": "suites.locks.redis_rw:RedisReadWrite",
        "redis-semaphore": "suites.locks.redis_semaphore:RedisSemaphore",
        "redis-reentrant": "suites.locks.redis_reentrant:RedisReentrant",
        "redlock-3": "suites.locks.redlock_three:RedlockOfThree",
        "redlock-unchecked": "suites.locks.redlock_unchecked:RedlockUnchecked",
        "redlock-delayed-restart": "suites.locks.redlock_delayed:RedlockDelayedRestart",
    },
    "ZooKeeper": {
        "zookeeper": "suites.locks.zookeeper:ZooKeeperLock",
        "kazoo-lock": "suites.locks.kazoo_lock:KazooLock",
        "zookeeper-rw": "suites.locks.zookeeper_rw:ZooKeeperReadWrite",
        "zookeeper-semaphore": "suites.locks.zookeeper_semaphore:ZooKeeperSemaphore",
        "zookeeper-reentrant": "suites.locks.zookeeper_reentrant:ZooKeeperReentrant",
    },
    "etcd": {
        "etcd": "suites.locks.etcd:EtcdLock",
        "etcd-key": "suites.locks.etcd_key:EtcdKey",
        "etcd-v3lock": "suites.locks.etcd_v3lock:EtcdV3Lock",
        "etcd-v3lock-checked": "suites.locks.etcd_v3lock:EtcdV3LockChecked",
        "etcd-keepalive-dies": "suites.locks.etcd_keepalive_dies:EtcdKeepaliveDies",
        "etcd-rw": "suites.locks.etcd_rw:EtcdReadWrite",
        "etcd-semaphore": "suites.locks.etcd_semaphore:EtcdSemaphore",
        "etcd-reentrant": "suites.locks.etcd_reentrant:EtcdReentrant",
    },
    "PostgreSQL": {
        "postgres-session": "suites.locks.postgres_advisory:AdvisoryLock",
        "postgres-xact": "suites.locks.postgres_xact:TransactionLock",
        "postgres-bouncer": "suites.locks.postgres_bouncer:BouncerLock",
        "postgres-lease": "suites.locks.postgres_lease:LeaseLock",
        "postgres-hashtext": "suites.locks.postgres_hashtext:HashtextLock",
        "postgres-rw": "suites.locks.postgres_rw:ReadWriteLock",
        "postgres-semaphore": "suites.locks.postgres_semaphore:SemaphoreLock",
        "postgres-reentrant": "suites.locks.postgres_reentrant:ReentrantLock",
    },
    "Anti-patterns": {
        "setnx-no-ttl": "suites.locks.antipatterns.setnx_no_ttl:SetnxNoTtl",
        "get-then-del": "suites.locks.antipatterns.get_then_del:GetThenDel",
        "unconditional-del": "suites.locks.antipatterns.unconditional_del:UnconditionalDel",
        "renew-anyones": "suites.locks.antipatterns.renew_anyones:RenewAnyones",
        "ignored-result": "suites.locks.antipatterns.ignored_result:IgnoredResult",
        "row-without-expiry": "suites.locks.antipatterns.row_without_expiry:RowWithoutExpiry",
        "lockfile": "suites.locks.antipatterns.lockfile:LockFile",
        "long-call": "suites.locks.antipatterns.long_call:LongCall",
        "ttl-too-short": "suites.locks.antipatterns.ttl_too_short:TtlTooShort",
        "goes-ahead": "suites.locks.antipatterns.goes_ahead:GoesAhead",
        "client-clock-token": "suites.locks.antipatterns.client_clock_token:ClientClockToken",
        "zookeeper-parent-watch": "suites.locks.antipatterns.zookeeper_parent_watch:ZooKeeperParentWatch",
    },
    "Without a lock": {
        "no-lock": "suites.locks.without.no_lock:NoLock",
        "single-writer": "suites.locks.without.single_writer:SingleWriter",
    },
}
"""Family → name → ``module:Class``. Nothing is imported before it is asked for: each needs its own client library."""

BY_DESIGN: Final = ("Anti-patterns", "Without a lock")
"""Families whose members do not exclude, or worse, whatever the fault."""

CONTROLS: Final = frozenset(
    {"etcd-keepalive-dies", "postgres-bouncer", *(name for family in BY_DESIGN for name in FAMILIES[family])}
)
"""Their members, and what a mistake around a lock makes one of them."""

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
