"""`python -m suites curves`: measures P(two inside) against pause ÷ TTL and against clock skew ÷ TTL, for each lock.

A try is a holder that was frozen, or that was inside when a clock jumped. It is a hit if another client came in before
the holder had left. For pauses, the critical section takes about a tenth of the TTL of the Redis locks (TTL = 10 ×
work). For clock jumps, holders stay for longer than a TTL and renew (the workload leader). The command draws pause.svg
and skew.svg in results/literature, and writes the counts beside them as JSON.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Final

from checkers.history.view import View
from checkers.properties.exclusion import overlaps
from infra.backends import BACKENDS
from infra.faults.plan import Plan, Step
from results.pages.curve import LockPoints, Point, draw
from suites.commands.cycles import Cycles
from suites.commands.literature import FOLDER
from suites.lanes.lane import Lane, lane_named, runnable_lanes
from suites.worker.process_spec import GUARDED

PAUSED: Final = ("redis", "redlock", "zookeeper", "etcd", "postgres-lease")
SKEWED: Final = ("redis", "redlock", "postgres-lease")
"""Locks whose leases end by a wall clock. etcd and ZooKeeper use monotonic clocks, which cannot be set."""

# Nominal ratios to the TTL; the curves show the measured ones.
PAUSES: Final = (0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
SKEWS: Final = (0.25, 0.5, 0.75, 0.9, 1.0, 1.25)
STEPS: Final = 6  # faults in one trial

_FORWARD: Final = re.compile(r"([0-9.]+) s forward")

PAUSE_MARKS: Final = ((0.1, "10 %: TTL = 10 × work"), (0.5, "50 %"), (1.0, "the TTL"))
SKEW_MARKS: Final = (
    (0.017, "10 ms skew, or node timeout, at TTL 0.6 s"),
    (0.1, "10 %"),
    (0.5, "50 %"),
    (1.0, "the TTL"),
)
"""Ratios that the literature quotes."""

Tries = dict[str, list[tuple[float, bool]]]  # lock → (ratio, whether two were inside) of each try


def main(count: int) -> int:
    """Exit status: 0 measured and drawn, 1 a trial broke."""
    paused = {name: [lane for lane in runnable_lanes(name) if lane.store != GUARDED] for name in PAUSED}
    leaders = {name: [lane_named(f"{name}/leader/unfenced")] for name in SKEWED}
    with Cycles() as cycles:
        pauses, broke = _measure(cycles, count, paused, PAUSES, _pause, _paused)
        skews, broke_too = _measure(cycles, count, leaders, SKEWS, _skew, _skewed)
    _store("pause", "Two inside, after a holder was paused", "pause ÷ TTL", pauses, PAUSES, PAUSE_MARKS)
    _store("skew", "Two inside, after a server's clock jumped ahead", "jump ÷ TTL", skews, SKEWS, SKEW_MARKS)
    return 1 if broke or broke_too else 0


def _measure(
    cycles: Cycles,
    count: int,
    lanes_of_lock: Mapping[str, Sequence[Lane]],
    ratios: Sequence[float],
    step: Callable[[str, float], Step],
    tries_of: Callable[[View, float], Iterable[tuple[float, bool]]],
) -> tuple[Tries, bool]:
    tries: Tries = defaultdict(list)
    broke = False
    for name, lanes in lanes_of_lock.items():
        ttl = lanes[0].lock.min_ttl
        for ratio in ratios:
            fault = step(lanes[0].backend, ratio * ttl)
            for seed in range(1, count + 1):
                plan = Plan(f"{fault.fault}-{ratio:g}-ttl", lanes[0].backend, seed, (fault,) * STEPS)
                record = cycles.run(plan, lanes).record
                if record is None:
                    broke = True
                    continue
                views = (lane.history.once(View) for lane in record.lanes)
                new = [each for view in views for each in tries_of(view, ttl * 1e9)]
                tries[name] += new
                print(f"{name} {plan.name}: {sum(hit for _, hit in new)} of {len(new)}", flush=True)
    return tries, broke


def _pause(_backend: str, seconds: float) -> Step:
    return Step("freeze-holder", 0.3, round(seconds, 3), {})


def _skew(backend: str, seconds: float) -> Step:
    first = BACKENDS[backend].members[:1]  # locks on one node live on the first member
    return Step("clock-jump-forward", 1.0, 0.5, {"nodes": list(first), "seconds": round(seconds, 3)})


def _paused(view: View, ttl: float) -> Iterable[tuple[float, bool]]:
    """A try for every holder that was frozen. ttl: ns."""
    second = _joined(view)
    for fault in view.history.faults:
        if fault.owner in view.holds.by_owner and fault.healed:
            yield (fault.healing - fault.applied) / ttl, fault.owner in second


def _skewed(view: View, ttl: float) -> Iterable[tuple[float, bool]]:
    """A try for every holder that was inside when the clock jumped. ttl: ns."""
    second = _joined(view)
    for fault in view.history.faults:
        jump = _FORWARD.search(fault.target)  # by how many seconds the clock was set
        assert jump is not None, fault.target
        for hold in view.holds:
            if hold.ret < fault.begun and fault.applied < hold.left:
                yield float(jump[1]) * 1e9 / ttl, hold.owner in second


def _joined(view: View) -> set[int]:
    """Owners that were still inside when another client came in."""
    return {first.owner for holds in view.holds.by_key.values() for first, _ in overlaps(holds)}


def _store(
    name: str, title: str, across: str, tries: Tries, ratios: Sequence[float], marks: Sequence[tuple[float, str]]
) -> None:
    series = [LockPoints(lock, tuple(_points(of_lock, ratios))) for lock, of_lock in tries.items()]
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.svg").write_text(draw(title, across, series, marks))
    points = {line.name: [asdict(point) for point in line.points] for line in series}
    (FOLDER / f"{name}.json").write_text(json.dumps(points, indent=1) + "\n")


def _points(tries: Sequence[tuple[float, bool]], ratios: Sequence[float]) -> Iterable[Point]:
    """A point for each nominal ratio, of the tries that are nearest to it: their mean, their hits, their number."""
    near: defaultdict[float, list[tuple[float, bool]]] = defaultdict(list)
    for ratio, hit in tries:
        near[min(ratios, key=lambda wanted: abs(wanted - ratio))].append((ratio, hit))
    for _, members in sorted(near.items()):
        mean = sum(ratio for ratio, _ in members) / len(members)
        yield Point(round(mean, 3), sum(hit for _, hit in members), len(members))
