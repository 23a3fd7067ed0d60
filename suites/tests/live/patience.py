"""What a machine that stalls may do to locks on real servers: how long they wait for answers, and what says nothing."""

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
HASTY: Final = 1.0  # the same of a client that is to be cut off


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
    """The client is `HASTY` from now on, where its requests can be lost: those of others end with their connection."""
    if client.backend == "redis":
        client.REQUEST = HASTY  # Redlock's, for all answers together
        for node in getattr(client, "_nodes", ()) or (client._node,):
            node.timeout = HASTY
    elif client.backend == "etcd":
        for member in client._etcd._clients:
            member.timeout = HASTY


def was_sent(outcome: object) -> object:
    """The outcome of a call (`ends`). What was never sent says nothing: the statement begins anew."""
    if isinstance(outcome, Refused) and outcome.reason is Reason.UNAVAILABLE:
        raise Anew("it was not sent") from outcome
    return outcome


def lasts(lock: type[Declarations], ttl: float) -> int:
    """ns; how long a lease of so many seconds lasts at least, from when it was asked for."""
    return round((ttl * (1 - lock.drift) - grain_of(lock, ttl)) * 1e9)


@contextmanager
def unless_late(until: int) -> Iterator[None]:
    """What is done here must succeed before that time (ns). Later it may fail: the statement begins anew."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        if time.monotonic_ns() > until:
            raise Anew("the lease may have been over") from error
        raise


def all_of(futures: Sequence[Future[T]]) -> list[T]:
    """What came of all of them. Who was not answered may be why another broke, and so comes first."""
    errors = [error for future in futures if (error := future.exception())]
    for error in sorted(errors, key=unanswered, reverse=True):
        raise error
    return [future.result() for future in futures]


def unanswered(error: BaseException | None) -> bool:
    """Whether a call got no answer that was to have one."""
    unavailable = isinstance(error, Refused) and error.reason is Reason.UNAVAILABLE
    return unavailable or isinstance(error, Anew | Indeterminate)
