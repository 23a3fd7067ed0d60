"""The members of an etcd cluster: one client each, our own fail-over, and the place where errors are sorted.

    never sent, or refused before anything was done     Refused(UNAVAILABLE)
    the lease does not exist                            Refused(NOT_OWNER)
    anything else about the way there and back          Indeterminate

etcd3 takes one address, and a gRPC channel over several never leaves a silent one whose connection still stands. So a
member that fails is left for the next one, from the next request on; the failed request itself is not sent again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import grpc  # type: ignore[import-untyped]
from etcd3 import Etcd3Client, Etcd3Exception, etcdrpc

from checkers.wire import Reason
from suites.lock import Indeterminate, LockError, Refused

REQUEST: Final = 0.6
"""Seconds; the deadline of every request."""

_OPTIONS: Final = (
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),  # clients in one process share no connection
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),  # the default grows to two minutes
)
_IN_DOUBT: Final = (
    grpc.StatusCode.UNAVAILABLE,  # also etcd's own "request timed out" and "leader changed"
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
)
_NEVER_SENT: Final = "failed to connect to all addresses"

T = TypeVar("T")


class Endpoints:
    """Clients of all members, the first preferred. Any number of threads may use it."""

    def __init__(self, endpoints: Sequence[str]) -> None:
        """endpoints: ``host:port``."""
        addresses = [endpoint.rpartition(":") for endpoint in endpoints]
        self._clients = [
            Etcd3Client(host=host, port=int(port), timeout=REQUEST, grpc_options=_OPTIONS)
            for host, _, port in addresses
        ]
        self._names = tuple(endpoints)
        self._index = 0

    def call(self, request: Callable[[Etcd3Client], T]) -> T:
        """Send it to the present member, once. Raises Refused or Indeterminate."""
        index = self._index
        try:
            return request(self._clients[index])
        except (Etcd3Exception, grpc.RpcError) as error:
            outcome = sorted_out(error, self._names[index])
            if not (isinstance(outcome, Refused) and outcome.reason is Reason.NOT_OWNER) and index == self._index:
                self._index = (index + 1) % len(self._clients)
            raise outcome from error

    def await_deletion(self, key: bytes, revision: int, timeout: float) -> None:
        """Return once the key is deleted at `revision` or later, after `timeout` seconds, or when the watch fails."""
        create = etcdrpc.WatchCreateRequest(
            key=key, start_revision=revision, filters=[etcdrpc.WatchCreateRequest.NOPUT]
        )
        watch = etcdrpc.WatchStub(self._clients[self._index].channel).Watch(
            iter([etcdrpc.WatchRequest(create_request=create)]), timeout
        )
        with contextlib.suppress(grpc.RpcError):
            for answer in watch:
                if answer.events or answer.canceled:
                    break
        watch.cancel()

    def close(self) -> None:
        """Hang up."""
        for client in self._clients:
            client.close()


def sorted_out(error: Exception, where: str) -> LockError:
    """The outcome that an error of etcd3 or gRPC means; raises the error itself where it is a bug of ours."""
    cause = error if isinstance(error, grpc.RpcError) else error.__context__  # etcd3's own have lost the details
    if not isinstance(cause, grpc.RpcError):
        raise error
    code, details = cause.code(), cause.details() or ""
    text = f"{where}: {code.name.lower()}: {details}"
    if code is grpc.StatusCode.NOT_FOUND:
        return Refused(Reason.NOT_OWNER, text)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED or details.startswith(_NEVER_SENT):
        return Refused(Reason.UNAVAILABLE, text)
    if code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED):
        return Refused(Reason.DENIED, text)
    if code in _IN_DOUBT:
        return Indeterminate(text)
    raise error
