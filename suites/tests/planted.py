"""Locks with one bug each, which the suite must find in its first trial (see `test_trial`), or must not tell on.

Each is the Redis lock with one change, which its docstring names, and makes the same promises as the Redis lock.
"""

import itertools
import random
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final, Self

from checkers.row_format import Reason
from infra.access import OPEN, Access
from suites.lock import Grant, Refused, new_owner, now
from suites.locks.polling import POLL
from suites.locks.redis_node import RedisNode, validity
from suites.locks.redis_single import RedisLock

_GET: Final = "if redis.call('GET', KEYS[1]) then return 1 end return 0"
_MINE: Final = "return redis.call('GET', KEYS[1]) == ARGV[1] and 1 or 0"
_DELETE: Final = "return redis.call('DEL', KEYS[1])"
_SET: Final = "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return redis.call('INCR', KEYS[2])"


class Unchanged(RedisLock):
    """No bug."""


class DeletesAnyones(RedisLock):
    """A release deletes the key, whoever owns it."""

    RELEASE: ClassVar[str] = "redis.call('DEL', KEYS[1]) return 1"


class LooksThenDeletes(RedisLock):
    """A release is two requests where it must be one, with nothing between them. The lease may end between them."""

    def release(self, grant: Grant) -> None:
        self._if_owner(_MINE, grant)
        self._call(_DELETE, grant.name, grant.owner)


class LooksThenTakes(RedisLock):
    """An acquire is two requests where it must be one, with work in between. Others may get in between GET and SET."""

    def acquire(self, name: str, timeout: float) -> Grant | None:
        deadline = now() + int(timeout * 1e9)
        while now() < deadline:
            if not self._call(_GET, name, 0):
                time.sleep(random.uniform(0, POLL[1]))
                owner, sent = new_owner(), now()
                return self._granted(name, owner, self._call(_SET, name, owner), sent)
            time.sleep(random.uniform(*POLL))
        return None


class ClockToken(RedisLock):
    """The token is not a number of the server's, but the client's clock when it began to ask, up to a minute ahead."""

    def __init__(self, node: RedisNode, ttl: float) -> None:
        super().__init__(node, ttl)
        self._ahead = secrets.randbelow(60_000_000)  # microseconds; `random` is the same in every worker

    def acquire(self, name: str, timeout: float) -> Grant | None:
        began = time.time_ns() // 1000 + self._ahead
        return _with_token(super().acquire(name, timeout), began)


class ConstantToken(RedisLock):
    """Every grant has the same token."""

    def acquire(self, name: str, timeout: float) -> Grant | None:
        return _with_token(super().acquire(name, timeout), 1)


class ShortTtl(RedisLock):
    """The server gets a quarter of the TTL that the grant says."""

    def __init__(self, node: RedisNode, ttl: float) -> None:
        super().__init__(node, ttl / 4)

    def acquire(self, name: str, timeout: float) -> Grant | None:
        grant, said = super().acquire(name, timeout), self._ttl * 4
        return grant and replace(grant, ttl=int(said * 1e9), expires=grant.sent + validity(said))


class RenewsAnyones(RedisLock):
    """A renewal takes the key back from whoever has it by then."""

    RENEW: ClassVar[str] = "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1"


class NeverExpires(RedisLock):
    """Has no TTL at the server, so nobody frees the lock of a dead holder."""

    ACQUIRE: ClassVar[str] = (
        "if redis.call('SET', KEYS[1], ARGV[1], 'NX') then return redis.call('INCR', KEYS[2]) end return 0"
    )
    RENEW: ClassVar[str] = "if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end return 0"


class Breaks(RedisLock):
    """Raises what an adapter may not raise."""

    def release(self, grant: Grant) -> None:
        raise TypeError("planted")


class OneOwner(RedisLock):
    """All of its grants have the same owner."""

    _held: Grant

    def acquire(self, name: str, timeout: float) -> Grant | None:
        if grant := super().acquire(name, timeout):
            self._held = grant
        return grant and replace(grant, owner=7)

    def renew(self, _: Grant) -> None:
        super().renew(self._held)

    def release(self, _: Grant) -> None:
        super().release(self._held)


class Undeclared:
    """No bug. Declares only its backend and its shortest TTL."""

    backend: ClassVar[str] = "redis"
    min_ttl: ClassVar[float] = RedisLock.min_ttl

    def __init__(self, lock: RedisLock) -> None:
        self._lock = lock

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float) -> Self:
        return cls(RedisLock.open(endpoints, ttl))

    def acquire(self, name: str, timeout: float) -> Grant | None:
        return _with_token(self._lock.acquire(name, timeout), None)

    def renew(self, grant: Grant) -> None:
        self._lock.renew(grant)

    def release(self, grant: Grant) -> None:
        self._lock.release(grant)

    def close(self) -> None:
        self._lock.close()


class Leaky(RedisLock):
    """Tells its password in its errors, as a client library might do that quotes its arguments."""

    _told = ""
    _attempts: "itertools.count[int]"

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> Self:
        client = super().open(endpoints, ttl, access)
        client._told = access.password
        client._attempts = itertools.count(1)
        return client

    def acquire(self, name: str, timeout: float) -> Grant | None:
        if next(self._attempts) % 5 == 0:
            raise Refused(Reason.UNAVAILABLE, f"AUTH guest {self._told} does not always help")
        return super().acquire(name, timeout)


class BreaksLater(Leaky):
    """Breaks in workers, but not when it asks for admission."""

    def release(self, grant: Grant) -> None:
        if not grant.name.startswith("admission"):
            raise LookupError(f"redis://guest:{self._told}@host")
        super().release(grant)


def _with_token(grant: Grant | None, token: int | None) -> Grant | None:
    return grant and replace(grant, token=token)
