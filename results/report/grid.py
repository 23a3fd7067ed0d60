"""The matrix as data: locks by faults, the verdicts of each square, and the cases that need a description."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from checkers.claims import NO_FAULT, Verdict, heaviest
from checkers.properties.all_properties import OF_THE_SERVICE
from results.record import Cell, grouped, settled
from results.report.descriptions import WORDS

_TAILS: Final = re.compile(r"[/:]|\.(?!py:)(?=[^/]*$)")
"""Where a name may be cut: behind a folder, a module of a package, or the colon in front of a class."""


class VerdictSigns(NamedTuple):
    """How a verdict is shown. short: its word in a square, beside a key with the whole word. style: of Rich. emoji: its
    sign in Markdown, or empty. sentence: what it says of a {lock}, {what} of it and {when}, maybe with {because}.
    """

    glyph: str
    short: str
    style: str
    emoji: str
    meaning: str
    sentence: str


SIGNS: Final = {word: VerdictSigns(*WORDS["verdicts"][word]) for word in Verdict}

SHADES: Final = (
    *(word for word in Verdict if word.fails),
    *(Verdict.WEAKNESS_SHOWN, Verdict.NOT_PROMISED_BROKEN, Verdict.UPHELD),
    *(Verdict.NOT_PROMISED_HELD, Verdict.NOT_APPLICABLE),
)
"""A square's colour in the heat map is that of its first word here: by weight, but UPHELD before NOT_PROMISED_HELD."""


@dataclass(frozen=True, slots=True)
class Square:
    """All judgements of one lock under one fault."""

    word: Verdict
    counts: tuple[tuple[Verdict, int], ...]
    first: tuple[Cell, ...]  # those with the heaviest word
    cells: tuple[Cell, ...]
    # Properties whose known weakness showed here, and shows without any fault as well.
    lasting: frozenset[str] = frozenset()

    @property
    def properties(self) -> tuple[str, ...]:
        """The properties that have the heaviest word."""
        return tuple(dict.fromkeys(cell.property for cell in self.first if cell.property))

    def lasts(self, cell: Cell) -> bool:
        """Whether a cell shows a weakness of the lock itself, which shows without any fault as well."""
        return cell.word is Verdict.WEAKNESS_SHOWN and cell.property in self.lasting

    @property
    def shade(self) -> Verdict | None:
        """The verdict whose colour the square has in the heat map; None if all its cells show weaknesses that last."""
        words = {cell.word for cell in self.cells if not self.lasts(cell)}
        return min(words, key=SHADES.index, default=None)


@dataclass(frozen=True, slots=True)
class CellGroup:
    """Cells of one lock, property and fault with the same word, kind of reason and story."""

    first: Cell
    lanes: int = 1
    trials: int = 1


@dataclass(frozen=True, slots=True)
class Grid:
    """Faults are in alphabetical order after `none`, locks in alphabetical order."""

    locks: tuple[str, ...]
    faults: tuple[str, ...]
    squares: Mapping[tuple[str, str], Square]
    """By (fault, lock)."""


def grid(cells: Iterable[Cell]) -> Grid:
    """The matrix of the cells of `settled`."""
    cells = settled(cells)
    placed = [cell for cell in cells if cell.lock and cell.fault]
    locks = sorted({cell.lock for cell in placed})
    faults = sorted({cell.fault for cell in placed}, key=lambda name: (name != NO_FAULT, name))
    squares = grouped(placed, lambda cell: (cell.fault, cell.lock))
    weak = {
        (cell.lock, cell.property) for cell in placed if cell.fault == NO_FAULT and cell.word is Verdict.WEAKNESS_SHOWN
    }
    return Grid(tuple(locks), tuple(faults), {key: _square(mine, weak) for key, mine in squares.items()})


def _square(cells: list[Cell], weak: Collection[tuple[str, str]]) -> Square:
    """weak: locks and properties whose known weakness shows without any fault."""
    words = [cell.word for cell in cells]
    word = heaviest(words)
    shown = [cell for cell in cells if cell.word is Verdict.WEAKNESS_SHOWN and cell.fault != NO_FAULT]
    lasting = frozenset(cell.property for cell in shown if (cell.lock, cell.property) in weak)
    return Square(word, tally(words), tuple(cell for cell in cells if cell.word is word), tuple(cells), lasting)


def failing_first(names: Iterable[str], words: Iterable[tuple[str, Verdict]]) -> list[str]:
    """The names, those with a failing word in front, the heaviest first. words: (name, one of its words)."""
    failing: dict[str, int] = {}
    for name, word in words:
        if word.fails:
            failing[name] = min(failing.get(name, word.weight), word.weight)
    return sorted(names, key=lambda name: failing.get(name, len(Verdict)))


def columns(made: Grid, group_of: Callable[[str], str], groups: Sequence[str]) -> list[tuple[str, list[str]]]:
    """(group, its faults): first faults without a group, then the groups in this order, but failing ones in front."""
    words = [(fault, square.word) for (fault, _), square in made.squares.items()]
    of_group = grouped(failing_first(made.faults, words), group_of)
    order = failing_first(groups, [(group_of(fault), word) for fault, word in words])
    return [(name, of_group[name]) for name in ("", *order) if name in of_group]


def tally(words: Iterable[Verdict]) -> tuple[tuple[Verdict, int], ...]:
    """Each word that occurs and how often, heaviest first."""
    numbers = Counter(words)
    return tuple((word, numbers[word]) for word in Verdict if word in numbers)


def counts(cells: Iterable[Cell]) -> tuple[tuple[Verdict, int], ...]:
    return tally(cell.word for cell in settled(cells))


def failures(cells: Iterable[Cell]) -> list[CellGroup]:
    """The cases that fail the run, heaviest first."""
    return _cases(cell for cell in settled(cells) if cell.word.fails)


def documented(cells: Iterable[Cell]) -> list[CellGroup]:
    return _cases(cell for cell in settled(cells) if cell.word is Verdict.WEAKNESS_SHOWN)


def not_run(cells: Iterable[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.word is Verdict.NOT_APPLICABLE]


def reason(because: str) -> str:
    """The kind of a reason: the text in front of the particulars, such as the numbers of one lane."""
    return because.partition(": ")[0]


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Name → its shortest tail with which no other name ends, such as the class of a long path."""
    tails = {name: [name[cut.end() :] for cut in _TAILS.finditer(name)][::-1] for name in names}
    ends = Counter(tail for name, mine in tails.items() for tail in {name, *mine})
    return {name: next((tail for tail in mine if tail and ends[tail] == 1), name) for name, mine in tails.items()}


def _case(cell: Cell) -> tuple[object, ...]:
    """What tells a case from others. For a property of the service, the lanes' reasons and stories do not."""
    shown = cell.property not in OF_THE_SERVICE and (reason(cell.because), cell.story)
    return cell.word, cell.lock, cell.fault, cell.property, shown


def _cases(cells: Iterable[Cell]) -> list[CellGroup]:
    alike = grouped(cells, _case)
    cases = [
        CellGroup(mine[0], len({cell.lane for cell in mine}), len({(cell.page, cell.trial) for cell in mine}))
        for mine in alike.values()
    ]
    return sorted(cases, key=lambda case: (case.first.word.weight, case.first.lock, case.first.fault))
