"""Faults on workers that are caught at gates. A script says step by step what is done to the workers of a lane.

A script is a generator that yields whenever it has to wait. So it reads from top to bottom, while `run_traps` runs the
scripts of all lanes at the same time:

    def script(trap: GateTrap) -> Script:
        first = yield from trap.catch("after-acquire", "kill")
        yield from trap.catch("after-acquire", "freeze", key=first.key)
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from infra.faults.fault import OnWorkers
from infra.faults.target import Action, Aim, Gate, Hit, Kind, Target, Victim

Script = Generator[None, None, None]
Catching = Generator[None, None, Victim | None]

_KINDS: Final[Mapping[Action, Kind]] = {
    "freeze": "freeze",
    "stall": "stall",
    "kill": "kill",
    "die": "kill",
    "call": "call",
    "lose": "cut",
    "late": "slow",
    "reset": "reset",
    "cancel": "slow",  # how the client reacts is up to the client
}
"""The action on a worker -> the kind of the hit in a record."""


WRITES_WITHIN: Final = 1.0
"""Seconds within which a worker of a client group is about to write, if it can hold at all."""


def catch_within(ttl: float) -> float:
    """Seconds to wait for a worker at a gate. A lock that a dead worker held is free again within that time."""
    return 2.0 + 2.0 * ttl


@dataclass(slots=True)
class GateTrap:
    """Catches workers of one lane, or some of its workers (among: see `Aim`), and keeps the hits. begun: ns."""

    lane: str
    target: Target
    begun: int
    among: tuple[int, ...] = ()
    _hits: dict[Victim, Hit] = field(default_factory=dict)

    @property
    def hits(self) -> list[Hit]:
        """The hits so far, in their order."""
        return list(self._hits.values())

    def only(self, among: tuple[int, ...]) -> "GateTrap":
        """A trap for some of the workers. It shares its hits with this trap."""
        return replace(self, among=among)

    @property
    def last(self) -> Victim | None:
        return next(reversed(self._hits), None)

    def catch(self, gate: Gate, action: Action, **aim: Any) -> Generator[None, None, Victim]:
        """Wait for a worker at the gate. aim: more fields of `Aim`. In a lane with several keys, others may come at the
        same time; they go on at once. A worker that is caught when the wait is given up stays caught, and is a hit.
        """
        caught = yield from self.catch_unless(lambda: False, gate, action, **aim)
        assert caught is not None, "nothing ends the wait"
        return caught

    def catch_unless(self, over: Callable[[], bool], gate: Gate, action: Action, **aim: Any) -> Catching:
        """As `catch`, but None once `over` says that no worker is expected at the gate any more."""
        actors, aimed = self.target.actors, Aim(gate, action, by=self.target.by, among=self.among, **aim)
        caught: list[Victim] = []
        while not caught:
            if over():
                return None
            actors.arm(self.lane, aimed)
            try:
                while not (actors.caught(self.lane, self.among) or over()):
                    yield
            finally:
                actors.disarm(self.lane, self.among)
                caught = list(actors.caught(self.lane, self.among))
                self._hits |= {victim: self._hit(aimed, victim) for victim in caught}
        first, *others = caught
        for other in others if action != "kill" else ():
            self.thaw(other)
        return first

    def kill_waiter(self, key: int) -> Iterator[None]:
        """Wait until workers wait for the lock of this key, and kill the one that has waited longest."""
        actors = self.target.actors
        while (victim := actors.kill_waiter(self.lane, key)) is None:
            yield
        self._hits[victim] = Hit("kill", victim.target, self.begun, victim.at, process=victim.process, lane=self.lane)

    def wait(self, seconds: float, until: Callable[[], bool]) -> Iterator[None]:
        """Wait until the condition is true, but no longer than so many seconds."""
        deadline = self.target.clock.now() + int(seconds * 1e9)
        while not until() and self.target.clock.now() < deadline:
            yield

    def pause(self, seconds: float) -> Iterator[None]:
        """Wait for so many seconds."""
        return self.wait(seconds, lambda: False)

    def settle(self, victim: Victim, within: float) -> Iterator[None]:
        """Let the victim go on, and wait until it is settled (`Actors.settled`), at most `within` seconds."""
        self.thaw(victim)
        yield from self.wait(within, lambda: self.target.actors.settled(victim))

    def thaw(self, victim: Victim) -> None:
        """Let the victim go on, and note when."""
        hit, healing = self._hits[victim], self.target.clock.now()
        if not hit.healed:
            self.target.actors.thaw(victim)
            self._hits[victim] = replace(hit, healing=healing, healed=self.target.clock.now())

    def thaw_all(self) -> None:
        """Let every victim that was not killed and is still caught go on, the earliest first."""
        for victim in [victim for victim, hit in self._hits.items() if hit.kind != "kill"]:
            self.thaw(victim)

    def _hit(self, aim: Aim, victim: Victim) -> Hit:
        over = victim.at + int(aim.seconds * 1e9) if aim.action == "call" else 0  # a call ends by itself
        kind = _KINDS[aim.action]
        return Hit(kind, victim.target, self.begun, victim.at, over, over, victim.owner, victim.process, self.lane)


def run_traps(
    target: Target, script: Callable[[GateTrap], Script], patience: float, lanes: Sequence[str] | None = None
) -> list[GateTrap]:
    """Run the script in these lanes (None: every lane), as `run_scripts`."""
    lanes = target.actors.lanes() if lanes is None else lanes
    traps = [GateTrap(lane, target, target.clock.now()) for lane in lanes]
    run_scripts(target, [script(trap) for trap in traps], patience)
    return traps


def stall_writers(target: Target, group: str) -> list[GateTrap]:
    """Stall a worker of the client group that is about to write, in every lane whose data the lock service keeps.

    So it is a write that goes unanswered next. At a random moment it would mostly be another request. While another
    fault is on, nobody is stalled, since nobody may hold for long then.
    """
    script = catch("between-read-and-write", "stall", group=group)
    return run_traps(target, script, WRITES_WITHIN, target.actors.guarded() if target.alone else ())


def run_scripts(target: Target, scripts: Sequence[Script | Catching], patience: float) -> None:
    """Run all scripts at the same time, for `patience` seconds at most. After that no worker is caught any more."""
    going = list(scripts)

    def step_all() -> bool:
        going[:] = [running for running in going if next(running, StopIteration) is not StopIteration]
        return not going

    try:
        target.clock.wait(patience, step_all)
    finally:
        for running in scripts:
            running.close()


def let_go(traps: Sequence[GateTrap]) -> None:
    """Thaw every worker that is still caught, in all lanes."""
    for trap in traps:
        trap.thaw_all()


def hits_of(traps: list[GateTrap]) -> list[Hit]:
    return [hit for trap in traps for hit in trap.hits]


@dataclass(frozen=True, slots=True)
class HitWorkers(OnWorkers):
    """A fault on workers: every lane goes through a script by itself. A worker that comes too late is left alone."""

    doing: str  # for people, before the run
    script: Callable[[GateTrap], Script]
    patience: Callable[[float], float] = catch_within  # (the longest TTL in seconds) -> seconds for a script
    action: Action | None = None  # the action on the holder, if the fault does nothing else

    def describe(self) -> str:
        return self.doing

    def apply(self, target: Target) -> Sequence[Hit]:
        """Returns when every lane is through, or `patience` has passed. After that no worker is caught any more."""
        return hits_of(run_traps(target, self.script, self.patience(target.actors.ttl)))


def catch(gate: Gate, action: Action, **aim: Any) -> Callable[[GateTrap], Script]:
    """The script that catches one worker; aim: see `GateTrap.catch`."""

    def script(trap: GateTrap) -> Script:
        yield from trap.catch(gate, action, **aim)

    return script
