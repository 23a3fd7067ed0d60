"""A whole lane on one time axis: holds, rates and latencies in bins, so that its size does not grow with the lane's."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from checkers.history import History
from checkers.wire import F, Outcome
from results import axis as axes
from results import svg
from results.axis import Axis, duration, seconds
from results.focus import Focus
from results.holds import Holds
from results.picture import LEFT, RIGHT, WIDTH
from results.svg import tag

_BINS: Final = 250
_ROW: Final = 13
_STRIP: Final = 44
_MOST_ROWS: Final = 24

Floats = npt.NDArray[np.float64]


def draw(history: History, holds: Holds, focus: Focus, violations: list[int], origin: int, name: str) -> Markup:
    """The SVG. violations: ns. The window of the picture above is framed."""
    c = history.columns
    begin = min([int(c["inv"][0]), *(f.begun for f in history.faults if f.begun)])
    end = max([begin + 1000, int(c["inv"].max()), int(c["ret"].max()), *(f.healed for f in history.faults)])
    axis = axes.linear(begin, end, LEFT, RIGHT)
    owners = c["process"] % max(history.facts.workers, 1)
    workers = np.unique(owners)[:_MOST_ROWS]
    head = 34
    rates = head + _ROW * len(workers) + 14
    waits = rates + _STRIP + 14
    bottom = waits + _STRIP + 4

    parts = [_hatch(name), *_bands(history, axis, head, bottom, end, name)]
    edges = np.linspace(begin, end, _BINS + 1)
    parts += _coverage(holds, owners[holds.acquire], workers, axis, edges, head)
    parts += _rates(history, edges, axis, rates)
    parts += _waits(history, edges, axis, waits)
    for x, label in axes.ticks(axis, origin):
        parts.append(tag("path", d=f"M{x:.1f} {bottom}v5", class_="axis"))
        parts.append(tag("text", label, x=x, y=bottom + 18, class_="tick", text_anchor="middle"))
    parts.append(tag("path", d=f"M{LEFT} {bottom}H{RIGHT}", class_="axis"))
    left, right = axis(focus.begin), axis(focus.end)
    window = tag(
        "rect", x=left - 1, y=head - 4, width=max(right - left, 3.0) + 2, height=bottom - head + 4, class_="window"
    )
    parts.append(tag("g", tag("title", "the window of the picture above"), window, class_="tip frame"))
    for moment in violations:
        x = axis(moment)
        mark = tag("path", d=f"M{x:.1f} {head - 4}l-5-9h10z", class_="violation")
        parts.append(tag("g", tag("title", f"violation at {seconds(moment, origin)}"), mark, class_="tip"))
    title = f"{history.facts.lane}: the whole lane, {len(history)} operations in {duration(end - begin)}"
    return tag(
        "svg", tag("title", title), *parts,
        viewBox=f"0 0 {WIDTH} {bottom + 26}", class_="picture", role="img", aria_label=title,
    )  # fmt: skip


def _hatch(name: str) -> Markup:
    made = tag("path", d="M-2 12L12-2M-2 2L2-2M8 12L12 8", class_="hatch")
    pattern = tag("pattern", made, id=f"{name}-all", width=10, height=10, patternUnits="userSpaceOnUse")
    return tag("defs", pattern)


def _bands(history: History, axis: Axis, head: float, bottom: float, end: int, name: str) -> list[Markup]:
    parts: list[Markup] = []
    free = float(LEFT)
    for fault in history.faults:
        if not fault.begun:
            continue
        left, right = axis(fault.begun), axis(fault.healed or end)
        width = max(right - left, 1.0)
        shapes = [
            tag("rect", x=left, y=head, width=width, height=bottom - head, class_="band"),
            tag("rect", x=left, y=head, width=width, height=bottom - head, fill=f"url(#{name}-all)"),
        ]
        words = fault.name if len(fault.name) <= 40 else fault.name[:39] + "…"
        size = 7.4 * len(words)
        x = min(max(left, free), RIGHT - size)
        if x >= free:
            shapes.append(tag("text", words, x=x, y=11, class_="fault"))
            free = x + size + 14
        title = tag("title", f"{fault.name}: {fault.target}")
        parts.append(tag("g", title, *shapes, class_="tip"))
    return parts


def _coverage(
    holds: Holds, owners: npt.NDArray[np.int32], workers: npt.NDArray[np.int32], axis: Axis, edges: Floats, head: float
) -> list[Markup]:
    """Per worker, the time in which it held: bars, or where they are many the share of each bin.

    owners: the worker of each hold.
    """
    parts: list[Markup] = []
    for place, worker in enumerate(workers):
        y = head + _ROW * place
        mine = owners == worker
        begin, end = holds.begin[mine], np.maximum(holds.end, holds.begin)[mine]
        parts.append(tag("text", f"worker {worker}", x=LEFT - 10, y=y + 10, class_="tick", text_anchor="end"))
        parts.append(tag("path", d=f"M{LEFT} {y + 6}H{RIGHT}", class_="grid"))
        if len(begin) <= _BINS:
            bars = zip(axis.many(begin), np.maximum(axis.many(end), axis.many(begin) + 0.6), strict=True)
            path = svg.spans(bars, y + 2, _ROW - 4)
        else:
            path = _area(axis.many(edges.astype(np.int64)), _share(begin, end, edges), y + 1, _ROW - 2)
        parts.append(tag("path", d=path, class_="held"))
    return parts


def _share(begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64], edges: Floats) -> Floats:
    """The part of each bin that is covered by holds, which one worker has one after another."""
    knots = np.maximum.accumulate(np.stack((begin, end), axis=1).ravel())
    held = np.cumsum(np.concatenate(([0], np.diff(knots) * (np.arange(len(knots) - 1) % 2 == 0))))
    share: Floats = np.diff(np.interp(edges, knots, held)) / np.diff(edges)
    return np.clip(share, 0.0, 1.0)


def _rates(history: History, edges: Floats, axis: Axis, top: float) -> list[Markup]:
    """Completed operations per second, and below them crosses and question marks where some were refused or lost."""
    c = history.columns
    done = np.where(c["ret"] == 0, c["inv"], c["ret"])
    width = (edges[1] - edges[0]) / 1e9
    ok, failed, unknown = (
        np.histogram(done[c["outcome"] == outcome], edges)[0] for outcome in (Outcome.OK, Outcome.FAIL, Outcome.INFO)
    )
    most = float(ok.max(initial=0)) or 1.0
    parts = _strip("operations/s", f"up to {most / width:,.0f}", top)
    parts.append(tag("path", d=_area(axis.many(edges.astype(np.int64)), ok / most, top, _STRIP), class_="rate"))
    middles = axis.many(((edges[1:] + edges[:-1]) / 2).astype(np.int64))
    crosses = "".join(f"M{x - 2:.1f} {top + 2}l4 4m0-4l-4 4" for x in middles[failed > 0])
    if crosses:
        title = tag("title", f"{int(failed.sum())} refused or timed out; a cross wherever some were")
        parts.append(tag("g", title, tag("path", d=crosses, class_="cross small"), class_="tip"))
    if unknown.any():
        title = tag("title", f"{int(unknown.sum())} unknown; a question mark wherever some were")
        marks = [
            tag("text", "?", x=x, y=top + 18, class_="question", text_anchor="middle") for x in middles[unknown > 0]
        ]
        parts.append(tag("g", title, *marks, class_="tip"))
    return parts


def _waits(history: History, edges: Floats, axis: Axis, top: float) -> list[Markup]:
    """How long granted acquires had waited: the longest and the median of each bin, on a logarithmic scale."""
    c = history.columns
    got = ((c["f"] == F.ACQUIRE) | (c["f"] == F.TRY_ACQUIRE)) & (c["outcome"] == Outcome.OK)
    if not got.any():
        return _strip("wait for a grant", "no grant", top)
    waited = np.maximum(c["ret"][got] - c["inv"][got], 1).astype(np.float64)
    place = np.clip(np.searchsorted(edges, c["ret"][got], side="right") - 1, 0, _BINS - 1)
    order = np.lexsort((waited, place))
    place, waited = place[order], waited[order]
    bins, first, count = np.unique(place, return_index=True, return_counts=True)
    low, high = np.log10(waited.min()), np.log10(waited.max())
    scale = max(high - low, 0.5)
    longest, median = np.zeros(_BINS), np.zeros(_BINS)
    longest[bins] = (np.log10(waited[first + count - 1]) - low) / scale * 0.94 + 0.06
    median[bins] = (np.log10(waited[first + count // 2]) - low) / scale * 0.94 + 0.06
    parts = _strip("wait for a grant", f"{duration(10**low)} to {duration(10**high)}", top)
    x = axis.many(edges.astype(np.int64))
    parts.append(tag("path", d=_area(x, longest, top, _STRIP), class_="wait longest"))
    parts.append(tag("path", d=_area(x, median, top, _STRIP), class_="wait"))
    return parts


def _strip(name: str, range_: str, top: float) -> list[Markup]:
    return [
        tag("text", name, x=LEFT - 10, y=top + 18, class_="tick", text_anchor="end"),
        tag("text", range_, x=LEFT - 10, y=top + 32, class_="faint", text_anchor="end"),
        tag("path", d=f"M{LEFT} {top + _STRIP}H{RIGHT}", class_="grid"),
    ]


def _area(x: Floats, share: Floats, top: float, height: float) -> str:
    """A stepped area; share: 0 to 1 for each bin."""
    path = [f"M{svg.number(x[0])} {svg.number(top + height)}"]
    previous = 0.0
    for right, value in zip(x[1:], share, strict=True):
        if value != previous:
            path.append(f"V{svg.number(top + height * (1 - value))}")
            previous = float(value)
        path.append(f"H{svg.number(right)}")
    return "".join(path) + f"V{svg.number(top + height)}z"
