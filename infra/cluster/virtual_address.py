"""Failover of a primary to its replica and back, as a virtual address does it: clients go on asking for the primary.

`promote` makes the replica a primary, and leads the clients' proxies for the primary to the replica. Writes that the
replica does not have by then are lost, although they were acknowledged. The former primary goes on as before, but no
client reaches it any more. The address past the links stays physical, so a judge can ask either server.

`fail_back` goes the other way and loses nothing. Clients are refused while the primary becomes a copy of the promoted
replica. Then the primary leads again, the replica follows it, and clients reach it. `fail_back` asks both servers for
their roles, and Toxiproxy where it leads. So it also undoes a failover that another process made or began.
"""

from typing import Final

from infra.backends.backend import Replication
from infra.cluster.nodes import Node
from infra.errors import Failed
from infra.network import topology
from infra.network.links import Cut, Links
from infra.network.toxiproxy_api import Api, ProxyChange
from infra.waiting import comes_true

ANSWERS_WITHIN: Final = 30.0  # seconds until a server that was just started answers (measured: 0.3)
COPIED_WITHIN: Final = 20.0  # seconds for the primary to become a copy of the replica (measured: 0.2)

LOOK_EVERY: Final = 0.01

_BACK: Final = "failing back"  # the key of the changes that `fail_back` makes to links

_GROUPS: Final = tuple(map(topology.client, topology.GROUPS))


class Failover:
    """The primary, its replica, and where the clients' proxies for the primary lead. Every verb is idempotent."""

    def __init__(self, links: Links, api: Api, roles: Replication, primary: Node, replica: Node, slot: int) -> None:
        """Asks nobody yet."""
        self.roles: Final = roles
        self.primary: Final = primary
        self.replica: Final = replica
        self._links = links
        self._api = api
        self._slot = slot
        self._by: str | None = None

    def follows(self) -> bool:
        """Whether the primary has that role, and the replica is connected to it and keeps its copy on its disk."""
        return self.roles.follows(self.replica.health(), self.primary.health())

    def lag(self) -> int:
        """Bytes of the primary's history that the replica does not have. Raises Failed."""
        return self.roles.offset(self.primary) - self.roles.offset(self.replica)

    def led_away(self) -> bool:
        """Whether clients that ask for the primary reach the replica. Raises Failed."""
        state = self._api.state()
        return any(state[way].upstream == _upstream(self.replica) for way in self._ways() if way in state)

    def promote(self, by: str) -> None:
        """Cut the primary off from clients, make the replica a primary, lead clients to it. Raises Failed."""
        self._by = by
        self._refuse(by)
        try:
            self.roles.lead(self.replica)
            self.roles.remember(self.replica)
            self._lead(self.replica)
        finally:
            self._links.lift(by)

    def let_go(self, by: str) -> None:
        """Undo what `by` did. Raises Failed."""
        if self._by == by:
            self.fail_back()

    def fail_back(self) -> None:
        """Restore the original roles, with the data that the promoted replica has now, whoever promoted it.

        The replica follows a moment later. Raises Failed.
        """
        if not comes_true(lambda: self.primary.ready() and self.replica.ready(), ANSWERS_WITHIN, LOOK_EVERY):
            states = ", ".join(f"{node.name} ({node.state()})" for node in (self.primary, self.replica))
            raise Failed(f"no way back from a failover: one of {states} does not answer")
        led_away = self.led_away()
        if self.roles.leads(self.primary) and not self.roles.leads(self.replica):
            self._lead(self.primary)
            return
        if led_away:
            self._refuse(_BACK)
        try:
            if led_away and self.roles.leads(self.replica):
                self._copy()
            self.roles.lead(self.primary)
            centre = topology.address(self._slot, topology.DATA_HOST)
            self.roles.follow(self.replica, f"{centre}:{topology.dialled(self.replica.name)}")
            self.roles.remember(self.replica)
            self._lead(self.primary)
        finally:
            self._links.lift(_BACK)
        self._by = None

    def unclean(self) -> list[str]:
        """What differs from the start, a line each. Raises Failed."""
        lines = [f"clients of {self.primary.name} are led to {self.replica.name}"] if self.led_away() else []
        primary, replica = self.primary.health(), self.replica.health()
        if replica and self.roles.promoted(replica):
            lines.append(f"{self.replica.name} was promoted")
        elif primary and replica and not self.roles.follows(replica, primary):
            lines.append(f"{self.replica.name} does not follow {self.primary.name}")
        return lines

    def _ways(self) -> list[str]:
        """The names of the clients' proxies for the primary."""
        return [f"{group}-{self.primary.name}" for group in _GROUPS]

    def _lead(self, node: Node) -> None:
        self._api.apply(ProxyChange(way, upstream=_upstream(node)) for way in self._ways())

    def _refuse(self, by: str) -> None:
        with self._links.together():
            for group in _GROUPS:
                self._links.cut(group, self.primary.name, Cut.REFUSE, by)

    def _copy(self) -> None:
        """Make the primary a copy of the replica, to which nobody writes any more."""
        name = self.replica.name
        address = topology.address(self._slot, topology.HOSTS[name])
        self.roles.follow(self.primary, f"{address}:{topology.client_port(name)}")

        def same() -> bool:
            return self.roles.follows(self.primary.health(), self.replica.health()) and self.lag() == 0

        if not comes_true(same, COPIED_WITHIN, LOOK_EVERY):
            raise Failed(f"{self.primary.name} is no copy of {name} within {COPIED_WITHIN:.0f} s")


def _upstream(node: Node) -> str:
    return f"{node.name}-node:{topology.client_port(node.name)}"
