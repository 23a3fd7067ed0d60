"""The windows of a lane: one for each violation, or one on the liveliest moment without any."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from markupsafe import Markup

from checkers.claims import Verdict
from checkers.history.view import View
from checkers.judging.judgement import Judgement
from checkers.properties.check_result import Violation
from results.pages.lane import glyphs, picture, shown_operations
from results.pages.lane.shown_operations import Focus
from results.record import LaneRecord, decisive
from results.report import sentences, short_story
from results.text import seconds

_FEWER: Final = 40
"""The most operations in each window but the first."""
_MOST_MARKED: Final = 12


@dataclass(frozen=True, slots=True)
class OperationRow:
    """A row of the table of marked operations."""

    row: int
    worker: int
    what: str
    outcome: str
    invoked: str
    returned: str


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
    witness: tuple[OperationRow, ...]


def windows(lane: LaneRecord, view: View, most: int) -> list[Window]:
    """At most `most` windows. The first shows the violation that decided the lane's verdict."""
    violations = list(islice(_violations(lane), most))
    if not violations:
        return [_window(view, shown_operations.on_liveliest(view), sentences.leading(lane), None)]
    made = []
    for number, (judgement, violation) in enumerate(violations):
        near = shown_operations.on_violation(view, violation, _FEWER if number else shown_operations.MOST_OPERATIONS)
        made.append(_window(view, near, judgement, violation))
    return made


def _window(view: View, near: Focus, judgement: Judgement | None, violation: Violation | None) -> Window:
    made = picture.draw(view, near)
    return Window(
        judgement.property if judgement is not None else "",
        judgement.word if judgement is not None else None,
        violation.kind if violation is not None else "",
        short_story.tell(view, violation) if violation is not None else (),
        near,
        made.svg,
        glyphs.legend(made.symbols),
        _witness(view, near),
    )


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


def _witness(view: View, near: Focus) -> tuple[OperationRow, ...]:
    c = view.history.columns
    return tuple(
        OperationRow(
            row,
            view.worker(row),
            sentences.what(view.history, row),
            sentences.outcome(view.history, row),
            seconds(int(c["inv"][row]), view.zero),
            seconds(int(c["ret"][row]), view.zero) if c["ret"][row] else "never",
        )
        for row in near.marked[:_MOST_MARKED]
    )
