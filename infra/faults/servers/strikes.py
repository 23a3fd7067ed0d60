"""Faults on servers: frozen for a while, killed, wiped, stopped, restarted one by one or all at once, or refusing.

If there is a leader, the leader is hit, and the fault goes on for a while after the others have elected a new leader.
Of the five Redis servers the first is hit, where the single-node lock lives, and maybe a second.

A server that refuses writes answers every write with an error. The error says nothing about the client's lock. A client
should send a renewal that failed for this reason again: the lease is still there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from infra.backends.backend import Trait
from infra.cluster.nodes import Node
from infra.errors import Failed
from infra.faults import fault
from infra.faults.fault import HEALED_WITHIN, LOOK_EVERY, PROVEN_WITHIN, SPANS, Fault, Nobody
from infra.faults.fault_options import FOLLOWER, LEADER, Option, Options, Site, different, victims
from infra.faults.link_probe import LinkAnswer
from infra.faults.target import Hit, Target
from infra.waiting import at_once

AWAY: Final = (0.2, 0.4)
"""TTLs for which a restarted or wiped server stays down, so short that the leases it forgot are still held then."""
BRIEF: Final = (0.25, 0.5, 1.0, 2.0)
"""TTLs for which writes are refused: a lease outlives most of these, if it is renewed afterwards."""

Verb = Literal["pause", "kill", "wipe", "restart"]


@dataclass(frozen=True, slots=True)
class Strike(fault.OnNodes):
    """Pause servers, kill them, kill them and remove their data, or stop them in good order."""

    kind: Verb
    nodes: tuple[str, ...]

    def describe(self) -> str:
        if self.kind == "restart":
            return f"stop {', '.join(self.nodes)} in good order, and"
        if LEADER in self.nodes:
            return f"{self.kind} the leader until another leads, and"
        return f"{self.kind} {', '.join(self.nodes)}"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by the state of the container, for a pause also by the server's silence."""
        return [self._strike(target, node, role) for node, role in hit_by(target, self.nodes)]

    def _strike(self, target: Target, node: Node, role: str) -> Hit:
        begun = target.clock.now()
        if self.kind == "pause":
            _pause(target, node)
        else:
            end(target, node, orderly=self.kind == "restart")
        remark = fault.await_successor(target, node) if role == LEADER else ""
        if self.kind == "wipe":
            if remark and target.kind.has(Trait.MEMBERSHIP):
                # Only a majority can accept the new member that starts in place of this one.
                raise Nobody(f"{node.name} keeps its data{remark}")
            node.wipe()
        return Hit(self.kind, named(node, role) + remark, begun, target.clock.now(), silent=(("", node.name),))


def hit_by(target: Target, names: Sequence[str]) -> Iterator[tuple[Node, str]]:
    """The nodes of these names, each with its role or "". The leader is looked up once, if at all. Raises Nobody."""
    leads = fault.leader(target) if LEADER in names or FOLLOWER in names else None
    for name in names:
        if name == LEADER and leads:
            yield leads, LEADER
        elif name == FOLLOWER:
            others = [node for node in target.cluster.voters if node is not leads]
            yield from ((node, FOLLOWER) for node in others[: (len(others) + 1) // 2])
        else:
            yield target.node(name), ""


def named(node: Node, role: str) -> str:
    """For people: "etcd2 (leader)"."""
    return f"{node.name} ({role})" if role else node.name


def end(target: Target, node: Node, *, orderly: bool = False) -> None:
    """Kill the node, or stop it in good order (SIGTERM first), and prove that it is down. Raises Failed."""
    (node.stop if orderly else node.kill)(target.by)
    if (state := node.state()) != "stopped":
        raise Failed(f"{node.name} was {'stopped' if orderly else 'killed'}, but is {state}")


def _pause(target: Target, node: Node) -> None:
    node.pause(target.by)
    # Another fault may have killed it.
    shows = {LinkAnswer.SILENT} if target.alone else {LinkAnswer.SILENT, LinkAnswer.CLOSED}
    if not target.clock.wait(PROVEN_WITHIN, lambda: target.prober.ask(node.endpoint) in shows):
        raise Failed(f"{node.name} was paused ({node.state()}), but still answers")


@dataclass(frozen=True, slots=True)
class RestartRolling(fault.OnNodes):
    """Restart one server after another, each ready again before the next. All of it happens in `apply`."""

    nodes: tuple[str, ...]

    def describe(self) -> str:
        return f"restart {', '.join(self.nodes)} one after another, and"

    def apply(self, target: Target) -> Sequence[Hit]:
        """A hit for each server. Ends early when another fault keeps the servers from getting ready."""
        hits: list[Hit] = []
        for node in map(target.node, self.nodes):
            if node.wanted() != "running":
                continue  # another fault wants it down or paused
            role = LEADER if target.cluster.leader() is node else ""
            begun = target.clock.now()
            end(target, node, orderly=True)
            applied = target.clock.now()
            node.let_go(target.by)
            if not target.clock.wait(target.patience(HEALED_WITHIN), target.cluster.ready, LOOK_EVERY):
                if target.alone:
                    raise Failed(f"{node.name} was restarted, but {target.backend} does not get ready")
                return [*hits, Hit("restart", named(node, role), begun, applied)]
            hits.append(Hit("restart", named(node, role), begun, applied, applied, target.clock.now()))
        return hits


@dataclass(frozen=True, slots=True)
class RestartAll(fault.FaultInjection):
    """Every server is killed, all at once, and started again on its data: a power failure."""

    def describe(self) -> str:
        return "kill all servers at once, and"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by the states of the containers."""
        begun = target.clock.now()
        nodes = target.cluster.nodes
        at_once(lambda node: end(target, node), nodes)
        silent = tuple(("", node.name) for node in nodes)
        return [Hit("restart", ", ".join(node.name for node in nodes), begun, target.clock.now(), silent=silent)]

    def heal(self, target: Target) -> None:
        at_once(lambda node: node.let_go(target.by), target.cluster.nodes)


@dataclass(frozen=True, slots=True)
class RefuseWrites(fault.OnNodes):
    """Have servers answer every write with an error."""

    nodes: tuple[str, ...]

    def describe(self) -> str:
        return f"have {', '.join(self.nodes)} refuse every write"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by a write of our own, which is refused."""
        begun = target.clock.now()
        refusing = [named(node, role) for node, role in hit_by(target, self.nodes) if self._refuses(target, node)]
        return [Hit("refuse", ", ".join(refusing), begun, target.clock.now())] if refusing else []

    def _refuses(self, target: Target, node: Node) -> bool:
        """Have the node refuse writes. False if another fault keeps it from answering."""
        if not target.alone and not node.ready():
            return False
        node.refuse(target.by)
        shown = target.clock.wait(PROVEN_WITHIN, lambda: target.kind.write(node).outcome == "refused", LOOK_EVERY)
        if not shown and target.alone:
            raise Failed(f"{node.name} was told to refuse writes, and keeps them")
        return shown


def _any_order(value: Any, site: Site, _: Options) -> tuple[str, ...]:
    return different(value, site.members, len(site.members))


def _strike(verb: Literal["pause", "kill", "wipe"], what: str, how: str, sees: str, **more: Any) -> Fault:
    return Fault(
        f"{verb}-server",
        verb,
        f"the leader, or redis1 and another, {what}",
        lambda _, nodes: Strike(verb, nodes),
        (victims(),),
        how=how,
        sees=sees,
        **{"spans": SPANS, "about": "election", "needs": (verb,), **more},
    )


STRIKES: Final = (
    _strike(
        "pause",
        "is frozen for a while",
        "Docker: the container's processes frozen",
        "silence, then late answers",
        spans=(1.3, 1.5),  # long enough to find out a client that waits without end
        about="call",
    ),
    _strike(
        "kill",
        "is killed, and started again on its data",
        "Docker: SIGKILL, start",
        "connections closed, then refused",
    ),
    _strike(
        "wipe",
        "is killed, and started again without its data",
        "SIGKILL, the volume emptied, start; etcd: its member removed and a new one added",
        "as killed; Redis and PostgreSQL have forgotten everything, the others get it from their peers",
        needs=("kill", "wipe"),
        spans=AWAY,
        about="lease",
    ),
)

RESTARTS: Final = (
    Fault(
        "restart-leader",
        "restart",
        "the leader, or redis1, is stopped in good order and started again",
        lambda _, nodes: Strike("restart", nodes),
        (victims(most=1),),
        spans=AWAY,
        needs=("stop",),
        how="Docker: SIGTERM, start",
        sees="connections closed, then refused; another leads (ZooKeeper: after an election)",
    ),
    Fault(
        "restart-rolling",
        "restart",
        "every server is restarted, one after another, each ready again before the next",
        lambda _, nodes: RestartRolling(nodes),
        (Option("nodes", _any_order, lambda rng, site, _: rng.sample(site.members, len(site.members))),),
        needs=("stop",),
        how="Docker: SIGTERM, start, for each",
        sees="as restart-leader, of each server in turn; a majority is always there",
    ),
    Fault(
        "restart-all",
        "restart",
        "every server is killed, all at once, and started again on its data",
        fault.always(RestartAll()),
        spans=AWAY,
        needs=("kill",),
        how="Docker: SIGKILL, start, of all",
        sees="connections closed, then refused; nobody serves until all are back",
    ),
)

REFUSE_WRITES: Final = Fault(
    "refuse-writes",
    "refuse",
    "servers answer every write with an error",
    lambda _, nodes: RefuseWrites(nodes),
    (victims(),),
    spans=BRIEF,
    trait=Trait.REFUSES_WRITES,
    needs=("failover",),
    how="Redis: CONFIG SET min-replicas-to-write; etcd: the alarm NOSPACE, which binds all members; PostgreSQL: "
    "ALTER SYSTEM SET default_transaction_read_only",
    sees="an error at once; what was written before is still there, etcd renews leases, and PostgreSQL grants advisory "
    "locks",
)
