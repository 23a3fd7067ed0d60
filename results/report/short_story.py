"""A violation's story: at most five lines, each with the operations that it describes.

`checkers.properties.violation_stories` makes the sentences, in order of time. If there are more than five, neighbours
are joined in one line, those about one worker first. `python -m checkers` shows each sentence on a line of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from checkers.history.view import View
from checkers.properties.check_result import Violation
from checkers.properties.story_sentences import Sentence
from checkers.properties.violation_stories import Narrator
from results.record import LaneRecord, decisive

MOST_LINES: Final = 5


@dataclass(frozen=True, slots=True)
class StoryLine:
    """text: a sentence, or several. rows: the operations that it describes; none if it is about something else."""

    text: str
    rows: tuple[int, ...] = ()


def stories(lane: LaneRecord) -> dict[str, tuple[str, ...]]:
    """Property → the story of the violation that decided its verdict. Properties that held have none."""
    broken = {judgement.property: decisive(judgement) for judgement in lane.judgements}
    violations = {name: violation for name, violation in broken.items() if violation is not None and violation.story}
    if not violations or not len(lane.history):
        return {}
    view = lane.history.once(View)
    return {name: tuple(line.text for line in tell(view, violation)) for name, violation in violations.items()}


def tell(view: View, violation: Violation) -> tuple[StoryLine, ...]:
    """The story's lines, its conclusion last. Rows that the history does not have are left out."""
    known = replace(violation, rows=tuple(row for row in violation.rows if 0 <= row < len(view.history)))
    holders = [row for row in violation.holders if row in view.holds.by_row]
    lines: list[tuple[Sentence, ...]] = [(sentence,) for sentence in Narrator(view).sentences(known, holders)]
    while len(lines) >= MOST_LINES:
        at = min(range(len(lines) - 1), key=lambda at: _cost(lines[at], lines[at + 1]))
        lines[at : at + 2] = [lines[at] + lines[at + 1]]
    made = tuple(map(_line, lines))
    untold = tuple(row for row in known.rows if not any(row in line.rows for line in made))
    return (*made, StoryLine(violation.story[-1], untold))


def _cost(line: Sequence[Sentence], following: Sequence[Sentence]) -> tuple[bool, int]:
    """How much worse a story gets if these two lines become one. Lines about one worker or fault are joined first."""
    together = (*line, *following)
    return len({sentence.subject for sentence in together}) > 1, len(_line(together).text)


def _line(sentences: Sequence[Sentence]) -> StoryLine:
    text = "; ".join(sentence.after(sentences[:at]) for at, sentence in enumerate(sentences))
    return StoryLine(text, tuple(dict.fromkeys(row for sentence in sentences for row in sentence.rows)))
