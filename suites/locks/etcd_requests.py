"""The members of an etcd cluster: one client for each, our own fail-over, and the outcome that each error means.

    never sent, or refused before anything was done     Refused(UNAVAILABLE)
    the lease does not exist                            Refused(NOT_OWNER)
    the user was not accepted, or lacks permission      Refused(DENIED)
    any other failure on the way there and back         Indeterminate

etcd3 takes one address. A gRPC channel over several never leaves a silent member whose connection still stands. So if a
member fails, later requests go to the next member; the failed request itself is not sent again.
"""

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import grpc  # type: ignore[import-untyped]
import grpc.experimental  # type: ignore[import-untyped]
from etcd3 import Etcd3Client, Etcd3Exception, etcdrpc

from checkers.row_format import Reason
from infra.access import OPEN, Access
from suites.lock import Indeterminate, LockError, Refused

REQUEST: Final = 0.6
"""Seconds; the deadline of every request."""
LOG_IN: Final = 2.0
"""Seconds; the deadline of a request for a token, which costs the server a tenth of a second of CPU time (bcrypt)."""

_OPTIONS: Final[tuple[tuple[str, Any], ...]] = (
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),  # clients in one process share no connection
    (grpc.experimental.ChannelOptions.SingleThreadedUnaryStream, 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # A connection attempt may take at least this. With less, clients give attempts up, and keep a busy machine busy.
    ("grpc.min_reconnect_backoff_ms", 1000),
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
_DENIED: Final = (
    "etcdserver: authentication",  # failed, or is not enabled
    "etcdserver: user name is empty",
    "etcdserver: revision of auth store is old",
)
"""Errors about the user that etcd sends as an invalid argument or a failed precondition."""

T = TypeVar("T")

etcdrpc.WatchRequest().SerializeToString()  # loads the rest of protobuf: once, before workers are forked


class Endpoints:
    """Clients of all members, the first preferred. Any number of threads may use it."""

    def __init__(self, endpoints: Sequence[str], access: Access = OPEN) -> None:
        """endpoints: ``host:port``."""
        self._access = access
        self._clients = {endpoint: _client(endpoint, access) for endpoint in endpoints}
        self.member = endpoints[0]
        """``host:port`` of the member that is preferred now."""
        self._logging_in = threading.Lock()
        self._token: tuple[tuple[str, str], ...] | None = None
        """The token as gRPC sends it; it is good for all members."""

    def call(self, request: Callable[[Etcd3Client], T]) -> T:
        """Send the request to the present member, once. Raises Refused or Indeterminate."""
        member = self.member
        client = self._logged_in(member)
        try:
            return request(client)
        except (Etcd3Exception, grpc.RpcError) as error:
            outcome = sorted_out(error, member)
            if outcome.reason is Reason.DENIED:
                self._token = None  # the token has run out, or the member has forgotten it
            if outcome.reason is not Reason.NOT_OWNER:
                self.leave(member)
            raise outcome from error

    def keep_alive(self, lease: int) -> int:
        """Returns the seconds that the lease lasts from now on, 0 if it is over. Raises Refused or Indeterminate."""
        request = etcdrpc.LeaseKeepAliveRequest(ID=lease)
        return int(self.call(lambda client: _keep_alive(client.channel)(request, REQUEST, metadata=self._token)).TTL)

    def await_deletion(self, key: bytes, end: bytes, revision: int, timeout: float) -> bool:
        """Whether the key, or another one from it up to (not including) `end`, was deleted at `revision` or later.

        False after `timeout` seconds, or when the watch fails.
        """
        create = etcdrpc.WatchCreateRequest(
            key=key, range_end=end, start_revision=revision, filters=[etcdrpc.WatchCreateRequest.NOPUT]
        )
        deleted = False
        watch = _watch(self._clients[self.member].channel)(
            etcdrpc.WatchRequest(create_request=create), timeout, metadata=self._token
        )
        with contextlib.suppress(grpc.RpcError):
            for answer in watch:
                deleted = bool(answer.events)
                if deleted or answer.canceled:
                    break
        watch.cancel()
        return deleted

    def leave(self, member: str) -> None:
        """Prefer the next member, if this is the one preferred now."""
        if member == self.member:
            members = list(self._clients)
            self.member = members[(members.index(member) + 1) % len(members)]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def _logged_in(self, member: str) -> Etcd3Client:
        """The client of a member, with a token if there is a user. Raises Refused: no request was sent yet."""
        client = self._clients[member]
        if self._access.user:
            with self._logging_in:
                if self._token is None:
                    who = etcdrpc.AuthenticateRequest(name=self._access.user, password=self._access.password)
                    try:
                        answer = etcdrpc.AuthStub(client.channel).Authenticate(who, LOG_IN)
                    except grpc.RpcError as error:
                        outcome = sorted_out(error, member)
                        if isinstance(outcome, Indeterminate):
                            outcome = Refused(Reason.UNAVAILABLE, str(outcome))
                        self.leave(member)
                        raise outcome from error
                    self._token = (("token", answer.token),)
                client.metadata = self._token
        return client


# Both methods take a stream of requests. For one request, a call that sends one makes the same frames on the wire at a
# quarter of the work: a stream needs threads of its own.


def _keep_alive(channel: Any) -> Any:
    request, answer = etcdrpc.LeaseKeepAliveRequest.SerializeToString, etcdrpc.LeaseKeepAliveResponse.FromString
    return channel.unary_unary("/etcdserverpb.Lease/LeaseKeepAlive", request, answer)


def _watch(channel: Any) -> Any:
    request, answer = etcdrpc.WatchRequest.SerializeToString, etcdrpc.WatchResponse.FromString
    return channel.unary_stream("/etcdserverpb.Watch/Watch", request, answer)


def _client(endpoint: str, access: Access) -> Etcd3Client:
    host, _, port = endpoint.rpartition(":")
    secured: dict[str, Any] = {}
    options = _OPTIONS
    if access.tls:
        # The certificate is that of the server behind the proxy.
        options += (("grpc.ssl_target_name_override", access.name_of(endpoint)),)
        secured = {"ca_cert": access.trusted(), "cert_cert": access.cert or None, "cert_key": access.key or None}
    return Etcd3Client(host=host, port=int(port), timeout=REQUEST, grpc_options=options, **secured)


def sorted_out(error: Exception, where: str) -> LockError:
    """The outcome that an error of etcd3 or gRPC means; raises the error itself where it is a bug of ours."""
    cause = error if isinstance(error, grpc.RpcError) else error.__context__  # etcd3's own errors have lost the details
    if not isinstance(cause, grpc.RpcError):
        raise error
    code, details = cause.code(), cause.details() or ""
    text = f"{where}: {code.name.lower()}: {details}"
    if code is grpc.StatusCode.NOT_FOUND:
        return Refused(Reason.NOT_OWNER, text)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED or details.startswith(_NEVER_SENT):
        return Refused(Reason.UNAVAILABLE, text)
    if code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED) or details.startswith(_DENIED):
        return Refused(Reason.DENIED, text)
    if code in _IN_DOUBT:
        return Indeterminate(text)
    raise error
