"""Failover: Redis' replica is promoted while it is behind, the leader hands over, sessions are terminated.

With asynchronous replication a failover may lose acknowledged writes: then two clients hold one lock, and tokens are
given out a second time. With consensus nothing may be lost, but clients of the old leader must go on elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from infra.backends.answers import ServerRefused
from infra.backends.backend import Trait
from infra.cluster.virtual_address import Failover
from infra.errors import Failed
from infra.faults import fault
from infra.faults.fault import EFFECT_WITHIN, HEALED_WITHIN, LOOK_EVERY, PROVEN_WITHIN, SPANS, Fault, Nobody
from infra.faults.fault_options import ALL_GROUPS, follower, number, within
from infra.faults.link_probe import PATIENCE
from infra.faults.target import Hit, Target
from infra.network.links import Cut

BEHIND: Final = (300, 500)
"""ms for which the replica is not told anything before it is promoted, least and most. They are less than the shortest
TTL, so that earlier grants are still in force, also those of a lock that grants nothing meanwhile."""


@dataclass(frozen=True, slots=True)
class PromoteReplica(fault.FaultInjection):
    """The replica falls behind and takes the primary's place."""

    primary: str
    replica: str
    behind_ms: int

    def describe(self) -> str:
        return f"promote {self.replica} when it is {self.behind_ms} ms behind {self.primary}, and"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by a write that the primary acknowledged and that no client group finds through its links."""
        pair = _pair(target)
        if not target.clock.wait(PROVEN_WITHIN if target.alone else 0.0, pair.follows, LOOK_EVERY):
            raise Nobody(f"{self.replica} does not follow {self.primary}")
        begun = target.clock.now()
        target.links.cut(self.replica, self.primary, Cut.DROP, target.by)
        mark = f"{target.by}@{begun}"
        try:
            pair.roles.mark(pair.primary, mark)
            target.clock.sleep(self.behind_ms / 1000)
            marked = pair.roles.marked(pair.replica)
        except Failed as error:
            kind = Failed if target.alone else Nobody  # another fault has it refuse writes
            raise kind(f"{self.replica} could not be left behind: {error}") from error
        lag = pair.lag()
        if marked == mark or lag <= 0:
            raise Failed(f"{self.replica} was cut off from {self.primary}, but is not behind")
        begun = target.clock.now()  # grants before this moment that are lost were in force until now
        pair.promote(target.by)
        if not target.clock.wait(PROVEN_WITHIN, lambda: self._all_lack(target, mark), LOOK_EVERY):
            raise Failed(f"{self.replica} was promoted, but clients still come to {self.primary}")
        return [Hit("failover", f"{self.replica}, {lag} bytes behind {self.primary}", begun, target.clock.now())]

    def heal(self, target: Target) -> None:
        """If another fault keeps one of the two from answering, the way back is left to `fault.await_whole`."""
        target.links.lift(target.by)
        pair = _pair(target)
        if target.alone or (pair.primary.ready() and pair.replica.ready()):
            pair.let_go(target.by)

    def _all_lack(self, target: Target, mark: str) -> bool:
        """Whether every client group comes to a primary without the mark, unless another fault keeps a group away."""
        patience, pair = PROVEN_WITHIN if target.alone else PATIENCE, _pair(target)
        seen = [pair.roles.look(target.endpoints[group, self.primary], patience) for group in ALL_GROUPS]
        if target.alone and None in seen:
            return False
        return all(look is None or (look[0] and look[1] != mark) for look in seen) and pair.led_away()


@dataclass(frozen=True, slots=True)
class ChangeLeader(fault.OnNodes):
    """The leader hands over to another member and goes on. If it cannot (Trait.HANDS_OVER), it is stopped and started.

    to: index of the new leader among the other members; if the leader cannot hand over, the members elect any.
    """

    to: int

    def describe(self) -> str:
        return "change the leader"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by which leader the members say that they follow."""
        old = fault.leader(target)
        begun = target.clock.now()
        if not target.kind.has(Trait.HANDS_OVER):
            old.stop(target.by)
            remark = fault.await_successor(target, old)
            healing = target.clock.now()
            old.let_go(target.by)
            target.clock.wait(target.patience(HEALED_WITHIN), old.ready, LOOK_EVERY)
            new = fault.leader(target)
            words = f"{old.name} (leader) stopped and started, {new.name} leads{remark}"
            return [Hit("failover", words, begun, healing, healing, target.clock.now())]
        new = [node for node in target.cluster.nodes if node is not old][self.to]

        def leads() -> bool:
            """Whether the new one leads. If another does, it is asked again: members that stand still give it up."""
            leader, health = target.cluster.leader(), new.health()
            if leader not in (None, new) and health:
                target.kind.hand_over(leader, health)
            return leader is new

        if not target.clock.wait(target.patience(EFFECT_WITHIN), leads, LOOK_EVERY):
            if not target.alone:
                return []
            raise Failed(f"{old.name} was to pass on the lead to {new.name}, which does not lead")
        now = target.clock.now()
        return [Hit("failover", f"from {old.name} to {new.name}", begun, now, now, now)]


@dataclass(frozen=True, slots=True)
class TerminateBackends(fault.FaultInjection):
    """End every session of the locks' database, but for the session that ends them."""

    def describe(self) -> str:
        return "terminate every session"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by the server's list of sessions. [] when there is no session."""
        (node,) = target.cluster.nodes
        begun = target.clock.now()
        try:
            ended = target.kind.end_sessions(node, target.patience(EFFECT_WITHIN))
        except ServerRefused as error:
            raise Nobody(f"{node.name} cannot be told to terminate sessions: {error}") from error
        now = target.clock.now()
        pids = ", ".join(map(str, ended[:5])) + (", ..." if len(ended) > 5 else "")
        words = f"{len(ended)} sessions of {node.name} (pid {pids})"
        return [Hit("failover", words, begun, now, now, now)] if ended else []


def _pair(target: Target) -> Failover:
    pair = target.environment.failover()
    if not pair:
        raise Failed(f"there is no replica of {target.backend}")
    return pair


_FAILOVER: Final = partial(Fault, kind="failover", needs=("failover",))

FAILOVERS: Final = (
    _FAILOVER(
        "promote-replica",
        summary="redis1's replica takes its place before it was told the latest writes",
        inject=lambda site, behind_ms: PromoteReplica(site.members[0], site.backend.auxiliaries[0].name, behind_ms),
        options=(number("behind_ms", 0, 60_000, within(BEHIND), "a number of milliseconds"),),
        spans=SPANS,
        trait=Trait.REPLICA,
        how="replication dropped, REPLICAOF NO ONE, proxies of clients led to the replica; back by a full copy",
        sees="connections closed; then a server that lacks the latest acknowledged writes",
    ),
    _FAILOVER(
        "change-leader",
        summary="another member becomes the leader",
        inject=lambda _, to: ChangeLeader(to),
        options=(follower("to"),),
        trait=Trait.LEADER,
        how="etcd: the leader transfers its office; ZooKeeper, which cannot: it is stopped and started",
        sees="etcd: a pause of milliseconds; ZooKeeper: connections closed, an election",
    ),
    _FAILOVER(
        "terminate-backends",
        summary="every session of PostgreSQL's is terminated",
        inject=fault.always(TerminateBackends()),
        trait=Trait.SESSION_PROCESSES,
        how="pg_terminate_backend",
        sees="connections end with an error of class 57; session locks are free",
    ),
)
