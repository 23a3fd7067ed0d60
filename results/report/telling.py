"""A violation's story for people: at most five lines, each with the operations that it tells of.

Pages, terminals, JUnit's XML and summaries all tell it so; `python -m checkers` tells every operation of a witness.

The sentences are the checkers' own (`checkers.narrate`), with what befell a holder. Where they are more than five,
those about one worker, or about faults of one name at one time, are drawn together.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from checkers.history import FaultInterval
from checkers.narrate import Narrator
from checkers.verdict import Violation
from checkers.view import View
from checkers.wire import F
from results.record import LaneRecord, decisive
from results.text import listing

MOST_LINES: Final = 5
_SUBJECT: Final = re.compile(r"(worker \d+)('s)? ")
_TOKEN: Final = re.compile(r"token \d+")
_IN_FORCE: Final = "'s lease was in force then"
_HARNESS: Final = "the harness's final read"


@dataclass(frozen=True, slots=True)
class Line:
    """text: a sentence. rows: the operations in it, none where it is about something else."""

    text: str
    rows: tuple[int, ...] = ()


def stories(lane: LaneRecord) -> dict[str, tuple[str, ...]]:
    """Property → the story that its word rests on, as the lane's page tells it; nothing of a property that held."""
    broken = {judgement.property: decisive(judgement) for judgement in lane.judgements}
    found = {name: violation for name, violation in broken.items() if violation is not None and violation.story}
    if not found or not len(lane.history):
        return {}
    view = View(lane.history)
    return {name: tuple(line.text for line in tell(view, violation)) for name, violation in found.items()}


def tell(view: View, violation: Violation) -> tuple[Line, ...]:
    """The story's lines, its conclusion last."""
    teller = Narrator(view)
    rows = _sentences(view, teller, violation)
    lines = [_with_fault(view, teller, Line(text, rows.get(text, ()))) for text in violation.story]
    if len(lines) <= MOST_LINES:
        return tuple(lines)
    *told, last = lines
    told = _waits_together(_faults_together(view, teller, violation, told))
    told = _neighbours_together(told)
    if len(told) >= MOST_LINES and told[-1].text.startswith(_HARNESS):
        last = _joined(told.pop(), replace(last, text=last.text[:1].lower() + last.text[1:]))
    told = _workers_together(view, told)
    while len(told) >= MOST_LINES:
        at = min(range(len(told) - 1), key=lambda at: len(told[at].text) + len(told[at + 1].text))
        told[at : at + 2] = [_joined(told[at], told[at + 1])]
    return (*told, last)


def _sentences(view: View, teller: Narrator, violation: Violation) -> dict[str, tuple[int, ...]]:
    """What the checkers say of each operation of a witness → its row."""
    size, keys = len(view.history), view.column("key")
    rows = [row for row in dict.fromkeys(violation.rows) if 0 <= row < size]
    several = len({keys[row] for row in rows}) > 1
    found: dict[str, tuple[int, ...]] = {}
    for row in rows:
        found[teller.did(row, named=several)] = found[teller.waited(row)] = (row,)
    for row in violation.holders:
        if row in view.windows:
            found[teller.granted(view.windows[row].grant, named=several)] = (row,)
    return found


def _with_fault(view: View, teller: Narrator, line: Line) -> Line:
    """A grant with the fault on its holder, where the checkers do not tell it because it outlived no lease."""
    grants = [view.windows[row].grant for row in line.rows if row in view.windows]
    for fault in view.history.faults:
        hit = fault.applied and any(fault.owner == grant.owner for grant in grants)
        if hit and fault.name not in line.text:
            ends = fault.healed and fault.kind != "kill"  # who was killed is only replaced
            hit_it = f"{fault.name} hit it at {teller.clock(fault.applied)}"
            hit_it += f" until {teller.clock(fault.healed)}" if ends else ""
            granted, between, then = line.text.partition("; ")
            line = replace(line, text=f"{granted}; {hit_it}{between}{then}")
    return line


def _faults_together(view: View, teller: Narrator, violation: Violation, lines: Sequence[Line]) -> list[Line]:
    """Faults of one name that were at work at the same time as one line, where the first of them stood."""
    grants = {row: view.windows[row].grant for row in violation.holders if row in view.windows}
    told = {teller.struck(fault, grants, violation.at): fault for fault in view.history.faults}
    result: list[Line] = []
    done: set[str] = set()
    for line in lines:
        first = told.get(line.text)
        same = [line.text] if first is None else [o.text for o in lines if _together(first, told.get(o.text))]
        if line.text not in done:
            one = len(same) == 1
            result.append(line if one else Line(_struck(teller, [told[text] for text in same], same, violation.at)))
        done.update(same)
    return result


def _together(first: FaultInterval, second: FaultInterval | None) -> bool:
    if second is None or first.name != second.name:
        return False
    return first.begun <= (second.healed or second.begun) and second.begun <= (first.healed or first.begun)


def _waits_together(lines: Sequence[Line]) -> list[Line]:
    """Since when somebody waited and that it was granted then, as one line in place of the latter."""
    result = list(lines)
    for line in lines:
        others = [at for at, other in enumerate(result) if line.rows and other.rows == line.rows]
        if len(others) == 2:
            result[others[1]] = _joined(result[others[0]], result[others[1]])
            del result[others[0]]
    return result


def _struck(teller: Narrator, faults: Sequence[FaultInterval], texts: Sequence[str], at: int) -> str:
    begun, applied = min(fault.begun for fault in faults), max(fault.applied for fault in faults)
    targets = listing(list(dict.fromkeys(fault.target for fault in faults)))
    parts = [f"{faults[0].name} hit {targets}, between {teller.clock(begun)} and {teller.clock(applied)}"]
    if all(0 < fault.healing <= at for fault in faults):
        undone = min(fault.healing for fault in faults), max(fault.healed for fault in faults)
        parts.append(f"it was undone between {teller.clock(undone[0])} and {teller.clock(undone[1])}")
    struck = dict.fromkeys(part for text in texts for part in text.split("; ")[1:] if part.endswith(_IN_FORCE))
    return "; ".join((*parts, *struck))


def _neighbours_together(lines: Sequence[Line]) -> list[Line]:
    """While there are too many: the later of two lines in a row about one worker goes on with `it`."""
    result = list(lines)
    at = 1
    while at < len(result) and len(result) >= MOST_LINES:
        if _subject(result[at]) and _subject(result[at]) == _subject(result[at - 1]):
            result[at - 1 : at + 1] = [_joined(result[at - 1], result[at])]
        else:
            at += 1
    return result


def _workers_together(view: View, lines: Sequence[Line]) -> list[Line]:
    """While there are too many: what a worker did later joins the line that it has already, reads first."""
    result = list(lines)
    kinds = view.column("f")
    for wanted in (True, False):
        at = 1
        while at < len(result) and len(result) >= MOST_LINES:
            line = result[at]
            earlier = [place for place in range(at) if _subject(line) and _subject(result[place]) == _subject(line)]
            only_reads = bool(line.rows) and all(kinds[row] in (F.READ, F.ACQUIRE) for row in line.rows)
            if earlier and only_reads is wanted:
                result[earlier[-1]] = _joined(result[earlier[-1]], line)
                del result[at]
            else:
                at += 1
    return result


def _subject(line: Line) -> str:
    found = _SUBJECT.match(line.text)
    return found[1] if found else ""


def _joined(first: Line, second: Line) -> Line:
    text, subject = second.text, _subject(second)
    if subject and subject == _subject(first) and "; worker" not in first.text:
        rest = text.removeprefix(subject)
        text = f"its{rest[2:]}" if rest.startswith("'s ") else f"it{rest}"
        for token in _TOKEN.findall(first.text):
            text = text.replace(f" with {token},", ",")
    return Line(f"{first.text}; {text}", tuple(dict.fromkeys((*first.rows, *second.rows))))
