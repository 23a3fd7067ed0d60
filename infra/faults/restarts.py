"""Restarts: of the leader, in good order; of one server after another, as an upgrade does it; of all at once."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from infra.faults import fault
from infra.faults.fault import HEALED_WITHIN, LOOK_EVERY, MASKED_FOR, Fault, Options
from infra.faults.servers import LEADER, checked, kill, named, some, victims
from infra.faults.target import Hit, Target
from infra.machine import Failed
from infra.star import members

AWAY_FOR: Final = 0.2
"""Seconds that a server stays down."""


@dataclass(frozen=True, slots=True)
class Restart(fault.OnNodes):
    """One server is asked to end (SIGTERM), and started again."""

    nodes: tuple[str, ...]

    def describe(self) -> str:
        return f"stop {', '.join(self.nodes)} in good order, and"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by the state of the container; where it led, another does."""
        hits = []
        for node, role in victims(target, self.nodes):
            begun = target.clock.now()
            node.stop(target.by)
            if (state := node.state()) != "stopped":
                raise Failed(f"{node.name} was stopped, but is {state}")
            remark = fault.await_successor(target, node) if role == LEADER else ""
            hits.append(Hit("restart", named(node, role) + remark, begun, target.clock.now()))
        return hits


@dataclass(frozen=True, slots=True)
class RestartRolling(fault.OnNodes):
    """One server after another, each ready again before the next. All of it happens in `apply`."""

    nodes: tuple[str, ...]

    def describe(self) -> str:
        return f"restart {', '.join(self.nodes)} one after another, and"

    def apply(self, target: Target) -> Sequence[Hit]:
        """A hit for each. Ends early when another fault keeps the servers from getting ready."""
        hits: list[Hit] = []
        for node in map(target.node, self.nodes):
            if node.wanted() != "running":
                continue  # another fault has it
            role = LEADER if target.cluster.leader() is node else ""
            begun = target.clock.now()
            node.stop(target.by)
            if (state := node.state()) != "stopped":
                raise Failed(f"{node.name} was stopped, but is {state}")
            applied = target.clock.now()
            node.let_go(target.by)
            if not target.clock.wait(HEALED_WITHIN if target.alone else MASKED_FOR, target.cluster.ready, LOOK_EVERY):
                if target.alone:
                    raise Failed(f"{node.name} was restarted, but {target.backend} does not get ready")
                return [*hits, Hit("restart", named(node, role), begun, applied)]
            hits.append(Hit("restart", named(node, role), begun, applied, applied, target.clock.now()))
        return hits


@dataclass(frozen=True, slots=True)
class RestartAll:
    """Every server is killed, all at once, and started again on its data: a power failure."""

    def describe(self) -> str:
        return "kill all servers at once, and"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by the states of the containers."""
        begun = target.clock.now()
        nodes = target.cluster.nodes
        with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
            list(pool.map(lambda node: kill(target, node), nodes))
        return [Hit("restart", ", ".join(node.name for node in nodes), begun, target.clock.now())]

    def heal(self, target: Target) -> None:
        nodes = target.cluster.nodes
        with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
            list(pool.map(lambda node: node.let_go(target.by), nodes))


def restart_leader() -> Fault:
    """The leader, or redis1."""

    def make(backend: str, options: Options) -> Restart:
        fault.only(options, "nodes")
        return Restart(checked(backend, options, most=1))

    return Fault(
        "restart-leader",
        "restart",
        "the leader, or redis1, is stopped in good order and started again",
        make,
        choose=lambda rng, backend: {"nodes": some(rng, backend, most=1)},
        seconds=AWAY_FOR,
        needs=frozenset({"stop"}),
        how="Docker: SIGTERM, start",
        sees="connections closed, then refused; another leads (ZooKeeper: after an election)",
    )


def restart_rolling() -> Fault:
    """All of them, in an order that is left to chance."""

    def make(backend: str, options: Options) -> RestartRolling:
        fault.only(options, "nodes")
        known = members(backend)
        return RestartRolling(fault.checked_nodes(options["nodes"], known, len(known)))

    return Fault(
        "restart-rolling",
        "restart",
        "every server is restarted, one after another, each ready again before the next",
        make,
        choose=lambda rng, backend: {"nodes": rng.sample(members(backend), len(members(backend)))},
        needs=frozenset({"stop"}),
        how="Docker: SIGTERM, start, for each",
        sees="as restart-leader, of each server in turn; a majority is always there",
    )


def restart_all() -> Fault:
    """A power failure."""
    return Fault(
        "restart-all",
        "restart",
        "every server is killed, all at once, and started again on its data",
        fault.without_options(RestartAll()),
        seconds=AWAY_FOR,
        needs=frozenset({"kill"}),
        how="Docker: SIGKILL, start, of all",
        sees="connections closed, then refused; nobody serves until all are back",
    )
