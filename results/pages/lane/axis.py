"""The time axis of a picture: nanoseconds to pixels, with long idle stretches cut out and marked."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from results.pages.svg import round_up

MOST_BREAKS = 6
"""The most stretches that are cut out of one picture."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A monotone, piecewise linear map. Times outside of the knots are mapped to the edges.

    times   ns; knots, ascending.
    places  pixels of the knots.
    breaks  (from, to) in ns: stretches drawn shorter than the scale of the rest.
    """

    times: npt.NDArray[np.float64]
    places: npt.NDArray[np.float64]
    breaks: tuple[tuple[float, float], ...] = ()

    def __call__(self, time: float) -> float:
        """The pixel of one moment."""
        return float(np.interp(time, self.times, self.places))


def broken(begin: int, end: int, events: Sequence[int], left: float, right: float) -> Axis:
    """An axis with one scale, but for stretches without events that are much longer than usual: they are shortened."""
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
