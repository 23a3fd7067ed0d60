"""Faults on workers: a holder of the lock is frozen for longer than its lease, killed, or thawed at the worst moment.

Every lane is hit, each by itself; a lane in which nobody reached the gate in time is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from infra.faults import fault
from infra.faults.fault import Fault
from infra.faults.target import Hit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infra.faults.fault import Injury, Options
    from infra.faults.target import Actors, Clock, Gate, Kind, Target, Victim

PAST_TTL: Final = 1.6
"""How many TTLs a holder is frozen: its lease is over and its successor at work."""

SETTLED_WITHIN: Final = 0.5
"""Seconds within which a thawed worker must have written and released; it measures 20-200 ms."""

_LANES: Final = "a worker of every lane"


def _catch_within(ttl: float) -> float:
    """Seconds to wait for somebody at the gate: a lock that a dead worker held is free again within that time."""
    return 2.0 + 2.0 * ttl


def _catch(target: Target, gate: Gate, action: Literal["freeze", "kill"]) -> list[Hit]:
    """Arm every lane at the gate and wait until each has caught one, or for as long as it may take."""
    actors, clock = target.actors, target.clock
    begun = clock.now()
    waiting = set(actors.lanes())
    for lane in waiting:
        actors.arm(lane, gate, action)

    def all_caught() -> bool:
        for lane in [lane for lane in waiting if actors.caught(lane)]:
            actors.disarm(lane)
            waiting.discard(lane)
        return not waiting

    clock.wait(_catch_within(actors.ttl), all_caught)
    for lane in waiting:
        actors.disarm(lane)
    return [_hit(action, victim, begun) for lane in actors.lanes() for victim in actors.caught(lane)]


def _hit(kind: Kind, victim: Victim, begun: int, healing: int = 0, healed: int = 0) -> Hit:
    return Hit(kind, victim.target, begun, victim.at, healing, healed, victim.owner, victim.process)


@dataclass(frozen=True, slots=True)
class HitHolder:
    """A holder of every lane. Killed just after its acquire; or frozen, as by a long pause of its garbage collector,
    when it has made sure that it still holds and is about to write: the gap that no client can close.
    """

    kind: Literal["freeze", "kill"]

    def describe(self) -> str:
        """See `Injury`."""
        if self.kind == "freeze":
            return "freeze a holder of every lane, about to write,"
        return "kill a holder of every lane, just after its acquire, and wait"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Returns when every lane has caught one, or too much time has passed."""
        gate: Gate = "between-read-and-write" if self.kind == "freeze" else "after-acquire"
        return _catch(target, gate, self.kind)

    def heal(self, target: Target) -> None:
        """See `Injury`."""
        target.actors.release_all()


@dataclass(frozen=True, slots=True)
class LateWrite:
    """A stale write between its successor's read and write: what a fence on writes alone does not stop.

    In each lane a holder is frozen between its read and its write. When its lease is over a successor gets in and is
    stalled at the same place, its renewal going on. Then the first is thawed, writes and releases what is no longer
    its own; when that is over the successor goes on and writes as well. So a release that frees somebody else's lock
    lets a third one in. All of it happens in `apply`, so nothing is left to hold.
    """

    def describe(self) -> str:
        """See `Injury`."""
        return "freeze a holder of every lane between its read and its write until its successor stands there too"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Returns when every lane is through, or too much time has passed; nobody is caught any more."""
        lanes = [_Ambush(lane, target.actors, target.clock) for lane in target.actors.lanes()]
        ttl = target.actors.ttl

        def step_all() -> bool:
            # Not all(generator): every lane takes its step, also when an earlier one is not done.
            return sum(ambush.step() for ambush in lanes) == len(lanes)

        # Two waits for somebody at the gate, and the lease in between with what servers add to it.
        target.clock.wait(2 * _catch_within(ttl) + 1.5 * ttl, step_all)
        return [hit for ambush in lanes for hit in ambush.end()]

    def heal(self, target: Target) -> None:
        """See `Injury`."""
        target.actors.release_all()


@dataclass(slots=True)
class _Ambush:
    """One lane's way through a late write: catch the first, catch its successor, thaw the first, thaw the successor."""

    lane: str
    actors: Actors
    clock: Clock
    begun: int = 0
    first: Victim | None = None
    successor: Victim | None = None
    thawed: int = 0
    """ns; when the first was let go, 0 until then."""
    done: bool = False
    hits: list[Hit] = field(default_factory=list)

    def step(self) -> bool:
        """Look once and do what is due; whether nothing more is to be done."""
        if self.done:
            return True
        if not self.begun:
            self.begun = self.clock.now()
            self._arm("freeze")
        elif self.first is None:
            self.first = self._caught("freeze")
            if self.first:
                # At once and not when the lease is over: whoever gets in too early deserves to be seen as well.
                self._arm("stall")
        elif self.successor is None:
            self.successor = self._caught("stall")
            if self.successor:
                self._thaw_first()
        elif self._answered():
            self.end()
        return self.done

    def end(self) -> list[Hit]:
        """Let go whoever is still caught, and tell who was hit. Idempotent."""
        if not self.done:
            self.done = True
            self.actors.disarm(self.lane)
            self._settle_strays("freeze" if self.first is None else "stall")
            if self.first and not self.thawed:
                self._thaw_first()
            if self.successor:
                self._thaw("stall", self.successor)
        return self.hits

    def _arm(self, action: Literal["freeze", "stall"]) -> None:
        exclude = () if self.first is None else (self.first.process,)
        self.actors.arm(self.lane, "between-read-and-write", action, exclude)

    def _caught(self, action: Literal["freeze", "stall"]) -> Victim | None:
        """The one that this lane waits for. With several keys others may be caught as well: they go on at once."""
        if not self.actors.caught(self.lane):
            return None
        self.actors.disarm(self.lane)
        wanted: Victim | None = None
        for victim in self.actors.caught(self.lane):
            if wanted is None and (self.first is None or victim.key == self.first.key):
                wanted = victim
            else:
                self._thaw(action, victim)
        if wanted is None:
            self._arm(action)
        return wanted

    def _settle_strays(self, action: Literal["freeze", "stall"]) -> None:
        """Whom the last arming caught while the time ran out."""
        for victim in self.actors.caught(self.lane):
            if victim not in (self.first, self.successor):
                self._thaw(action, victim)

    def _thaw_first(self) -> None:
        assert self.first is not None
        self._thaw("freeze", self.first)
        self.thawed = self.clock.now()

    def _answered(self) -> bool:
        assert self.first is not None
        late = self.clock.now() - self.thawed > SETTLED_WITHIN * 1e9
        return late or self.actors.settled(self.first)

    def _thaw(self, kind: Literal["freeze", "stall"], victim: Victim) -> None:
        hit = _hit(kind, victim, self.begun, healing=self.clock.now())
        self.actors.thaw(victim)
        self.hits.append(replace(hit, healed=self.clock.now()))


def freeze_holder() -> Fault:
    """Frozen past its lease."""
    what = f"{_LANES} is frozen while it holds, for longer than the TTL"
    return Fault("freeze-holder", "freeze", what, _without_options(HitHolder("freeze")), ttls=PAST_TTL)


def kill_holder() -> Fault:
    """Killed; its successor has to wait for the TTL."""
    what = f"{_LANES} is killed while it holds"
    return Fault("kill-holder", "kill", what, _without_options(HitHolder("kill")), ttls=PAST_TTL)


def late_write() -> Fault:
    """Frozen past its lease, and thawed at the worst moment."""
    what = "a holder frozen past its TTL writes between its successor's read and write"
    return Fault("late-write", "freeze", what, _without_options(LateWrite()))


def _without_options(injury: Injury) -> Callable[[str, Options], Injury]:
    def make(_: str, options: Options) -> Injury:
        fault.only(options)
        return injury

    return make
