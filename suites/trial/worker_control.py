"""The interface of a trial's workers to faults: arms gates, reports who was caught, and lets victims continue."""

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Final

from checkers import row_format
from infra.faults.target import Action, Actors, Aim, Gate, Verb, Victim
from suites.trial.lane_history import awaited
from suites.worker import gates, wall_clock
from suites.worker.pool import ForkServer, Handle
from suites.worker.process_spec import GUARDED

SIGNALLED_WITHIN: Final = 5.0  # seconds for the kernel to carry out a signal, and for the fork server to report a death
ALONE_FOR: Final = 1.0  # seconds after which a worker that waits alone is taken for the only one that waits
LOOK_EVERY: Final = 0.02  # seconds between two checks of all workers, of which there are dozens, while a fault waits


def gate_called(name: Gate) -> row_format.Gate:
    """The gate of this name in infra, which may not import the wire format."""
    return row_format.Gate[name.upper().replace("-", "_")]


def action_called(name: Action) -> row_format.Action:
    return row_format.Action[name.upper()]


@dataclass(frozen=True, slots=True)
class Armed:
    """A lane whose workers await an action at a gate."""

    aim: Aim
    gate: row_format.Gate
    handles: Sequence[Handle]

    @property
    def whole(self) -> bool:
        """Whether the action hits the process and not one of its threads."""
        return self.aim.action in ("freeze", "kill")

    def caught(self, handle: Handle) -> bool:
        return gates.caught(handle.page, self.gate) is not None


@dataclass(slots=True)
class HeldVictim:
    """A victim that was not let go yet, or whose round has not ended yet."""

    victim: Victim
    handle: Handle
    armed: Armed
    rounds: int
    thawed: bool = False

    @property
    def ended(self) -> int:
        """How many rounds of its thread have ended by now."""
        return gates.rounds(self.handle.page, self.armed.gate)


class WorkerControl(Actors):
    """The workers of a trial. `lanes` maps the name of a lane to its workers, the dead included."""

    def __init__(
        self,
        server: ForkServer,
        lanes: dict[str, list[Handle]],
        ttl: float,
        orders: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    ) -> None:
        """orders: `Workload.order` of lanes whose workers have locks to themselves."""
        self._server = server
        self._lanes = lanes
        self._orders = orders
        self.ttl = ttl
        self._armed: dict[tuple[str, tuple[int, ...]], Armed] = {}
        """(lane, numbers of the armed workers; empty: all of them) → what is armed."""
        self.boundaries: dict[str, dict[str, dict[str, object]]] = {}
        """Lane → verb → how many messages the verb takes, and at which of them it was hit."""
        self._held: dict[tuple[str, int, int], HeldVictim] = {}
        self._skews: list[tuple[str, Handle, int]] = []  # (key of the fault, worker, ns that its clock is ahead)
        self._looked = 0.0

    def lanes(self) -> Sequence[str]:
        return tuple(self._lanes)

    def guarded(self) -> Sequence[str]:
        return [lane for lane, handles in self._lanes.items() if handles[0].spec.store_mode == GUARDED]

    def pairs(self, lane: str) -> Sequence[tuple[int, ...]]:
        order = self._orders.get(lane, ())
        numbers = range(self._lanes[lane][0].spec.count)
        return [tuple(numbers[first :: len(order)]) for first in range(len(order))]

    def arm(self, lane: str, aim: Aim) -> None:
        for other in [place for place in self._armed if place[0] == lane and _overlap(place[1], aim.among)]:
            del self._armed[other]
        armed = self._armed[lane, aim.among] = Armed(aim, gate_called(aim.gate), self._aimed_at(lane, aim))
        for handle in armed.handles:
            handle.doomed |= aim.action == "kill"
            alive = partial(self._alive, handle)
            gates.arm(
                handle.page,
                armed.gate,
                action_called(aim.action),
                alive,
                key=aim.key,
                seconds=aim.seconds,
                verb=row_format.F[aim.verb.upper()],
                message=aim.message,
            )

    def caught(self, lane: str, among: tuple[int, ...] = ()) -> Sequence[Victim]:
        self._look_after_all()
        if (lane, among) not in self._armed:
            return ()
        armed = self._armed[lane, among]
        victims = []
        for handle in armed.handles:
            caught = gates.caught(handle.page, armed.gate)
            if caught is None or (armed.aim.action == "freeze" and not handle.frozen()):
                continue
            spec, process = handle.spec, caught.process
            who = f"worker {spec.number} of {lane}"
            if armed.gate in gates.OF_THE_TAP:
                who += f", at message {armed.aim.message} of its {armed.aim.verb}"
            if armed.gate in gates.OF_THE_RENEWAL and not armed.whole:
                who = f"the renewal of {who}"
            elif armed.aim.action == "kill":
                process = spec.first_process  # whichever thread was caught, the job is dead
            victim = Victim(lane, process, caught.owner, caught.at, who, caught.key, spec.group)
            rounds = gates.rounds(handle.page, armed.gate)
            self._held.setdefault(_id(victim), HeldVictim(victim, handle, armed, rounds))
            victims.append(victim)
        return sorted(victims, key=lambda victim: victim.at)

    def kill_waiter(self, lane: str, key: int) -> Victim | None:
        self._look_after_all()
        alive = [handle for handle in self._lanes[lane] if handle.exited is None]
        rows = [(row, handle) for handle in alive if (row := awaited(handle)) is not None and row["key"] == key]
        if not rows:
            return None
        first, handle = min(rows, key=lambda each: int(each[0]["inv"]))
        at = time.monotonic_ns()
        if len(rows) == 1 and at - int(first["inv"]) < ALONE_FOR * 1e9:
            return None
        self._server.kill(handle)
        self._server.await_condition(lambda: handle.exited is not None, SIGNALLED_WITHIN)
        who = f"worker {handle.spec.number} of {lane}, waiting"
        return Victim(lane, int(first["process"]), 0, at, who, key, handle.spec.group)

    def skew(self, seconds: Sequence[float], by: str) -> Sequence[Victim]:
        moved = [
            (lane, handle, ahead)
            for lane, handles in self._lanes.items()
            for handle, ahead in zip(filter(self._alive, handles), seconds, strict=False)
        ]
        self._skews += [(by, handle, round(ahead * 1e9)) for _, handle, ahead in moved]
        self._move_clocks([handle for _, handle, _ in moved])
        at, victims = time.monotonic_ns(), []
        for lane, handle, ahead in moved:
            if wall_clock.follows(handle.page):
                spec = handle.spec
                how = f"{abs(ahead):g} s {'behind' if ahead < 0 else 'ahead'}"
                who = f"the clock of worker {spec.number} of {lane}: {how}"
                victims.append(Victim(lane, spec.first_process, 0, at, who, group=spec.group))
        return victims

    def disarm(self, lane: str, among: tuple[int, ...] = ()) -> None:
        if (lane, among) not in self._armed:
            return
        armed = self._armed[lane, among]
        for handle in armed.handles:
            gates.disarm(handle.page, armed.gate, partial(self._alive, handle))
        if armed.whole:
            # A worker that has reached the gate may not have got its signal yet.
            reached = [h for h in armed.handles if armed.caught(h) and not gates.thawed(h.page, armed.gate)]
            self._server.await_condition(
                lambda: all(h.exited is not None or (armed.aim.action == "freeze" and h.frozen()) for h in reached),
                SIGNALLED_WITHIN,
            )
        if armed.aim.action == "kill":
            for handle in armed.handles:
                handle.doomed = armed.caught(handle)

    def thaw(self, victim: Victim) -> None:
        held = self._held[_id(victim)]
        if not held.thawed:
            held.rounds = held.ended
            held.thawed = True
            gates.thaw(held.handle.page, held.armed.gate)
            held.handle.signal(signal.SIGCONT)

    def settled(self, victim: Victim) -> bool:
        held = self._held[_id(victim)]
        return held.ended > held.rounds or not self._alive(held.handle)

    def rounds(self, lane: str, among: tuple[int, ...], verb: Verb) -> int:
        gate = row_format.Gate.AT_RENEWAL_ANSWER if verb == "renew" else row_format.Gate.AT_ANSWER
        return sum(gates.rounds(handle.page, gate) for handle in self._lanes[lane] if handle.spec.number in among)

    def messages(self, lane: str, among: tuple[int, ...], verb: Verb) -> Sequence[int]:
        pages = [handle.page for handle in self._lanes[lane] if handle.spec.number in among]
        f = row_format.F[verb.upper()]
        places = [row_format.messages_at(f, n) for n in range(1, row_format.MOST_MESSAGES + 1)]
        return [sum(row_format.COUNT.unpack_from(page, at)[0] for page in pages) for at in places]

    def revive(self, lane: str) -> None:
        self._replace_dead(self._lanes[lane])

    def note(self, lane: str, verb: str, messages: int, hit: Sequence[int]) -> None:
        self.boundaries.setdefault(lane, {})[verb] = {"messages": messages, "hit": list(hit)}

    def let_go(self, by: str) -> None:
        self._release(lambda key: key == by)

    def release_all(self) -> None:
        self._release(lambda _: True)

    def fill_up(self) -> None:
        """Replace every dead worker by a new one with process numbers of its own."""
        for handles in self._lanes.values():
            self._replace_dead(handles)

    def _replace_dead(self, handles: list[Handle]) -> None:
        newest = {handle.spec.number: handle for handle in handles}
        dead = [handle.spec for handle in newest.values() if not self._alive(handle)]
        fresh = self._server.spawn(replace(spec, generation=spec.generation + 1) for spec in dead)
        for handle in fresh:
            handle.ask(row_format.Command.GO)
        handles += fresh

    def _look_after_all(self) -> None:
        """Check all workers, at most once in `LOOK_EVERY`, however many lanes are looked at."""
        if (at := time.monotonic()) - self._looked >= LOOK_EVERY:
            self._looked = at
            self._server.check()

    def _release(self, whose: Callable[[str], bool]) -> None:
        for lane, among in [place for place, armed in self._armed.items() if whose(armed.aim.by)]:
            self.disarm(lane, among)
            self.caught(lane, among)  # also notes victims that no fault has asked for yet
        for held in sorted(self._held.values(), key=lambda held: held.victim.at, reverse=True):
            if whose(held.armed.aim.by):
                self.thaw(held.victim)
        moved = [handle for by, handle, _ in self._skews if whose(by)]
        self._skews = [skew for skew in self._skews if not whose(skew[0])]
        self._move_clocks(moved)

    def _move_clocks(self, handles: Sequence[Handle]) -> None:
        """Set each wall clock to the sum of its skews, and wait until all but frozen and dead workers follow."""
        for handle in handles:
            wall_clock.move(handle.page, sum(ahead for _, whose, ahead in self._skews if whose is handle))
        self._server.await_condition(
            lambda: all(h.exited is not None or wall_clock.follows(h.page) or h.frozen() for h in handles),
            SIGNALLED_WITHIN,
        )

    def _aimed_at(self, lane: str, aim: Aim) -> list[Handle]:
        """The workers to arm. Workers that are victims already are left out, unless the aim names the worker."""
        if aim.worker is not None:
            handles = [self._held[_id(aim.worker)].handle]
        else:
            busy = [held.handle for held in self._held.values() if not held.thawed]
            handles = [
                handle
                for handle in self._lanes[lane]
                if handle not in busy
                and aim.group in ("", handle.spec.group)
                and handle.spec.number in (aim.among or (handle.spec.number,))
            ]
        return [handle for handle in handles if self._alive(handle)]

    def _alive(self, handle: Handle) -> bool:
        self._server.check()
        return handle.exited is None


def _overlap(some: tuple[int, ...], others: tuple[int, ...]) -> bool:
    """Whether two sets of worker numbers share a worker; () means all workers."""
    return not (some and others) or not set(some).isdisjoint(others)


def _id(victim: Victim) -> tuple[str, int, int]:
    return victim.lane, victim.process, victim.at
