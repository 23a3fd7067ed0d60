"""A curve as an SVG file for a README, with its style: shares with their intervals over a ratio."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from results.pages.svg import tag

WIDTH: Final = 860
HEIGHT: Final = 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 640, 40, 340

_GLYPHS: Final = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-4-4h8v8h-8z",
    "M0-5L5 4H-5z",
    "M0-5.5L5.5 0L0 5.5L-5.5 0z",
    "M0 5L5-4H-5z",
)
_DASHES: Final = (None, "7 3", "2 3", "9 3 2 3", "4 4")
_COLOURS: Final = ("#1f6feb", "#b35900", "#1a7f37", "#8250df", "#bf3989")
_STYLE: Final = """
text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600;font-size:15px}.grid{stroke:#d0d7de}
.axis{stroke:#59636e}.mark{stroke:#59636e;stroke-dasharray:3 3}.note{font-size:11.5px;fill:#59636e}
@media(prefers-color-scheme:dark){svg{background:#0d1117}text{fill:#e6edf3}.grid{stroke:#30363d}
.axis,.mark{stroke:#9198a1}.note{fill:#9198a1}}"""

_Z: Final = 1.96  # quantile of the normal distribution for 95 %


@dataclass(frozen=True, slots=True)
class Point:
    """The number of `hits` in `tries` at one ratio."""

    ratio: float
    hits: int
    tries: int

    def interval(self) -> tuple[float, float]:
        """Wilson's score interval, 95 %. Source: Wilson (1927)."""
        n, p = self.tries, self.hits / self.tries
        centre, spread = p + _Z**2 / (2 * n), _Z * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
        scale = 1 + _Z**2 / n
        return max((centre - spread) / scale, 0.0), min((centre + spread) / scale, 1.0)


@dataclass(frozen=True, slots=True)
class LockPoints:
    """One lock's points, in order of their ratios."""

    name: str
    points: tuple[Point, ...]


def draw(title: str, across: str, series: Sequence[LockPoints], marks: Sequence[tuple[float, str]] = ()) -> str:
    """The SVG file. across: the name of the ratio. marks: ratios with a note."""
    widest = max((point.ratio for line in series for point in line.points), default=1.0)
    widest = max(widest, 1.0) * 1.03

    def x(ratio: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * ratio / widest

    def y(share: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * share

    parts: list[Markup] = [tag("text", title, x=_LEFT, y=22, class_="title")]
    for tenth in range(0, 11, 2):
        parts.append(tag("path", d=f"M{_LEFT} {y(tenth / 10):.1f}H{_RIGHT}", class_="grid"))
        parts.append(tag("text", f"{tenth * 10} %", x=_LEFT - 8, y=y(tenth / 10) + 4, text_anchor="end"))
    for quarter in range(int(widest * 4) + 1):
        parts.append(tag("path", d=f"M{x(quarter / 4):.1f} {_BOTTOM}v5", class_="axis"))
        parts.append(tag("text", f"{quarter / 4:g}", x=x(quarter / 4), y=_BOTTOM + 20, text_anchor="middle"))
    parts.append(tag("path", d=f"M{_LEFT} {_BOTTOM}H{_RIGHT}", class_="axis"))
    parts.append(tag("text", across, x=(_LEFT + _RIGHT) / 2, y=_BOTTOM + 42, text_anchor="middle"))
    for place, (ratio, words) in enumerate(marks):
        parts.append(tag("path", d=f"M{x(ratio):.1f} {_TOP}V{_BOTTOM}", class_="mark"))
        parts.append(tag("text", words, x=x(ratio) + 4, y=_TOP + 12 + 14 * place, class_="note"))
    for place, curve in enumerate(series):
        glyph, dashes, colour = (of[place % len(of)] for of in (_GLYPHS, _DASHES, _COLOURS))
        line = " ".join(f"{x(p.ratio):.1f},{y(p.hits / p.tries):.1f}" for p in curve.points)
        parts.append(tag("polyline", points=line, fill="none", stroke=colour, stroke_width=2, stroke_dasharray=dashes))
        for point in curve.points:
            low, high = point.interval()
            tip = f"{curve.name}: {point.hits} of {point.tries} at {point.ratio:.2f}"
            whisker = tag("path", d=f"M{x(point.ratio):.1f} {y(low):.1f}V{y(high):.1f}", stroke=colour, opacity="0.5")
            at = f"translate({x(point.ratio):.1f} {y(point.hits / point.tries):.1f})"
            parts.append(tag("g", tag("title", tip), whisker, tag("path", d=glyph, transform=at, fill=colour)))
        level = _TOP + 22 * place
        sample = tag("path", d=f"M{_RIGHT + 24} {level}h34", stroke=colour, stroke_width=2, stroke_dasharray=dashes)
        parts.append(sample)
        parts.append(tag("path", d=glyph, transform=f"translate({_RIGHT + 41} {level})", fill=colour))
        parts.append(tag("text", curve.name, x=_RIGHT + 66, y=level + 4))
    parts.append(tag("text", "bars: 95 % (Wilson)", x=_RIGHT + 24, y=_TOP + 22 * len(series) + 6, class_="note"))
    style = tag("style", Markup(_STYLE))
    made = tag(
        "svg", tag("title", title), style, *parts, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {HEIGHT}",
        width=WIDTH, height=HEIGHT, role="img", aria_label=title,
    )  # fmt: skip
    return str(made) + "\n"
