"""SVG elements as text, whose attributes and contents are always escaped; shapes of operations, and their legends."""

import math
import re
from collections.abc import Iterable, Mapping
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
_SHAPED: Final = (F.WRITE, F.READ, F.RENEW, F.RELEASE, F.LOST, F.EFFECT)  # operations whose shape has their name


def shape_of(f: int) -> str:
    """The name of the shape of a kind of operation, which is also the class that gives it its colours."""
    return "renew" if f == F.KEEP_ALIVE else F(f).name.lower() if f in _SHAPED else "other"


def number(value: float) -> str:
    """A number with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def round_up(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten, for the scale of an axis; a number just below the value will do."""
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


def question(at: str | None = None) -> Markup:
    """The mark of an unknown outcome."""
    return tag("text", "?", y=4, class_="question", text_anchor="middle", transform=at)


def legend(picture: str, others: Iterable[str]) -> Markup:
    """What the symbols of a picture mean, each drawn as there. others: its operations without a shape of their own."""
    classes = {name for names in _CLASSES.findall(picture) for name in names.split()}
    items = [(name, words) for name, (_, words) in _LEGEND.items() if _CLASS_OF.get(name, name) in classes]
    items += [("other", ", ".join(others))] if others else []
    return Markup().join(_item(name, words, name) for name, words in items)


def legend_of_canvas() -> Markup:
    """The legend of a timeline. Its symbols are those of the picture."""
    return Markup().join(_item(name, words) for name, words in _ON_CANVAS.items())


def _item(name: str, words: str, symbol: str | None = None) -> Markup:
    shape = _LEGEND[name][0] if name in _LEGEND else _path(SHAPES[name], "axis" if name == "small" else name)
    drawn = tag("svg", shape, viewBox="-15 -11 30 22", aria_hidden="true")
    return tag("span", drawn, words, data_symbol=symbol)


def _path(d: str, class_: str) -> Markup:
    return tag("path", d=d, class_=class_)


_WRITE: Final = _path(SHAPES["write"], "write bad")
_LEGEND: Final[Mapping[str, tuple[Markup, str]]] = {
    "number": (
        tag("circle", r=8, class_="number") + tag("text", "1", y=4, class_="digit", text_anchor="middle"),
        "told in the story, in the order of time",
    ),
    "waiting": (_path("M-13-3v6m0-3h26", "waiting"), "asks for the lock and waits"),
    "hold": (
        tag("rect", x=-13, y=-6, width=26, height=12, class_="hold", rx=2),
        "holds the lock; #1, #2, ... are its grants, with their tokens on hover",
    ),
    "lease": (_path("M0-9v18M0-9l7 3.5l-7 3.5", "lease"), "the lease may end here"),
    "past": (
        _path("M-13-6h26v12h-26z", "past-plain") + _path("M-9 6L3-6M-1 6L11-6", "line"),
        "holds on after its lease",
    ),
    "open": (
        tag("rect", x=-13, y=-6, width=18, height=12, class_="hold") + _path("M5-10v20", "open"),
        "no release is known",
    ),
    "write": (_path(SHAPES["write"], "write"), "write, its value below"),
    "read": (_path(SHAPES["read"], "read"), "read, its value below"),
    "effect": (_path(SHAPES["effect"], "effect"), "does a job"),
    "renew": (_path(SHAPES["renew"], "renew"), "renewal"),
    "release": (_path(SHAPES["release"], "release"), "release"),
    "lost": (_path(SHAPES["lost"], "lost"), "notices the loss"),
    "whisker": (_path("M-13-3v6m0-3h26", "whisker"), "from call to answer"),
    "refused": (_WRITE + _path(SHAPES["cross"], "cross"), "refused or timed out"),
    "unknown": (_WRITE + question(), "outcome unknown"),
    "tail": (_path("M-13 0h26", "tail"), "may still happen"),
    "fault": (
        tag("rect", x=-14, y=-9, width=28, height=18, class_="band") + _path("M-8 9L10-9M-14 5L0-9M0 9L12-3", "hatch"),
        "fault at work; pale while it is applied or undone",
    ),
    "cut": (_path("M1-11l-4 8l4 8l-4 8", "tear"), "time cut out"),
}
"""Symbol → how it is drawn, and what it means."""
_CLASS_OF: Final = {"refused": "cross", "unknown": "question", "fault": "band", "cut": "tear"}
"""Symbol → the class that shows it in a picture, if that has another name."""
_CLASSES: Final = re.compile(r'class="([^"]*)"')

_ON_CANVAS: Final[Mapping[str, str]] = {
    "waiting": "waits",
    "hold": "holds",
    "past": "after its lease",
    "write": "write",
    "read": "read",
    "renew": "renewal",
    "refused": "access refused",
    "small": "other refused, timed out",
    "unknown": "unknown",
    "violation": "violation",
}
