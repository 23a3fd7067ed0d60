"""SVG elements as text, whose attributes and contents are always escaped."""

import math
from collections.abc import Iterable
from functools import cache

from markupsafe import Markup, escape

MOST_LINES = 90
"""The most lines of one hatching. If there would be more, they stand further apart."""

Attribute = str | int | float | None


def number(value: float) -> str:
    """A number with at most one decimal."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def round_up(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten, for the scale of an axis; one just below the value will do."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * 0.999)


def tag(name: str, *children: str, **attributes: Attribute) -> Markup:
    """One element. `class_` and `stroke_width` become class and stroke-width; None leaves an attribute out.

    Children that are plain text are escaped, `Markup` is taken as it is.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None:
            continue
        text = escape(value) if isinstance(value, str) else number(value) if isinstance(value, float) else str(value)
        parts.append(f' {_spelled(key)}="{text}"')
    if not children:
        parts.append("/>")
    else:
        parts.append(">")
        parts.extend(escape(child) for child in children)
        parts.append(f"</{name}>")
    return Markup("".join(parts))


@cache
def _spelled(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def join(parts: Iterable[Markup]) -> Markup:
    """Elements one after another."""
    return Markup("").join(parts)


def hatching(x: float, y: float, width: float, height: float, step: float, *, falling: bool = False) -> str:
    """Path data of slanted lines across a box. An SVG pattern would be printed as a picture of many megabytes."""
    step = max(step, (width + height) / MOST_LINES)
    right, low = x + width, y + height
    lines = []
    for number_ in range(math.ceil((x + y) / step), math.floor((right + low) / step) + 1):
        total = number_ * step
        begin = min(max(total - low, x), right)
        end = min(max(total - y, x), right)
        length = end - begin
        if length > 0.2:
            left, top = (x + right - begin, total - begin) if falling else (begin, total - begin)
            lines.append(f"M{number(left)} {number(top)}l{number(-length if falling else length)} {number(-length)}")
    return "".join(lines)
