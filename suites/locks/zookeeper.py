"""``zookeeper``: a queue of ephemeral sequential nodes.

The lock recipe of https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks by hand, over kazoo's client:
create an ephemeral sequential node with a GUID in its name, hold the lock while no node has a lower number, watch only
the next lower one. The GUID finds a node again whose creation was not answered (ZOOKEEPER-1262), after a `sync`, since
the server that one reconnects to may lag. The fencing token is the node's czxid.

What its authors claim: exclusion among sessions that live, order of arrival, no herd, and freedom once the session of
a dead holder has expired. From the first interruption of its connection (SUSPENDED) a client no longer believes in the
grants that it has, for good: kazoo reports LOST only after it has reached a server again.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self
from urllib.parse import quote

from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import ZnodeStat

from checkers.claims import Claim, Hazard
from checkers.wire import Reason
from infra.access import OPEN, Access
from suites.lock import Declarations, Grant, Indeterminate, LockError, Refused, new_owner, now
from suites.locks.promises import CLAIMS, CONSENSUS_CLAIMS, HAZARDS, TOKEN_CLAIMS, TOKEN_HAZARDS
from suites.locks.zookeeper_session import ROOT, ZooKeeperSession


@dataclass(frozen=True, slots=True)
class Place:
    """A node in the queue. epoch: the session's when it became the first."""

    parent: str
    guid: str
    node: str = ""
    epoch: int = 0


class ZooKeeperLock(Declarations):
    """See the module. A call returns within its timeout plus three requests (3 s)."""

    name: ClassVar[str] = "zookeeper"
    backend: ClassVar[str] = "zookeeper"
    lease: ClassVar[str] = "touch"
    tokens: ClassVar[bool] = True
    fair: ClassVar[bool] = True
    drift: ClassVar[float] = 0.001
    grain: ClassVar[float] = 0.8  # a keep-alive every min_ttl/3, and some delay: see zookeeper_session
    min_ttl: ClassVar[float] = 2.0
    bounds: ClassVar[Mapping[str, float]] = {"recovery": 12.0}
    claims: ClassVar[tuple[Claim, ...]] = CLAIMS + TOKEN_CLAIMS + CONSENSUS_CLAIMS
    hazards: ClassVar[tuple[Hazard, ...]] = HAZARDS + TOKEN_HAZARDS

    def __init__(self, session: ZooKeeperSession, ttl: float) -> None:
        """ttl: seconds."""
        self._session = session
        self._zk = session.zk
        self._ttl = int(ttl * 1e9)
        self._trusted = int((ttl * (1 - self.drift) - self.grain) * 1e9)
        self._held: dict[int, Place] = {}
        self._orphans: dict[str, Place] = {}
        """By GUID: nodes that may be there though nobody wants them."""

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> Self:
        """Waits for a session for as long as one lives."""
        session = ZooKeeperSession(endpoints, ttl, access)
        session.start()
        return cls(session, ttl)

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """Queue up and wait. A node whose fate is unknown is sought and deleted by later calls."""
        deadline = now() + int(timeout * 1e9)
        session = self._session.adopt()
        self._bury()
        owner = new_owner()
        place = Place(_parent(name), f"{owner:016x}")
        try:
            sent, path, stat = self._enqueue(place)
        except NoNodeError:
            self._make(place.parent)
            sent, path, stat = self._enqueue(place)
        self._session.proved(sent)
        place = replace(place, node=path.rpartition("/")[2])
        epoch = self._await_turn(place, deadline, session)
        if epoch:
            self._held[owner] = replace(place, epoch=epoch)
            return Grant(name, owner, stat.czxid, sent, self._ttl, self._session.alive + self._trusted, session)
        self._delete(place)
        if timeout == 0:
            raise Refused(Reason.HELD)
        return None

    def renew(self, grant: Grant) -> None:
        """The session is what can be renewed."""
        self._session.touch(grant.session)

    def release(self, grant: Grant) -> None:
        """Without a connection the node is deleted later, so that too is Indeterminate."""
        place = self._held.pop(grant.owner, None)
        if place is None or grant.session != self._session.id or not self._delete(place):
            raise Refused(Reason.NOT_OWNER)

    def close(self) -> None:
        """End the session, and with it all grants."""
        self._session.close()

    @classmethod
    def sweep(cls, endpoints: Sequence[str], names: Sequence[str], access: Access) -> None:
        """The parents of the queues, which no session ends. Others' sessions write to `ROOT`, so that stays."""
        session = ZooKeeperSession(endpoints, cls.min_ttl, access)
        session.start()
        try:
            for parent in map(_parent, names):
                with contextlib.suppress(NoNodeError):
                    for node in session.ask(lambda parent=parent: session.zk.get_children_async(parent)):  # type: ignore[misc]
                        with contextlib.suppress(NoNodeError):
                            session.ask(lambda path=f"{parent}/{node}": session.zk.delete_async(path))  # type: ignore[misc]
                    session.ask(lambda parent=parent: session.zk.delete_async(parent))  # type: ignore[misc]
        finally:
            session.close()

    def belief(self, grant: Grant) -> bool:
        """From the first interruption on, or without a sign of life, never again."""
        place = self._held.get(grant.owner)
        return place is not None and place.epoch == self._session.epoch and now() < self._session.alive + self._trusted

    @property
    def session(self) -> int:
        """The id of the session; 0 from its end to the next call."""
        return self._session.id

    @property
    def opened(self) -> int:
        """When the session was asked for, or a little before (ns)."""
        return self._session.opened

    def keep_alive(self) -> None:
        """Write, and clear away what is left over."""
        self._session.touch(self._session.id or self._session.adopt())
        with contextlib.suppress(LockError):
            self._bury()

    def _enqueue(self, place: Place) -> tuple[int, str, ZnodeStat]:
        """One request, so that once its time is over nothing is sent any more. Raises NoNodeError without a parent."""
        path, sent = f"{place.parent}/{place.guid}-", now()
        try:
            made, stat = self._session.ask(
                lambda: self._zk.create_async(path, ephemeral=True, sequence=True, include_data=True)
            )
        except Indeterminate:
            self._orphans[place.guid] = place
            raise
        return sent, made, stat

    def _make(self, parent: str) -> None:
        """Raises Refused: without it nothing of ours is in the queue."""
        try:
            self._session.ask(lambda: self._zk.ensure_path_async(parent))
        except Indeterminate as error:
            raise Refused(Reason.UNAVAILABLE, str(error)) from error

    def _await_turn(self, place: Place, deadline: int, session: int) -> int:
        """The epoch in which the node is the first, 0 when the time has passed. Raises Refused(NOT_OWNER).

        Only reads here, and a write that changes nothing: where one fails, the next look will tell.
        """
        while True:
            epoch = self._session.epoch
            wake = threading.Event()
            try:
                if not self._behind(place, wake):
                    if now() - self._session.alive > self._ttl // 3:
                        self._session.touch(session)  # what a lagging server shows may be older than the session's end
                    return epoch
            except LockError as error:
                if isinstance(error, Refused) and error.reason is Reason.NOT_OWNER:
                    raise
                wake = self._session.up
            left = (deadline - now()) / 1e9
            if left <= 0:
                return 0
            wake.wait(left)

    def _behind(self, place: Place, wake: threading.Event) -> bool:
        """Whether a node comes before ours; `wake` is set once the next lower one may be gone."""
        children = self._session.ask(lambda: self._zk.get_children_async(place.parent))
        nodes = {int(node[17:]): node for node in children}  # 16 digits of GUID, a hyphen, the number
        mine = int(place.node[17:])
        if mine not in nodes:
            raise Refused(Reason.NOT_OWNER, "the node is gone")
        lower = max((number for number in nodes if number < mine), default=None)
        if lower is None:
            return False
        watched = f"{place.parent}/{nodes[lower]}"
        if self._session.ask(lambda: self._zk.exists_async(watched, watch=lambda _: wake.set())) is None:
            wake.set()
        return True

    def _delete(self, place: Place) -> bool:
        """Whether it was there; Indeterminate where that is not certain, and then it is an orphan."""
        sent = now()
        try:
            self._session.ask(lambda: self._zk.delete_async(f"{place.parent}/{place.node}"))
        except NoNodeError:
            return False
        except LockError as error:
            if isinstance(error, Refused) and error.reason is Reason.NOT_OWNER:
                return False
            self._orphans[place.guid] = place
            raise Indeterminate(str(error)) from error
        self._session.proved(sent)
        return True

    def _bury(self) -> None:
        """Find the orphans by their GUIDs and delete them. Raises Refused(UNAVAILABLE) where that has to wait."""
        for guid, place in tuple(self._orphans.items()):
            with contextlib.suppress(NoNodeError):
                try:
                    self._bury_one(place)
                except Indeterminate as error:
                    raise Refused(Reason.UNAVAILABLE, str(error)) from error
            self._orphans.pop(guid, None)

    def _bury_one(self, place: Place) -> None:
        self._session.ask(lambda: self._zk.sync_async(place.parent))
        for node in self._session.ask(lambda: self._zk.get_children_async(place.parent)):
            if node.startswith(place.guid):
                self._session.ask(lambda path=f"{place.parent}/{node}": self._zk.delete_async(path))  # type: ignore[misc]


def _parent(name: str) -> str:
    """The node under which a lock's queue stands."""
    return f"{ROOT}/{quote(name, safe='')}"
