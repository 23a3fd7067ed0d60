"""Latency, throughput and recovery of locks and backends, from the measures of their lanes.

Quantiles of several lanes cannot be joined exactly without their histories. Shown is that of the middle lane: half of
all acquires were made in lanes with at most this quantile.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar

from checkers.measures.latency import BEFORE, DURING
from results.record import Cycle, LaneSummary, Measures, grouped

_Key = TypeVar("_Key", str, tuple[str, str])


@dataclass(frozen=True, slots=True)
class Phase:
    """What was measured in one kind of phase of some lanes.

    p50, p99  of the time of an acquire, in ms; None: there was no acquire, or too many were given up.
    rate      grants a second in one lane; None: no time was measured.
    acquires  the number of acquires behind the quantiles.
    """

    p50: float | None
    p99: float | None
    rate: float | None
    acquires: int


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates of one lock, or of all locks of a backend.

    quiet     before the first fault of each trial, and in those without any; faulted: while a fault was applied.
    recovery  the middle and the longest time, in seconds, from a heal to the next grant; None where none was seen.
    missing   faults after which no grant came, or which were never healed, out of `heals`.
    """

    lanes: int
    quiet: Phase
    faulted: Phase
    recovery: float | None
    slowest: float | None
    missing: int
    heals: int


def per(key: Callable[[LaneSummary], _Key], lanes: Iterable[LaneSummary]) -> dict[_Key, Rates]:
    """Key, such as the backend → the rates of its lanes, in alphabetical order. Lanes without measures are left out."""
    groups = grouped((lane for lane in lanes if lane.measures is not None), key)
    return {name: _rates([lane.measures for lane in groups[name] if lane.measures]) for name in sorted(groups)}


def _rates(measures: list[Measures]) -> Rates:
    cycles = [cycle for lane in measures for cycle in lane["cycles"]]
    heals = [seconds for lane in measures for seconds in lane["recovery_s"]]
    seen = [seconds for seconds in heals if seconds is not None]
    return Rates(
        len(measures),
        _phase([cycle for cycle in cycles if cycle["phase"] == BEFORE]),
        _phase([cycle for cycle in cycles if cycle["phase"] == DURING]),
        middle((seconds, 1) for seconds in seen),
        max(seen, default=None),
        len(heals) - len(seen),
        len(heals),
    )


def _phase(cycles: list[Cycle]) -> Phase:
    def quantile(name: Literal["p50", "p99"]) -> float | None:
        acquires = [(cycle["acquire_ms"][name], cycle["acquire_ms"]["count"]) for cycle in cycles]
        return middle((math.inf if value is None else value, count) for value, count in acquires)

    seconds = sum(cycle["seconds"] for cycle in cycles)
    return Phase(
        quantile("p50"),
        quantile("p99"),
        sum(cycle["grants"] for cycle in cycles) / seconds if seconds else None,
        sum(cycle["acquire_ms"]["count"] for cycle in cycles),
    )


def middle(values: Iterable[tuple[float, int]]) -> float | None:
    """The least value that at least half of the weight does not exceed; None without any, or if it is infinite.

    values: (value, weight).
    """
    ordered = sorted((value, weight) for value, weight in values if weight)
    half, passed = sum(weight for _, weight in ordered) / 2, 0
    for value, weight in ordered:
        passed += weight
        if passed >= half:
            return None if math.isinf(value) else value
    return None
