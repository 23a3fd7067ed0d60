"""The shapes of the picture, and the legend that names those of them that occur."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from markupsafe import Markup

from checkers.wire import F
from results.pages import svg
from results.pages.svg import tag

# Shapes around (0, 0), as path data.
GLYPHS: Final[Mapping[int, str]] = {
    F.WRITE: "M0-6.5L6.5 0L0 6.5L-6.5 0z",
    F.READ: "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
    F.RENEW: "M0-6v12M-3.5-2.5L0-6L3.5-2.5",
    F.KEEP_ALIVE: "M0-6v12M-3.5-2.5L0-6L3.5-2.5",
    F.RELEASE: "M-1.5-8h3v16h-3z",
    F.LOST: "M-5.5 5L0-5.5L5.5 5z",
    F.EFFECT: "M0-7.5L2-2H7.5L3.2 1.4L4.7 6.8L0 3.6L-4.7 6.8L-3.2 1.4L-7.5-2H-2z",
}
CROSS: Final = "M-4.5-4.5L4.5 4.5M-4.5 4.5L4.5-4.5"
OTHER: Final = "M-3-3h6v6h-6z"

_KINDS: Final[Mapping[int, str]] = {
    F.WRITE: "write",
    F.READ: "read",
    F.RENEW: "renew",
    F.KEEP_ALIVE: "renew",
    F.RELEASE: "release",
    F.LOST: "lost",
    F.EFFECT: "effect",
}


def kind_of(f: int) -> str:
    """The class of an operation's glyph."""
    return _KINDS.get(f, "other")


def question(at: str | None = None) -> Markup:
    """Nobody knows whether it happened."""
    return tag("text", "?", y=4, class_="question", text_anchor="middle", transform=at)


def legend(symbols: Iterable[str]) -> Markup:
    """What these symbols mean, each drawn as it stands in the picture.

    An operation without a shape of its own is the symbol `other` with its name behind.
    """
    symbols = set(symbols)
    others = sorted(symbol.removeprefix("other ") for symbol in symbols if symbol.startswith("other "))
    items = [(name, draw(), words) for name, (draw, words) in _LEGEND.items() if name in symbols]
    if others:
        items.append(("other", tag("path", d=OTHER, class_="other"), ", ".join(others)))
    return svg.join(
        tag("span", tag("svg", shape, viewBox="-15 -11 30 22", aria_hidden="true"), words,
            data_symbol=name)
        for name, shape, words in items
    )  # fmt: skip


def _path(d: str, class_: str) -> Callable[[], Markup]:
    return lambda: tag("path", d=d, class_=class_)


def _hold() -> Markup:
    return tag("rect", x=-13, y=-6, width=26, height=12, class_="hold", rx=2)


def _past() -> Markup:
    return tag("path", d="M-13-6h26v12h-26z", class_="past-plain") + tag("path", d="M-9 6L3-6M-1 6L11-6", class_="line")


def _open() -> Markup:
    return tag("rect", x=-13, y=-6, width=18, height=12, class_="hold") + tag("path", d="M5-10v20", class_="open")


def _refused() -> Markup:
    return tag("path", d=GLYPHS[F.WRITE], class_="write bad") + tag("path", d=CROSS, class_="cross")


def _unknown() -> Markup:
    return tag("path", d=GLYPHS[F.WRITE], class_="write bad") + question()


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
    "write": (_path(GLYPHS[F.WRITE], "write"), "write, its value below"),
    "read": (_path(GLYPHS[F.READ], "read"), "read, its value below"),
    "effect": (_path(GLYPHS[F.EFFECT], "effect"), "does a job"),
    "renew": (_path(GLYPHS[F.RENEW], "renew"), "renewal"),
    "release": (_path(GLYPHS[F.RELEASE], "release"), "release"),
    "lost": (_path(GLYPHS[F.LOST], "lost"), "notices the loss"),
    "whisker": (_path("M-13-3v6m0-3h26", "whisker"), "from call to answer"),
    "refused": (_refused, "refused or timed out"),
    "unknown": (_unknown, "outcome unknown"),
    "tail": (_path("M-13 0h26", "tail"), "may still happen"),
    "fault": (_fault, "fault at work; pale while it is applied or undone"),
    "cut": (_path("M1-11l-4 8l4 8l-4 8", "tear"), "time cut out"),
}
