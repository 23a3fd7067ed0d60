"""A violation's story: at most five lines, each with the operations that it describes.

`checkers.properties.violation_stories` makes the sentences. If there are more than five, sentences about one worker are
joined in one line, and so are faults of one name at one time. `python -m checkers` shows all sentences.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from checkers.history.history import FaultInterval
from checkers.history.holds_and_lease_ends import Hold
from checkers.history.view import View
from checkers.properties.check_result import Violation
from checkers.properties.violation_stories import HARNESS, Narrator, Sentence
from checkers.row_format import ACQUIRES, F
from results.record import LaneRecord, decisive

MOST_LINES: Final = 5


@dataclass(frozen=True, slots=True)
class StoryLine:
    """text: a sentence. rows: the operations that it describes; none if the sentence is about something else."""

    text: str
    rows: tuple[int, ...] = ()


_Sentences = tuple[Sentence, ...]
"""Sentences that are joined in one line."""


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
    narrator = Narrator(view)
    known = replace(violation, rows=tuple(row for row in violation.rows if 0 <= row < len(view.history)))
    holders = [row for row in violation.holders if row in view.holds.by_row]
    sentences = narrator.sentences(known, holders)
    conclusion = violation.story[-1]
    lines: list[_Sentences] = [(sentence,) for sentence in sentences]
    if len(lines) >= MOST_LINES:
        lines = _waits_together(_faults_together(narrator, narrator.holds(holders), violation.at, sentences))
        lines = _joined(lines, lambda _, apart: apart == 1)
        if len(lines) >= MOST_LINES and lines[-1][0].subject == HARNESS:
            # The last read of the trial and the conclusion, in one line.
            last = _line(lines[-1])
            text = f"{last.text}; {conclusion[:1].lower()}{conclusion[1:]}"
            return (*map(_line, _few(view, lines[:-1])), replace(last, text=text))
        lines = _few(view, lines)
    return (*map(_line, lines), StoryLine(conclusion))


def _few(view: View, lines: Sequence[_Sentences]) -> list[_Sentences]:
    """Joins lines until there is room for a conclusion within `MOST_LINES`."""
    few = _joined(lines, lambda line, _: _only_asks(view, line))
    few = _joined(few, lambda line, _: not _only_asks(view, line))
    while len(few) >= MOST_LINES:
        sizes = [len(_line(line).text) for line in few]
        at = min(range(len(few) - 1), key=lambda at: sizes[at] + sizes[at + 1])
        few[at : at + 2] = [few[at] + few[at + 1]]
    return few


def _line(sentences: _Sentences) -> StoryLine:
    text = "; ".join(sentence.after(sentences[:at]) for at, sentence in enumerate(sentences))
    return StoryLine(text, tuple(dict.fromkeys(row for sentence in sentences for row in sentence.rows)))


def _faults_together(
    narrator: Narrator, holds: Sequence[Hold], at: int, sentences: Sequence[Sentence]
) -> list[_Sentences]:
    """Joins faults of one name that were active at the same time, at the place of the first of them."""
    lines: list[_Sentences] = []
    done: list[FaultInterval] = []
    faults = [sentence.fault for sentence in sentences if sentence.fault is not None]
    for sentence in sentences:
        if sentence.fault is None:
            lines.append((sentence,))
        elif sentence.fault not in done:
            same = [fault for fault in faults if _together(sentence.fault, fault)]
            lines.append((narrator.struck(same, holds, at),))
            done += same
    return lines


def _together(first: FaultInterval, second: FaultInterval) -> bool:
    overlap = first.begun <= (second.healed or second.begun) and second.begun <= (first.healed or first.begun)
    return overlap and first.name == second.name


def _waits_together(lines: Sequence[_Sentences]) -> list[_Sentences]:
    """Joins a worker's wait with its grant, at the place of the grant."""
    result: list[_Sentences] = []
    for line in lines:
        before = next((other for other in result if line[0].rows and other[0].rows == line[0].rows), ())
        result = [other for other in result if other is not before]
        result.append(before + line)
    return result


def _joined(lines: Sequence[_Sentences], fits: Callable[[_Sentences, int], bool]) -> list[_Sentences]:
    """Joins lines, each with the last earlier line about the same worker, while there are too many lines.

    fits: takes a line, and how many places it is behind the earlier line; says whether to join the two.
    """
    result = list(lines)
    at = 1
    while at < len(result) and len(result) >= MOST_LINES:
        subject = result[at][0].subject
        earlier = [place for place in range(at) if subject and result[place][0].subject == subject]
        if earlier and fits(result[at], at - earlier[-1]):
            result[earlier[-1]] += result.pop(at)
        else:
            at += 1
    return result


def _only_asks(view: View, line: _Sentences) -> bool:
    """Whether a line is about reads and acquires alone."""
    rows = [row for sentence in line for row in sentence.rows]
    return bool(rows) and all(view.f[row] in (F.READ, *ACQUIRES) for row in rows)
