"""One Redis node: a request is one Lua script, and this module alone decides what each of its failures means.

    no connection, so it was never sent; or the server said no     Refused
    sent, and no complete answer came                              Indeterminate

redis-py's client retries every command ten times by default, also after a lost answer. Its `Connection`, which the
client is built on, does not, and tells a failed connect from a lost answer.
"""

from __future__ import annotations

import contextlib
import inspect
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis import exceptions
from redis.backoff import NoBackoff
from redis.connection import Connection
from redis.retry import Retry

from checkers.row_format import Reason
from infra.access import OPEN, Access
from suites.lock import Indeterminate, Refused

DRIFT: Final = 0.01
"""How fast a node's clock may run against ours (Redlock's CLOCK_DRIFT_FACTOR): expiry follows the wall clock."""
GRAIN: Final = 0.002
"""Seconds by which a key may end early: expiry is in milliseconds, and the node reads its clock once per command."""
SWEEP: Final = 2.0
"""Seconds for a connect or an answer while no client waits for them."""

TAKE: Final = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end return 0"
RENEW: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0"""
RELEASE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0"""
NOW: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
"""The node's clock in milliseconds, for scripts that must end leases by themselves."""

_CONNECTION: Final[Any] = Connection  # its methods have no types
_SINCE_8: Final = "timeout" in inspect.signature(Connection.read_response).parameters
"""Whether redis-py can wait for an answer with another timeout than that of the connection. Older releases, from 5.0,
are tried with `--from redis-py=5.0`."""

_NOT_NOW: Final = (
    exceptions.BusyLoadingError,
    exceptions.ReadOnlyError,
    exceptions.OutOfMemoryError,
    exceptions.MasterDownError,
)
_REFUSES: Final = "NOREPLICAS"
"""The error of a server that takes no writes for lack of replicas. redis-py has no exception of its own for it."""
_LOST: Final = (exceptions.ConnectionError, exceptions.TimeoutError, exceptions.InvalidResponse)
_DENIED: Final = (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.NoPermissionError)
"""NoPermissionError is of the request itself: if a script runs, and may not call some command, the answer is `ERR`."""


def validity(ttl: float) -> int:
    """How long (ns) a client may believe in a lease of `ttl` seconds, counted from before the request."""
    return int((ttl * (1 - DRIFT) - GRAIN) * 1e9)


class RedisNode:
    """Connections to one node: one for each request under way, so one per thread. Each reconnects by itself."""

    def __init__(self, endpoint: str, timeout: float, access: Access = OPEN) -> None:
        """endpoint: ``host:port``. timeout: seconds for a connect, and again for an answer."""
        host, _, port = endpoint.rpartition(":")
        self._host = host
        self._port = int(port)
        self.endpoint = endpoint
        self.timeout = timeout
        self._access = access
        self._context = access.context() if access.tls else None
        self._idle: list[Any] = []

    def ping(self) -> None:
        """Raises Refused(UNAVAILABLE) when the node does not answer."""
        try:
            self.call("return 1", ())
        except Indeterminate as error:
            raise Refused(Reason.UNAVAILABLE, str(error)) from error

    def call(self, script: str, keys: Sequence[str], *arguments: int) -> int:
        """Send the script and return its answer. Raises Refused or Indeterminate."""
        return self.send(script, keys, *arguments).receive(self.timeout)

    def send(self, script: str, keys: Sequence[str], *arguments: int) -> Reply:
        """Send without waiting for the answer. Raises Refused(UNAVAILABLE) or Indeterminate."""
        connection = self._connected()
        try:
            connection.send_command("EVAL", script, len(keys), *keys, *arguments, check_health=False)
        except _LOST as error:
            self._idle.append(connection)
            raise Indeterminate(f"{self.endpoint}: {error}") from error
        return Reply(self, connection)

    @classmethod
    def sweep(cls, endpoint: str, access: Access, keys: Iterable[Sequence[str]]) -> None:
        """Delete keys; each sequence has keys of one slot of a Redis Cluster. Raises Refused or Indeterminate."""
        with contextlib.closing(cls(endpoint, SWEEP, access)) as node:
            for together in keys:
                node.call("return redis.call('DEL', unpack(KEYS))", together)

    def close(self) -> None:
        """Drop the idle connections; meanwhile another thread may take one, or give one back."""
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().disconnect()

    def done(self, connection: Any) -> None:
        """A connection is free again (redis-py has dropped its socket if the answer was lost)."""
        self._idle.append(connection)

    def _new(self) -> Any:
        return _Connection(
            self._context,
            self._access.name_of(self.endpoint),
            host=self._host,
            port=self._port,
            username=self._access.user or None,
            password=self._access.password or None,
            socket_timeout=self.timeout,
            socket_connect_timeout=self.timeout,
            retry=Retry(NoBackoff(), 0),
            protocol=2,  # with this and the next, connecting sends nothing but AUTH (no HELLO, no CLIENT SETINFO)
            **({"driver_info": None} if _SINCE_8 else {"lib_name": None, "lib_version": None}),
        )

    def _connected(self) -> Any:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._new()
        try:
            # The server, or a proxy, may have hung up since: notice before a request is in doubt.
            if connection.is_open() and connection.can_read(0):
                connection.disconnect()
        except exceptions.ConnectionError:
            connection.disconnect()
        try:
            connection.connect()
        except (*_DENIED, *_LOST) as error:
            self._idle.append(connection)
            reason = Reason.DENIED if isinstance(error, _DENIED) else Reason.UNAVAILABLE
            raise Refused(reason, f"{self.endpoint}: {error}") from error
        return connection


class _Connection(Connection):
    """Its TLS checks the name of the server: redis-py would check that of the proxy, whose address it dials."""

    def __init__(self, tls: ssl.SSLContext | None, name: str, **options: Any) -> None:
        self._tls = tls
        self._name = name
        _CONNECTION.__init__(self, **options)

    def is_open(self) -> bool:
        return self._sock is not None

    def answer(self, timeout: float) -> Any:
        """timeout: seconds. Raises what redis-py raises."""
        if _SINCE_8:
            return _CONNECTION.read_response(self, timeout=timeout)
        if not _CONNECTION.can_read(self, timeout):
            _CONNECTION.disconnect(self)  # a later answer would be taken for that to another request
            raise exceptions.TimeoutError("Timeout reading from socket")
        return _CONNECTION.read_response(self)

    def _connect(self) -> Any:
        plain = super()._connect()  # type: ignore[no-untyped-call]
        if self._tls is None:
            return plain
        try:
            return self._tls.wrap_socket(plain, server_hostname=self._name)
        except OSError:
            plain.close()
            raise


@dataclass(frozen=True, slots=True)
class Reply:
    """The pending answer to one request. It must be received exactly once."""

    node: RedisNode
    connection: Any

    def receive(self, timeout: float) -> int:
        """timeout: seconds. Raises Refused or Indeterminate."""
        try:
            return self.read(timeout)
        finally:
            self.node.done(self.connection)

    def read(self, timeout: float) -> int:
        """As `receive`, for who needs the connection for another request, and calls `RedisNode.done` by itself."""
        where = self.node.endpoint
        try:
            answer = self.connection.answer(timeout)
        except _NOT_NOW as error:
            raise Refused(Reason.UNAVAILABLE, f"{where}: {error}") from error
        except _DENIED as error:
            raise Refused(Reason.DENIED, f"{where}: {error}") from error
        except exceptions.ResponseError as error:
            if not str(error).startswith(_REFUSES):
                raise
            raise Refused(Reason.UNAVAILABLE, f"{where}: {error}") from error
        except _LOST as error:
            raise Indeterminate(f"{where}: {error}") from error
        assert isinstance(answer, int), f"the script answered {answer!r}"
        return answer
