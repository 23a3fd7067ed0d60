"""The legends of a lane's picture and of its timeline: what each symbol means."""

from collections.abc import Collection, Mapping
from typing import Final

from markupsafe import Markup

from results.pages.svg import SHAPES, tag


def question(at: str | None = None) -> Markup:
    """The mark of an unknown outcome."""
    return tag("text", "?", y=4, class_="question", text_anchor="middle", transform=at)


def legend(symbols: Collection[str]) -> Markup:
    """What these symbols mean, each drawn as in the picture. `other NAME`: an operation without a shape of its own."""
    others = sorted(symbol.removeprefix("other ") for symbol in symbols if symbol.startswith("other "))
    items = [(name, words) for name, (_, words) in _LEGEND.items() if name in symbols]
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
    "hold": (tag("rect", x=-13, y=-6, width=26, height=12, class_="hold", rx=2), "holds the lock, its token above"),
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
