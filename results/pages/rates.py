"""Latency, throughput and recovery of locks and backends, from the measures of their lanes; and small charts of them: a
range for each row of a run's table, and lines over many runs.

Quantiles of several lanes cannot be joined exactly without their histories. So the quantile of the middle lane is
shown: half of all acquires were made in lanes with at most this quantile.

Series differ in glyphs and dashes; colours only repeat that. An unknown number is `-`, and a gap in a line.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from markupsafe import Markup

from checkers.measures.latency import BEFORE, DURING
from results.pages.svg import number, round_up, tag
from results.record import Cycle, LaneSummary, Measures, grouped
from results.report.grid import short_names

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
    """The rates of one lock, or of all locks of a backend."""

    lanes: int
    quiet: Phase  # before each trial's first fault, and in trials without faults; faulted: while a fault was applied
    faulted: Phase
    # The middle and the longest time, in seconds, from a heal to the next grant; None if no such grant was seen.
    recovery: float | None
    slowest: float | None
    missing: int  # faults after which no grant came, or which were never healed, out of `heals`
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
        _of_phase([cycle for cycle in cycles if cycle["phase"] == BEFORE]),
        _of_phase([cycle for cycle in cycles if cycle["phase"] == DURING]),
        middle((seconds, 1) for seconds in seen),
        max(seen, default=None),
        len(heals) - len(seen),
        len(heals),
    )


def _of_phase(cycles: list[Cycle]) -> Phase:
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


UNKNOWN: Final = "-"
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 272, 10, 76
"""Edges of the plane of a line chart."""
_GLYPHS: Final = ("M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z", "M-2.6-2.6h5.2v5.2h-5.2z")  # round and square
_DASHES: Final = (None, "4 3")


def shown(value: float | None) -> str:
    """A number with three significant digits."""
    if value is None:
        return UNKNOWN
    if value == 0 or abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


# The table of a run


def table(rates: Mapping[tuple[str, str], Rates]) -> dict[str, Any]:
    """What the template needs: a row for each lock with its numbers as (text, number, title) and its range."""
    names = short_names(lock for _, lock in rates)
    phases = [phase for lock_rates in rates.values() for phase in (lock_rates.quiet, lock_rates.faulted)]
    ends = [value for phase in phases for value in (phase.p50, phase.p99) if value]
    low, high = min(ends, default=1.0), max(ends, default=1.0)
    return {
        "rows": [
            {
                "backend": backend,
                "lock": lock,
                "name": names[lock],
                "lanes": lock_rates.lanes,
                "numbers": [*_phase(lock_rates.quiet), *_phase(lock_rates.faulted), *_recovery(lock_rates)],
                "range": _ranges(lock_rates, low, high),
            }
            for (backend, lock), lock_rates in rates.items()
        ],
        "low": shown(low),
        "high": shown(high),
    }


def _phase(phase: Phase) -> list[tuple[str, float | None, str]]:
    basis = f"{phase.acquires:,} acquires"
    unreached = f"not reached: of {basis} too many were given up" if phase.acquires else basis
    waits = [(shown(value), value, unreached if value is None else basis) for value in (phase.p50, phase.p99)]
    return [*waits, (shown(phase.rate), phase.rate, "grants a second in one lane")]


def _recovery(lock_rates: Rates) -> list[tuple[str, float | None, str]]:
    seen = f"{lock_rates.heals - lock_rates.missing} of {lock_rates.heals} faults were followed by a grant"
    missing = f"{lock_rates.missing} of {lock_rates.heals}" if lock_rates.heals else UNKNOWN
    return [
        (shown(lock_rates.recovery), lock_rates.recovery, seen),
        (shown(lock_rates.slowest), lock_rates.slowest, seen),
        (missing, lock_rates.missing if lock_rates.heals else None, seen),
    ]


def _ranges(lock_rates: Rates, low: float, high: float) -> Markup:
    """The ranges from p50 to p99 on a logarithmic scale: a round mark without faults, a square mark during faults."""
    width, height = 150, 22

    def x(value: float) -> float:
        return 6 + (width - 12) * (math.log(max(value, low) / low) / math.log(high / low) if high > low else 0.5)

    parts = []
    for phase, glyph, dashes, y in zip((lock_rates.quiet, lock_rates.faulted), _GLYPHS, _DASHES, (6, 16), strict=True):
        if phase.p50 is None:
            continue
        end = x(phase.p99) if phase.p99 is not None else width
        line = tag("path", d=f"M{number(x(phase.p50))} {y}H{number(end)}", class_="reach", stroke_dasharray=dashes)
        parts += [line, tag("path", d=glyph, transform=f"translate({number(x(phase.p50))} {y})", class_="mark")]
        if phase.p99 is not None:
            parts.append(tag("path", d=f"M{number(end)} {y - 3}v6", class_="reach"))
    return tag("svg", *parts, class_="range", width=width, height=height, aria_hidden="true") if parts else Markup()


# The lines of many runs


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line of a chart. values: one for each run, oldest first; None: unknown."""

    name: str
    values: tuple[float | None, ...]


def line(title: str, runs: Sequence[tuple[str, str]], series: Sequence[ChartLine]) -> Markup | None:
    """One chart, from zero; None without any value. runs: (when, link) of each place on the axis."""
    known = [value for line in series for value in line.values if value is not None]
    if not known:
        return None
    top = round_up(max(known)) if max(known) > 0 else 1.0
    step = (_RIGHT - _LEFT) / max(len(runs) - 1, 1)

    def place(at: int, value: float) -> tuple[str, str]:
        x = _LEFT + step * at if len(runs) > 1 else (_LEFT + _RIGHT) / 2
        return number(x), number(_BOTTOM - (_BOTTOM - _TOP) * value / top)

    parts = [
        tag("path", d=f"M{_LEFT} {_TOP}H{_RIGHT}M{_LEFT} {(_TOP + _BOTTOM) / 2:g}H{_RIGHT}", class_="grid"),
        tag("path", d=f"M{_LEFT} {_BOTTOM}H{_RIGHT}", class_="axis"),
        tag("text", shown(top), x=_LEFT - 6, y=_TOP + 4, text_anchor="end", class_="tick"),
        tag("text", "0", x=_LEFT - 6, y=_BOTTOM + 4, text_anchor="end", class_="tick"),
        tag("text", runs[0][0], x=_LEFT, y=_BOTTOM + 16, class_="tick"),
    ]
    if len(runs) > 1:
        parts.append(tag("text", runs[-1][0], x=_RIGHT, y=_BOTTOM + 16, text_anchor="end", class_="tick"))
    for row, glyph, dashes in zip(series, _GLYPHS, _DASHES, strict=False):
        points = [(at, *place(at, value), value) for at, value in enumerate(row.values) if value is not None]
        joined = "".join(f"{'L' if at and row.values[at - 1] is not None else 'M'}{x} {y}" for at, x, y, _ in points)
        parts.append(tag("path", d=joined, class_="reach", stroke_dasharray=dashes))
        for at, x, y, value in points:
            when, link = runs[at]
            tip = tag("title", f"{row.name} {shown(value)}, {when}")
            mark = tag("path", tip, d=glyph, transform=f"translate({x} {y})", class_="mark")
            parts.append(tag("a", mark, href=link) if link else mark)
    return tag("svg", *parts, class_="line-chart", viewBox="0 0 280 96", role="group", aria_label=title)
