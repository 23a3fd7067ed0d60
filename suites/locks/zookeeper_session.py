"""A ZooKeeper session through kazoo: its id, when it was last alive, and the outcome that each error of kazoo means.

    not connected, so never sent                        Refused(UNAVAILABLE)
    the session is over, and all its nodes with it      Refused(NOT_OWNER)
    not permitted (ACLs)                                Refused(DENIED)
    no answer                                           Indeterminate

Two traps decide what counts as a sign of life. A follower that is cut off from its leader goes on answering pings and
reads by itself for syncLimit ticks while the leader lets the session expire: so `touch` is a write. And a follower
tells the leader which sessions were alive only when the leader pings it. If the follower is lost, so are the signs of
life that it acknowledged last: a session can end early by the time between two signs of life.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Self

from kazoo import exceptions
from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from checkers.row_format import Reason
from infra.access import OPEN, Access
from suites.lock import Declarations, Grant, Indeterminate, LockError, Refused, now

REQUEST: Final = 1.0
"""Seconds; bounds every request."""
ROOT: Final = "/fencepost"
"""The node that `touch` writes to."""

logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # it would report every attempt to reconnect


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """Checks a certificate for the server's name: kazoo would check that of the proxy, whose address it dials."""

    def __init__(self, access: Access) -> None:
        super().__init__()
        self._access = access

    def create_connection(self, *args: Any, **options: Any) -> Any:
        if "hostname" in options:
            host, port = options["address"]
            options["hostname"] = self._access.name_of(f"{host}:{port}")
        return super().create_connection(*args, **options)


class ZooKeeperSession:
    """The connection, and the session that the client works under. Two threads may use it.

    zk      the kazoo client, for its ``*_async`` requests.
    id      the session's id, 0 from its end to the next `adopt`.
    opened  ns; when the session was asked for, or a little before.
    alive   ns; just before the last acknowledged write was sent.
    epoch   positive; changes whenever the connection is interrupted.
    up      set while there is a connection.
    """

    def __init__(self, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> None:
        """ttl: seconds; the server takes it unchanged if it is between 2 and 20 of its ticks."""
        handler = _Handler(access)
        self.zk: Any = KazooClient(
            ",".join(endpoints),
            timeout=ttl,
            handler=handler,
            randomize_hosts=False,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, backoff=1, sleep_func=handler.sleep_func),
            command_retry=KazooRetry(max_tries=1, sleep_func=handler.sleep_func),  # 0 would mean: for ever
            auth_data=[("digest", f"{access.user}:{access.password}")] if access.user else None,
            use_ssl=access.tls,
            **({"check_hostname": True} if access.tls else {}),  # since kazoo 2.11
            ca=access.ca or None,
            certfile=access.cert or None,
            keyfile=access.key or None,
        )
        self.id = self.opened = self.alive = 0
        self.epoch = 1
        self.up = threading.Event()
        self._ends = (0, now())
        """How many sessions have ended, and when (ns) the last did."""
        self._number = 0
        """How many sessions had ended before the present one."""
        self._given_up: set[int] = set()
        """Sessions that ended here while the server may still keep them."""
        self._adopting = threading.Lock()
        self.zk.add_listener(self._listen)

    @classmethod
    def started(cls, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> Self:
        """Start a session, and wait up to `ttl` seconds for it. Raises Refused."""
        session = cls(endpoints, ttl, access)
        try:
            session.zk.start(ttl)
            session.adopt()
            session.ask(lambda: session.zk.ensure_path_async(ROOT))
        except (KazooTimeoutError, LockError) as error:
            session.close()
            if isinstance(error, Refused) and error.reason is Reason.DENIED:
                raise
            raise Refused(Reason.UNAVAILABLE, repr(error)) from error
        return session

    def close(self) -> None:
        with contextlib.suppress(exceptions.WriterNotClosedException):
            self.zk.stop()
            self.zk.close()

    def adopt(self) -> int:
        """Work under the session that the connection has now, and return its id. Raises Refused(UNAVAILABLE).

        kazoo's thread ends for good if answers come in the wrong order (kazoo #254). A new one then gets a new session.
        """
        with self._adopting:
            if self.zk.client_state == KeeperState.CLOSED:
                self.zk.start_async()
        number, ended = self._ends
        identity: tuple[int, bytes] | None = self.zk.client_id
        if identity is None:
            raise Refused(Reason.UNAVAILABLE, "not connected")
        with self._adopting:
            if identity[0] != self.id:
                self.opened = self.alive = ended
                self._number, self.id = number, identity[0]
        return identity[0]

    def touch(self, session: int) -> None:
        """One acknowledged write, for this session. Raises Refused or Indeterminate.

        If kazoo gave the session up, nothing was sent, and the server has said nothing: Refused(UNAVAILABLE).
        """
        sent = now()
        try:
            if session == self.id and self._number == self._ends[0]:
                self.ask(lambda: self.zk.set_async(ROOT, b""))
            if session != self.id or self._number != self._ends[0]:
                given_up = session in self._given_up
                raise Refused(Reason.UNAVAILABLE if given_up else Reason.NOT_OWNER, f"session {session:#x} is over")
        except Refused as refusal:
            if session == self.id and (refusal.reason is Reason.NOT_OWNER or session in self._given_up):
                self.id = 0
            raise
        self.proved(sent)

    def proved(self, sent: int) -> None:
        """A write sent at `sent` (ns) was acknowledged."""
        self.alive = max(self.alive, sent)

    def ask(self, send: Callable[[], Any]) -> Any:
        """Send one request and await its answer. Raises Refused or Indeterminate; kazoo's errors about nodes pass."""
        if not self.zk.connected:
            raise Refused(Reason.UNAVAILABLE, "not connected")
        try:
            return send().get(timeout=REQUEST)
        except exceptions.SessionExpiredError as error:
            raise Refused(Reason.NOT_OWNER, repr(error)) from error
        except (exceptions.NoAuthError, exceptions.AuthFailedError) as error:
            raise Refused(Reason.DENIED, repr(error)) from error
        except exceptions.SessionMovedError as error:
            raise Refused(Reason.UNAVAILABLE, repr(error)) from error
        except (
            KazooTimeoutError,
            exceptions.ConnectionLoss,
            exceptions.OperationTimeoutError,
            getattr(exceptions, "RequestTimeoutError", KazooTimeoutError),  # since kazoo 2.11
        ) as error:
            raise Indeterminate(repr(error)) from error
        except RuntimeError as error:
            if "xids do not match" not in str(error):
                raise
            raise Indeterminate(repr(error)) from error  # the answer to another request

    def _listen(self, state: str) -> None:
        """Runs in kazoo's connection thread, before anything happens on the next connection."""
        if state == KazooState.CONNECTED:
            self.up.set()
            return
        self.up.clear()
        self.epoch += 1
        if state == KazooState.LOST:
            if self.zk.client_state != KeeperState.EXPIRED_SESSION:
                self._given_up.add(self.id)
            self._ends = (self._ends[0] + 1, now())


class InSession(Declarations):
    """What all locks have in common whose nodes live in such a session. A lock adds `acquire` and `release`."""

    backend: ClassVar[str] = "zookeeper"
    lease: ClassVar[str] = "touch"
    drift: ClassVar[float] = 0.001
    grain: ClassVar[float] = 0.8  # a keep-alive every TTL/3, and some delay: see the module
    lag: ClassVar[float] = 1 / 3

    def __init__(self, session: ZooKeeperSession, ttl: float) -> None:
        self._session = session
        self._ttl = int(ttl * 1e9)

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> Self:
        """Waits up to `ttl` seconds for a session."""
        return cls(ZooKeeperSession.started(endpoints, ttl, access), ttl)

    def renew(self, grant: Grant) -> None:
        self._session.touch(grant.session)

    def close(self) -> None:
        self._session.close()

    @property
    def session(self) -> int:
        """The id of the session; 0 from its end to the next call."""
        return self._session.id

    @property
    def opened(self) -> int:
        """When the session was asked for, or a little before (ns)."""
        return self._session.opened

    def keep_alive(self) -> None:
        self._session.touch(self._session.id or self._session.adopt())
