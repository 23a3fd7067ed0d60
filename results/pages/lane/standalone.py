"""The picture of one judgement as an SVG file, for a README."""

from pathlib import Path
from typing import Final

from markupsafe import Markup

from checkers.history.history import History
from checkers.history.view import View
from checkers.judging.judgement import Judgement
from results.pages.lane import picture, shown_operations
from results.pages.svg import tag
from results.record import decisive

_STYLE: Final = Path(__file__).parents[1] / "templates" / "style.css"

_ALONE: Final = "svg { font-family: system-ui, sans-serif; background: var(--paper); }"
"""Styles that a page has for all its pictures."""


def draw(history: History, judgement: Judgement) -> str:
    """The SVG file: the violation that decided the verdict, or the liveliest moment of a property that held."""
    violation = decisive(judgement)
    view = history.once(View)
    window = shown_operations.on_violation(view, violation) if violation else shown_operations.on_liveliest(view)
    drawn = picture.draw(view, window).svg
    story = violation.story if violation else (f"{judgement.property} held: {window.why}",)
    style = _STYLE.read_text("utf-8").replace(":root", "svg") + _ALONE
    inside = tag("desc", "\n".join(story)) + tag("style", Markup(style))
    head, _, rest = drawn.partition(">")
    return f'{head} xmlns="http://www.w3.org/2000/svg">{inside}{rest}\n'
