"""A lock and a store without servers, to test what drives workers: everybody gets the lock, and every write succeeds.

The fork server must load this module before it forks. Its workers then use this store.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Self

from infra.store import store
from suites.lock import Grant, new_owner, now


class Free:
    backend: ClassVar[str] = "redis"

    def __init__(self, ttl: float) -> None:
        self._ttl = round(ttl * 1e9)

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float) -> Self:
        return cls(ttl)

    def acquire(self, name: str, timeout: float) -> Grant | None:
        time.sleep(0.002)
        sent = now()
        return Grant(name, new_owner(), None, sent, self._ttl, sent + self._ttl)

    def renew(self, grant: Grant) -> None: ...
    def release(self, grant: Grant) -> None: ...
    def close(self) -> None: ...


class Lasting(Free):
    """A lock that nobody loses while the machine stalls."""

    def acquire(self, name: str, timeout: float) -> Grant | None:
        grant = super().acquire(name, timeout)
        return grant and replace(grant, expires=grant.sent + 1000 * self._ttl)


class Losable(Lasting):
    """A lock that is lost once there is a file at its endpoint, which is a path."""

    def __init__(self, ttl: float, losing: Path) -> None:
        super().__init__(ttl)
        self._losing = losing

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float) -> Self:
        return cls(ttl, Path(endpoints[0]))

    def belief(self, grant: Grant) -> bool:
        return not self._losing.exists()


class Held(Free):
    def acquire(self, name: str, timeout: float) -> Grant | None:
        time.sleep(timeout)
        return None


class BreaksInOpen(Free):
    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float) -> Self:
        raise LookupError("planted in open\nwith a second line")


class BreaksInRelease(Free):
    def release(self, grant: Grant) -> None:
        raise LookupError("planted in release")


class BreaksInRenew(Lasting):
    def renew(self, grant: Grant) -> None:
        raise LookupError("planted in renew")


class BadToken(Free):
    def acquire(self, name: str, timeout: float) -> Grant | None:
        grant = super().acquire(name, timeout)
        return grant and replace(grant, token="tok-1")  # type: ignore[arg-type]


class Exits(Free):
    def release(self, grant: Grant) -> None:
        raise SystemExit(3)


class _Store:
    def read(self, key: str, token: int | None, owner: int) -> store.Read:
        return store.Read(-1, ())

    def write(self, *_: object) -> bool:
        return True

    def close(self) -> None: ...


store.Store.open = lambda *_, **__: _Store()  # type: ignore[method-assign, assignment]
