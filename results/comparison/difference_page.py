"""A comparison's page: how verdicts changed, and times and rates, with pictures of their intervals."""

import math
from pathlib import Path
from typing import Final

from markupsafe import Markup

from results.comparison import presentation
from results.comparison.compare import Comparison
from results.comparison.presentation import Side
from results.comparison.speeds import ALPHA, RATIO, Speed
from results.pages import web
from results.pages.svg import tag
from results.report.verdict_changes import Kind

_WIDTH: Final = 130
_HEIGHT: Final = 20
_MOST: Final = 1000
"""The most cells that are listed without being notable. The JSON has all."""

_SPAN: Final = math.log(8)
"""Ratios from an eighth to eight are drawn; others are drawn at the end."""


def render(comparison: Comparison, before: Side, after: Side, path: Path) -> str:
    """The page as HTML. path: where it will stand; links to the trials' pages are relative to it."""
    changed = [change for change in comparison.changes if change.kind is not Kind.SAME]
    notable = [change for change in changed if presentation.notable(change)]
    others = [change for change in changed if not presentation.notable(change)]
    folder = path.resolve().parent
    sides = (("A", before), ("B", after))
    return web.render(
        "compare.html",
        title=f"{before.name} and {after.name} - fencepost",
        headline=presentation.headline(comparison),
        remarks=presentation.remarks(comparison, before, after),
        sides=[(letter, side, web.relative(side.path / "index.html", folder)) for letter, side in sides],
        problems=[(letter, side.contents.problems) for letter, side in sides if side.contents.problems],
        counts=[(kind, number) for kind, number in presentation.counts(comparison).items() if number],
        why=presentation.why,
        link=lambda seen: web.relative(seen.page, folder),
        changes=notable,
        others=others[:_MOST],
        more=max(len(others) - _MOST, 0),
        heads=presentation.HEADS,
        speeds=[
            (presentation.speed_word(speed), presentation.cells(speed), _interval(speed)) for speed in comparison.speeds
        ],
        ratio=RATIO,
        alpha=ALPHA,
    )


def _interval(speed: Speed) -> Markup:
    """The ratio and its interval on a logarithmic scale. Lines mark no difference and the threshold on both sides."""

    def x(ratio: float) -> float:
        return _WIDTH / 2 * (1 + min(max(math.log(ratio) / _SPAN, -1.0), 1.0))

    middle = _HEIGHT / 2
    parts = [tag("path", d=f"M{x(1):.1f} 0v{_HEIGHT}", class_="axis")]
    parts += [tag("path", d=f"M{x(edge):.1f} 0v{_HEIGHT}", class_="grid") for edge in (RATIO, 1 / RATIO)]
    if speed.interval is not None:
        low, high = (x(bound) for bound in speed.interval)
        parts.append(tag("path", d=f"M{low:.1f} {middle}H{high:.1f}M{low:.1f} 6v8M{high:.1f} 6v8", class_="whisker"))
    parts.append(tag("circle", cx=x(speed.ratio), cy=middle, r=4, class_="release"))
    bounds = f", 95 %: {speed.interval[0]:.2f} to {speed.interval[1]:.2f}" if speed.interval else ""
    words = f"{speed.ratio:.2f} times{bounds}"
    return tag(
        "svg", tag("title", words), *parts, width=_WIDTH, height=_HEIGHT, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img",
        aria_label=words,
    )  # fmt: skip
