"""``zookeeper``: a queue of ephemeral sequential nodes.

The lock recipe of https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks by hand, over kazoo's client:
a client creates an ephemeral sequential node with a GUID in its name, holds the lock while no node has a lower number,
and else watches only the next lower one. By the GUID it finds a node whose creation was not answered (ZOOKEEPER-1262),
after a `sync`, since the server to which it reconnects may lag. The fencing token is the node's czxid.

What its authors claim: exclusion among sessions that live, order of arrival, no herd, and that the lock is free once a
dead holder's session has expired. After the first interruption of its connection (SUSPENDED) a client never believes in
its present grants again: kazoo reports LOST only after it has reached a server again.

Data can be kept beside the queue, in its parent node: one multi checks that the holder's own node is there, and writes.
Once a holder's session is over, nothing that it sends is accepted, however late.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final
from urllib.parse import quote

from kazoo.client import TransactionRequest
from kazoo.exceptions import NoNodeError, RolledBackError, RuntimeInconsistency
from kazoo.protocol.serialization import SetData
from kazoo.protocol.states import EventType, WatchedEvent, ZnodeStat

from checkers.claims import Claim, Hazard
from checkers.row_format import Reason
from infra.access import Access
from suites.lock import Grant, Indeterminate, LockError, Refused, grain_of, new_owner, now
from suites.locks.guarded import decoded, encoded
from suites.locks.lease_claims import FENCED_QUEUE_CLAIMS, HAZARDS, TOKEN_HAZARDS
from suites.locks.zookeeper_session import REQUEST, ROOT, InSession, ZooKeeperSession


@dataclass(frozen=True, slots=True)
class QueueNode:
    """A node in the queue. epoch: that of the session when the turn of the node came."""

    parent: str
    guid: str
    node: str = ""
    epoch: int = 0

    @property
    def path(self) -> str:
        return f"{self.parent}/{self.node}"


def number(node: str) -> int:
    """The place in the queue, from a node's name: 16 digits of GUID, a hyphen, `EXCLUSIVE` or `SHARED`, the number."""
    return int(node[18:])


def is_shared(node: str) -> bool:
    """Whether the node belongs to a reader."""
    return node[17] == SHARED


EXCLUSIVE: Final = "x"
SHARED: Final = "s"


class Wake:
    """What a waiter waits for. up: set when the waiter must look again; by_the_service: whether a watch set it."""

    def __init__(self) -> None:
        self.up = threading.Event()
        self.by_the_service = False

    def ring(self, event: WatchedEvent) -> None:
        """The callback of a watch. kazoo also calls it when the connection is interrupted."""
        self.by_the_service = event.type != EventType.NONE
        self.up.set()


class ZooKeeperLock(InSession):
    """See the module. A call returns within its timeout plus three requests (3 s), after at most one second more for
    what earlier ones left behind (`_bury`).
    """

    tokens: ClassVar[bool] = True
    fair: ClassVar[bool] = True
    bounds: ClassVar[Mapping[str, float]] = {
        "recovery": 12.0,
        "crash-release": 2.0,  # sessions end at the next tick
        "honest-belief": 1.0,  # what `grain` says, for a client that is frozen meanwhile
        "fail-fast": 4.0,
        "hand-over": 1.0,
    }
    claims: ClassVar[tuple[Claim, ...]] = FENCED_QUEUE_CLAIMS
    hazards: ClassVar[tuple[Hazard, ...]] = HAZARDS + TOKEN_HAZARDS

    watches_all: ClassVar[bool] = False
    """Whether a waiter is woken by any change of the queue, and not only when the node right before it is gone."""
    wakes: int = 0

    def __init__(self, session: ZooKeeperSession, ttl: float) -> None:
        super().__init__(session, ttl)
        self._zk = session.zk
        self._trusted = int((ttl * (1 - self.drift) - grain_of(type(self), ttl)) * 1e9)
        self._held: dict[int, QueueNode] = {}
        self._orphans: dict[str, QueueNode] = {}
        """GUID → a node that may exist though no client wants it."""
        self._paths: dict[int, str] = {}
        """Owner → node, of every grant so far: it is the server that refuses a write under a grant that is over."""

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """Queue up and wait. A node whose fate is unknown is sought and deleted by later calls."""
        return self._take(name, timeout, EXCLUSIVE)

    def release(self, grant: Grant) -> None:
        """Raises Indeterminate also without a connection: the node is then deleted later."""
        place = self._held.pop(grant.owner, None)
        if place is None or not self._delete(place):
            raise Refused(Reason.NOT_OWNER)

    @classmethod
    def sweep(cls, endpoints: Sequence[str], names: Sequence[str], access: Access) -> None:
        """Delete the parents of the queues, which no session ends. `ROOT` stays: sessions of others write to it."""
        with contextlib.closing(ZooKeeperSession.started(endpoints, cls.min_ttl, access)) as session:
            for parent in map(_parent, names):
                with contextlib.suppress(NoNodeError):
                    for node in session.ask(lambda parent=parent: session.zk.get_children_async(parent)):  # type: ignore[misc]
                        with contextlib.suppress(NoNodeError):
                            session.ask(lambda path=f"{parent}/{node}": session.zk.delete_async(path))  # type: ignore[misc]
                    session.ask(lambda parent=parent: session.zk.delete_async(parent))  # type: ignore[misc]

    def read(self, grant: Grant, key: str) -> tuple[int, Sequence[int]] | None:
        """Check the grant, then read: an answer after the check shows all that was written before it, on any server."""
        return _kept(self._session, key) if self._checked(grant) else None

    def write(self, grant: Grant, key: str, value: int, elements: Sequence[int]) -> bool:
        return self._checked(grant, SetData(_parent(key), encoded(value, elements), -1))

    @classmethod
    def final(cls, endpoints: Sequence[str], key: str, access: Access) -> tuple[int, Sequence[int]]:
        """Read from any server that answers, after it has caught up."""
        with contextlib.closing(ZooKeeperSession.started(endpoints, cls.min_ttl, access)) as session:
            session.ask(lambda: session.zk.sync_async(ROOT))
            return _kept(session, key)

    def belief(self, grant: Grant) -> bool:
        """False for good after the first interruption of the connection, or without a sign of life in time."""
        place = self._held.get(grant.owner)
        return place is not None and place.epoch == self._session.epoch and now() < self._session.alive + self._trusted

    def keep_alive(self) -> None:
        super().keep_alive()
        with contextlib.suppress(LockError):
            self._bury()

    def _take(self, name: str, timeout: float, kind: str) -> Grant | None:
        """See `acquire`. kind: `EXCLUSIVE` or `SHARED`, which the name of the node contains."""
        deadline = now() + int(timeout * 1e9)
        session = self._session.adopt()
        self._bury()
        owner = new_owner()
        place = QueueNode(_parent(name), f"{owner:016x}")
        try:
            sent, path, stat = self._enqueue(place, kind)
        except NoNodeError:
            self._make(place.parent)
            sent, path, stat = self._enqueue(place, kind)
        queued = now()
        self._session.proved(sent)
        place = replace(place, node=path.rpartition("/")[2])
        epoch = self._await_turn(place, deadline, session)
        if epoch:
            self._held[owner], self._paths[owner] = replace(place, epoch=epoch), place.path
            expires = self._session.alive + self._trusted
            return Grant(name, owner, stat.czxid, sent, self._ttl, expires, session, queued)
        self._delete(place)
        if timeout == 0:
            raise Refused(Reason.HELD)
        return None

    def _enqueue(self, place: QueueNode, kind: str) -> tuple[int, str, ZnodeStat]:
        """Create our node by one request, so nothing is sent after its timeout. Raises NoNodeError without a parent."""
        path, sent = f"{place.parent}/{place.guid}-{kind}", now()
        try:
            made, stat = self._session.ask(
                lambda: self._zk.create_async(path, ephemeral=True, sequence=True, include_data=True)
            )
        except Indeterminate:
            self._orphans[place.guid] = place
            raise
        return sent, made, stat

    def _checked(self, grant: Grant, *deeds: SetData) -> bool:
        """Whether the node of the grant was there, and so the deeds were done. Raises LockError."""
        path = self._paths.get(grant.owner)
        if path is None:
            return False
        multi, sent = TransactionRequest(self._zk), now()
        multi.check(path, -1)
        multi.operations.extend(deeds)
        try:
            results = self._session.ask(multi.commit_async)
        except Refused as refusal:
            if refusal.reason is Reason.NOT_OWNER:
                return False
            raise
        self._session.proved(sent)
        failures = [result for result in results if isinstance(result, Exception)]
        if any(not isinstance(failure, NoNodeError | RolledBackError | RuntimeInconsistency) for failure in failures):
            raise ExceptionGroup("a multi failed for another reason", failures)
        return not failures

    def _make(self, parent: str) -> None:
        """Make a parent. Raises Refused, not Indeterminate: without a parent, no node of ours is in the queue."""
        try:
            self._session.ask(lambda: self._zk.ensure_path_async(parent))
        except Indeterminate as error:
            raise Refused(Reason.UNAVAILABLE, str(error)) from error

    def _await_turn(self, place: QueueNode, deadline: int, session: int) -> int:
        """The epoch in which the node's turn has come, 0 once time is up. Raises LockError if node or session is gone.

        All requests are reads, or a write that changes nothing: if one fails, the next look will tell.
        """
        while True:
            epoch = self._session.epoch
            wake = Wake()
            try:
                if not self._behind(place, wake):
                    if now() - self._session.alive > self._ttl // 3:
                        self._session.touch(session)  # what a lagging server shows may be older than the session's end
                    return epoch
            except LockError as error:
                if session != self._session.id or error.reason is Reason.NOT_OWNER:
                    raise
                wake.up = self._session.up
            left = (deadline - now()) / 1e9
            if left <= 0:
                return 0
            wake.up.wait(left)
            self.wakes += wake.by_the_service

    def _behind(self, place: QueueNode, wake: Wake) -> bool:
        """Whether our node has to wait; `wake` goes off once the wait may be over."""
        watch = wake.ring if self.watches_all else None
        children = self._session.ask(lambda: self._zk.get_children_async(place.parent, watch=watch))
        if place.node not in children:
            raise Refused(Reason.NOT_OWNER, "the node is gone")
        before = self._before(place.node, sorted(children, key=number))
        if before is None:
            return False
        if not self.watches_all:
            watched = f"{place.parent}/{before}"
            if self._session.ask(lambda: self._zk.exists_async(watched, watch=wake.ring)) is None:
                wake.up.set()
        return True

    def _before(self, mine: str, queue: Sequence[str]) -> str | None:
        """The node that ours waits for, None when our turn has come. queue: the nodes in the order of their numbers."""
        place = queue.index(mine)
        return queue[place - 1] if place else None

    def _delete(self, place: QueueNode) -> bool:
        """Delete a node; whether it was there. If that is not certain: Indeterminate, and the node is an orphan."""
        sent = now()
        try:
            self._session.ask(lambda: self._zk.delete_async(place.path))
        except NoNodeError:
            return False
        except LockError as error:
            if error.reason is Reason.NOT_OWNER:
                return False
            self._orphans[place.guid] = place
            raise Indeterminate(str(error)) from error
        self._session.proved(sent)
        return True

    def _bury(self) -> None:
        """Find the orphans by their GUIDs and delete them, for as long as a request may take.

        Raises Refused(UNAVAILABLE) if this has to wait.
        """
        until = now() + int(REQUEST * 1e9)
        for guid, place in tuple(self._orphans.items()):
            with contextlib.suppress(NoNodeError):
                try:
                    self._bury_one(place, until)
                except Indeterminate as error:
                    raise Refused(Reason.UNAVAILABLE, str(error)) from error
            self._orphans.pop(guid, None)

    def _bury_one(self, place: QueueNode, until: int) -> None:
        """until: ns; from then on no more requests are sent. Raises LockError."""

        def ask(send: Callable[[], Any]) -> Any:
            if now() > until:
                raise Refused(Reason.UNAVAILABLE, "nodes that nobody wants are left")
            return self._session.ask(send)

        ask(lambda: self._zk.sync_async(place.parent))
        for node in ask(lambda: self._zk.get_children_async(place.parent)):
            if node.startswith(place.guid):
                ask(partial(self._zk.delete_async, f"{place.parent}/{node}"))


def _kept(session: ZooKeeperSession, key: str) -> tuple[int, Sequence[int]]:
    """The data beside a queue."""
    try:
        data, _ = session.ask(lambda: session.zk.get_async(_parent(key)))
    except NoNodeError:
        data = b""
    return decoded(data)


def _parent(name: str) -> str:
    """The node under which a lock's queue stands."""
    return f"{ROOT}/{quote(name, safe='')}"
