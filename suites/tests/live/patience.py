"""A machine that stalls, and locks on real servers: how long clients wait, and when an outcome says nothing."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import pytest

from checkers.row_format import Reason
from suites.lock import Declarations, Indeterminate, Refused, grain_of
from suites.locks import etcd_requests, etcd_v3lock, postgres_session, redis_single, redis_wait, zookeeper_session
from suites.locks.redlock import Redlock
from suites.locks.redlock_variants import RedlockUnchecked

T = TypeVar("T")

PATIENT: Final = 10.0  # seconds that a client waits for an answer: longer than machines stall, as a rule
HASTY: Final = 1.0  # seconds that a client waits if it is to be cut off


class Anew(Exception):
    """The machine stalled for so long that a premise did not hold. The statement says nothing, and begins anew."""


def wait_for_answers(patch: pytest.MonkeyPatch) -> None:
    """All clients that this process opens from now on are `PATIENT`."""
    of_redis, of_etcd = (redis_single, Redlock, RedlockUnchecked), (etcd_requests, etcd_v3lock)
    for where in (*of_redis, *of_etcd, zookeeper_session, postgres_session):
        patch.setattr(where, "REQUEST", PATIENT)
    patch.setattr(etcd_requests, "LOG_IN", PATIENT)
    patch.setattr(postgres_session, "LOGIN", PATIENT)
    patch.setattr(redis_wait, "CONFIRM", PATIENT)


def hasten(client: Any) -> None:
    """Make a client `HASTY`, if its requests can be lost. Requests of other clients end with their connection."""
    if client.backend == "redis":
        client.REQUEST = HASTY  # Redlock's, for all answers together
        for node in getattr(client, "_nodes", ()) or (client._node,):
            node.timeout = HASTY
    elif client.backend == "etcd":
        for member in client._etcd._clients.values():
            member.timeout = HASTY


def was_sent(outcome: object) -> object:
    """The outcome of a call (`ends`). Raises Anew if the request was never sent: then its outcome says nothing."""
    if isinstance(outcome, Refused) and outcome.reason is Reason.UNAVAILABLE:
        raise Anew("it was not sent") from outcome
    return outcome


def lasts(lock: type[Declarations], ttl: float) -> int:
    """ns; how long a lease of `ttl` seconds lasts at least, from the moment when it was asked for."""
    return round((ttl * (1 - lock.drift) - grain_of(lock, ttl)) * 1e9)


@contextmanager
def unless_late(until: int) -> Iterator[None]:
    """The block must succeed before `until` (ns). If it fails later, Anew is raised, and the statement begins anew."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        if time.monotonic_ns() > until:
            raise Anew("the lease may have been over") from error
        raise


def all_of(futures: Sequence[Future[T]]) -> list[T]:
    """The results of all. Of several errors, that of an unanswered client is raised: it may have caused the others."""
    errors = [error for future in futures if (error := future.exception())]
    for error in sorted(errors, key=unanswered, reverse=True):
        raise error
    return [future.result() for future in futures]


def unanswered(error: BaseException | None) -> bool:
    """Whether the error is that of a call which got no answer, but should have got one."""
    unavailable = isinstance(error, Refused) and error.reason is Reason.UNAVAILABLE
    return unavailable or isinstance(error, Anew | Indeterminate)
