"""The matrix in the terminal: faults down, locks across; then the story of everything that failed.

Words carry the meaning, colours only repeat it, so it reads the same in a CI log. Where the terminal is too narrow for
a table, each fault is a short list instead.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from checkers.claims import Word
from results import story
from results.files import typed
from results.grid import Case, Grid, Square, counts, documented, failures, grid, not_run
from results.record import Cell

_STYLES: Final[dict[Word, str]] = {
    Word.VIOLATED: "bold red",
    Word.HAZARD_NOT_SHOWN: "bold red",
    Word.UNKNOWN: "bold red",
    Word.UNEXERCISED: "red",
    Word.BROKEN_AS_DOCUMENTED: "yellow",
    Word.NOT_CLAIMED_BROKEN: "yellow",
    Word.NOT_CLAIMED_HELD: "default",
    Word.UPHELD: "green",
    Word.NOT_APPLICABLE: "dim",
}
_NARROWEST: Final = 12
"""Characters of a column: the longest word of a judgement's words."""
_WIDEST: Final = 26


def render(cells: Iterable[Cell], console: Console, problems: Sequence[str] = ()) -> None:
    """Print the matrix, what its words mean, the failures with their stories, and the documented hazards."""
    cells = list(cells)
    printer = _Printer(console)
    made = grid(cells)
    if not made.squares and not problems:
        printer.line("Nothing was judged.")
        return
    if made.locks:
        printer.gap()
        _squares(made, printer)
        printer.gap()
        _legend(cells, printer)
    _failures(failures(cells), printer)
    _documented(documented(cells), printer)
    _reasons(not_run(cells), printer)
    for problem in problems:
        printer.gap()
        printer.line(f"left out: {problem}", "red")
    printer.gap()


class _Printer:
    """Lines of plain text: recorded strings can neither style nor steer the terminal, nor break its encoding."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def clean(self, words: str) -> str:
        shown = "".join(
            letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in words
        )
        return shown.encode(self.console.encoding, "backslashreplace").decode(self.console.encoding)

    def text(self, words: str, style: str = "") -> Text:
        return Text(self.clean(words), style=style)

    def line(self, words: str, style: str = "", indent: int = 0) -> None:
        """Wrapped with its indentation."""
        width = max(self.console.width - indent, 20)
        for part in textwrap.wrap(self.clean(words), width, break_on_hyphens=False) or [""]:
            self.console.print(Text(" " * indent + part, style=style), soft_wrap=True)

    def whole(self, words: str, indent: int = 0) -> None:
        """Never wrapped: a path that can be copied."""
        self.console.print(Text(" " * indent + self.clean(words)), soft_wrap=True)

    def gap(self) -> None:
        self.console.print()


# The table


def _squares(made: Grid, printer: _Printer) -> None:
    names = min(max(len(name) for name in ("fault", *made.faults)), 24)
    across = _across(printer, names, len(made.locks))
    if across < _NARROWEST:
        names = 14  # names of faults break at their hyphens
        across = _across(printer, names, len(made.locks))
    if across < _NARROWEST:
        _list(made, printer)
        return
    width = min(across, _WIDEST)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, highlight=False)
    table.add_column("fault", width=names)
    for lock in made.locks:
        table.add_column(printer.text(lock), width=width)
    table.add_row("-" * names, *["-" * width] * len(made.locks))
    for fault in made.faults:
        row = [_entry(made.squares.get((fault, lock)), width, printer) for lock in made.locks]
        table.add_row(Text("\n".join(_broken(printer.clean(fault), names)), "bold"), *row)
    printer.console.print(table)


def _across(printer: _Printer, names: int, locks: int) -> int:
    """Characters for each lock beside a column of names; two between columns."""
    return (printer.console.width - names) // locks - 2


def _entry(square: Square | None, width: int, printer: _Printer) -> Text:
    """The heaviest word and how many judgements carry it; what it is about, where that matters; what was upheld."""
    if square is None:
        return Text("")
    lines = [Text(line, _STYLES[square.word]) for line in textwrap.wrap(_headline(square), width)]
    if _is_told(square):
        for name in square.properties:
            lines += [Text(line) for line in _broken(printer.clean(name), width)]
    upheld = dict(square.counts).get(Word.UPHELD, 0)
    if upheld and square.word is not Word.UPHELD:
        lines.append(Text(f"{Word.UPHELD} {upheld}", "dim"))
    return Text("\n").join(lines)


def _is_told(square: Square) -> bool:
    return square.word.fails or square.word is Word.BROKEN_AS_DOCUMENTED


def _headline(square: Square) -> str:
    return f"{square.word}" if square.word is Word.NOT_APPLICABLE else f"{square.word} {len(square.first)}"


def _broken(name: str, width: int) -> list[str]:
    """A name in lines, broken at its hyphens."""
    return textwrap.wrap(name, width, break_on_hyphens=True) or [""]


def _list(made: Grid, printer: _Printer) -> None:
    names = min(max(len(lock) for lock in made.locks), 16)
    for fault in made.faults:
        printer.line(fault, "bold")
        for lock in made.locks:
            square = made.squares.get((fault, lock))
            if square is None:
                continue
            words = _headline(square)
            if _is_told(square):
                words += f": {', '.join(square.properties)}"
            upheld = dict(square.counts).get(Word.UPHELD, 0)
            if upheld and square.word is not Word.UPHELD:
                words += f"; {Word.UPHELD} {upheld}"
            lines = textwrap.wrap(printer.clean(words), max(printer.console.width - names - 4, 20))
            for number, part in enumerate(lines):
                line = Text(f"  {printer.clean(lock) if number == 0 else '':<{names}}  ")
                line.append(part, _STYLES[square.word])
                printer.console.print(line, soft_wrap=True)


def _legend(cells: list[Cell], printer: _Printer) -> None:
    """Only the words that occur; the numbers are judgements, of one property in one lane each."""
    found = counts(cells)
    widest = max(len(word) for word, _ in found)
    for word, count in found:
        line = Text(f"{count:>6}  ")
        line.append(f"{word:<{widest}}", _STYLES[word])
        if printer.console.width >= 72:
            line.append(f"  {story.MEANINGS[word]}", "dim")
        printer.console.print(line, soft_wrap=True)


# What must be told


def _failures(cases: list[Case], printer: _Printer) -> None:
    for case in cases:
        cell = case.first
        printer.gap()
        head = Text("")
        head.append(str(cell.word), _STYLES[cell.word])
        lanes = f"{cell.lane or cell.lock}" + (f" and {case.lanes - 1} more" if case.lanes > 1 else "")
        head.append(printer.clean(f"  {lanes}  {cell.property}  {cell.fault}"), "bold")
        printer.console.print(head, soft_wrap=True)
        printer.line(_sentence(cell), indent=2)
        for number, line in enumerate(cell.story, 1):
            printer.line(f"{number}. {line}", indent=4)
        more = f", the first of {case.trials} trials" if case.trials > 1 else ""
        if cell.page is not None:
            printer.whole(f"seed {cell.seed}{more}: {typed(cell.page)}", indent=2)


def _sentence(cell: Cell) -> str:
    return story.sentence(cell.lock, [cell.property], cell.word, cell.fault, cell.because)


def _documented(cases: list[Case], printer: _Printer) -> None:
    """One line for each lock and fault that broke it, and why that is no surprise."""
    lines: dict[tuple[str, str, str], dict[str, None]] = {}
    for case in cases:
        cell = case.first
        lines.setdefault((cell.lock, cell.fault, cell.because), {})[cell.property] = None
    if lines:
        printer.gap()
    for (lock, fault, because), properties in lines.items():
        told = story.sentence(lock, list(properties), Word.BROKEN_AS_DOCUMENTED, fault, because)
        printer.line(f"{Word.BROKEN_AS_DOCUMENTED}: {told}")


def _reasons(cells: list[Cell], printer: _Printer) -> None:
    """Why something was not run: one line per reason."""
    reasons: dict[str, dict[str, None]] = {}
    for cell in cells:
        what = " ".join(part for part in (cell.lane or cell.lock, cell.property) if part) or cell.backend
        reasons.setdefault(cell.because, {})[f"{what} under {cell.fault}" if cell.fault else what] = None
    if reasons:
        printer.gap()
    for because, places in reasons.items():
        named = list(places)
        shown = ", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")
        printer.line(f"{Word.NOT_APPLICABLE}: {shown}: {because}", "dim")
