"""The legends of a lane's picture and of its timeline: what each symbol means."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from markupsafe import Markup

from results.pages import svg
from results.pages.shapes import SHAPES
from results.pages.svg import tag


def question(at: str | None = None) -> Markup:
    """The mark of an unknown outcome."""
    return tag("text", "?", y=4, class_="question", text_anchor="middle", transform=at)


def legend(symbols: Iterable[str]) -> Markup:
    """The legend of a picture: what these symbols mean, each drawn as in the picture.

    An operation without a shape of its own is the symbol `other` with its name behind.
    """
    symbols = set(symbols)
    others = sorted(symbol.removeprefix("other ") for symbol in symbols if symbol.startswith("other "))
    items = [(name, words) for name, (_, words) in _LEGEND.items() if name in symbols]
    items += [("other", ", ".join(others))] if others else []
    return svg.join(_item(name, words, name) for name, words in items)


def legend_of_canvas() -> Markup:
    """The legend of a timeline. Its symbols are those of the picture."""
    return svg.join(_item(name, words) for name, words in _ON_CANVAS.items())


def _item(name: str, words: str, symbol: str | None = None) -> Markup:
    drawn = tag("svg", _draw(name), viewBox="-15 -11 30 22", aria_hidden="true")
    return tag("span", drawn, words, data_symbol=symbol)


def _draw(name: str) -> Markup:
    return _LEGEND[name][0]() if name in _LEGEND else tag("path", d=SHAPES[name], class_=_CLASSES.get(name, name))


def _path(d: str, class_: str) -> Callable[[], Markup]:
    return lambda: tag("path", d=d, class_=class_)


def _shape(name: str) -> Callable[[], Markup]:
    return _path(SHAPES[name], name)


def _hold() -> Markup:
    return tag("rect", x=-13, y=-6, width=26, height=12, class_="hold", rx=2)


def _past() -> Markup:
    """A hold after its lease."""
    return tag("path", d="M-13-6h26v12h-26z", class_="past-plain") + tag("path", d="M-9 6L3-6M-1 6L11-6", class_="line")


def _open() -> Markup:
    return tag("rect", x=-13, y=-6, width=18, height=12, class_="hold") + tag("path", d="M5-10v20", class_="open")


def _refused() -> Markup:
    """A write that was refused."""
    return tag("path", d=SHAPES["write"], class_="write bad") + tag("path", d=SHAPES["cross"], class_="cross")


def _unknown() -> Markup:
    return tag("path", d=SHAPES["write"], class_="write bad") + question()


def _number() -> Markup:
    digit = tag("text", "1", y=4, class_="digit", text_anchor="middle")
    return tag("circle", r=8, class_="number") + digit


def _fault() -> Markup:
    plain = tag("rect", x=-14, y=-9, width=28, height=18, class_="band")
    return plain + tag("path", d="M-8 9L10-9M-14 5L0-9M0 9L12-3", class_="hatch")


_LEGEND: Final[Mapping[str, tuple[Callable[[], Markup], str]]] = {
    "number": (_number, "told in the story, in the order of time"),
    "waiting": (_path("M-13-3v6m0-3h26", "waiting"), "asks for the lock and waits"),
    "hold": (_hold, "holds the lock, its token above"),
    "lease": (_path("M0-9v18M0-9l7 3.5l-7 3.5", "lease"), "the lease may end here"),
    "past": (_past, "holds on after its lease"),
    "open": (_open, "no release is known"),
    "write": (_shape("write"), "write, its value below"),
    "read": (_shape("read"), "read, its value below"),
    "effect": (_shape("effect"), "does a job"),
    "renew": (_shape("renew"), "renewal"),
    "release": (_shape("release"), "release"),
    "lost": (_shape("lost"), "notices the loss"),
    "whisker": (_path("M-13-3v6m0-3h26", "whisker"), "from call to answer"),
    "refused": (_refused, "refused or timed out"),
    "unknown": (_unknown, "outcome unknown"),
    "tail": (_path("M-13 0h26", "tail"), "may still happen"),
    "fault": (_fault, "fault at work; pale while it is applied or undone"),
    "cut": (_path("M1-11l-4 8l4 8l-4 8", "tear"), "time cut out"),
}

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
_CLASSES: Final[Mapping[str, str]] = {"small": "axis"}
"""Shape → the class that gives it its colours, where that is not of its name."""
