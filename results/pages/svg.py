"""SVG elements as text, whose attributes and contents are always escaped, and the shapes of operations."""

import math
from collections.abc import Mapping
from typing import Final

from markupsafe import Markup, escape

from checkers.row_format import F

MOST_LINES: Final = 90
"""The most lines of one hatching. If there would be more, they stand further apart."""

SHAPES: Final[Mapping[str, str]] = {
    "write": "M0-6.5L6.5 0L0 6.5L-6.5 0z",
    "read": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
    "renew": "M0-6v12M-3.5-2.5L0-6L3.5-2.5",
    "release": "M-1.5-8h3v16h-3z",
    "lost": "M-5.5 5L0-5.5L5.5 5z",
    "effect": "M0-7.5L2-2H7.5L3.2 1.4L4.7 6.8L0 3.6L-4.7 6.8L-3.2 1.4L-7.5-2H-2z",
    "other": "M-3-3h6v6h-6z",
    "cross": "M-4.5-4.5L4.5 4.5M-4.5 4.5L4.5-4.5",
    "small": "M-2.5-2.5L2.5 2.5M-2.5 2.5L2.5-2.5",
    "violation": "M-6-10h12L0 1z",
}
"""Name → path data around (0, 0), for picture and canvas. `cross` and `small`: refused; `violation`: a moment."""
_SHAPED: Final = (F.WRITE, F.READ, F.RENEW, F.RELEASE, F.LOST, F.EFFECT)
"""Operations whose shape has their name."""


def shape_of(f: int) -> str:
    """The name of the shape of a kind of operation, which is also the class that gives it its colours."""
    return "renew" if f == F.KEEP_ALIVE else F(f).name.lower() if f in _SHAPED else "other"


def number(value: float) -> str:
    """A number with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def round_up(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten, for the scale of an axis; one just below the value will do."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * 0.999)


def tag(name: str, *children: str, **attributes: str | float | None) -> Markup:
    """One element. `class_` and `stroke_width` become class and stroke-width; None leaves an attribute out.

    Children that are plain text are escaped, `Markup` is taken as it is.
    """
    begin = f"<{name}"
    for key, value in attributes.items():
        if value is not None:
            shown = number(value) if isinstance(value, float) else escape(value)
            begin += f' {key.rstrip("_").replace("_", "-")}="{shown}"'
    return Markup(f"{begin}>{''.join(map(escape, children))}</{name}>" if children else f"{begin}/>")


def hatching(x: float, y: float, width: float, height: float, step: float, *, falling: bool = False) -> str:
    """Path data of slanted lines across a box. An SVG pattern would be printed as a picture of many megabytes."""
    step = max(step, (width + height) / MOST_LINES)
    right, low = x + width, y + height
    lines = []
    for number_ in range(math.ceil((x + y) / step), math.floor((right + low) / step) + 1):
        total = number_ * step
        begin = min(max(total - low, x), right)
        length = min(max(total - y, x), right) - begin
        if length > 0.2:
            left, top = (x + right - begin, total - begin) if falling else (begin, total - begin)
            lines.append(f"M{number(left)} {number(top)}l{number(-length if falling else length)} {number(-length)}")
    return "".join(lines)
