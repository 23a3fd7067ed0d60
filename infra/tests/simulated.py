"""A simulated trial: lanes of workers that take turns at locks with a TTL. Only waits advance its clock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from infra.backends.etcd import Etcd
from infra.errors import Failed
from infra.faults.link_probe import Prober
from infra.faults.plan import Plan, Step, compile_plan
from infra.faults.runner import Record, Runner
from infra.faults.target import Actors, Aim, Target, Victim
from infra.waiting import Clock, T

Say = Callable[[str], None]

MS = 1_000_000
TTL = 1.0
PHASE = 10 * MS  # ns that a worker takes from one gate to the next
RENEWS = int(TTL * 1e9 / 3)  # ns between two renewals


class Interrupted(Exception):
    """Somebody ends the trial in the middle of a wait."""


@dataclass(slots=True)
class Worker:
    """caught, renewal: the action on the main thread and on the renewal, "" for none. until: when a call ends (ns)."""

    process: int
    key: int
    phase: str = "idle"
    due: int = 0
    caught: str = ""
    until: int = 0
    renewal: str = ""
    renews: int = 0
    settled: bool = True

    @property
    def group(self) -> str:
        return f"c{self.process % 3 + 1}"

    @property
    def hurt(self) -> str:
        """The action that a heal must undo, "" for none. A killed worker is not brought back."""
        return self.renewal or self.caught.replace("kill", "")


@dataclass(slots=True)
class Lane:
    """The workers of one lane. A lock becomes free when its lease ends, unless `expires` is False."""

    name: str
    workers: list[Worker]
    expires: bool = True
    guarded: bool = False  # see `Actors`
    leases: dict[int, tuple[int, int]] = field(default_factory=dict)  # key -> its holder, and when the lease ends (ns)
    armed: Aim | None = None
    caught: list[Victim] = field(default_factory=list)
    story: list[tuple[int, str, int, int]] = field(default_factory=list)  # (ns, what, process, key)

    def tick(self, now: int) -> None:
        for worker in self.workers:
            if worker.caught == "call" and now >= worker.until:
                worker.caught = ""
            if worker.caught in ("freeze", "kill"):
                continue
            if not worker.renewal and now >= worker.renews:
                self.renew(worker, now)
            if not worker.caught and now >= worker.due:
                worker.due = now + PHASE
                self.step(worker, now)

    def owns(self, worker: Worker, now: int) -> bool:
        holder, until = self.leases.get(worker.key, (0, 0))
        return holder == worker.process and (now < until or not self.expires)

    def renew(self, worker: Worker, now: int) -> None:
        """A waiting worker only renews its session, which has no effect on leases here."""
        worker.renews = now + RENEWS
        gate = "while-waiting" if worker.phase == "idle" else "in-renewal"
        if not self.catches(worker, gate, now) and worker.phase != "idle":
            self.send_renewal(worker, now)

    def send_renewal(self, worker: Worker, now: int) -> None:
        if self.owns(worker, now):
            self.leases[worker.key] = (worker.process, now + int(TTL * 1e9))
            self.reach(worker, worker.phase, "after-renewal", now, "renewed")
        else:
            self.story.append((now, "renewal refused", worker.process, worker.key))

    def step(self, worker: Worker, now: int) -> None:
        if worker.phase == "idle":
            holder = self.leases.get(worker.key)
            if holder is None or (self.expires and holder[1] <= now):
                self.leases[worker.key] = (worker.process, now + int(TTL * 1e9))
                worker.renews = now + RENEWS
                self.reach(worker, "acquired", "after-acquire", now)
        elif worker.phase == "acquired" and not self.owns(worker, now):
            worker.phase = "idle"  # it asks whether it still holds before it touches anything
            self.story.append((now, "noticed", worker.process, worker.key))
        elif worker.phase == "acquired":
            self.reach(worker, "looked", "between-requests", now)  # a read takes two
        elif worker.phase == "looked":
            self.reach(worker, "read", "between-read-and-write", now)
        elif worker.phase == "read":
            worker.settled = True
            self.reach(worker, "written", "before-release", now)
        else:
            if self.leases.get(worker.key, (0, 0))[0] == worker.process:
                del self.leases[worker.key]
            worker.phase = "idle"
            self.story.append((now, "released", worker.process, worker.key))

    def reach(self, worker: Worker, phase: str, gate: str, now: int, what: str = "") -> None:
        """what: the word for the story, if that is not the new phase."""
        worker.phase = phase
        self.story.append((now, what or phase, worker.process, worker.key))
        self.catches(worker, gate, now)

    def catches(self, worker: Worker, gate: str, now: int) -> bool:
        aim = self.armed
        if aim is None or aim.gate != gate or not self.wants(aim, worker):
            return False
        process, who = worker.process, f"worker {worker.process}"
        if gate in ("in-renewal", "while-waiting") and aim.action in ("stall", "die"):
            worker.renewal, process, who = aim.action, process + 100_000, f"the renewal of {who}"
        else:
            worker.caught, worker.until = aim.action, now + int(aim.seconds * 1e9)
        self.caught.append(Victim(self.name, process, 1000 + worker.process, now, who, worker.key, worker.group))
        return True

    def wants(self, aim: Aim, worker: Worker) -> bool:
        if aim.worker is not None:
            return aim.worker.process == worker.process
        return not (worker.caught or worker.renewal) and aim.group in ("", worker.group) and aim.key in (-1, worker.key)


@dataclass(slots=True)
class World(Actors, Clock):
    """Actors, clock and target of a trial."""

    all_lanes: list[Lane]
    time: int = 1000 * MS
    ttl: float = TTL
    stop_at: int = 1 << 62
    mute: bool = False  # the store never answers
    healed: list[str] = field(default_factory=list)
    victims: list[tuple[str, Victim]] = field(default_factory=list)  # (key, victim), until `let_go`; some are thawed
    skewed: list[tuple[str, Worker, float]] = field(default_factory=list)  # (key, worker, seconds that it is ahead)

    def now(self) -> int:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.wait(seconds, lambda: False)

    def wait(self, seconds: float, until: Callable[[], T], every: float = 0.005) -> T:
        deadline, look = self.time + int(seconds * 1e9), self.time
        while True:
            if self.time >= min(look, deadline):
                if (answer := until()) or self.time >= deadline:
                    return answer
                look = self.time + int(every * 1e9)
            if self.time >= self.stop_at:
                raise Interrupted
            self.time += 5 * MS
            for lane in self.all_lanes:
                lane.tick(self.time)

    def lanes(self) -> Sequence[str]:
        return [lane.name for lane in self.all_lanes]

    def guarded(self) -> Sequence[str]:
        return [lane.name for lane in self.all_lanes if lane.guarded]

    def lane(self, name: str) -> Lane:
        return next(lane for lane in self.all_lanes if lane.name == name)

    def worker(self, victim: Victim) -> Worker:
        return next(w for w in self.lane(victim.lane).workers if w.process == victim.process % 100_000)

    def arm(self, lane: str, aim: Aim) -> None:
        self.lane(lane).armed = aim
        self.lane(lane).caught = []

    def caught(self, lane: str, among: tuple[int, ...] = ()) -> Sequence[Victim]:
        return tuple(self.lane(lane).caught)

    def kill_waiter(self, lane: str, key: int) -> Victim | None:
        """Kill a waiter at once, as if another always waited behind it, or as if none came soon."""
        waits = [w for w in self.lane(lane).workers if w.phase == "idle" and w.key == key and not w.caught]
        if not waits:
            return None
        waits[0].caught = "kill"
        return Victim(lane, waits[0].process, 0, self.time, f"worker {waits[0].process}, waiting", key, waits[0].group)

    def skew(self, seconds: Sequence[float], by: str) -> Sequence[Victim]:
        moved = [(lane, w, ahead) for lane in self.all_lanes for w, ahead in zip(lane.workers, seconds, strict=False)]
        self.skewed += [(by, worker, ahead) for _, worker, ahead in moved]
        return [Victim(lane.name, w.process, 0, self.time, f"clock {ahead:g}") for lane, w, ahead in moved]

    def disarm(self, lane: str, among: tuple[int, ...] = ()) -> None:
        one = self.lane(lane)
        if one.armed:
            self.victims += [(one.armed.by, victim) for victim in one.caught]
        one.armed = None

    def thaw(self, victim: Victim) -> None:
        worker = self.worker(victim)
        if victim.process == worker.process:
            if worker.caught not in ("", "kill"):
                worker.caught, worker.settled, worker.due = "", False, self.time + PHASE
        elif worker.renewal == "stall":
            worker.renewal = ""
            self.lane(victim.lane).send_renewal(worker, self.time)
        elif worker.renewal == "die":
            worker.renewal, worker.renews = "", self.time + RENEWS

    def settled(self, victim: Victim) -> bool:
        return self.worker(victim).settled and not self.mute

    def let_go(self, by: str) -> None:
        self.skewed = [skew for skew in self.skewed if skew[0] != by]
        for lane in self.all_lanes:
            if lane.armed and lane.armed.by == by:
                self.disarm(lane.name)
        mine = [victim for whose, victim in self.victims if whose == by]
        self.victims = [one for one in self.victims if one[1] not in mine]
        for victim in sorted(mine, key=lambda victim: victim.at, reverse=True):
            self.thaw(victim)

    def release_all(self) -> None:
        self.healed.append("workers")
        for lane in self.all_lanes:
            self.disarm(lane.name)
        self.skewed.clear()
        for by in {by for by, _ in self.victims}:
            self.let_go(by)

    def target(self) -> Target:
        def ready() -> bool:
            self.healed.append("cluster")
            return True

        cluster = SimpleNamespace(nodes=(), ready=ready, leader=nobody, kind=Etcd())
        environment = SimpleNamespace(heal=lambda: self.healed.append("environment"), links=SimpleNamespace(lift=str))
        prober, writes = Prober(Etcd()), cast("Any", None)
        return Target(cast("Any", environment), cast("Any", cluster), {}, self, self, prober, writes)

    def at_rest(self) -> bool:
        caught = any(lane.armed or any(worker.hurt for worker in lane.workers) for lane in self.all_lanes)
        return not self.skewed and not caught


def nobody() -> None:
    raise Failed("nobody leads")


def a_lane(name: str, *keys: int, expires: bool = True) -> Lane:
    return Lane(name, [Worker(10 * sum(name.encode()) + number, key) for number, key in enumerate(keys)], expires)


def runner(world: World, *faults: str | Step, target: Target | None = None, say: Say = lambda _: None) -> Runner:
    """A runner of these steps. A name stands for the step that `compile_plan` makes for the fault."""
    steps = [step if isinstance(step, Step) else compile_plan([step], 1, "etcd", TTL).steps[0] for step in faults]
    return Runner(Plan("p", "etcd", 1, tuple(steps)), target or world.target(), say)


def run(world: World, *faults: str | Step, target: Target | None = None, say: Say = lambda _: None) -> list[Record]:
    """The records of one cycle of these steps. No worker may be caught afterwards."""
    running = runner(world, *faults, target=target, say=say)
    running.cycle()
    assert world.at_rest()
    return list(running.records)
