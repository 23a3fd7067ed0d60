"""Faults on the clocks of Redis and PostgreSQL, whose expiries and `now()` follow the wall clock: jumps, drift, strobe.

A clock counts as moved when the node itself, asked past the proxies, tells the time that it should, and as healed
when the node tells the right time again. The store's time is the right one: no fault touches the store's clock, and the
store runs on the same machine. A heal is a jump too: after a jump back, the heal jumps forward, which ends locks early.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from infra.backends.answers import Health
from infra.backends.backend import Trait
from infra.cluster import clock_skew
from infra.cluster.nodes import Node
from infra.errors import Failed
from infra.faults.fault import PROVEN_WITHIN, Fault, FaultInjection
from infra.faults.fault_options import Options, Site, must, real, victims, within
from infra.faults.target import Hit, Target

FORWARD: Final = (5, 90)
"""Seconds, least and most: longer than any TTL, so that every lock ends."""
BACK: Final = (2, 30)
"""Seconds, least and most: every lock lives longer by so much."""
DRIFT: Final = (1.5, 4.0)
"""Factor by which a clock runs too fast or too slow, least and most."""
STROBE: Final = (1.0, 5.0)
"""Seconds ahead and behind, least and most. A turn moves the clock by twice that: by a TTL of two seconds at least."""
TURNS: Final = (50, 500)
"""ms between two turns of a strobe, least and most."""
LONG: Final = (2.5, 3.0)
"""TTLs, for a fault that shows only if a lease begins and ends while the fault is on."""
PRECISION: Final = 0.05
"""Seconds by which a node may miss the time that it should tell, besides the time that answers take."""


@dataclass(frozen=True, slots=True)
class MoveClocks(FaultInjection):
    """Make the clocks of some nodes wrong, all in the same way. See `Skew` for the fields."""

    nodes: tuple[str, ...]
    offset: float = 0.0
    rate: float = 1.0
    amplitude: float = 0.0
    period: float = 0.0

    def describe(self) -> str:
        verb = "strobe" if self.period else "put" if self.offset else "run"
        return f"{verb} the clock of {', '.join(self.nodes)} {self.how()}"

    def how(self) -> str:
        """What happens to the clock: "61 s forward"."""
        if self.period:
            return f"by ± {self.amplitude:g} s every {self.period * 500:g} ms"
        if self.offset:
            return f"{abs(self.offset):g} s {'forward' if self.offset > 0 else 'back'}"
        return f"{self.rate:g} times as fast"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by what the nodes tell. If another fault keeps a node from answering, its setting is the proof."""
        right = _right(target)
        proofs = [self._move(target, target.node(name), right) for name in self.nodes]
        return [prove() for prove in proofs]

    def heal(self, target: Target) -> None:
        nodes = [target.node(name) for name in self.nodes]
        for node in nodes:
            node.let_go(target.by)
        right = _right(target)
        for node in nodes:
            _await_others(target, node, right)

    def _move(self, target: Target, node: Node, right: Health) -> Callable[[], Hit]:
        """Move the node's clock. Returns the function that proves it: all clocks are moved before the first proof."""
        begun, others = target.clock.now(), node.skews()
        skew = clock_skew.Skew(self.offset, self.rate, self.amplitude, self.period)
        node.skew(skew, target.by)
        unseen = {self.amplitude, -self.amplitude}  # both sides of a strobe; 0 otherwise

        def shows(health: Health, now: int) -> bool:
            """Whether the node tells the time that it should, and by now could not tell with an untouched clock."""
            for side in tuple(unseen):
                own = replace(skew, offset=self.offset + side, amplitude=0.0, period=0.0)
                visible = abs(own.ahead(now)) > 2 * (PRECISION + health.unsure + right.unsure)
                if visible and _is(health, right, (*others, own), now):
                    unseen.discard(side)
            return not unseen

        def prove() -> Hit:
            if not _await_health(target, node, shows):
                raise Failed(f"{node.name}'s clock was set, but it does not tell that time")
            return Hit("clock", f"{node.name}: {self.how()}", begun, target.clock.now())

        return prove


def _await_others(target: Target, node: Node, right: Health) -> None:
    """Wait until a node tells the right time, plus what other faults add to it. Raises Failed."""
    others = node.skews()
    if not _await_health(target, node, lambda health, now: _is(health, right, others, now)):
        raise Failed(f"{node.name}'s clock was set right, but it tells another time")


def _right(target: Target) -> Health:
    """What the store tells, whose clock no fault moves. Raises Failed when the store does not answer."""
    health = target.clock.wait(PROVEN_WITHIN, target.environment.store_health)
    if health is None:
        raise Failed("the store does not answer, whose clock is the right one")
    return health


def _is(health: Health, right: Health, skews: Sequence[clock_skew.Skew], now: int) -> bool:
    return health.ahead is not None and not clock_skew.apart(health, right, clock_skew.ahead(skews, now), PRECISION)


def _await_health(target: Target, node: Node, is_so: Callable[[Health, int], bool]) -> bool:
    """Wait until `is_so` holds for what a node tells at a moment (ns of the wall clock). Returns whether it came true.

    A node that does not answer passes while another fault is on.
    """

    def looked() -> bool:
        sent = time.time_ns()
        health = node.health()
        return is_so(health, (sent + time.time_ns()) // 2) if health else not target.alone

    return target.clock.wait(PROVEN_WITHIN, looked)


def _rate(rng: random.Random, _: Site, __: Options) -> float:
    factor = rng.uniform(*DRIFT)
    return round(rng.choice((factor, 1 / factor)), 2)


def _is_rate(value: Any, site: Site, options: Options) -> float:
    rate: float = _ANY_RATE.check(value, site, options)
    must(abs(rate - 1.0) >= 0.1, "be a tenth from 1 at least")
    return rate


_ANY_RATE: Final = real("rate", 0.0, clock_skew.FASTEST, _rate)


_OF_CLOCKS: Final = partial(Fault, kind="clock", trait=Trait.WALL_CLOCK, needs=("clock",))
_WHOSE: Final = "the clock of redis1 and another, or of postgres,"

CLOCKS: Final = (
    _OF_CLOCKS(
        "clock-jump-forward",
        summary=f"{_WHOSE} jumps forward by more than any TTL",
        inject=lambda _, nodes, seconds: MoveClocks(nodes, offset=seconds),
        options=(victims(), real("seconds", 0.15, clock_skew.FAR, within(FORWARD))),
        how="preloaded shim: its wall clock is ahead",
        sees="every lock ends at once; after the heal new ones live longer",
        spans=(2.0, 3.0),
    ),
    _OF_CLOCKS(
        "clock-jump-back",
        summary=f"{_WHOSE} jumps back",
        inject=lambda _, nodes, seconds: MoveClocks(nodes, offset=-seconds),
        options=(victims(), real("seconds", 0.15, clock_skew.FAR, within(BACK))),
        how="preloaded shim: its wall clock is behind",
        sees="locks live on after their TTL; at the heal all end at once",
        spans=LONG,
    ),
    _OF_CLOCKS(
        "clock-drift",
        summary=f"{_WHOSE} runs too fast or too slow",
        inject=lambda _, nodes, rate: MoveClocks(nodes, rate=rate),
        options=(victims(), replace(_ANY_RATE, check=_is_rate)),
        how="preloaded shim: its wall clock runs at another rate",
        sees="locks end before their TTL, or live on after it",
        spans=LONG,
    ),
    _OF_CLOCKS(
        "clock-strobe",
        summary=f"{_WHOSE} goes ahead and behind by turns",
        inject=lambda _, nodes, seconds, turn_ms: MoveClocks(nodes, amplitude=seconds, period=2 * turn_ms / 1000),
        options=(
            victims(),
            real("seconds", 0.5, clock_skew.FAR, lambda rng, _, __: round(rng.uniform(*STROBE), 1)),
            real("turn_ms", 10, 60_000, lambda rng, _, __: rng.randrange(*TURNS, 10)),
        ),
        how="preloaded shim: its wall clock goes to and fro",
        sees="locks end at once or live on, as it happens",
        spans=LONG,
    ),
)
