"""The windows of a lane: one for each violation, or one on the liveliest moment without any. Also one as a file."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from markupsafe import Markup

from checkers.claims import Verdict
from checkers.history.history import History
from checkers.history.view import View
from checkers.judging.judgement import Judgement
from checkers.properties.check_result import Violation
from results.pages.lane import picture, shown_operations
from results.pages.lane.shown_operations import Focus
from results.pages.svg import tag
from results.record import LaneRecord, decisive
from results.report import sentences, short_story
from results.text import seconds

_FEWER: Final = 40  # the most operations in each window but the first
_MOST_MARKED: Final = 12
_STYLE: Final = Path(__file__).parents[1] / "templates" / "style.css"


@dataclass(frozen=True, slots=True)
class Window:
    """One part of a lane: the story of its violation, if it has one, and its picture."""

    property: str
    word: Verdict | None
    kind: str
    story: tuple[short_story.StoryLine, ...]
    focus: Focus
    picture: Markup
    legend: Markup
    witness: tuple[Mapping[str, object], ...]


def windows(lane: LaneRecord, view: View, most: int) -> list[Window]:
    """At most `most` windows. The first shows the violation that decided the lane's verdict."""
    made: list[Window] = []
    for judgement, violation in islice(_violations(lane), most):
        near = shown_operations.on_violation(view, violation, _FEWER if made else shown_operations.MOST_OPERATIONS)
        made.append(_window(view, near, judgement, violation))
    return made or [_window(view, shown_operations.on_liveliest(view), sentences.leading(lane), None)]


def _window(view: View, near: Focus, judgement: Judgement | None, violation: Violation | None) -> Window:
    drawn, legend = picture.draw(view, near)
    name, word = (judgement.property, judgement.word) if judgement else ("", None)
    kind, story = (violation.kind, short_story.tell(view, violation)) if violation else ("", ())
    return Window(name, word, kind, story, near, drawn, legend, _witness(view, near))


def standalone(history: History, judgement: Judgement) -> str:
    """The picture of a judgement as an SVG file, for a README: what decided the verdict, or the liveliest moment."""
    violation = decisive(judgement)
    view = history.once(View)
    near = shown_operations.on_violation(view, violation) if violation else shown_operations.on_liveliest(view)
    story = violation.story if violation else (f"{judgement.property} held: {near.why}",)
    style = _STYLE.read_text("utf-8").replace(":root", "svg")
    style += "svg { font-family: system-ui, sans-serif; background: var(--paper); }"  # as a page has for all pictures
    inside = tag("desc", "\n".join(story)) + tag("style", Markup(style))
    head, _, rest = picture.draw(view, near)[0].partition(">")
    return f'{head} xmlns="http://www.w3.org/2000/svg">{inside}{rest}\n'


def small(history: History, violation: Violation) -> Markup:
    """The picture of a violation with fewer operations, for a page that is not about this lane alone."""
    view = history.once(View)
    return picture.draw(view, shown_operations.on_violation(view, violation, _FEWER))[0]


def moments(lane: LaneRecord) -> list[tuple[int, str]]:
    """(ns, words) of each violation, in the order of time."""
    return sorted(
        (violation.at, f"{judgement.property}: {violation.kind}")
        for judgement in lane.judgements
        if judgement.result is not None
        for violation in judgement.result.violations
    )


def _violations(lane: LaneRecord) -> Iterator[tuple[Judgement, Violation]]:
    """First the violation that decided the verdict, then the decisive ones of other properties, then the rest."""
    lead = sentences.leading(lane)
    ordered = sorted(lane.judgements, key=lambda judgement: (judgement is not lead, judgement.word.weight))
    decided = [(judgement, violation) for judgement in ordered if (violation := decisive(judgement)) is not None]
    yield from decided
    for judgement, first in decided:
        assert judgement.result is not None
        yield from ((judgement, other) for other in judgement.result.violations if other != first)


def _witness(view: View, near: Focus) -> tuple[Mapping[str, object], ...]:
    """The rows of the table of marked operations."""
    c = view.history.columns
    return tuple(
        {
            "row": row,
            "worker": view.worker(row),
            "what": sentences.what(view.history, row),
            "outcome": sentences.outcome(view.history, row),
            "invoked": seconds(int(c["inv"][row]), view.zero),
            "returned": seconds(int(c["ret"][row]), view.zero) if c["ret"][row] else "never",
        }
        for row in near.marked[:_MOST_MARKED]
    )
