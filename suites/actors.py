"""The crew: the workers of a trial as the faults on workers see them, with a hand on each."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from checkers import wire
from infra.faults.target import Victim
from suites import gates
from suites.workers import ForkServer, Handle

if TYPE_CHECKING:
    from infra.faults.target import Action, Gate

GATES: Final[dict[Gate, wire.Gate]] = {
    "after-acquire": wire.Gate.AFTER_ACQUIRE,
    "between-read-and-write": wire.Gate.BETWEEN_READ_AND_WRITE,
    "before-release": wire.Gate.BEFORE_RELEASE,
}
ACTIONS: Final[dict[Action, wire.Action]] = {
    "freeze": wire.Action.FREEZE,
    "stall": wire.Action.STALL,
    "kill": wire.Action.KILL,
}
SIGNALLED_WITHIN: Final = 5.0
"""Seconds for the kernel to carry out a signal, and for the fork server to report a death."""


@dataclass(slots=True)
class Held:
    """A victim that has not been let go yet, or the end of whose round is awaited."""

    victim: Victim
    handle: Handle
    rounds: int
    thawed: bool = False


class Crew:
    """Fills in `infra.faults.target.Actors`. `lanes` maps the name of a lane to its workers, the dead included."""

    def __init__(self, server: ForkServer, lanes: dict[str, list[Handle]], ttl: float) -> None:
        self._server = server
        self._lanes = lanes
        self._ttl = ttl
        self._action: dict[str, wire.Action] = {}
        self._armed: dict[str, list[Handle]] = {}
        self._held: dict[tuple[str, int, int], Held] = {}

    @property
    def ttl(self) -> float:
        return self._ttl

    def lanes(self) -> Sequence[str]:
        return tuple(self._lanes)

    def arm(self, lane: str, gate: Gate, action: Action, exclude: Sequence[int] = ()) -> None:
        held = [held.handle for held in self._held.values() if not held.thawed]
        self._action[lane] = ACTIONS[action]
        self._armed[lane] = [
            handle
            for handle in self._living(lane)
            if handle not in held and handle.spec.number not in {process % handle.spec.count for process in exclude}
        ]
        for handle in self._armed[lane]:
            handle.killed = ACTIONS[action] is wire.Action.KILL
            gates.arm(handle.page, GATES[gate], ACTIONS[action], partial(self._alive, handle))

    def caught(self, lane: str) -> Sequence[Victim]:
        self._server.check()
        found = []
        for handle in self._armed.get(lane, ()):
            caught = gates.caught(handle.page)
            if caught is None or (self._action[lane] is wire.Action.FREEZE and not handle.frozen()):
                continue
            position = caught.position
            target = f"worker {handle.spec.number} of {lane}"
            victim = Victim(lane, position.process, position.owner, caught.at, target, position.key)
            self._held.setdefault(_id(victim), Held(victim, handle, handle.rounds))
            found.append(victim)
        return sorted(found, key=lambda victim: victim.at)

    def disarm(self, lane: str) -> None:
        armed, action = self._armed.get(lane, []), self._action.get(lane)
        for handle in armed:
            gates.disarm(handle.page, partial(self._alive, handle))
        # Who has reached the gate may still be on the way into its signal.
        reached = [h for h in armed if gates.caught(h.page) is not None and not h.page[wire.THAWED]]
        if action is wire.Action.FREEZE:
            self._server.await_condition(
                lambda: all(h.frozen() or h.exited is not None for h in reached), SIGNALLED_WITHIN
            )
        elif action is wire.Action.KILL:
            self._server.await_condition(lambda: all(h.exited is not None for h in reached), SIGNALLED_WITHIN)
            for handle in armed:
                handle.killed = gates.caught(handle.page) is not None

    def thaw(self, victim: Victim) -> None:
        held = self._held[_id(victim)]
        if not held.thawed:
            held.rounds = held.handle.rounds
            held.thawed = True
            gates.thaw(held.handle.page)
            held.handle.signal(signal.SIGCONT)

    def settled(self, victim: Victim) -> bool:
        held = self._held[_id(victim)]
        return held.handle.rounds > held.rounds or not self._alive(held.handle)

    def release_all(self) -> None:
        for lane in self._armed:
            self.disarm(lane)
        for held in list(self._held.values()):
            self.thaw(held.victim)

    def fill_up(self) -> None:
        """Replace the dead: a new worker, with process numbers of its own, takes the place of each."""
        for handles in self._lanes.values():
            newest = {handle.spec.number: handle for handle in handles}
            dead = [handle.spec for handle in newest.values() if not self._alive(handle)]
            handles += self._server.spawn(replace(spec, generation=spec.generation + 1) for spec in dead)
            for handle in handles[-len(dead) :] if dead else ():
                handle.ask(wire.Run.GO)

    def _living(self, lane: str) -> list[Handle]:
        return [handle for handle in self._lanes[lane] if self._alive(handle)]

    def _alive(self, handle: Handle) -> bool:
        self._server.check()
        return handle.exited is None


def _id(victim: Victim) -> tuple[str, int, int]:
    return victim.lane, victim.process, victim.at
