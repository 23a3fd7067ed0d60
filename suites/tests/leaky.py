"""A lock that tells its password in its errors, as a client library might that quotes what it was given."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import ClassVar, Self

from checkers.row_format import Reason
from infra.access import OPEN, Access
from suites.lock import Grant, Refused
from suites.locks.redis_single import RedisLock

EVERY = 5  # of so many attempts one fails


class Leaky(RedisLock):
    name: ClassVar[str] = "leaky"
    _told = ""

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> Self:
        client = super().open(endpoints, ttl, access)
        client._told = access.password
        client._attempts = itertools.count(1)
        return client

    def acquire(self, name: str, timeout: float) -> Grant | None:
        if next(self._attempts) % EVERY == 0:
            raise Refused(Reason.UNAVAILABLE, f"AUTH guest {self._told} does not always help")
        return super().acquire(name, timeout)

    _attempts: itertools.count[int]


class BreaksLater(Leaky):
    """In workers, not when it asks for admission."""

    def release(self, grant: Grant) -> None:
        if not grant.name.startswith("admission"):
            raise LookupError(f"redis://guest:{self._told}@host")
        super().release(grant)
