"""The picture of a window: a row for each worker, holds as bars, operations as glyphs, faults as hatched bands.

Nothing is shown by colour alone: kinds of operations differ in shape, refused ones have a cross, unknown ones a
question mark, the part of a hold after its lease is hatched, and faults have their names. Long idle stretches of time
are cut out and marked.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from checkers.history.counting import Ints
from checkers.history.history import FaultInterval
from checkers.history.view import View
from checkers.row_format import ACQUIRES, INFINITY, NONE, F, Outcome
from results.pages import svg
from results.pages.lane.shown_operations import Focus, numbers
from results.pages.svg import SHAPES, legend, question, round_up, shape_of, tag
from results.record import grouped
from results.report import sentences
from results.text import cut, duration, seconds

WIDTH: Final = 1120
LEFT: Final = 104
RIGHT: Final = 1104
_ROW: Final = 74
_BAR: Final = 38  # from a row's top to its bar
_THICK: Final = 16
_FAULT_LINE: Final = 17
_HATCH: Final = 13.0

_APART: Final = 8.5  # the least pixels between two glyphs of one row
_ASIDE: Final = 18.0  # the most pixels that a glyph is moved away from its moment to keep that distance
_TAIL: Final = 26.0

MOST_BREAKS = 6
"""The most stretches that are cut out of one picture."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A monotone, piecewise linear map. Times outside of the knots are mapped to the edges."""

    times: npt.NDArray[np.float64]  # ns; knots, ascending
    places: npt.NDArray[np.float64]  # pixels of the knots
    breaks: tuple[tuple[float, float], ...] = ()  # (from, to) in ns: stretches drawn shorter than the scale of the rest

    def __call__(self, time: float) -> float:
        """The pixel of one moment."""
        return float(np.interp(time, self.times, self.places))


def broken(begin: int, end: int, events: Sequence[int], left: float, right: float) -> Axis:
    """An axis with one scale, except that stretches without events that are much longer than usual are shortened."""
    end = max(end, begin + 1)
    whole = Axis(np.array([begin, end], np.float64), np.array([left, right], np.float64))
    knots = np.unique(np.clip(np.array([begin, *events, end], np.float64), begin, end))
    gaps = np.diff(knots)
    if len(gaps) < 4:
        return whole
    longest = np.sort(gaps)[::-1]
    cap = max(4 * float(np.median(gaps)), float(gaps.sum()) / 50)
    if len(longest) > MOST_BREAKS:
        cap = max(cap, float(longest[MOST_BREAKS]))
    widths = np.minimum(gaps, cap)
    # Cuts that save less than a third are not worth it.
    if widths.sum() > 0.67 * gaps.sum():
        return whole
    cut = gaps > 1.5 * cap
    widths = np.where(cut, cap, gaps)
    places = left + (right - left) * np.concatenate(([0.0], np.cumsum(widths))) / widths.sum()
    breaks = tuple((float(knots[i]), float(knots[i + 1])) for i in np.flatnonzero(cut))
    return Axis(knots, places, breaks)


def ticks(axis: Axis, origin: int, spacing: float = 90.0) -> list[tuple[float, str]]:
    """(pixel, label) about every `spacing` pixels, at round numbers of seconds since `origin`, none in a cut."""
    edges = [axis.times[0], *(edge for pair in axis.breaks for edge in pair), axis.times[-1]]
    parts = list(zip(edges[::2], edges[1::2], strict=True))
    shown = sum(end - begin for begin, end in parts)
    width = sum(axis(end) - axis(begin) for begin, end in parts)
    if shown <= 0 or width <= 0:
        return []
    step = round_up(shown / width * spacing)
    digits = max(0, -math.floor(math.log10(step / 1e9)))
    marks: list[tuple[float, str]] = []
    for begin, end in parts:
        first = max(math.ceil((begin - origin) / step), 0)
        last = math.floor((end - origin) / step)
        for count in range(first, last + 1):
            place = axis(origin + count * step)
            if not marks or place - marks[-1][0] > spacing / 2:
                marks.append((place, f"{count * step / 1e9:.{digits}f} s"))
    return marks


@dataclass(slots=True)
class _Canvas:
    """The state that is shared while one picture is drawn."""

    view: View
    focus: Focus
    axis: Axis
    rows: dict[int, float]
    """Worker → top of its row."""
    places: dict[int, float]
    """Operation → the pixel of its glyph."""
    numbers: Ints
    """For each hold the number that stands above it."""
    taken: dict[tuple[int, int], list[tuple[float, float]]] = field(default_factory=dict)
    """(worker, line) → stretches that have text already."""

    def text(self, worker: int, line: int, x: float, words: str, class_: str, *, must: bool = False) -> list[Markup]:
        """A label at a line of a row (0 above the bar, 1 below), or none if it would cover another."""
        half = 3.4 * len(words) + 2
        x = min(max(x, LEFT + half), RIGHT - half)
        stretches = self.taken.setdefault((worker, line), [])
        if not must and any(left < x + half and x - half < right for left, right in stretches):
            return []
        stretches.append((x - half, x + half))
        y = self.rows[worker] + (_BAR - 6 if line == 0 else _BAR + _THICK + 13)
        return [tag("text", words, x=x, y=y, class_=class_, text_anchor="middle")]

    def free(self, worker: int, x: float) -> float:
        """A free place for a number above a row, at `x` or right of it."""
        stretches = self.taken.setdefault((worker, 2), [])
        while any(left < x + 8 and x - 8 < right for left, right in stretches):
            x += 4
        stretches.append((x - 8, x + 8))
        return x


def draw(view: View, focus: Focus) -> tuple[Markup, Markup]:
    """The picture of a window, and its legend."""
    c, holds = view.history.columns, view.holds.columns
    shown = _shown_holds(view, focus)
    workers = sorted({view.worker(int(row)) for row in (*focus.rows, *holds.row[shown])})
    in_time = (fault for fault in view.history.faults if (fault.healed or focus.end) >= focus.begin)
    faults = [fault for fault in in_time if fault.begun and fault.begun <= focus.end]
    head = 10 + _FAULT_LINE * len(faults)
    rows = {worker: float(head + _ROW * place) for place, worker in enumerate(workers)}
    bottom = head + _ROW * max(len(workers), 1)
    axis = broken(focus.begin, focus.end, _events(view, focus, shown, faults), LEFT + 8, RIGHT - 14)
    canvas = _Canvas(view, focus, axis, rows, _places(view, focus, axis), numbers(view))

    parts = _bands(canvas, faults, head, bottom)
    parts += _frame(canvas, bottom)
    parts += _breaks(canvas, head, bottom)
    marks = [(int(holds.ret[place]), _hold(canvas, place)) for place in shown]
    # Marked operations get their labels first, so no other text is in their way.
    first = {row: number for number, row in enumerate(focus.marked, 1)}
    ordered = (*focus.marked, *(row for row in focus.rows if row not in first))
    marks += [(int(view.ended[row]), _operation(canvas, row, first.get(row))) for row in ordered]
    # In the order of time: the keyboard moves through the marks in this order.
    parts += chain.from_iterable(drawn for _, drawn in sorted(marks, key=lambda mark: mark[0]))
    title = f"{view.facts.lane}: {focus.why}"
    drawn = tag(
        "svg", tag("title", title), *parts,
        viewBox=f"0 0 {WIDTH} {bottom + 40}", class_="picture", role="group", aria_label=title,
    )  # fmt: skip
    kinds = {int(c["f"][row]) for row in focus.rows}.difference(ACQUIRES)
    return drawn, legend(drawn, sorted(sentences.kind(f) for f in kinds if shape_of(f) == "other"))


def _places(view: View, focus: Focus, axis: Axis) -> dict[int, float]:
    """Operation → the pixel of its glyph: at its moment, or a little beside it if it would cover another of the row."""
    placed = {row: axis(view.ended[row]) for row in focus.rows}
    glyphs = (row for row in sorted(placed, key=placed.__getitem__) if not _begins_hold(view, row))
    for line in grouped(glyphs, view.worker).values():
        at = np.array([placed[row] for row in line])
        apart = _APART * np.arange(len(line))
        # `right` keeps glyphs apart by moving them right, `left` by moving them left. So does the middle of both.
        right = np.maximum.accumulate(at - apart) + apart
        left = np.minimum.accumulate((at - apart)[::-1])[::-1] + apart
        places = np.clip((right + left) / 2, at - _ASIDE, at + _ASIDE)
        placed.update(zip(line, np.clip(places, LEFT, RIGHT).tolist(), strict=True))
    return placed


def _begins_hold(view: View, row: int) -> bool:
    """Whether an operation is an acquire that was granted: its hold is drawn."""
    return bool(view.array("f")[row] in ACQUIRES and view.array("outcome")[row] == Outcome.OK)


def _shown_holds(view: View, focus: Focus) -> list[int]:
    """The holds to draw, as places in the columns: those with drawn operations, and those that span the window."""
    holds = view.holds.columns
    of_keys = np.isin(view.array("key")[holds.row], focus.keys)
    inside = of_keys & (holds.ret <= focus.end) & (np.maximum(holds.left, holds.ret) >= focus.begin)
    owners = view.array("owner")
    drawn = np.isin(owners[holds.row], owners[np.array(focus.rows, np.int64)])
    through = (holds.ret < focus.begin) & (holds.left > focus.end)
    return [int(place) for place in np.flatnonzero(inside & (drawn | through))]


def _events(view: View, focus: Focus, shown: list[int], faults: list[FaultInterval]) -> list[int]:
    """The moments at which something is drawn. Stretches without such a moment may be cut."""
    c, holds = view.history.columns, view.holds.columns
    rows = np.array(focus.rows, np.int64)
    times = [*c["inv"][rows], *c["ret"][rows], *holds.ret[shown], *holds.left[shown]]
    times += [lease for lease in holds.expiry[shown] if lease < INFINITY]
    times += [moment for f in faults for moment in (f.begun, f.applied, f.healing, f.healed) if moment]
    return [int(time) for time in times if focus.begin < time < focus.end]


def _bands(canvas: _Canvas, faults: list[FaultInterval], head: float, bottom: float) -> list[Markup]:
    """For each fault its name on a line of its own, and a hatched band over the row that it hit, or over all rows."""
    parts: list[Markup] = []
    axis, origin = canvas.axis, canvas.view.zero
    for number, fault in enumerate(faults):
        left, right = axis(fault.begun), axis(fault.healed or canvas.focus.end)
        on = axis(fault.applied) if fault.applied else left
        off = axis(fault.healing) if fault.healing else right
        line = 8 + _FAULT_LINE * number
        hit = canvas.view.facts.worker_of(fault.process) if fault.process >= 0 else None
        top, height = (canvas.rows[hit] + 2, _ROW - 4) if hit in canvas.rows else (head, bottom - head)
        words = f"{fault.name}: {fault.target}" if fault.target else fault.name
        moments = {what: getattr(fault, what) for what in ("begun", "applied", "healing", "healed")}
        tip = [f"{what} {seconds(at, origin)}" if at else f"{what}: never" for what, at in moments.items()]
        shape = tag("rect", x=left, y=top, width=max(right - left, 1.0), height=height, class_="band")
        lines = svg.hatching(on, top, max(off - on, 1.0), height, _HATCH, falling=number % 2 > 0)
        hatched = tag("path", d=lines, class_="hatch")
        bracket = tag("path", d=f"M{left:.1f} {line + 5}v-5H{right:.1f}v5", class_="bracket")
        text = cut(words, int((RIGHT - LEFT) / 7.3), "…")
        half = 3.6 * len(text) + 6
        x = min(max((left + right) / 2, LEFT + half), RIGHT - half)
        back = tag("rect", x=x - half, y=line - 8, width=2 * half, height=15, class_="paper")
        label = tag("text", text, x=x, y=line + 4, class_="fault", text_anchor="middle")
        title = tag("title", "\n".join([f"{words} ({fault.kind})", *tip]))
        parts.append(tag("g", title, shape, hatched, bracket, back, label, class_="tip fault-of"))
    return parts


def _frame(canvas: _Canvas, bottom: float) -> list[Markup]:
    """Rows with their workers, and the time axis."""
    parts: list[Markup] = []
    for worker, top in canvas.rows.items():
        y = top + _BAR + _THICK / 2
        who = tag("text", f"worker {worker}", x=LEFT - 10, y=y + 4, class_="who", text_anchor="end")
        line = tag("path", d=f"M{LEFT} {svg.number(y)}H{RIGHT}", class_="grid")
        parts += [line, who]
    parts.append(tag("path", d=f"M{LEFT} {bottom + 4}H{RIGHT}", class_="axis"))
    for x, label in ticks(canvas.axis, canvas.view.zero):
        parts.append(tag("path", d=f"M{x:.1f} {bottom + 4}v5", class_="axis"))
        parts.append(tag("text", label, x=x, y=bottom + 22, class_="tick", text_anchor="middle"))
    return parts


def _breaks(canvas: _Canvas, head: float, bottom: float) -> list[Markup]:
    """A torn strip where time was cut out."""
    axis = canvas.axis
    parts: list[Markup] = []
    free = 0.0
    for begin, end in axis.breaks:
        middle = (axis(begin) + axis(end)) / 2
        wave = "".join(f"l{4 if step % 2 else -4} 8" for step in range(int((bottom - head) // 8) + 1))
        words = f"{duration(end - begin)} cut"
        shapes = [tag("path", d=f"M{middle + 2:.1f} {head}{wave}", class_="tear")]
        half = 2.9 * len(words)
        if middle - half > free:
            shapes.append(tag("text", words, x=middle, y=bottom + 35, class_="cut", text_anchor="middle"))
            free = middle + half
        title = tag("title", f"{duration(end - begin)} without any operation or event of this picture, drawn shorter")
        parts.append(tag("g", title, *shapes, class_="tip"))
    return parts


def _hold(canvas: _Canvas, place: int) -> list[Markup]:
    """The bar of one hold, hatched after its lease, with its token and a mark where the lease may end."""
    view, axis, holds = canvas.view, canvas.axis, canvas.view.holds.columns
    row = int(holds.row[place])
    worker = view.worker(row)
    y = canvas.rows[worker] + _BAR
    begin, end, lease = int(holds.ret[place]), int(holds.left[place]), int(holds.expiry[place])
    left, right = axis(begin), max(axis(end), axis(begin) + 2)
    sure = axis(min(max(lease, begin), end)) if lease < INFINITY else right
    token = view.token[row]
    how = "until its last operation; no release is known" if holds.open[place] else "until its release or loss"
    number = f"#{canvas.numbers[place]}"
    lines = [f"worker {worker} holds {number}, {f'token {token}' if token != NONE else 'no token'}"]
    lines.append(f"{seconds(begin, view.zero)} to {seconds(end, view.zero)}, {how}")
    if lease < INFINITY:
        lines.append(f"its lease may end at {seconds(lease, view.zero)}")
    marked = row in canvas.focus.marked
    mark = " marked" if marked else ""
    shapes = [tag("rect", x=left, y=y, width=max(sure - left, 0.5), height=_THICK, class_=f"hold{mark}")]
    if sure < right - 0.5:
        shapes.append(tag("rect", x=sure, y=y, width=right - sure, height=_THICK, class_="past-plain"))
        slanted = svg.hatching(sure, y, right - sure, _THICK, _HATCH / 2)
        shapes.append(tag("path", d=slanted, class_="hatch-past"))
        shapes.append(tag("rect", x=sure, y=y, width=right - sure, height=_THICK, class_=f"past{mark}"))
    if holds.open[place]:
        shapes.append(tag("path", d=f"M{right:.1f} {y - 3:.1f}v{_THICK + 6}", class_="open"))
    if canvas.focus.begin <= lease <= canvas.focus.end and (lease <= end or row in canvas.focus.marked[:1]):
        x = axis(lease)
        shapes.append(tag("path", d=f"M{x:.1f} {y + _THICK + 5:.1f}v{-_THICK - 14}l8 4l-8 4", class_="lease"))
        if marked:
            shapes += canvas.text(worker, 0, x + 44, "lease ends", "note")
    shapes += canvas.text(worker, 0, left + 3.4 * len(number), number, "token", must=marked)
    return [tag("g", tag("title", "\n".join(lines)), *shapes, class_="tip hold-of")]


def _operation(canvas: _Canvas, row: int, number: int | None) -> list[Markup]:
    """The glyph of one operation at its completion, with a whisker back to its invocation."""
    c = canvas.view.history.columns
    f, result, worker = int(c["f"][row]), int(c["outcome"][row]), canvas.view.worker(row)
    begin, end = canvas.axis(int(c["inv"][row])), canvas.places[row]
    y = canvas.rows[worker] + _BAR + _THICK / 2
    shapes: list[Markup] = []
    acquire = f in ACQUIRES
    if end - begin > 1:
        line = f"M{begin:.1f} {y - 3:.1f}v6m0-3H{end:.1f}"
        shapes.append(tag("path", d=line, class_="waiting" if acquire else "whisker"))
    at = f"translate({end:.1f} {y:.1f})"
    if result == Outcome.INFO:
        shapes.append(tag("path", d=f"M{end:.1f} {y:.1f}h{_TAIL:.0f}", class_="tail"))
    if not acquire:
        kind = shape_of(f)
        bad = "" if result == Outcome.OK else " bad"
        shapes.append(tag("path", d=SHAPES[kind], transform=at, class_=f"{kind}{bad}"))
    if result == Outcome.FAIL:
        shapes.append(tag("path", d=SHAPES["cross"], transform=at, class_="cross"))
    elif result != Outcome.OK:
        shapes.append(question(at))
    if f in (F.READ, F.WRITE) and c["value"][row] != NONE:
        shapes += canvas.text(worker, 1, end, short(int(c["value"][row])), "value", must=number is not None)
    if number is not None:
        x, y = canvas.free(worker, end), canvas.rows[worker] + 10
        shapes.append(tag("circle", cx=x, cy=y, r=8, class_="number"))
        shapes.append(tag("text", str(number), x=x, y=y + 4, class_="digit", text_anchor="middle"))
    if _begins_hold(canvas.view, row) and not shapes:
        return []
    title = tag("title", sentences.details(canvas.view.history, row, canvas.view.zero))
    return [tag("g", title, *shapes, class_="tip op", data_row=row, data_witness=number)]


def short(value: int) -> str:
    """A value, or its last digits: values are unique, so these suffice in one picture."""
    text = str(value)
    return text if len(text) <= 6 else "…" + text[-4:]
