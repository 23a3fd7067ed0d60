"""Failover of redis1 to its replica and back, as a virtual address does it: clients go on asking for redis1.

`promote` makes the replica a primary and lets the proxies of all client groups to redis1 lead to it. What the replica
had not been told by then is lost, though it was acknowledged. redis1 goes on as it was, but no client comes to it any
more. The way past the links stays physical: who judges can ask either.

`fail_back` goes the other way and loses nothing: clients are refused while redis1 becomes a copy of the promoted one,
then it is the primary again, is followed again, and reached again. It finds out by itself what is to be done, by asking
both for their roles and Toxiproxy where it leads, so that it also undoes what another process did, or began.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

from infra import probes, slots, star
from infra.links import Cut, Links
from infra.machine import Failed
from infra.nodes import Node
from infra.star import GROUPS, PRIMARY, REPLICA
from infra.toxiproxy import Api, Change

PATIENCE: Final = 3.0
"""Seconds for one answer; they measure a millisecond."""

ANSWERS_WITHIN: Final = 30.0
"""Seconds for a server to be there that was just started; it measures 0.3."""

COPIED_WITHIN: Final = 20.0
"""Seconds for one to become a copy of the other; it measures 0.2."""

LOOK_EVERY: Final = 0.01

_BACK: Final = "failing back"
"""The key of what is done to links on the way back."""

_GROUPS: Final = tuple(map(star.client, GROUPS))
_WAYS: Final = tuple(f"{group}-{PRIMARY}" for group in _GROUPS)
"""The proxies of clients to the primary."""


class Failover:
    """The primary, its replica, and where clients' way to the primary leads. Every verb is idempotent."""

    def __init__(self, links: Links, api: Api, primary: Node, replica: Node, slot: int) -> None:
        """Asks nobody yet."""
        self.primary: Final = primary
        self.replica: Final = replica
        self._links = links
        self._api = api
        self._slot = slot
        self._by: str | None = None

    def follows(self) -> bool:
        """Whether the replica is connected to the primary, which is one, and keeps on its disk what it copied."""
        return probes.follows(self.replica.health(), self.primary.health())

    def lag(self) -> int:
        """Bytes of the primary's history that the replica has not been told. Raises Failed."""
        told, known = _replication(self.primary), _replication(self.replica)
        return int(told["master_repl_offset"]) - int(known["master_repl_offset"])

    def led_away(self) -> bool:
        """Whether clients who ask for the primary come to the replica. Raises Failed."""
        state = self._api.state()
        return any(state[way].upstream == _upstream(REPLICA) for way in _WAYS if way in state)

    def promote(self, by: str) -> None:
        """Cut the primary off from clients, make the replica a primary, let clients come to it. Raises Failed."""
        self._by = by
        self._refuse(by)
        try:
            self._be_primary(self.replica)
            _remember(self.replica)
            self._lead(REPLICA)
        finally:
            self._links.lift(by)

    def let_go(self, by: str) -> None:
        """Undo what `by` did. Raises Failed."""
        if self._by == by:
            self.fail_back()

    def fail_back(self) -> None:
        """Bring all back to where it began, with what the promoted one has by now, whoever promoted it.

        The replica follows a moment later. Raises Failed.
        """
        if not _wait(ANSWERS_WITHIN, lambda: self.primary.ready() and self.replica.ready()):
            states = ", ".join(f"{node.name} ({node.state()})" for node in (self.primary, self.replica))
            raise Failed(f"no way back from a failover: one of {states} does not answer")
        led_away = self.led_away()
        if _role(self.primary) == "master" and _role(self.replica) == "slave":
            self._lead(PRIMARY)
            return
        if led_away:
            self._refuse(_BACK)
        try:
            if led_away and _role(self.replica) == "master":
                self._copy()
            self._be_primary(self.primary)
            _ask(self.replica, "REPLICAOF", slots.address(self._slot, star.DATA_HOST), star.REPLICATION_PORT)
            _remember(self.replica)
            self._lead(PRIMARY)
        finally:
            self._links.lift(_BACK)
        self._by = None

    def unclean(self) -> list[str]:
        """What is not as at the start, a line each. Raises Failed."""
        found = [f"clients of {PRIMARY} are led to {REPLICA}"] if self.led_away() else []
        primary, replica = self.primary.health(), self.replica.health()
        if replica and replica.me == "master":
            found.append(f"{REPLICA} was promoted")
        elif primary and replica and not probes.follows(replica, primary):
            found.append(f"{REPLICA} does not follow {PRIMARY}")
        return found

    def _lead(self, node: str) -> None:
        self._api.apply(Change(way, upstream=_upstream(node)) for way in _WAYS)

    def _refuse(self, by: str) -> None:
        with self._links.together():
            for group in _GROUPS:
                self._links.cut(group, PRIMARY, Cut.REFUSE, by)

    def _copy(self) -> None:
        """Make the primary a copy of the replica, to which nobody writes any more."""
        _ask(self.primary, "REPLICAOF", slots.address(self._slot, star.HOSTS[REPLICA]), star.client_port(REPLICA))

        def same() -> bool:
            return probes.follows(self.primary.health(), self.replica.health()) and self.lag() == 0

        if not _wait(COPIED_WITHIN, same):
            raise Failed(f"{PRIMARY} is no copy of {REPLICA} within {COPIED_WITHIN:.0f} s")

    def _be_primary(self, node: Node) -> None:
        _ask(node, "REPLICAOF", "NO", "ONE")
        if _role(node) != "master":
            raise Failed(f"{node.name} was promoted, but does not say so")


def connect(address: tuple[str, int], patience: float = PATIENCE) -> Redis:
    """A Redis that answers within so many seconds or not at all; for `with`."""
    host, port = address
    once = Retry(NoBackoff(), 0)
    return Redis(host=host, port=port, socket_timeout=patience, retry=once, decode_responses=True)


def _upstream(node: str) -> str:
    return f"{node}-node:{star.client_port(node)}"


def _ask(node: Node, *words: object) -> Any:
    try:
        with connect(node.address) as redis:
            return redis.execute_command(*words)
    except RedisError as error:
        raise Failed(f"{node.name}: {words[0]}: {error}") from error


def _replication(node: Node) -> dict[str, Any]:
    told: dict[str, Any] = _ask(node, "INFO", "replication")
    return told


def _role(node: Node) -> str:
    role: str = _replication(node)["role"]
    return role


def _remember(node: Node) -> None:
    """Keep its role with its data, for when it is killed and started."""
    _ask(node, "CONFIG", "REWRITE")


def _wait(seconds: float, until: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not until():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_EVERY)
    return True
