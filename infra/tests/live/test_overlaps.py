"""Two faults on the same links of a real cluster: healing one leaves the other, in whatever order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from infra.faults import fault, probe
from infra.faults.probe import Answer
from infra.faults.register import FAULTS
from infra.tests.environments import on
from infra.tests.live.hurting import Redis, ask, await_

if TYPE_CHECKING:
    from infra.environment import Environment
    from infra.faults.fault import Injury, Options
    from infra.faults.target import Target


class Both:
    """Two faults, the second while the first is on, each under a key of its own."""

    def __init__(self, target: Target, first: tuple[str, Options], second: tuple[str, Options]) -> None:
        self.injuries: list[Injury] = [FAULTS[name].make(target.backend, options) for name, options in (first, second)]
        self.targets = [replace(target, by="a"), replace(target, by="b", alone=False)]
        for injury, own in zip(self.injuries, self.targets, strict=True):
            assert injury.apply(own)

    def heal(self, which: int, *, last: bool = False) -> None:
        """Of the two, by number."""
        self.injuries[which].heal(replace(self.targets[which], alone=last))
        if last:
            fault.await_whole(replace(self.targets[which], alone=True))


DROP = ("cut-client-drop", {"group": "c1"})
HOLD = ("cut-client-hold", {"group": "c1"})
REFUSE = ("cut-client-refuse", {"group": "c1"})
NODES = ("cut-minority-drop", {"nodes": ["redis1"]})
SLOW = ("slow-links", {"latency_ms": 100, "jitter_ms": 0})
NARROW = ("throttle-links", {"rate_kb": 20})


@on("redis")
@pytest.mark.parametrize(
    ("first", "second", "ended", "shown"),
    [
        (DROP, NODES, 0, {Answer.SILENT}),
        (NODES, HOLD, 1, {Answer.SILENT}),
        (HOLD, REFUSE, 0, {Answer.SILENT, Answer.CLOSED}),
    ],
    ids=["drop-drop", "drop-hold", "hold-refuse"],
)
def test_a_link_that_two_cut_stays_cut_until_both_are_healed(
    target: Target, first: tuple[str, Options], second: tuple[str, Options], ended: int, shown: set[Answer]
) -> None:
    both = Both(target, first, second)
    assert ask(target, "c1", "redis1") in shown
    both.heal(ended)
    assert ask(target, "c1", "redis1") in shown
    assert ask(target, "c2", "redis2") is Answer.ANSWERED
    both.heal(1 - ended, last=True)
    assert ask(target, "c1", "redis1") is Answer.ANSWERED


@on("redis")
def test_delay_and_width_are_told_apart(target: Target) -> None:
    def seconds(size: int) -> float:
        took = [probe.timed("redis", target.endpoints["c1", "redis1"], 5.0, size)[1] for _ in range(3)]
        return min(took)

    both = Both(target, SLOW, NARROW)
    assert (both_on := seconds(4000)) >= 0.4
    both.heal(0)
    assert (narrow := seconds(4000)) >= 0.2
    assert seconds(1) < narrow < both_on
    both.heal(1, last=True)
    both = Both(target, NARROW, SLOW)
    both.heal(0)
    assert (slow := seconds(1)) >= 0.2
    both.heal(1, last=True)
    assert seconds(4000) < slow


@on("redis")
def test_what_was_held_is_let_go_into_what_another_fault_makes_of_it(environment: Environment, target: Target) -> None:
    """A request that was held arrives when that is healed; its reply is lost, for that is another's doing."""
    line, past = Redis(target.endpoints["c1", "redis1"]), Redis(environment.direct("redis")[0])
    both = Both(target, HOLD, ("lose-replies", {"group": "c1"}))
    assert line.ask("SET overlapped 1", 0.3) is None
    assert past.ask("EXISTS overlapped") == b":0\r\n"
    both.heal(0)
    await_(lambda: past.ask("EXISTS overlapped") == b":1\r\n")
    both.heal(1, last=True)


@on("etcd")
def test_an_isolated_leader_stays_isolated_when_the_delay_ends(target: Target) -> None:
    old = target.cluster.leader()
    assert old is not None
    both = Both(target, SLOW, ("isolate-leader-drop", {}))
    both.heal(0)
    assert target.cluster.leader() is not old
    assert not target.cluster.ready()
    both.heal(1, last=True)
    assert target.cluster.ready()
